//! The loader is not asked for build ids.

use std::path::Path;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// The library, and its build id in memory.
///
/// # Safety
/// As [`Loaded::open`](super::Loaded::open).
pub(super) unsafe fn open(path: &Path) -> Result<(libloading::Library, Option<Vec<u8>>), libloading::Error> {
    // SAFETY: the caller vouches for the library.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map(|library| (library.into(), None))
}

pub(in crate::target::cuda) fn build_id_by_name(_name: &str) -> Option<Vec<u8>> {
    None
}
