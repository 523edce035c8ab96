//! The file system as the file store uses it.
//!
//! [`StorageBackend`] has the operations that the file store needs to find, store and account for entries. Only the `.alive` files in
//! `tmp/` and the locks of builds bypass it. [`LocalBackend`] is the real file system; tests substitute a
//! disk that fails on request.

use std::{
    ffi::OsStr,
    fmt::Debug,
    fs::{self, File, Metadata, OpenOptions, TryLockError},
    io::{self, IoSlice, Read, Seek, SeekFrom, Write},
    ops::Range,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use cfg_if::cfg_if;
#[cfg(unix)]
use rustix::{buffer::spare_capacity, io as sys};
use warmstart_core::key::Key;

use super::platform::{self, has_one_name, is_linked};
#[cfg(any(not(unix), feature = "cpu", feature = "cuda", feature = "packs", test))]
use std::time::{SystemTime, UNIX_EPOCH};

/// The pauses between attempts to open a file that another process has open, 185 ms in all: longer than a virus scanner or an
/// indexer holds a small file.
pub const RETRY_PAUSES: [Duration; 5] = [
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(20),
    Duration::from_millis(50),
    Duration::from_millis(100),
];

/// How long a file must be unchanged before its times are trusted: longer than the granularity of times on any usual file
/// system. Git calls younger files racily clean.
#[cfg(any(feature = "cpu", feature = "cuda", feature = "packs", test))]
const SETTLING: i64 = 2;

/// The file system as the file store uses it. No method follows a link in the last component of a path.
pub trait StorageBackend: Debug + Send + Sync {
    /// Opens a file for reading. The caller reads nothing of it unless it [is readable](FileMetadata::is_readable) and no longer than
    /// [`max_file`](Self::max_file).
    ///
    /// # Errors
    /// Any I/O error of the system.
    fn open(&self, path: &Path) -> io::Result<(File, FileMetadata)>;

    /// Reads the first bytes of a file, as many as `wanted` returns for it. Reads nothing unless the file
    /// [is readable](FileMetadata::is_readable).
    ///
    /// # Errors
    /// Any I/O error of the system.
    fn read(
        &self,
        path: &Path,
        wanted: &dyn Fn(&FileMetadata) -> u64,
    ) -> io::Result<(Vec<u8>, FileMetadata)> {
        let (file, described) = self.open(path)?;
        Ok((read_open(&file, &described, wanted, self.max_file())?, described))
    }

    /// Creates a file that must not exist, accessible to its owner only, and writes `parts` one after the other. If `durable`,
    /// waits until they are on the medium. Returns the open file, so that the caller can close it when that delays no one.
    ///
    /// # Errors
    /// Any I/O error of the system. The file is then removed again.
    fn create(&self, path: &Path, parts: &[&[u8]], durable: bool) -> io::Result<File>;

    /// Writes `bytes` at offset `at` of a file. Creates the file, accessible to its owner only, if it is missing. Writes nothing if it
    /// is not a regular file, has another name too, or could have been written by another user.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if nothing was written for such a reason, or any I/O error of the system.
    fn write_at(&self, path: &Path, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Renames a file within one file system, and replaces the file that had the new name.
    ///
    /// # Errors
    /// Any I/O error of the system.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Waits until changes of the names in a directory are on the medium.
    ///
    /// # Errors
    /// Any I/O error of the system.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// Any I/O error of the system.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Returns the metadata of a path, without opening it.
    ///
    /// # Errors
    /// Any I/O error of the system.
    fn metadata(&self, path: &Path) -> io::Result<FileMetadata>;

    /// Calls `visit` with every name in a directory.
    ///
    /// # Errors
    /// Any I/O error of the system.
    fn list(&self, directory: &Path, visit: &mut dyn FnMut(&OsStr)) -> io::Result<()>;

    /// Creates a directory, accessible to its owner only, unless it exists.
    ///
    /// # Errors
    /// Any I/O error of the system.
    fn make_directory(&self, path: &Path) -> io::Result<()>;

    /// Opens a file for reading and appending. Creates it, accessible to its owner only, if it is missing.
    ///
    /// # Errors
    /// Any I/O error of the system.
    fn open_log(&self, path: &Path) -> io::Result<File>;

    /// Appends all of `bytes` to a file that [`open_log`](Self::open_log) opened.
    ///
    /// # Errors
    /// Any I/O error of the system. Some of the bytes may have been written.
    fn append(&self, mut log: &File, bytes: &[u8]) -> io::Result<()> {
        log.write_all(bytes)
    }

    /// Reads `range` of a file that [`open_log`](Self::open_log) opened, or the part of it that exists.
    ///
    /// # Errors
    /// Any I/O error of the system.
    fn read_log(&self, mut log: &File, range: Range<u64>) -> io::Result<Vec<u8>> {
        let len = range.end.saturating_sub(range.start);
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(usize::try_from(len).unwrap_or(usize::MAX))?;
        // Appending does not use the file's cursor.
        log.seek(SeekFrom::Start(range.start))?;
        log.take(len).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Returns the length and identity of a file that [`open_log`](Self::open_log) opened, and whether it still has a name.
    ///
    /// # Errors
    /// Any I/O error of the system.
    fn log_state(&self, log: &File) -> io::Result<LogState>;

    /// Waits for the OS lock on a file, at most `timeout`. The system releases it when the holder dies, not when it is stopped.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] on a timeout, or any I/O error of the system.
    fn lock(&self, file: &File, timeout: Duration) -> io::Result<()> {
        within(timeout, || file.try_lock())
    }

    /// Returns the length, in bytes, of the longest file that is read or written. This bounds the memory that a file of another user
    /// can take. [`read`](Self::read) reports a longer one as [`io::ErrorKind::FileTooLarge`].
    fn max_file(&self) -> u64 {
        u64::MAX
    }

    /// Returns whether an error means that another process has the file open, which only Windows reports.
    fn is_sharing_violation(&self, error: &io::Error) -> bool {
        // ERROR_ACCESS_DENIED, ERROR_SHARING_VIOLATION, ERROR_LOCK_VIOLATION
        cfg!(windows) && matches!(error.raw_os_error(), Some(5 | 32 | 33))
    }
}

/// The state of a file that is open for appending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogState {
    /// Its length in bytes.
    pub len: u64,
    /// Whether it still has a name.
    pub is_linked: bool,
    /// Device and inode, or 0 on platforms without them.
    pub identity: (u64, u64),
}

/// The metadata of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileMetadata {
    /// The kind of file.
    pub kind: FileKind,
    /// Its length in bytes.
    pub len: u64,
    /// Device and inode, or 0 on platforms without them. Together with length and time they identify the file.
    pub identity: (u64, u64),
    /// The time of the last modification, in nanoseconds since 1970 UTC.
    pub modified_ns: i128,
    /// Whether only this user and root could have written it.
    pub is_trusted: bool,
}

/// The kind of file that a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A pipe, a socket, a device.
    Other,
}

