//! Calls that follow no link in the last two components of a path: the file and its directory.
//!
//! If others may write to a cache directory, they can replace `tmp/` by a link at any time. So the directory is
//! opened first, which fails for a link, and the call is made relative to it.

use std::{
    ffi::OsStr,
    fs::{File, Permissions},
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{MetadataExt, PermissionsExt},
    },
    path::Path,
    thread,
    time::Duration,
};

use rustix::fs::{self, AtFlags, CWD, Dir, Mode, OFlags};

/// The mode of a new file, until it gets its final permissions.
const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Opens a file that is not a link, without blocking on a pipe. A new one is accessible to its
/// owner only.
pub(crate) fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    let (parent, name) = parent(path)?;
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    Ok(fs::openat(parent, name, flags, PRIVATE)?.into())
}

/// How often a file is opened that another process is creating or removing, with a millisecond in between.
const ATTEMPTS: usize = 20;

/// Opens a file as [`open`] does. Creates it if it is missing, and then calls `share` to set its permissions.
pub(crate) fn open_or_make(
    path: &Path,
    flags: OFlags,
    share: impl Fn(&File) -> io::Result<()>,
) -> io::Result<File> {
    for _ in 0..ATTEMPTS {
        match open(path, flags | OFlags::CREATE | OFlags::EXCL) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => {
                let file = made?;
                return share(&file).inspect_err(|_| _ = remove(path)).map(|()| file);
            }
        }
        match open(path, flags) {
            // Its creator has not set its permissions yet, or its last user has just removed it.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound) =>
            {
                thread::sleep(Duration::from_millis(1));
            }
            opened => return opened,
        }
    }
    Err(io::ErrorKind::PermissionDenied.into())
}

/// Opens the file of a lock.
pub(crate) fn open_existing(path: &Path) -> io::Result<File> {
    open(path, OFlags::RDWR)
}

/// Opens the file of a lock, or creates it. Every user that may create files in the directory may lock this one too.
pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    open_or_make(path, OFlags::RDWR, |file| {
        let mode = directory.symlink_metadata()?.mode();
        let shared: u32 = [0o060, 0o006].into_iter().filter(|class| mode & class & 0o022 != 0).sum();
        if shared == 0 {
            return Ok(());
        }
        file.set_permissions(Permissions::from_mode(0o600 | shared))
    })
}

/// Opens a directory that is not a link.
pub(crate) fn directory(path: &Path) -> io::Result<File> {
    open(path, OFlags::RDONLY | OFlags::DIRECTORY)
}

/// Creates a directory that only its owner can access.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    let (parent, name) = parent(path)?;
    Ok(fs::mkdirat(parent, name, PRIVATE | Mode::XUSR)?)
}

pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let (parent, name) = parent(path)?;
    Ok(fs::unlinkat(parent, name, AtFlags::empty())?)
}

pub(crate) fn remove_directory(path: &Path) -> io::Result<()> {
    let (parent, name) = parent(path)?;
    Ok(fs::unlinkat(parent, name, AtFlags::REMOVEDIR)?)
}

pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let ((from_parent, from), (to_parent, to)) = (parent(from)?, parent(to)?);
    Ok(fs::renameat(from_parent, from, to_parent, to)?)
}

/// Calls `visit` with every name in a directory that is not a link.
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

/// Returns whether `file` is a regular file with this name and no other. A file of another user that was linked here has
/// a second name.
pub(crate) fn is_named(file: &File, path: &Path) -> bool {
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

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn file_is_named_until_it_is_removed_replaced_or_linked() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let other = directory.path().join("other");
        let make = || {
            let _ = (fs::remove_file(&path), fs::remove_file(&other));
            fs::write(&path, "").unwrap();
            open(&path, OFlags::RDONLY).unwrap()
        };
        assert!(is_named(&make(), &path));
        let file = make();
        fs::remove_file(&path).unwrap();
        assert!(!is_named(&file, &path), "removed");
        fs::write(&path, "").unwrap();
        assert!(!is_named(&file, &path), "replaced");
        let file = make();
        fs::hard_link(&path, &other).unwrap();
        assert!(!is_named(&file, &path), "linked");
        let file = make();
        fs::rename(&path, &other).unwrap();
        symlink(&other, &path).unwrap();
        assert!(!is_named(&file, &path), "a symbolic link");
    }
}
