//! Nothing is known of libraries but that they can be loaded.

use std::path::Path;

/// The library, and its build id in memory.
///
/// # Safety
/// As [`Loaded::open`](super::Loaded::open).
pub(super) unsafe fn open(path: &Path) -> Result<(libloading::Library, Option<Vec<u8>>), libloading::Error> {
    // SAFETY: the caller vouches for the library.
    unsafe { libloading::Library::new(path) }.map(|library| (library, None))
}

pub(in crate::target::cuda) fn build_id_by_name(_name: &str) -> Option<Vec<u8>> {
    None
}
