//! Systems whose loader is not asked for build ids.

use std::path::Path;

/// Loads a library, without its build id.
///
/// # Safety
/// As [`Loaded::open`](super::Loaded::open).
pub(super) unsafe fn open(path: &Path) -> Result<(libloading::Library, Option<Vec<u8>>), libloading::Error> {
    #[cfg(windows)]
    {
        use libloading::os::windows::{LOAD_WITH_ALTERED_SEARCH_PATH, Library};

        // What it needs is looked for beside it. SAFETY: the caller vouches for the library.
        let library = unsafe { Library::load_with_flags(path, LOAD_WITH_ALTERED_SEARCH_PATH) }?;
        Ok((library.into(), None))
    }
    #[cfg(not(windows))]
    // SAFETY: the caller vouches for the library.
    unsafe { libloading::Library::new(path) }.map(|library| (library, None))
}

pub(in crate::target::cuda) fn build_id_by_name(_name: &str) -> Option<Vec<u8>> {
    None
}
