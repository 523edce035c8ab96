//! Objects are loaded from a file, which cannot be removed while it is in use.

use std::path::Path;

use super::{super::error::LoadError, load_from_file};

/// Removed when dropped.
pub(super) type Backing = tempfile::TempDir;

/// # Safety
/// As [`Library::load`](super::Library::load).
pub(super) unsafe fn load(object: &[u8]) -> Result<(libloading::Library, Backing), LoadError> {
    // SAFETY: the caller vouches for the object.
    unsafe { load_from_file(object) }
}

/// # Safety
/// As [`Library::load`](super::Library::load).
pub(super) unsafe fn open(path: &Path) -> Result<libloading::Library, libloading::Error> {
    // SAFETY: the caller vouches for the object.
    unsafe { libloading::Library::new(path) }
}

/// A user's own directories are the user's own here.
pub(super) fn restrict(_: &mut tempfile::Builder<'_, '_>) {}