impl FileMetadata {
    /// Returns whether it is a regular file that only this user and root could have written.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.kind == FileKind::File && self.is_trusted
    }
}

/// The file system of this machine.
#[derive(Clone, Copy, Debug)]
pub struct LocalBackend {
    user: u32,
}

impl LocalBackend {
    /// Creates a disk with the permissions of the current user.
    #[must_use]
    pub fn new() -> Self {
        Self { user: platform::current_user() }
    }

    pub(super) fn describe(self, metadata: &Metadata) -> FileMetadata {
        let file_type = metadata.file_type();
        let kind = if file_type.is_file() {
            FileKind::File
        } else if file_type.is_dir() {
            FileKind::Directory
        } else if file_type.is_symlink() {
            FileKind::Link
        } else {
            FileKind::Other
        };
        let identity = FileIdentity::of(metadata);
        FileMetadata {
            kind,
            len: identity.size,
            identity: identity.file(),
            modified_ns: identity.modified.nanoseconds(),
            is_trusted: is_trusted(metadata, self.user),
        }
    }

    /// Returns whether other users may create files in a directory of this user, but not rename or remove this user's, as in `/tmp`.
    #[cfg(feature = "sqlite")]
    pub(crate) fn is_sticky(self, directory: &Path) -> bool {
        is_sticky(directory, self.user)
    }
}

