//! Files and directories that are their owner's alone.

use std::{
    fs::{DirBuilder, OpenOptions},
    io,
    path::Path,
};

/// Options that make a file for its owner only, and follow no link in the last part of a path.
#[cfg(unix)]
pub(crate) fn private_options() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;

    let mut options = OpenOptions::new();
    options.mode(0o600).custom_flags(super::NO_FOLLOW);
    options
}

#[cfg(not(unix))]
pub(crate) fn private_options() -> OpenOptions {
    OpenOptions::new()
}

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

fn private_directories() -> DirBuilder {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has a mode to set"))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}
