//! Systems for which the standard library shows neither owners nor other names of files, such as Windows.

pub(super) mod at;

use std::{
    fs::{DirBuilder, Metadata},
    io,
    path::Path,
};

/// Returns `None`: without owners and modes, a directory is taken to be private.
pub(crate) fn shared_backend(_: &Path) -> Option<std::sync::Arc<dyn super::StorageBackend>> {
    None
}

/// The standard library does not show this.
#[cfg(feature = "packs")]
pub(crate) const fn keeps_times(_: &std::fs::File) -> bool {
    false
}

pub(super) fn private_directories() -> DirBuilder {
    DirBuilder::new()
}

/// The standard library does not show access control lists: directories of the user are assumed to be private.
pub(super) const fn current_user() -> u32 {
    0
}

/// Windows has no such call; its file systems order changes of names by themselves.
pub(super) const fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}

pub(super) const fn is_refused_link(_: &io::Error) -> bool {
    false
}

/// An open file cannot be removed, so it keeps its name.
pub(crate) const fn is_linked(_: &Metadata) -> bool {
    true
}

pub(crate) const fn has_one_name(_: &Metadata) -> bool {
    true
}
