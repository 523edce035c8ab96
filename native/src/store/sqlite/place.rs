//! Where the database is: whom its directory and its files belong to, how it is made, how it is set aside.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use warmstart_core::reason::Reason;

use super::fault::Fault;
use crate::error::{OpenError, Problem};

/// Databases set aside that are kept, the latest first.
const KEPT_ASIDE: u32 = 2;

/// What SQLite keeps beside a database.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Which file a name led to.
pub(super) type Identity = (u64, u64);

/// A database's path.
#[derive(Clone, Debug)]
pub(super) struct Place {
    path: PathBuf,
}

impl Place {
    /// Nothing is looked at yet.
    pub(super) fn new(path: &Path) -> Result<Self, OpenError> {
        let path = std::path::absolute(path).map_err(|error| OpenError::new(path, Problem::Io(error)))?;
        if path.as_os_str().as_encoded_bytes().contains(&0) {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "a path has no NUL in it");
            return Err(OpenError::new(&path, Problem::Io(error)));
        }
        if path.file_name().is_none() || path.parent().is_none() {
            let problem = Problem::WrongKind { found: "a directory", remedy: "name a file in it" };
            return Err(OpenError::new(&path, problem));
        }
        Ok(Self { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(suffix);
        PathBuf::from(name)
    }

    /// Makes the directory and an empty file where they are missing, and checks who could have written there.
    ///
    /// SQLite is given a path without links, so that it can be told to follow none.
    pub(super) fn prepare(&self) -> Result<PathBuf, Fault> {
        // Both are there: a path with no name or no parent was refused.
        let (Some(directory), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return Err(Fault::Disconnected(Reason::Unavailable));
        };
        if !directory.exists() {
            create_directory(directory, true)?;
        }
        let metadata = fs::metadata(directory)?;
        if !metadata.is_dir() {
            let problem = Problem::WrongKind {
                found: "inside something that is no directory",
                remedy: "name another path",
            };
            return Err(OpenError::new(&self.path, problem).into());
        }
        check_owner(
            &self.path,
            &metadata,
            "in a directory",
            "keep it in a directory of your own, of mode 0700",
        )?;
        // Never opened here if it exists: closing a file lets go of all of a process's locks on it, SQLite's included.
        match create_file(&self.path) {
            Ok(()) => {}
            Err(_) if fs::symlink_metadata(&self.path).is_ok() => {}
            Err(error) => return Err(error.into()),
        }
        self.check_files()?;
        Ok(fs::canonicalize(directory)?.join(name))
    }

    /// Checks the database and what SQLite keeps beside it: all of it is read as if we had written it.
    pub(super) fn check_files(&self) -> Result<(), OpenError> {
        for suffix in [""].iter().chain(&COMPANIONS) {
            let path = self.beside(suffix);
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            let kind = metadata.file_type();
            let wrong = |found, remedy| Err(OpenError::new(&path, Problem::WrongKind { found, remedy }));
            if kind.is_dir() {
                return wrong("a directory", "name a file in it");
            } else if kind.is_symlink() {
                return wrong("a symbolic link", "name the file that it leads to");
            } else if !kind.is_file() {
                return wrong("not a regular file", "name another path");
            }
            check_owner(&path, &metadata, "a file", "remove it, or make it yours with mode 0600")?;
        }
        Ok(())
    }

    /// The mistake of naming a database that is not ours.
    pub(super) fn foreign(&self) -> OpenError {
        let problem = Problem::WrongKind {
            found: "another application's SQLite database",
            remedy: "name another file; this one is left alone",
        };
        OpenError::new(&self.path, problem)
    }

    /// What the path leads to now.
    pub(super) fn identity(&self) -> Option<Identity> {
        fs::symlink_metadata(&self.path).ok().map(|metadata| identity_of(&metadata))
    }

    /// The directory of lock files, made if it is missing. Nothing if somebody else could write there.
    pub(super) fn lock_directory(&self) -> Option<PathBuf> {
        let directory = self.beside(".locks");
        if let Err(error) = create_directory(&directory, false)
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return None;
        }
        let metadata = fs::symlink_metadata(&directory).ok()?;
        check_owner(&directory, &metadata, "a directory", "").ok()?;
        metadata.is_dir().then_some(directory)
    }

    /// Renames the damaged database `damaged`, with what SQLite keeps beside it, to `.damaged-1`; the one that was
    /// there becomes `.damaged-2`, and what was that is removed.
    ///
    /// Of several processes that find the damage, one does it; the others find another file, and leave that alone.
    pub(super) fn set_aside(&self, damaged: Option<Identity>) -> io::Result<()> {
        let directory = self.lock_directory().ok_or(io::ErrorKind::PermissionDenied)?;
        let lock = lock_file(&directory.join("set-aside"))?;
        if damaged.is_none() || self.identity() != damaged {
            return Ok(());
        }
        let aside = |n: u32, suffix: &str| self.beside(&format!(".damaged-{n}{suffix}"));
        for n in (1..=KEPT_ASIDE).rev() {
            for suffix in [""].iter().chain(&COMPANIONS) {
                if n == KEPT_ASIDE {
                    let _ = fs::remove_file(aside(n, suffix));
                } else {
                    let _ = fs::rename(aside(n, suffix), aside(n + 1, suffix));
                }
            }
        }
        // The database last: without it, what is left beside it would be taken for that of the next one.
        for suffix in COMPANIONS.iter().chain(&[""]) {
            match fs::rename(self.beside(suffix), aside(1, suffix)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        drop(lock);
        Ok(())
    }
}

fn create_directory(directory: &Path, with_parents: bool) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(with_parents);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// Makes an empty file that only its owner reads and writes, whatever the umask. What exists is left alone.
fn create_file(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};

        options.mode(0o600).custom_flags(crate::os::NO_FOLLOW);
        options.open(path)?.set_permissions(fs::Permissions::from_mode(0o600))
    }
    #[cfg(not(unix))]
    options.open(path).map(drop)
}

/// Locks the file at `path`, which is not waited for: whoever holds it does what we wanted to do.
fn lock_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600),
        crate::os::NO_FOLLOW,
    );
    let file = options.open(path)?;
    file.try_lock()?;
    // It may have been swept before it was locked; then somebody else may hold another one.
    #[cfg(unix)]
    if std::os::unix::fs::MetadataExt::nlink(&file.metadata()?) == 0 {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    Ok(file)
}

#[cfg(unix)]
fn identity_of(metadata: &fs::Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;

    (metadata.dev(), metadata.ino())
}

/// Elsewhere a file that is open is neither renamed nor removed.
#[cfg(not(unix))]
fn identity_of(_: &fs::Metadata) -> Identity {
    (0, 0)
}

#[cfg(unix)]
fn check_owner(
    path: &Path,
    metadata: &fs::Metadata,
    what: &str,
    remedy: &'static str,
) -> Result<(), OpenError> {
    use std::os::unix::fs::MetadataExt;

    const STICKY: u32 = 0o1000;
    const OTHERS_WRITE: u32 = 0o022;

    let untrusted = |found| Err(OpenError::new(path, Problem::Untrusted { found, remedy }));
    let (owner, mode) = (metadata.uid(), metadata.mode());
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return untrusted(format!("{what} that belongs to user {owner}"));
    }
    let guarded = metadata.is_dir() && mode & STICKY != 0;
    if mode & OTHERS_WRITE != 0 && !guarded {
        return untrusted(format!("{what} that others may write to (mode {:04o})", mode & 0o7777));
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_owner(_: &Path, _: &fs::Metadata, _: &str, _: &'static str) -> Result<(), OpenError> {
    Ok(())
}
