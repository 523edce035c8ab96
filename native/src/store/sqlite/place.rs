//! Where the database is: whom its directory and its files belong to, how it is made, how it is set aside.

#[cfg(unix)]
use std::os::unix::fs::PermissionsExt;
use std::{
    ffi::OsString,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use warmstart_core::reason::Reason;

use super::fault::Fault;
use crate::{
    error::{OpenError, Problem},
    os::{self, Disk, FileFacts, FileKind, LocalDisk},
    store::recognise::DATABASE,
};

/// What SQLite keeps beside a database, and the database. That comes last where they are moved: without it, what is left
/// beside it would be taken for that of the next one.
const FILES: [&str; 4] = ["-wal", "-shm", "-journal", ""];

/// Which file a name led to. Where files have no identity, one that is open is neither renamed nor removed.
pub(super) type Identity = (u64, u64);

/// What can be seen of a database without opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sight {
    pub(super) identity: Identity,
    pub(super) len: u64,
    modified_ns: i128,
    /// Whether there is something in a log or to be played back from a journal, so that somebody has it open or died.
    pub(super) has_log: bool,
}

/// A database's path.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    disk: LocalDisk,
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
            return Err(wrong_kind(&path, "a directory", "name a file in it"));
        }
        Ok(Self { path, disk: LocalDisk::new() })
    }

    pub(super) fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(suffix);
        PathBuf::from(name)
    }

    /// Checks who could have written there; if `make`, makes the directory and an empty file where they are missing.
    ///
    /// SQLite is given a path without links, so that it can be told to follow none.
    pub(super) fn prepare(&self, make: bool) -> Result<PathBuf, Fault> {
        // Both are there: a path with no name or no parent was refused.
        let (Some(directory), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return Err(Fault::Disconnected(Reason::Unavailable));
        };
        if make && !directory.exists() {
            os::make_private_directories(directory)?;
        }
        if !fs::metadata(directory)?.is_dir() {
            let found = "inside something that is no directory";
            return Err(wrong_kind(&self.path, found, "name another path").into());
        }
        let directory = fs::canonicalize(directory)?;
        if !self.disk.facts(&directory)?.is_trusted && !self.disk.is_sticky(&directory) {
            let remedy = "keep it in a directory of your own, of mode 0700";
            return Err(untrusted(&self.path, "in a directory", remedy).into());
        }
        if make {
            // Never opened here if it exists: closing a file lets go of all of a process's locks on it, SQLite's
            // included.
            match os::private_options().write(true).create_new(true).open(&self.path) {
                Err(error) if fs::symlink_metadata(&self.path).is_err() => return Err(error.into()),
                _ => {}
            }
        }
        self.check_files()?;
        #[cfg(unix)]
        if make && fs::symlink_metadata(&self.path).is_ok_and(|metadata| metadata.len() == 0) {
            // One that was there already is to be as private as if it were made here. Who may not change its mode may not
            // write to it either.
            let _ = fs::set_permissions(&self.path, fs::Permissions::from_mode(0o600));
        }
        Ok(directory.join(name))
    }

    /// Checks the database and what SQLite keeps beside it: all of it is read as if we had written it.
    pub(super) fn check_files(&self) -> Result<(), OpenError> {
        for suffix in FILES.iter().rev() {
            let path = self.beside(suffix);
            let Ok(facts) = self.disk.facts(&path) else { continue };
            return Err(match facts.kind {
                FileKind::File if facts.is_trusted => continue,
                FileKind::File => untrusted(&path, "a file", "remove it, or make it yours with mode 0600"),
                FileKind::Directory => wrong_kind(&path, "a directory", "name a file in it"),
                FileKind::Link => wrong_kind(&path, "a symbolic link", "name the file that it leads to"),
                FileKind::Other => wrong_kind(&path, "not a regular file", "name another path"),
            });
        }
        Ok(())
    }

    /// The mistake of naming a database that is not ours.
    pub(super) fn foreign(&self) -> OpenError {
        let remedy = "name another file; this one is left alone";
        wrong_kind(&self.path, "another application's SQLite database", remedy)
    }

    /// What the path leads to now.
    pub(super) fn identity(&self) -> Option<Identity> {
        self.disk.facts(&self.path).ok().map(|facts| facts.identity)
    }

    /// What can be seen of the database without opening it; nothing where there is none.
    pub(super) fn sight(&self) -> Option<Sight> {
        let FileFacts { identity, len, modified_ns, .. } = self.disk.facts(&self.path).ok()?;
        let has_log = self.disk.facts(&self.beside("-wal")).is_ok_and(|facts| facts.len > 0);
        Some(Sight { identity, len, modified_ns, has_log: has_log || self.has_journal() })
    }

    /// SQLite plays no journal back that is empty or begins with a zero. It holds no lock on it that reading it here could let
    /// go of.
    fn has_journal(&self) -> bool {
        let mut first = [0];
        let journal = os::private_options().read(true).open(self.beside("-journal"));
        journal.and_then(|mut file| file.read_exact(&mut first)).is_ok() && first != [0]
    }

    /// How many bytes are free where the database is, for those who are not root. Nothing where that is not known.
    #[cfg(unix)]
    pub(super) fn free(&self) -> Option<u64> {
        let facts = rustix::fs::statvfs(self.path.parent()?).ok()?;
        facts.f_bavail.checked_mul(facts.f_frsize)
    }

    #[cfg(not(unix))]
    #[expect(clippy::unused_self, reason = "it is used on Unix")]
    pub(super) const fn free(&self) -> Option<u64> {
        None
    }

    /// The directory of lock files, made if it is missing. Nothing if somebody else could write there.
    pub(super) fn lock_directory(&self) -> Option<PathBuf> {
        let directory = self.beside(".locks");
        os::make_private_directory(&directory).ok()?;
        let facts = self.disk.facts(&directory).ok()?;
        (facts.kind == FileKind::Directory && facts.is_trusted).then_some(directory)
    }

    /// Renames the damaged database `damaged`, with what SQLite keeps beside it, to `.damaged-1`, in place of the database that was
    /// set aside before. Where that was no database, to the next number: somebody may have named a file that never was one.
    ///
    /// Of several processes that find the damage, one does it; the others find another file, and leave that alone.
    pub(super) fn set_aside(&self, damaged: Option<Identity>) -> io::Result<()> {
        let directory = self.lock_directory().ok_or(io::ErrorKind::PermissionDenied)?;
        let path = directory.join("set-aside");
        let lock = os::private_options().write(true).create(true).truncate(false).open(path)?;
        // Not waited for: whoever holds it does what we wanted to do. It may have been swept before it was locked; then somebody
        // else may hold another one.
        lock.try_lock()?;
        if !os::is_linked(&lock.metadata()?) || damaged.is_none() || self.identity() != damaged {
            return Ok(());
        }
        let aside = |n: u32, suffix: &str| self.beside(&format!(".damaged-{n}{suffix}"));
        let is_free = |n: &u32| FILES.iter().all(|suffix| fs::symlink_metadata(aside(*n, suffix)).is_err());
        let n =
            (1..).find(|n| is_free(n) || is_database(&aside(*n, ""))).ok_or(io::ErrorKind::StorageFull)?;
        for suffix in FILES {
            unless_missing(fs::remove_file(aside(n, suffix)))?;
            unless_missing(fs::rename(self.beside(suffix), aside(n, suffix)))?;
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

/// Whether the file begins as every SQLite database does. Not to be asked of one that is in use: see `prepare`.
fn is_database(path: &Path) -> bool {
    let mut found = [0; DATABASE.len()];
    let read = os::private_options().read(true).open(path).and_then(|mut file| file.read_exact(&mut found));
    read.is_ok() && found == *DATABASE
}

fn unless_missing(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
