//! The location of the database: ownership of its directory and files, creation, and quarantine.

#[cfg(unix)]
use std::os::unix::fs::PermissionsExt;
use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use warmstart_core::reason::MissReason;

use super::error::DbError;
use crate::{
    error::{OpenError, Problem},
    os::{self, FileKind, FileMetadata, LocalBackend, StorageBackend},
    store::detect::DATABASE,
};

/// The suffixes of the files of a database. The database itself is last when they are renamed: a log that stays beside the name
/// would be taken for that of the next database.
const FILES: [&str; 4] = ["-wal", "-shm", "-journal", ""];

/// The identity of a file. On platforms without one, open files can be neither renamed nor removed.
pub(super) type Identity = (u64, u64);

/// The state of a database that is visible without opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileStamp {
    pub(super) identity: Identity,
    pub(super) len: u64,
    modified_ns: i128,
    /// Whether a log or journal has contents, so that a process has the database open, or died.
    pub(super) has_log: bool,
}

/// The path of a database.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    disk: LocalBackend,
}

impl Place {
    /// Resolves the path, without looking at the database.
    pub(super) fn new(path: &Path) -> Result<Self, OpenError> {
        let path = std::path::absolute(path).map_err(|error| OpenError::new(path, Problem::Io(error)))?;
        if path.as_os_str().as_encoded_bytes().contains(&0) {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "the path contains a NUL byte");
            return Err(OpenError::new(&path, Problem::Io(error)));
        }
        if path.file_name().is_none() || path.parent().is_none() {
            return Err(wrong_kind(&path, "a directory", "name a file in it"));
        }
        Ok(Self { path, disk: LocalBackend::new() })
    }

    pub(super) fn beside(&self, suffix: &str) -> PathBuf {
        os::with_suffix(&self.path, suffix)
    }

    /// Checks that only this user could have written there. If `make`, creates the directory and an empty file if they are missing.
    ///
    /// SQLite gets a path without links, so that it can be told to follow none.
    pub(super) fn prepare(&self, make: bool) -> Result<PathBuf, DbError> {
        // Both exist: a path without a name or a parent was refused.
        let (Some(directory), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return Err(DbError::Disconnected(MissReason::Unavailable));
        };
        if make && !directory.exists() {
            os::make_private_directories(directory)?;
        }
        if !fs::metadata(directory)?.is_dir() {
            let found = "below something that is not a directory";
            return Err(wrong_kind(&self.path, found, "name another path").into());
        }
        let directory = fs::canonicalize(directory)?;
        if !self.disk.metadata(&directory)?.is_trusted && !self.disk.is_sticky(&directory) {
            let remedy = "keep it in a directory of your own, of mode 0700";
            return Err(untrusted(&self.path, "in a directory", remedy).into());
        }
        if make {
            // An existing file is never opened here: closing it would release all locks of this process on it, including SQLite's.
            match os::private_options().write(true).create_new(true).open(&self.path) {
                Err(error) if fs::symlink_metadata(&self.path).is_err() => return Err(error.into()),
                _ => {}
            }
        }
        self.check_files()?;
        #[cfg(unix)]
        if make && fs::symlink_metadata(&self.path).is_ok_and(|metadata| metadata.len() == 0) {
            // An existing file must be as private as a new one. A user who cannot change its mode cannot
            // write to it either.
            let _ = fs::set_permissions(&self.path, fs::Permissions::from_mode(0o600));
        }
        Ok(directory.join(name))
    }

    /// Checks the database and the files beside it, because SQLite trusts all of them.
    pub(super) fn check_files(&self) -> Result<(), OpenError> {
        for suffix in FILES.iter().rev() {
            let path = self.beside(suffix);
            let Ok(metadata) = self.disk.metadata(&path) else { continue };
            return Err(match metadata.kind {
                FileKind::File if metadata.is_trusted => continue,
                FileKind::File => untrusted(&path, "a file", "remove it, or make it yours with mode 0600"),
                FileKind::Directory => wrong_kind(&path, "a directory", "name a file in it"),
                FileKind::Link => wrong_kind(&path, "a symbolic link", "name the file that it leads to"),
                FileKind::Other => wrong_kind(&path, "not a regular file", "name another path"),
            });
        }
        Ok(())
    }

    /// Returns the error for a database of another application.
    pub(super) fn foreign(&self) -> OpenError {
        let remedy = "name another file; this one is left alone";
        wrong_kind(&self.path, "another application's SQLite database", remedy)
    }

    /// Returns the identity of the file that the path leads to now.
    pub(super) fn identity(&self) -> Option<Identity> {
        self.disk.metadata(&self.path).ok().map(|metadata| metadata.identity)
    }

    /// Returns the visible state of the database, or `None` if there is none.
    pub(super) fn stamp(&self) -> Option<FileStamp> {
        let FileMetadata { identity, len, modified_ns, .. } = self.disk.metadata(&self.path).ok()?;
        let has_log = self.disk.metadata(&self.beside("-wal")).is_ok_and(|metadata| metadata.len > 0);
        // SQLite ignores a journal that is empty or begins with a zero. It holds no lock on the journal that closing it here could
        // release.
        let has_journal = || first_bytes(&self.beside("-journal")).is_some_and(|first| first != [0]);
        Some(FileStamp { identity, len, modified_ns, has_log: has_log || has_journal() })
    }

    /// Returns the free bytes on the medium of the database, for users other than root, if that is known.
    #[cfg(unix)]
    pub(super) fn free(&self) -> Option<u64> {
        let file_system = rustix::fs::statvfs(self.path.parent()?).ok()?;
        file_system.f_bavail.checked_mul(file_system.f_frsize)
    }

    #[cfg(not(unix))]
    #[expect(clippy::unused_self, reason = "it is used on Unix")]
    pub(super) const fn free(&self) -> Option<u64> {
        None
    }

    /// Returns the directory of lock files, and creates it if it is missing. Returns `None` if other users could write there.
    pub(super) fn lock_directory(&self) -> Option<PathBuf> {
        let directory = self.beside(".locks");
        os::make_private_directory(&directory).ok()?;
        let metadata = self.disk.metadata(&directory).ok()?;
        (metadata.kind == FileKind::Directory && metadata.is_trusted).then_some(directory)
    }

    /// Renames the damaged database `damaged` and the files beside it to `.damaged-1`, and replaces the database that was quarantined
    /// before. If that was not a database, uses the next number: the user may have passed the wrong path.
    ///
    /// If several processes find the damage, one of them renames the database; the others then find another file there, and leave it.
    pub(super) fn quarantine(&self, damaged: Option<Identity>) -> io::Result<()> {
        let directory = self.lock_directory().ok_or(io::ErrorKind::PermissionDenied)?;
        let path = directory.join("set-aside");
        let lock = os::private_options().write(true).create(true).truncate(false).open(path)?;
        // Does not wait: another holder is already quarantining the database. The lock file may have been swept before it was
        // locked, in which case another process may hold a new one.
        lock.try_lock()?;
        if !os::is_linked(&lock.metadata()?) || damaged.is_none() || self.identity() != damaged {
            return Ok(());
        }
        let aside = |n: u32, suffix: &str| self.beside(&format!(".damaged-{n}{suffix}"));
        let is_free = |n: &u32| FILES.iter().all(|suffix| fs::symlink_metadata(aside(*n, suffix)).is_err());
        let is_database = |n: &u32| first_bytes(&aside(*n, "")).as_ref() == Some(DATABASE);
        let n = (1..).find(|n| is_free(n) || is_database(n)).ok_or(io::ErrorKind::StorageFull)?;
        for suffix in FILES {
            os::if_there(fs::remove_file(aside(n, suffix)))?;
            os::if_there(fs::rename(self.beside(suffix), aside(n, suffix)))?;
        }
        drop(lock);
        Ok(())
    }
}

fn wrong_kind(path: &Path, found: &'static str, remedy: &'static str) -> OpenError {
    OpenError::new(path, Problem::WrongKind { found, remedy })
}

fn untrusted(path: &Path, what: &str, remedy: &'static str) -> OpenError {
    let found = format!("{what} that belongs to another user, or that others may write to");
    OpenError::new(path, Problem::Untrusted { found, remedy })
}

/// Reads the beginning of a file, if it is that long. Must not be called for a database in use: see `prepare`.
fn first_bytes<const N: usize>(path: &Path) -> Option<[u8; N]> {
    let mut first = [0; N];
    os::private_options().read(true).open(path).ok()?.read_exact(&mut first).ok()?;
    Some(first)
}
