//! Libraries have no build ids.

use std::path::Path;

use libloading::os::windows::{LOAD_WITH_ALTERED_SEARCH_PATH, Library};

/// The library, and its build id in memory.
///
/// # Safety
/// As [`Loaded::open`](super::Loaded::open).
pub(super) unsafe fn open(path: &Path) -> Result<(libloading::Library, Option<Vec<u8>>), libloading::Error> {
    // What it needs is looked for beside it. SAFETY: the caller vouches for the library.
    unsafe { Library::load_with_flags(path, LOAD_WITH_ALTERED_SEARCH_PATH) }
        .map(|library| (library.into(), None))
}

pub(in crate::target::cuda) fn build_id_by_name(_name: &str) -> Option<Vec<u8>> {
    None
}