impl Default for LocalBackend {
    fn default() -> Self {
        Self::new()
    }
}

impl StorageBackend for LocalBackend {
    fn open(&self, path: &Path) -> io::Result<(File, FileMetadata)> {
        let file = private_options().read(true).open(path)?;
        let described = self.describe(&file.metadata()?);
        Ok((file, described))
    }

    fn create(&self, path: &Path, parts: &[&[u8]], durable: bool) -> io::Result<File> {
        let mut file = private_options().write(true).create_new(true).open(path)?;
        let written = write_parts(&mut file, parts, durable);
        written.inspect_err(|_| _ = fs::remove_file(path)).map(|()| file)
    }

    fn write_at(&self, path: &Path, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut file = private_options().write(true).create(true).truncate(false).open(path)?;
        let metadata = file.metadata()?;
        if !self.describe(&metadata).is_readable() || !has_one_name(&metadata) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        file.seek(SeekFrom::Start(at))?;
        file.write_all(bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        platform::sync_directory(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn metadata(&self, path: &Path) -> io::Result<FileMetadata> {
        fs::symlink_metadata(path).map(|metadata| self.describe(&metadata))
    }

    fn list(&self, directory: &Path, visit: &mut dyn FnMut(&OsStr)) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            visit(&entry?.file_name());
        }
        Ok(())
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        make_private_directory(path)
    }

    fn open_log(&self, path: &Path) -> io::Result<File> {
        private_options().read(true).append(true).create(true).open(path)
    }

    fn log_state(&self, log: &File) -> io::Result<LogState> {
        let metadata = log.metadata()?;
        let described = self.describe(&metadata);
        Ok(LogState { len: described.len, is_linked: is_linked(&metadata), identity: described.identity })
    }
}

/// The identity of a file and the times of its last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(any(feature = "cpu", feature = "cuda"), derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct FileIdentity {
    device: u64,
    inode: u64,
    size: u64,
    modified: Stamp,
    /// The time of the last change of its inode. No program can set it, and a rename changes it too.
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
    /// Returns the identity of the file at `path`, behind all symbolic links, or `None` if there is no file.
    #[cfg(any(feature = "cpu", feature = "cuda", test))]
    pub(crate) fn of_path(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|metadata| Self::of(&metadata))
    }

    /// Returns whether the path leads to this file, and the file was not changed.
    #[cfg(feature = "cuda")]
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        Self::of_path(path) == Some(*self)
    }

    #[cfg(unix)]
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            modified: Stamp { seconds: metadata.mtime(), nanoseconds: metadata.mtime_nsec() },
            changed: Stamp { seconds: metadata.ctime(), nanoseconds: metadata.ctime_nsec() },
        }
    }

    /// Builds an identity without inode and change time: two files may be equal, and none is ever [settled](Self::is_settled).
    #[cfg(not(unix))]
    pub(crate) fn of(metadata: &Metadata) -> Self {
        let modified = metadata.modified().map_or(Stamp { seconds: i64::MAX, nanoseconds: 0 }, Stamp::of);
        Self { device: 0, inode: 0, size: metadata.len(), modified, changed: modified }
    }

    /// Returns the later of the file's times.
    #[cfg(feature = "cpu")]
    pub(crate) fn last_change(&self) -> Stamp {
        self.modified.max(self.changed)
    }

    /// Returns whether the file was last changed before `reference`, a time of the same clock.
    #[cfg(feature = "cpu")]
    pub(crate) fn is_older_than(&self, reference: Stamp) -> bool {
        self.modified.certainly_before(reference) && self.changed.certainly_before(reference)
    }

    /// Returns whether this distinguishes the file from all others, and the file has been unchanged for so long that its next change
    /// will change its times.
    #[cfg(any(feature = "cpu", feature = "cuda", test))]
    pub(crate) fn is_settled(&self) -> bool {
        self.is_older_than_seconds(SETTLING)
    }

    /// Returns whether this distinguishes the file from all others, and the file has been unchanged for longer than writing all of it
    /// takes at this many bytes per second. Times without a fraction may come from an image, and be equal in the next image.
    #[cfg(feature = "packs")]
    pub(crate) fn is_left_alone(&self, bytes_per_second: u64) -> bool {
        let writing = i64::try_from(self.size / bytes_per_second).unwrap_or(i64::MAX);
        self.changed.nanoseconds != 0 && self.is_older_than_seconds(writing.saturating_add(SETTLING))
    }

    #[cfg(any(feature = "cpu", feature = "cuda", feature = "packs", test))]
    fn is_older_than_seconds(&self, seconds: i64) -> bool {
        let mut reference = Stamp::of(SystemTime::now());
        reference.seconds = reference.seconds.saturating_sub(seconds);
        self.file() != (0, 0) && self.modified < reference && self.changed < reference
    }

    /// Returns the numbers that identify the file, whatever its contents.
    pub(crate) fn file(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// Returns the second of its last modification.
    #[cfg(feature = "cpu")]
    pub(crate) fn modified_second(&self) -> i64 {
        self.modified.seconds
    }

    /// Returns the identity as numbers, for a key.
    #[cfg(any(feature = "cpu", feature = "cuda", feature = "packs"))]
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
    #[cfg(any(not(unix), feature = "cpu", feature = "cuda", feature = "packs", test))]
    fn of(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self {
            seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: i64::from(since.subsec_nanos()),
        }
    }

    /// As nanoseconds.
    fn nanoseconds(self) -> i128 {
        i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nanoseconds)
    }

    /// A time without a fraction may come from a file system without fractions, where it can be up to two seconds early.
    #[cfg(feature = "cpu")]
    fn certainly_before(mut self, reference: Self) -> bool {
        if self.nanoseconds == 0 {
            self.seconds = self.seconds.saturating_add(SETTLING);
        }
        self < reference
    }
}

