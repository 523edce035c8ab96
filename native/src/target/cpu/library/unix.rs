//! Objects are loaded from a file whose name is removed at once.

use std::{fs::Permissions, os::unix::fs::PermissionsExt, path::Path};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::{super::error::LoadError, load_from_file};

/// The name is gone already.
pub(super) type Backing = ();

/// # Safety
/// As [`Library::load`](super::Library::load).
pub(super) unsafe fn load(object: &[u8]) -> Result<(libloading::Library, Backing), LoadError> {
    // SAFETY: the caller vouches for the object.
    unsafe { load_from_file(object) }.map(|(library, _)| (library, ()))
}

/// # Safety
/// As [`Library::load`](super::Library::load).
pub(super) unsafe fn open(path: &Path) -> Result<libloading::Library, libloading::Error> {
    // SAFETY: the caller vouches for the object.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map(Into::into)
}

/// Makes what is built for its owner only.
pub(super) fn restrict(builder: &mut tempfile::Builder<'_, '_>) {
    builder.permissions(Permissions::from_mode(0o700));
}
