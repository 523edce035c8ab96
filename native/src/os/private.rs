//! Directories that are their owner's alone.

use std::{io, path::Path};

use super::platform::private_directories;

/// Makes a directory, and those that lead to it if they are missing, for the owner only. One that is there is left as
/// it is.
#[cfg(any(feature = "packs", feature = "sqlite"))]
pub(crate) fn make_private_directories(path: &Path) -> io::Result<()> {
    private_directories().recursive(true).create(path)
}

/// Makes one directory for the owner only. What is there under its name is left as it is.
pub(crate) fn make_private_directory(path: &Path) -> io::Result<()> {
    match private_directories().create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}