cfg_if! {
    if #[cfg(unix)] {
        use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

        use rustix::fs::OFlags;

        /// Returns options that create a file for its owner only, follow no link in the last component of a path, and do not
        /// block on a pipe.
        pub(crate) fn private_options() -> OpenOptions {
            let mut options = OpenOptions::new();
            options.mode(0o600).custom_flags((OFlags::NOFOLLOW.bits() | OFlags::NONBLOCK.bits()) as i32);
            options
        }

        /// Returns whether only this user and root could have written the file.
        fn is_trusted(metadata: &Metadata, user: u32) -> bool {
            owns(metadata, user) && metadata.mode() & 0o022 == 0
        }

        /// Returns whether other users may create files in a directory of this user, but not rename or remove this user's, as in
        /// `/tmp`.
        #[cfg(feature = "sqlite")]
        fn is_sticky(directory: &Path, user: u32) -> bool {
            directory
                .symlink_metadata()
                .is_ok_and(|metadata| metadata.is_dir() && owns(&metadata, user) && metadata.mode() & 0o1000 != 0)
        }

        fn owns(metadata: &Metadata, user: u32) -> bool {
            metadata.uid() == user || metadata.uid() == 0
        }
    } else {
        pub(crate) fn private_options() -> OpenOptions {
            OpenOptions::new()
        }

        /// The standard library does not show access control lists: directories of the user are assumed to be private.
        const fn is_trusted(_: &Metadata, _: u32) -> bool {
            true
        }

        #[cfg(feature = "sqlite")]
        const fn is_sticky(_: &Path, _: u32) -> bool {
            false
        }
    }
}

