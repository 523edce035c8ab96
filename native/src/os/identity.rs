//! What the file system says about a file, so that a file is not read again for nothing.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// How long a file has to be left alone before its times are trusted: longer than the times of any usual file system
/// are coarse. What git calls racily clean is a file younger than this.
const SETTLING: i64 = 2;

/// Which file it is and when it changed last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(any(feature = "cpu", feature = "cuda"), derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct FileIdentity {
    device: u64,
    inode: u64,
    size: u64,
    modified: Stamp,
    /// When its inode changed, which no program can set: a rename changes it as well.
    changed: Stamp,
}

/// A time of the file system, since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(any(feature = "cpu", feature = "cuda"), derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Stamp {
    seconds: i64,
    nanoseconds: i64,
}

impl FileIdentity {
    /// That of the file at `path`, behind all symbolic links. Nothing if there is none.
    #[cfg(any(feature = "cpu", feature = "cuda", test))]
    pub(crate) fn of_path(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|metadata| Self::of(&metadata))
    }

    #[cfg(unix)]
    pub(crate) fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;

        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            modified: Stamp { seconds: metadata.mtime(), nanoseconds: metadata.mtime_nsec() },
            changed: Stamp { seconds: metadata.ctime(), nanoseconds: metadata.ctime_nsec() },
        }
    }

    /// Without inodes and times of change: two files may look alike, and none is ever [settled](Self::is_settled).
    #[cfg(not(unix))]
    pub(crate) fn of(metadata: &Metadata) -> Self {
        let modified = metadata.modified().map_or(Stamp { seconds: i64::MAX, nanoseconds: 0 }, Stamp::of);
        Self { device: 0, inode: 0, size: metadata.len(), modified, changed: modified }
    }

    /// The later of the file's times.
    #[cfg(feature = "cpu")]
    pub(crate) fn last_change(&self) -> Stamp {
        self.modified.max(self.changed)
    }

    /// Whether the file was last changed before `reference`, as the same kind of clock tells.
    #[cfg(feature = "cpu")]
    pub(crate) fn is_older_than(&self, reference: Stamp) -> bool {
        self.modified.certainly_before(reference) && self.changed.certainly_before(reference)
    }

    /// Whether this tells the file from all others, and has been left alone for so long that its next change will change
    /// its times.
    #[cfg(any(feature = "cpu", feature = "cuda", test))]
    pub(crate) fn is_settled(&self) -> bool {
        self.is_older_than_seconds(SETTLING)
    }

    /// Whether this tells the file from all others, and has been left alone for as long as all of it may take to be written
    /// at so many bytes a second. Times without a fraction may be an image's, and the same in the next one.
    #[cfg(feature = "packs")]
    pub(crate) fn is_left_alone(&self, bytes_per_second: u64) -> bool {
        let writing = i64::try_from(self.size / bytes_per_second).unwrap_or(i64::MAX);
        self.changed.nanoseconds != 0 && self.is_older_than_seconds(writing.saturating_add(SETTLING))
    }

    fn is_older_than_seconds(&self, seconds: i64) -> bool {
        let mut reference = Stamp::of(SystemTime::now());
        reference.seconds = reference.seconds.saturating_sub(seconds);
        self.file() != (0, 0) && self.modified < reference && self.changed < reference
    }

    /// Which file it is, whatever is in it.
    pub(crate) fn file(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// The second of its last modification.
    #[cfg(feature = "cpu")]
    pub(crate) fn modified_second(&self) -> i64 {
        self.modified.seconds
    }

    /// As numbers, for a key.
    pub(crate) fn numbers(&self) -> [u64; 7] {
        let [modified, changed] = [self.modified, self.changed];
        [
            self.device,
            self.inode,
            self.size,
            modified.seconds.cast_unsigned(),
            modified.nanoseconds.cast_unsigned(),
            changed.seconds.cast_unsigned(),
            changed.nanoseconds.cast_unsigned(),
        ]
    }
}

impl Stamp {
    fn of(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self {
            seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: i64::from(since.subsec_nanos()),
        }
    }

    /// A time without a fraction may come from a file system that has none, and is then up to two seconds early.
    #[cfg(feature = "cpu")]
    fn certainly_before(mut self, reference: Self) -> bool {
        if self.nanoseconds == 0 {
            self.seconds = self.seconds.saturating_add(SETTLING);
        }
        self < reference
    }
}

/// Opens a regular file, behind all symbolic links, without waiting for who is at the other end of a pipe.
pub(crate) fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    let regular = |metadata: Metadata| match metadata.is_file() {
        true => Ok(metadata),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    };
    // Asked before, so that who writes to a pipe does not take us for its reader; and after, because another file may have
    // come.
    regular(fs::metadata(path)?)?;
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        rustix::fs::OFlags::NONBLOCK.bits().cast_signed(),
    );
    let file = options.read(true).open(path)?;
    let metadata = regular(file.metadata()?)?;
    Ok((file, metadata))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "cpu")]
    #[test]
    fn a_time_without_a_fraction_is_not_trusted_to_the_second() {
        let reference = Stamp { seconds: 10, nanoseconds: 500 };
        assert!(Stamp { seconds: 10, nanoseconds: 499 }.certainly_before(reference));
        assert!(!Stamp { seconds: 10, nanoseconds: 500 }.certainly_before(reference));
        assert!(!Stamp { seconds: 10, nanoseconds: 0 }.certainly_before(reference));
        assert!(!Stamp { seconds: 9, nanoseconds: 0 }.certainly_before(reference));
        assert!(Stamp { seconds: 8, nanoseconds: 0 }.certainly_before(reference));
    }

    #[test]
    fn what_may_be_said_of_two_files_is_never_settled() {
        let long_ago = Stamp { seconds: 1, nanoseconds: 0 };
        let file = FileIdentity { device: 1, inode: 2, size: 3, modified: long_ago, changed: long_ago };
        assert!(file.is_settled());
        assert!(!FileIdentity { device: 0, inode: 0, ..file }.is_settled(), "as where there are no inodes");
    }

    #[test]
    fn a_file_is_another_after_it_was_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        fs::write(&path, "1").unwrap();
        let first = FileIdentity::of_path(&path).unwrap();
        assert!(!first.is_settled());
        fs::write(&path, "22").unwrap();
        assert_ne!(FileIdentity::of_path(&path), Some(first));
        fs::remove_file(&path).unwrap();
        assert_eq!(FileIdentity::of_path(&path), None);
    }
}
