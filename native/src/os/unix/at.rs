//! Calls that follow no link in the last two parts of a path: neither the file nor the directory that it is in.
//!
//! Where others may write to a cache directory, they can put a link in the place of `tmp/` at any time. So the directory is
//! opened first, which fails if it is a link, and the rest is done in what was opened.

use std::{ffi::OsStr, fs::File, io, os::fd::OwnedFd, path::Path, thread, time::Duration};

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

/// How often a file is opened that somebody else is just making or removing, with a millisecond in between.
const ATTEMPTS: usize = 20;

/// Opens a file as [`open`] does. If there is none it is made, and `share` gives it its permissions.
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
            // Its maker has not given it its permissions yet, or its last user has just removed it.
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

pub(crate) fn remove_directory(path: &Path) -> io::Result<()> {
    let (parent, name) = parent(path)?;
    Ok(fs::unlinkat(parent, name, AtFlags::REMOVEDIR)?)
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

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn a_file_has_its_name_alone_until_it_is_removed_replaced_or_linked() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let other = directory.path().join("other");
        let make = || {
            let _ = (fs::remove_file(&path), fs::remove_file(&other));
            fs::write(&path, "").unwrap();
            open(&path, OFlags::RDONLY).unwrap()
        };
        assert!(is_only_name(&make(), &path));
        let file = make();
        fs::remove_file(&path).unwrap();
        assert!(!is_only_name(&file, &path), "removed");
        fs::write(&path, "").unwrap();
        assert!(!is_only_name(&file, &path), "replaced");
        let file = make();
        fs::hard_link(&path, &other).unwrap();
        assert!(!is_only_name(&file, &path), "linked");
        let file = make();
        fs::rename(&path, &other).unwrap();
        symlink(&other, &path).unwrap();
        assert!(!is_only_name(&file, &path), "a symbolic link");
    }
}