/// Opens a regular file, behind all symbolic links, without blocking on a pipe.
#[cfg(any(feature = "cpu", feature = "cuda", feature = "packs"))]
pub(crate) fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    let regular = |metadata: Metadata| match metadata.is_file() {
        true => Ok(metadata),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    };
    // Checked before opening, because opening a pipe would look like a reader to its writer, and after, because the file may have been
    // replaced.
    regular(fs::metadata(path)?)?;
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let file = options.read(true).open(path)?;
    let metadata = regular(file.metadata()?)?;
    Ok((file, metadata))
}

/// Reads the first bytes of an open file, as many as `wanted` returns, if it is readable and no longer than `longest`.
fn read_open(
    file: &File,
    described: &FileMetadata,
    wanted: &dyn Fn(&FileMetadata) -> u64,
    longest: u64,
) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if described.is_readable() {
        if described.len > longest {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let len = described.len.min(wanted(described));
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        read_first(file, &mut bytes, len)?;
        bytes.truncate(len);
    }
    Ok(bytes)
}

/// Reads the first `len` bytes of an open file, and perhaps more, into an empty buffer.
pub(crate) fn read_first(file: &File, bytes: &mut Vec<u8>, len: usize) -> io::Result<()> {
    // A length that exceeds memory is a miss, not an abort.
    bytes.try_reserve_exact(len)?;
    // The standard library would begin with 8 KiB.
    #[cfg(unix)]
    while bytes.len() < len && sys::retry_on_intr(|| sys::read(file, spare_capacity(bytes)))? > 0 {}
    #[cfg(not(unix))]
    file.take(len as u64).read_to_end(bytes)?;
    Ok(())
}

/// Writes everything in one call, unless the system accepts less. If `durable`, waits until it is on the medium.
pub(super) fn write_parts(file: &mut File, parts: &[&[u8]], durable: bool) -> io::Result<()> {
    let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let mut written = file.write_vectored(&slices)?;
    for part in parts {
        let skipped = written.min(part.len());
        written -= skipped;
        file.write_all(&part[skipped..])?;
    }
    if durable { file.sync_all() } else { Ok(()) }
}

/// Returns `None` for the error that nothing is there.
pub(crate) fn if_there<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        done => done.map(Some),
    }
}

/// Returns the path of the file in `directory` that is named by the hexadecimal digits of a key. Allocates once.
pub(crate) fn named_for(directory: &Path, key: &Key) -> PathBuf {
    let hex = key.to_hex();
    // Hexadecimal digits are ASCII.
    let hex = str::from_utf8(&hex).unwrap_or_default();
    let mut path = PathBuf::with_capacity(directory.as_os_str().len() + 1 + hex.len());
    path.push(directory);
    path.push(hex);
    path
}

/// Creates a directory and its missing parents, accessible to the owner only. Leaves existing ones unchanged.
#[cfg(any(feature = "packs", feature = "sqlite"))]
pub(crate) fn make_private_directories(path: &Path) -> io::Result<()> {
    platform::private_directories().recursive(true).create(path)
}

