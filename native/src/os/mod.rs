//! Operating-system interfaces: one for the file store, one for packs.
//!
//! [`StorageBackend`] is for the file store, `MapBackend` (feature `packs`) for mapped files.

mod disk;
pub mod fork;
#[cfg(feature = "packs")]
mod map;
pub(crate) mod parallel;
pub(crate) mod process_lock;

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
pub(crate) use disk::Stamp;
#[cfg(any(feature = "packs", feature = "sqlite"))]
pub(crate) use disk::make_private_directories;
#[cfg(feature = "sqlite")]
pub(crate) use disk::make_private_directory;
#[cfg(any(feature = "cpu", feature = "cuda", feature = "packs"))]
pub(crate) use disk::{FileIdentity, open_regular};
pub use disk::{FileKind, FileMetadata, LocalBackend, LogState, RETRY_PAUSES, StorageBackend};
pub(crate) use disk::{if_there, named_for, private_options, read_first, retry_sharing};
#[cfg(feature = "packs")]
pub use map::{ALIGNMENT, Access, LocalMapBackend, Lock, MapBackend, Mapping};
#[cfg(feature = "sqlite")]
pub(crate) use platform::is_linked;
#[cfg(feature = "packs")]
pub(crate) use platform::keeps_times;
pub(crate) use platform::shared_backend;

use std::{
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
};

use cfg_if::cfg_if;
use warmstart_core::reason::MissReason;

/// Returns the path of a file beside `path`, whose name ends with `suffix`.
pub(crate) fn with_suffix(path: &Path, suffix: impl AsRef<OsStr>) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// Converts an error of the system into a reason.
pub(crate) fn reason_of(error: &io::Error) -> MissReason {
    use io::ErrorKind as Kind;

    if platform::is_refused_link(error) {
        return MissReason::Untrusted;
    }
    match error.kind() {
        Kind::NotFound => MissReason::Absent,
        Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge => MissReason::NoSpace,
        Kind::ReadOnlyFilesystem | Kind::PermissionDenied => MissReason::ReadOnly,
        Kind::WouldBlock | Kind::ResourceBusy | Kind::TimedOut => MissReason::Busy,
        _ => MissReason::Unavailable,
    }
}
