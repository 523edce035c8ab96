//! Calls that follow no link in the last two parts of a path: neither the file nor the directory that it is in.
//!
//! Where others may write to a cache directory, they can put a link in the place of `tmp/` at any time. So the directory is
//! opened first, which fails if it is a link, and the rest is done in what was opened.

use std::{ffi::OsStr, fs::File, io, os::fd::OwnedFd, path::Path};

use rustix::fs::{self, AtFlags, CWD, Dir, Mode, OFlags};

/// What a file is made with before it is given the permissions that it is to have.
const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Opens a file that is no link, without waiting for whoever is at the other end of a pipe. One that is made is for its
/// owner only.
pub(crate) fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    let (parent, name) = parent(path)?;
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    Ok(fs::openat(parent, name, flags, PRIVATE)?.into())
}

/// Opens a directory that is no link.
pub(crate) fn directory(path: &Path) -> io::Result<File> {
    open(path, OFlags::RDONLY | OFlags::DIRECTORY)
}

/// Makes a directory for its owner only.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    let (parent, name) = parent(path)?;
    Ok(fs::mkdirat(parent, name, PRIVATE | Mode::XUSR)?)
}

pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let (parent, name) = parent(path)?;
    Ok(fs::unlinkat(parent, name, AtFlags::empty())?)
}

pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let ((from_parent, from), (to_parent, to)) = (parent(from)?, parent(to)?);
    Ok(fs::renameat(from_parent, from, to_parent, to)?)
}

/// Calls `visit` with every name in a directory that is no link.
pub(crate) fn list(path: &Path, visit: &mut dyn FnMut(&OsStr)) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;

    for entry in Dir::read_from(directory(path)?)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            visit(OsStr::from_bytes(entry.file_name().to_bytes()));
        }
    }
    Ok(())
}

/// Whether `file` is a regular file, which has this name and no other. A file of somebody else's that was linked here has
/// another one.
pub(crate) fn is_only_name(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;

    let (Ok(named), Ok(opened)) = (path.symlink_metadata(), file.metadata()) else { return false };
    let identity = |metadata: &std::fs::Metadata| (metadata.dev(), metadata.ino());
    named.is_file() && named.nlink() == 1 && identity(&named) == identity(&opened)
}

fn parent(path: &Path) -> io::Result<(OwnedFd, &OsStr)> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok((fs::openat(CWD, parent, flags, Mode::empty())?, name))
}
