//! Files of locks.
//!
//! In a cache directory that several users write to, others may put anything in the place of a lock, and of the directory.

use std::{
    fs::{File, Permissions},
    io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

use rustix::fs::OFlags;

use super::at;

pub(crate) use at::{is_only_name as is_named, list, remove};

pub(crate) fn open_existing(path: &Path) -> io::Result<File> {
    at::open(path, OFlags::RDWR)
}

/// Who may make files in the directory may lock this one too.
pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    at::open_or_make(path, OFlags::RDWR, |file| {
        let mode = directory.symlink_metadata()?.mode();
        let shared: u32 = [0o060, 0o006].into_iter().filter(|class| mode & class & 0o022 != 0).sum();
        if shared == 0 {
            return Ok(());
        }
        file.set_permissions(Permissions::from_mode(0o600 | shared))
    })
}
