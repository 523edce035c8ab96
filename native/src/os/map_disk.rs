//! What a file of packed weights asks of the operating system: blocks that are really there, shared mappings, write-back.
//!
//! [`MapDisk`] is the one seam; only the canonical form of a path, and what dead processes left beside a file, are asked for
//! directly. [`LocalMapDisk`] asks the real system; a test puts a disk of its own in between, which fails or stops when it is
//! told to, or which has no mappings.

use std::{
    fmt,
    fs::{self, File},
    io::{self, Write},
    ops::Range,
    path::Path,
    time::Duration,
};

use memmap2::MmapOptions;

use super::{
    FileFacts, LocalDisk, Mapping, make_private_directories, platform::map as platform, private_options,
    within,
};

/// What a pack asks of a file system. No call follows a link in the last part of a path, and none truncates or rewrites what
/// was committed: that is the caller's to keep.
pub trait MapDisk: fmt::Debug + Send + Sync {
    /// Opens a regular file.
    ///
    /// # Errors
    /// As the system reports.
    fn open(&self, path: &Path, access: Access) -> io::Result<File>;

    /// Opens a file for reading and writing, and creates it, and the directories that lead to it, for their owner only, if
    /// there are none.
    ///
    /// # Errors
    /// As the system reports.
    fn open_to_write(&self, path: &Path) -> io::Result<File>;

    /// Creates a file that must not exist, for its owner only.
    ///
    /// # Errors
    /// As the system reports.
    fn create(&self, path: &Path) -> io::Result<File>;

    /// What is known about an open file.
    ///
    /// # Errors
    /// As the system reports.
    fn facts(&self, file: &File) -> io::Result<FileFacts>;

    /// What is known about a path without opening it.
    ///
    /// # Errors
    /// As the system reports.
    fn facts_at(&self, path: &Path) -> io::Result<FileFacts>;

    /// Waits for an OS lock on a file, at most for `patience`. Death releases such a lock.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if it did not come in time, or what the system reports.
    fn lock(&self, file: &File, lock: Lock, patience: Duration) -> io::Result<()>;

    /// Lets go of all locks. To close the file would not do: on Linux, a mapping of it keeps them, and so does a child that was
    /// just forked, until it becomes another program.
    fn unlock(&self, file: &File);

    /// Takes [`Lock::Shared`] at once, if it can be had and does not keep out [`Lock::Writer`]. It is held while the file is open
    /// or mapped. Returns whether it was taken.
    fn hold(&self, file: &File) -> bool;

    /// Gives a range of a file real blocks, so that writing to a mapping of it cannot fail, and makes the file that long.
    ///
    /// # Errors
    /// [`io::ErrorKind::StorageFull`] and its like, or [`io::ErrorKind::Unsupported`] where a file system cannot promise it.
    fn allocate(&self, file: &File, range: Range<u64>) -> io::Result<()>;

    /// Maps a range of a file, shared with everybody who maps it.
    ///
    /// # Errors
    /// As the system reports; [`io::ErrorKind::Unsupported`] where mapping is not to be had.
    fn map(&self, file: &File, range: Range<u64>, access: Access) -> io::Result<Mapping>;

    /// Reads exactly as many bytes as `into` has, from `at`.
    ///
    /// # Errors
    /// As the system reports.
    fn read_at(&self, file: &File, at: u64, into: &mut [u8]) -> io::Result<()>;

    /// Writes all of `bytes` at `at`.
    ///
    /// # Errors
    /// As the system reports.
    fn write_at(&self, file: &File, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Asks the system to begin writing a range to the medium, and does not wait. What cannot be asked is not.
    fn start_write_back(&self, file: &File, range: Range<u64>);

    /// Waits until what a file holds, and its length, is on the medium.
    ///
    /// # Errors
    /// As the system reports.
    fn sync(&self, file: &File) -> io::Result<()>;

    /// Makes a file this long.
    ///
    /// # Errors
    /// As the system reports.
    fn set_len(&self, file: &File, len: u64) -> io::Result<()>;

    /// Gives a file another name in the same directory, in place of what had that name, and waits until that is on the
    /// medium.
    ///
    /// # Errors
    /// As the system reports.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Waits until the name of a new file is on the medium, where names are kept apart from files.
    fn sync_name(&self, _path: &Path) {}

    /// Removes a file.
    ///
    /// # Errors
    /// As the system reports.
    fn remove(&self, path: &Path) -> io::Result<()>;
}

/// A lock of a file.
///
/// On a local file system of Linux, the two are of different kinds: readers hold the shared one, which keeps other programs
/// from locking the whole file and truncating it, as ExecuTorch does. Elsewhere they exclude each other, and readers hold none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Excludes those who lock the whole file for themselves (`flock`, `LOCK_EX`).
    Shared,
    /// Excludes those, and other writers of this library. The file must be open for writing.
    Writer,
}

