//! The seams to the operating system: one for the file store, one for files of packed weights.
//!
//! [`Disk`] is what the file store asks of a file system to find, keep and account for entries; only the signs of life in
//! `tmp/` and the locks of builds are asked for directly. [`LocalDisk`] asks the real one; a test puts a
//! disk of its own in between, which fails when it is told to. What is mapped has a seam of its own, `MapDisk` (feature
//! `packs`).

pub(crate) mod fork;
#[cfg(any(feature = "cpu", feature = "cuda", feature = "packs"))]
mod identity;
mod local;
#[cfg(feature = "packs")]
mod map_disk;
#[cfg(feature = "packs")]
mod mapping;
pub(crate) mod process_lock;
mod sharing;

cfg_if! {
    if #[cfg(unix)] {
        mod unix;
        use unix as platform;
    } else {
        mod other;
        use other as platform;
    }
}

#[cfg(feature = "cpu")]
pub(crate) use identity::Stamp;
#[cfg(any(feature = "cpu", feature = "cuda", feature = "packs"))]
pub(crate) use identity::{FileIdentity, open_regular};
pub use local::LocalDisk;
#[cfg(any(feature = "packs", feature = "sqlite"))]
pub(crate) use local::make_private_directories;
pub(crate) use local::make_private_directory;
#[cfg(feature = "packs")]
pub use map_disk::{Access, LocalMapDisk, Lock, MapDisk};
#[cfg(feature = "packs")]
pub use mapping::{ALIGNMENT, Mapping};
#[cfg(feature = "packs")]
pub(crate) use platform::keeps_times;
pub(crate) use platform::{has_one_name, is_linked, private_options, shared_disk};
pub use sharing::RETRY_PAUSES;
pub(crate) use sharing::retry_sharing;

use std::{
    ffi::OsStr,
    fmt::Debug,
    fs::{File, TryLockError},
    io,
    ops::Range,
    path::Path,
    time::{Duration, Instant},
};

use cfg_if::cfg_if;
use warmstart_core::reason::Reason;

/// What the file store asks of a file system. No call follows a link in the last part of a path.
pub trait Disk: Debug + Send + Sync {
    /// Reads as many of a file's first bytes as `wanted` says when it is told about the file. Where
    /// [`FileFacts::is_readable`] says no, nothing is read.
    ///
    /// # Errors
    /// As the system reports.
    fn read(&self, path: &Path, wanted: &dyn Fn(&FileFacts) -> u64) -> io::Result<(Vec<u8>, FileFacts)>;

    /// Reads exactly as many bytes of a file as `into` has, from `at`, if [`FileFacts::is_readable`] says yes, and says what is
    /// known about the file.
    ///
    /// # Errors
    /// As the system reports.
    fn read_at(&self, path: &Path, at: u64, into: &mut [u8]) -> io::Result<FileFacts>;

    /// Creates a file that must not exist, for its owner only, writes `parts` one after the other and, if `durable`,
    /// waits until they are on the medium. Closing the file is left to the caller, for when nobody waits.
    ///
    /// # Errors
    /// As the system reports; the file is then removed again.
    fn create(&self, path: &Path, parts: &[&[u8]], durable: bool) -> io::Result<File>;

