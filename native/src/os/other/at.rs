//! Files of locks.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io,
    path::Path,
};

pub(crate) fn open_existing(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).open(path)
}

pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(false).open(path)
}

pub(crate) fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}

pub(crate) fn list(directory: &Path, visit: &mut dyn FnMut(&OsStr)) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        visit(&entry?.file_name());
    }
    Ok(())
}

/// An open file cannot be removed here, so it keeps its name.
pub(crate) const fn is_named(_: &File, _: &Path) -> bool {
    true
}