/// What a file is opened or mapped for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading.
    Read,
    /// Reading and writing.
    Write,
}

/// The file system of this machine.
#[derive(Clone, Copy, Debug)]
pub struct LocalMapDisk {
    disk: LocalDisk,
}

impl LocalMapDisk {
    /// The file system as the current user sees it.
    #[must_use]
    pub fn new() -> Self {
        Self { disk: LocalDisk::new() }
    }
}

impl Default for LocalMapDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl MapDisk for LocalMapDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<File> {
        private_options().read(true).write(access == Access::Write).open(path)
    }

    fn open_to_write(&self, path: &Path) -> io::Result<File> {
        let open = || private_options().read(true).write(true).create(true).truncate(false).open(path);
        open().or_else(|error| match path.parent() {
            Some(parent) if error.kind() == io::ErrorKind::NotFound => {
                make_private_directories(parent)?;
                open()
            }
            _ => Err(error),
        })
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        private_options().read(true).write(true).create_new(true).open(path)
    }

    fn facts(&self, file: &File) -> io::Result<FileFacts> {
        Ok(self.disk.describe(&file.metadata()?))
    }

    fn facts_at(&self, path: &Path) -> io::Result<FileFacts> {
        Ok(self.disk.describe(&fs::symlink_metadata(path)?))
    }

    fn lock(&self, file: &File, lock: Lock, patience: Duration) -> io::Result<()> {
        within(patience, || match lock {
            Lock::Shared => file.try_lock_shared(),
            Lock::Writer => platform::try_lock_to_write(file),
        })
    }

    fn unlock(&self, file: &File) {
        platform::unlock(file);
    }

    fn hold(&self, file: &File) -> bool {
        platform::hold(file)
    }

    fn allocate(&self, file: &File, range: Range<u64>) -> io::Result<()> {
        match platform::allocate(file, &range) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => write_zeros(self, file, range),
            result => result,
        }
    }

    fn map(&self, file: &File, range: Range<u64>, access: Access) -> io::Result<Mapping> {
        let too_long = |_| io::Error::from(io::ErrorKind::Unsupported);
        let len = usize::try_from(range.end.saturating_sub(range.start)).map_err(too_long)?;
        let mut options = MmapOptions::new();
        options.offset(range.start).len(len);
        let map = match access {
            Access::Read => options.map_raw_read_only(file)?,
            Access::Write => options.map_raw(file)?,
        };
        Ok(Mapping::of_file(map))
    }

    fn read_at(&self, file: &File, at: u64, into: &mut [u8]) -> io::Result<()> {
        platform::read_at(file, at, into)
    }

    fn write_at(&self, file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
        platform::write_at(file, at, bytes)
    }

    fn start_write_back(&self, file: &File, range: Range<u64>) {
        platform::start_write_back(file, &range);
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        file.set_len(len)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)?;
        self.sync_name(to);
        Ok(())
    }

    fn sync_name(&self, path: &Path) {
        platform::sync_name(path);
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}

/// Where a file system cannot allocate: what was written has blocks.
fn write_zeros(disk: &dyn MapDisk, file: &File, range: Range<u64>) -> io::Result<()> {
    static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
    let len = disk.facts(file)?.len;
    // Bytes that are there already are somebody's.
    let mut at = range.start.max(len);
    while at < range.end {
        let part = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(ZEROS.len());
        disk.write_at(file, at, &ZEROS[..part])?;
        at += part as u64;
    }
    (&*file).flush()
}