    /// Writes `bytes` at a place of a file, which is created, for its owner only, if there is none. Where it is no regular
    /// file, or another name leads to it too, or somebody else could have written it, nothing is written.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if nothing was written for that, or what the system reports.
    fn write_at(&self, path: &Path, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Gives a file another name in the same file system, in place of what had that name.
    ///
    /// # Errors
    /// As the system reports.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Waits until what happened to the names in a directory is on the medium.
    ///
    /// # Errors
    /// As the system reports.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// As the system reports.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// What is known about a path without opening it.
    ///
    /// # Errors
    /// As the system reports.
    fn facts(&self, path: &Path) -> io::Result<FileFacts>;

    /// Calls `visit` with every name in a directory.
    ///
    /// # Errors
    /// As the system reports.
    fn list(&self, directory: &Path, visit: &mut dyn FnMut(&OsStr)) -> io::Result<()>;

    /// Makes a directory, for its owner only, unless there is one.
    ///
    /// # Errors
    /// As the system reports.
    fn make_directory(&self, path: &Path) -> io::Result<()>;

    /// Opens a file for reading and appending, and creates it, for its owner only, if there is none.
    ///
    /// # Errors
    /// As the system reports.
    fn open_log(&self, path: &Path) -> io::Result<File>;

    /// Appends all of `bytes` to a file that [`open_log`](Self::open_log) opened.
    ///
    /// # Errors
    /// As the system reports. Some of the bytes may have been written then.
    fn append(&self, log: &File, bytes: &[u8]) -> io::Result<()>;

    /// Reads `range` of a file that [`open_log`](Self::open_log) opened, or as much of it as there is.
    ///
    /// # Errors
    /// As the system reports.
    fn read_log(&self, log: &File, range: Range<u64>) -> io::Result<Vec<u8>>;

    /// How long such a file is, which file it is, and whether any name still leads to it.
    ///
    /// # Errors
    /// As the system reports.
    fn log_state(&self, log: &File) -> io::Result<LogState>;

    /// Waits for the OS lock on a file, at most for `patience`. Death releases such a lock, a stopped process does not.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if it did not come in time, or what the system reports.
    fn lock(&self, file: &File, patience: Duration) -> io::Result<()>;

    /// The longest file that is read or written, in bytes: a bound on the memory that a file which somebody else made can
    /// take. [`read`](Self::read) reports a longer one as [`io::ErrorKind::FileTooLarge`].
    fn max_file(&self) -> u64 {
        u64::MAX
    }

    /// Whether an error says that somebody else has the file open just now, as only Windows does.
    fn is_sharing_violation(&self, error: &io::Error) -> bool {
        // ERROR_ACCESS_DENIED, ERROR_SHARING_VIOLATION, ERROR_LOCK_VIOLATION
        cfg!(windows) && matches!(error.raw_os_error(), Some(5 | 32 | 33))
    }
}

/// What is known about a file that is open for appending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogState {
    /// Its length in bytes.
    pub len: u64,
    /// Whether any name still leads to it.
    pub is_linked: bool,
    /// Device and inode where there are such, else 0.
    pub identity: (u64, u64),
}

/// What is known about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileFacts {
    /// What kind of file it is.
    pub kind: FileKind,
    /// Its length in bytes.
    pub len: u64,
    /// Device and inode where there are such, else 0. With length and time: which file it is.
    pub identity: (u64, u64),
    /// Nanoseconds since 1970 UTC of the last modification.
    pub modified_ns: i128,
    /// Whether nobody but this user and root could have written it.
    pub is_trusted: bool,
}

/// What kind of file a path leads to.
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

impl FileFacts {
    /// Whether it is a regular file that nobody but this user and root could have written.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.kind == FileKind::File && self.is_trusted
    }
}

/// The reason that an error of the system amounts to.
pub(crate) fn reason_of(error: &io::Error) -> Reason {
    use io::ErrorKind as Kind;

    if platform::is_refused_link(error) {
        return Reason::Untrusted;
    }
    match error.kind() {
        Kind::NotFound => Reason::Absent,
        Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge => Reason::NoSpace,
        Kind::ReadOnlyFilesystem | Kind::PermissionDenied => Reason::ReadOnly,
        Kind::WouldBlock | Kind::ResourceBusy | Kind::TimedOut => Reason::Busy,
        _ => Reason::Unavailable,
    }
}

/// Waits for the OS lock on a file, at most for `patience`. Death releases such a lock, a stopped process does not.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if it did not come in time, or what the system reports.
pub(crate) fn lock_within(file: &File, patience: Duration) -> io::Result<()> {
    within(patience, || file.try_lock())
}

/// Tries to lock until that succeeds or the timeout ends.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] on a timeout, or what the system reports.
fn within(timeout: Duration, mut try_lock: impl FnMut() -> Result<(), TryLockError>) -> io::Result<()> {
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
        // What is done under such a lock takes microseconds: it is worth asking again at once, for a while.
        if attempt < 32 {
            std::thread::yield_now();
        } else {
            std::thread::sleep(Duration::from_micros(u64::from(attempt.min(1000))));
        }
    }
    Err(io::ErrorKind::WouldBlock.into())
}
