//! Where the database is: whom its directory and its files belong to, how it is made, how it is set aside.

use std::{
    ffi::OsString,
    fs::{self, File},
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

/// Databases set aside that are kept, the latest first. What is no database is kept besides.
const KEPT_ASIDE: u32 = 2;

/// What SQLite keeps beside a database.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

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
    path: PathBuf,
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
            let problem = Problem::WrongKind { found: "a directory", remedy: "name a file in it" };
            return Err(OpenError::new(&path, problem));
        }
        Ok(Self { path, disk: LocalDisk::new() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
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
            let problem = Problem::WrongKind {
                found: "inside something that is no directory",
                remedy: "name another path",
            };
            return Err(OpenError::new(&self.path, problem).into());
        }
        let directory = fs::canonicalize(directory)?;
        if !self.disk.facts(&directory)?.is_trusted && !self.disk.is_sticky(&directory) {
            let remedy = "keep it in a directory of your own, of mode 0700";
            return Err(untrusted(&self.path, "in a directory", remedy).into());
        }
        if make {
            // Never opened here if it exists: closing a file lets go of all of a process's locks on it, SQLite's
            // included.
            match create_file(&self.path) {
                Ok(()) => {}
                Err(_) if fs::symlink_metadata(&self.path).is_ok() => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.check_files()?;
        #[cfg(unix)]
        if make {
            self.make_private()?;
        }
        Ok(directory.join(name))
    }

    /// An empty file that somebody made is taken over, and is to be as private as if it were made here.
    #[cfg(unix)]
    fn make_private(&self) -> Result<(), OpenError> {
        use std::os::unix::fs::PermissionsExt;

        let Ok(metadata) = fs::symlink_metadata(&self.path) else { return Ok(()) };
        if metadata.len() > 0 || metadata.permissions().mode() & 0o777 == 0o600 {
            return Ok(());
        }
        match fs::set_permissions(&self.path, fs::Permissions::from_mode(0o600)) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err(untrusted(&self.path, "an empty file", "remove it, or make it yours with mode 0600"))
            }
            // A read-only medium finds its reason later.
            _ => Ok(()),
        }
    }

    /// Checks the database and what SQLite keeps beside it: all of it is read as if we had written it.
    pub(super) fn check_files(&self) -> Result<(), OpenError> {
        for suffix in [""].iter().chain(&COMPANIONS) {
            let path = self.beside(suffix);
            let Ok(facts) = self.disk.facts(&path) else { continue };
            check_file(&path, &facts)?;
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
        self.disk.facts(&self.path).ok().map(|facts| facts.identity)
    }

    /// What can be seen of the database without opening it; nothing where there is none.
    pub(super) fn sight(&self) -> Option<Sight> {
        let FileFacts { identity, len, modified_ns, .. } = self.disk.facts(&self.path).ok()?;
        Some(Sight { identity, len, modified_ns, has_log: self.has_log() || self.has_journal() })
    }

    fn has_log(&self) -> bool {
        self.disk.facts(&self.beside("-wal")).is_ok_and(|facts| facts.len > 0)
    }

    /// SQLite plays no journal back that is empty or begins with a zero. It holds no lock on it that reading it here could
    /// let go of.
    fn has_journal(&self) -> bool {
        let path = self.beside("-journal");
        if !self.disk.facts(&path).is_ok_and(|facts| facts.len > 0) {
            return false;
        }
        let mut first = [0];
        match os::private_options().read(true).open(path).and_then(|mut file| file.read_exact(&mut first)) {
            Ok(()) => first != [0],
            // It went meanwhile, or was emptied.
            Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof),
        }
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

    /// Removes the database `cleared`, with what SQLite keeps beside it, where it is too full to be emptied.
    pub(super) fn discard(&self, cleared: Option<Identity>) -> io::Result<()> {
        let directory = self.lock_directory().ok_or(io::ErrorKind::PermissionDenied)?;
        let lock = lock_file(&directory.join("set-aside"))?;
        if cleared.is_none() || self.identity() != cleared {
            return Ok(());
        }
        // The database last, as below.
        for suffix in COMPANIONS.iter().chain(&[""]) {
            unless_missing(fs::remove_file(self.beside(suffix)))?;
        }
        drop(lock);
        Ok(())
    }

    /// Renames the damaged database `damaged`, with what SQLite keeps beside it, to `.damaged-1`; what was there becomes
    /// `.damaged-2`. What was that is removed if it is a database; else it is kept, for good: somebody may have named a
    /// file that never was one.
    ///
    /// Of several processes that find the damage, one does it; the others find another file, and leave that alone.
    pub(super) fn set_aside(&self, damaged: Option<Identity>) -> io::Result<()> {
        let directory = self.lock_directory().ok_or(io::ErrorKind::PermissionDenied)?;
        let lock = lock_file(&directory.join("set-aside"))?;
        if damaged.is_none() || self.identity() != damaged {
            return Ok(());
        }
        let names = || [""].into_iter().chain(COMPANIONS);
        let aside = |n: u32, suffix: &str| self.beside(&format!(".damaged-{n}{suffix}"));
        let mut last = KEPT_ASIDE;
        while names().any(|suffix| fs::symlink_metadata(aside(last, suffix)).is_ok()) {
            if is_database(&aside(last, "")) {
                for suffix in names() {
                    unless_missing(fs::remove_file(aside(last, suffix)))?;
                }
                break;
            }
            last = last.checked_add(1).ok_or(io::ErrorKind::StorageFull)?;
        }
        for n in (1..last).rev() {
            for suffix in names() {
                unless_missing(fs::rename(aside(n, suffix), aside(n + 1, suffix)))?;
            }
        }
        // The database last: without it, what is left beside it would be taken for that of the next one.
        for suffix in COMPANIONS.iter().chain(&[""]) {
            unless_missing(fs::rename(self.beside(suffix), aside(1, suffix)))?;
        }
        drop(lock);
        Ok(())
    }
}

fn check_file(path: &Path, facts: &FileFacts) -> Result<(), OpenError> {
    let wrong = |found, remedy| Err(OpenError::new(path, Problem::WrongKind { found, remedy }));
    match facts.kind {
        FileKind::File if facts.is_trusted => Ok(()),
        FileKind::File => Err(untrusted(path, "a file", "remove it, or make it yours with mode 0600")),
        FileKind::Directory => wrong("a directory", "name a file in it"),
        FileKind::Link => wrong("a symbolic link", "name the file that it leads to"),
        FileKind::Other => wrong("not a regular file", "name another path"),
    }
}

fn untrusted(path: &Path, what: &str, remedy: &'static str) -> OpenError {
    let found = format!("{what} that belongs to another user, or that others may write to");
    OpenError::new(path, Problem::Untrusted { found, remedy })
}

/// Makes an empty file that only its owner reads and writes, whatever the umask. What exists is left alone.
fn create_file(path: &Path) -> io::Result<()> {
    let file = os::private_options().write(true).create_new(true).open(path)?;
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    drop(file);
    Ok(())
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

/// Locks the file at `path`, which is not waited for: whoever holds it does what we wanted to do.
fn lock_file(path: &Path) -> io::Result<File> {
    let file = os::private_options().write(true).create(true).truncate(false).open(path)?;
    file.try_lock()?;
    // It may have been swept before it was locked; then somebody else may hold another one.
    if os::is_linked(&file.metadata()?) { Ok(file) } else { Err(io::ErrorKind::WouldBlock.into()) }
}
