//! The loader says where a library is in memory, and with it the build id.

use std::{ffi::OsStr, os::raw::c_int, path::Path};

use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL, RTLD_NOW};

use super::super::toolkit::mapped;

/// The library, and its build id in memory.
///
/// # Safety
/// As [`Loaded::open`](super::Loaded::open).
pub(super) unsafe fn open(path: &Path) -> Result<(libloading::Library, Option<Vec<u8>>), libloading::Error> {
    // SAFETY: the caller vouches for the library.
    unsafe { open_with(path.as_os_str(), RTLD_NOW | RTLD_LOCAL) }
}

/// The build id of the library that the loader has under this name, which is none of a file but the one that libraries
/// have in themselves. Nothing if it has none of that name.
pub(in crate::target::cuda) fn build_id_by_name(name: &str) -> Option<Vec<u8>> {
    // SAFETY: nothing is loaded, and so nothing runs.
    unsafe { open_with(name.as_ref(), RTLD_LAZY | libc::RTLD_NOLOAD) }.ok()?.1
}

/// # Safety
/// As [`open`], unless the flags say that nothing is loaded.
unsafe fn open_with(
    name: &OsStr,
    flags: c_int,
) -> Result<(libloading::Library, Option<Vec<u8>>), libloading::Error> {
    // SAFETY: the caller vouches for the library.
    let handle = unsafe { Library::open(Some(name), flags) }?.into_raw();
    // SAFETY: it is open, and is closed by `library` only.
    let (library, build_id) = unsafe { (Library::from_raw(handle), mapped::build_id(handle)) };
    Ok((library.into(), build_id))
}