/// Creates one directory, accessible to the owner only. Leaves anything that exists under its name unchanged.
pub(crate) fn make_private_directory(path: &Path) -> io::Result<()> {
    match platform::private_directories().create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

/// Runs `action`, and retries on sharing violations, once after each of [`RETRY_PAUSES`].
///
/// # Errors
/// The error of the last attempt.
pub(crate) fn retry_sharing<T>(
    disk: &dyn StorageBackend,
    mut action: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    for pause in RETRY_PAUSES {
        match action() {
            Err(error) if disk.is_sharing_violation(&error) => thread::sleep(pause),
            result => return result,
        }
    }
    action()
}

/// Tries to lock until that succeeds or the timeout ends.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] on a timeout, or any I/O error of the system.
pub(super) fn within(
    timeout: Duration,
    mut try_lock: impl FnMut() -> Result<(), TryLockError>,
) -> io::Result<()> {
    let mut deadline = None;
    for attempt in 0u32.. {
        match try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) => {}
        }
        let deadline = *deadline.get_or_insert_with(|| Instant::now().checked_add(timeout));
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            break;
        }
        // The holder usually needs the lock for microseconds only, so the first retries follow at once.
        if attempt < 32 {
            thread::yield_now();
        } else {
            thread::sleep(Duration::from_micros(u64::from(attempt.min(1000))));
        }
    }
    Err(io::ErrorKind::WouldBlock.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "cpu")]
    #[test]
    fn time_without_a_fraction_is_not_trusted_to_the_second() {
        let reference = Stamp { seconds: 10, nanoseconds: 500 };
        assert!(Stamp { seconds: 10, nanoseconds: 499 }.certainly_before(reference));
        assert!(!Stamp { seconds: 10, nanoseconds: 500 }.certainly_before(reference));
        assert!(!Stamp { seconds: 10, nanoseconds: 0 }.certainly_before(reference));
        assert!(!Stamp { seconds: 9, nanoseconds: 0 }.certainly_before(reference));
        assert!(Stamp { seconds: 8, nanoseconds: 0 }.certainly_before(reference));
    }

    #[test]
    fn identity_shared_by_two_files_is_never_settled() {
        let long_ago = Stamp { seconds: 1, nanoseconds: 0 };
        let file = FileIdentity { device: 1, inode: 2, size: 3, modified: long_ago, changed: long_ago };
        assert!(file.is_settled());
        assert!(!FileIdentity { device: 0, inode: 0, ..file }.is_settled(), "without an inode");
    }

    #[cfg(unix)]
    #[test]
    fn what_other_users_may_write_to_is_not_trusted() {
        use std::os::unix::fs::PermissionsExt;

        let directory = tempfile::tempdir().unwrap();
        let (file, inner) = (directory.path().join("file"), directory.path().join("inner"));
        fs::write(&file, "1").unwrap();
        fs::create_dir(&inner).unwrap();
        let this_user = LocalBackend::new();
        // Another one trusts what this user owns only if this user is root.
        let other_user = LocalBackend { user: this_user.user.wrapping_add(1) };
        for path in [file, inner] {
            for (mode, is_private) in [
                (0o600, true),
                (0o700, true),
                (0o755, true),
                (0o720, false),
                (0o702, false),
                (0o777, false),
                (0o1777, false),
            ] {
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
                let trusts = |disk: LocalBackend| disk.metadata(&path).unwrap().is_trusted;
                assert_eq!(trusts(this_user), is_private, "{} {mode:o}", path.display());
                assert_eq!(trusts(other_user), is_private && this_user.user == 0, "{mode:o}");
            }
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
            // Only root can give it away.
            if std::os::unix::fs::chown(&path, Some(other_user.user), None).is_ok() {
                assert!(!this_user.metadata(&path).unwrap().is_trusted);
                assert!(other_user.metadata(&path).unwrap().is_trusted);
            }
        }
    }

    #[cfg(unix)]
    #[test]
    fn untrusted_file_is_neither_read_nor_written() {
        use std::os::unix::fs::PermissionsExt;

        let directory = tempfile::tempdir().unwrap();
        let (path, disk) = (directory.path().join("file"), LocalBackend::new());
        let read = || disk.read(&path, &|metadata| metadata.len).map(|(bytes, _)| bytes);
        fs::write(&path, "1234").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
        assert_eq!(read().unwrap(), []);
        let refused = disk.write_at(&path, 0, b"5").unwrap_err();
        assert_eq!(
            (refused.kind(), fs::read(&path).unwrap()),
            (io::ErrorKind::InvalidInput, b"1234".to_vec())
        );

        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read().unwrap(), b"1234");
        disk.write_at(&path, 1, b"5").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"1534");
    }

    #[test]
    fn read_of_a_file_longer_than_the_longest_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "1234").unwrap();
        let described = LocalBackend::new().metadata(&path).unwrap();
        let read = |longest| read_open(&File::open(&path).unwrap(), &described, &|_| 1, longest);
        assert_eq!(read(4).unwrap(), b"1");
        assert_eq!(read(3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn replaced_file_has_another_identity() {
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
