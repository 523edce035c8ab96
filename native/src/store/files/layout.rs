//! Where things are in a cache directory, and whether it may be used at all.

use std::{
    io,
    path::{Path, PathBuf},
};

use warmstart_core::{key::Key, reason::Reason};

use super::temps::Temps;
use crate::{
    error::{OpenError, Problem},
    os::{Disk, FileFacts, FileKind, reason_of},
};

/// Tells backup programs to pass the directory over. See the Cache Directory Tagging Specification.
pub(in crate::store) const TAG_FILE: &str = "CACHEDIR.TAG";
pub(in crate::store) const TAG: &[u8] =
    b"Signature: 8a477f597d28d172789f06886806bc55\n# A cache made by warmstart. Removing it costs time only.\n";

/// The names of what a cache directory is known by besides.
pub(in crate::store) const ENTRIES: &str = "entries";
pub(in crate::store) const JOURNAL: &str = "journal";

/// The paths of a cache directory.
#[derive(Debug)]
pub(super) struct Layout {
    root: PathBuf,
    entries: PathBuf,
    locks: PathBuf,
    journal: PathBuf,
    statistics: PathBuf,
    last_miss: PathBuf,
    pub(super) temps: Temps,
}

impl Layout {
    /// Of the directory that `root` leads to now: a later change of the working directory changes nothing.
    pub(super) fn new(root: &Path) -> Self {
        let root = std::path::absolute(root).unwrap_or_else(|_| root.to_path_buf());
        Self {
            entries: root.join(ENTRIES),
            locks: root.join("locks"),
            journal: root.join(JOURNAL),
            statistics: root.join("statistics"),
            last_miss: root.join("last-miss"),
            temps: Temps::new(root.join("tmp")),
            root,
        }
    }

    /// Makes the directories that are missing, for the owner only, and checks those that are there. If `durable`, waits
    /// until the medium has what was made.
    ///
    /// `Ok(Some(reason))` says that the medium does not let them be made.
    pub(super) fn prepare(&self, disk: &dyn Disk, durable: bool) -> Result<Option<Reason>, OpenError> {
        if self.root.as_os_str().is_empty() {
            let remedy = "name a directory, or a path where one can be made";
            return Err(OpenError::new(&self.root, Problem::WrongKind { found: "an empty path", remedy }));
        }
        let mut missing = None;
        // The parents are nobody's business once they are there.
        let parents: Vec<&Path> = self.root.ancestors().skip(1).collect();
        let first = parents.iter().position(|parent| parent.is_dir()).unwrap_or(parents.len());
        for parent in parents[..first].iter().rev() {
            // Whatever goes wrong here shows when the directory itself is made.
            if disk.make_directory(parent).is_ok() && durable {
                sync_parent(disk, parent);
            }
        }
        for path in [&self.root, &self.entries, self.temps.path(), &self.locks] {
            let before = disk.facts(path);
            let made = if before.is_ok() { Ok(()) } else { disk.make_directory(path) };
            match before.or_else(|_| disk.facts(path)) {
                Ok(facts) => check_directory(path, &facts)?,
                Err(error) => {
                    let error = made.err().unwrap_or(error);
                    if error.kind() == io::ErrorKind::NotADirectory {
                        let remedy = "name a directory whose parents are all directories";
                        return Err(OpenError::new(
                            path,
                            Problem::WrongKind { found: "below a file", remedy },
                        ));
                    }
                    if error.kind() == io::ErrorKind::InvalidInput {
                        return Err(OpenError::new(path, Problem::Io(error)));
                    }
                    missing = missing.or(Some(match reason_of(&error) {
                        Reason::Absent => Reason::Unavailable,
                        reason => reason,
                    }));
                    continue;
                }
            }
            if durable {
                sync_parent(disk, path);
            }
        }
        if missing.is_none() {
            // There already, or not wanted so much that failing would matter.
            let _ = disk.create(&self.root.join(TAG_FILE), &[TAG], false);
        }
        Ok(missing)
    }

    /// Checks the directories that are there, and makes none.
    pub(super) fn check(&self, disk: &dyn Disk) -> Result<(), OpenError> {
        for path in [&self.root, &self.entries] {
            if let Ok(facts) = disk.facts(path) {
                check_directory(path, &facts)?;
            }
        }
        Ok(())
    }

    /// Moves what is neither a file nor a link, and so cannot be removed or replaced, out of the way.
    pub(super) fn set_aside(&self, disk: &dyn Disk, path: &Path) -> io::Result<()> {
        disk.rename(path, &self.temps.new_path(disk))
    }

    /// The path of an entry: its name in hexadecimal.
    pub(super) fn entry(&self, name: &Key) -> PathBuf {
        let hex = name.to_hex();
        // Hexadecimal digits are ASCII.
        let hex = std::str::from_utf8(&hex).unwrap_or_default();
        let mut path = PathBuf::with_capacity(self.entries.as_os_str().len() + 1 + hex.len());
        path.push(&self.entries);
        path.push(hex);
        path
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn entries(&self) -> &Path {
        &self.entries
    }

    pub(super) fn locks(&self) -> &Path {
        &self.locks
    }

    pub(super) fn journal(&self) -> &Path {
        &self.journal
    }

    pub(super) fn statistics(&self) -> &Path {
        &self.statistics
    }

    pub(super) fn last_miss(&self) -> &Path {
        &self.last_miss
    }
}

/// If it cannot be done, the put that needs it reports that.
fn sync_parent(disk: &dyn Disk, path: &Path) {
    if let Some(parent) = path.parent() {
        let _ = disk.sync_directory(parent);
    }
}

fn check_directory(path: &Path, facts: &FileFacts) -> Result<(), OpenError> {
    let wrong = |found| {
        let remedy = "name a directory, or a path where one can be made";
        Err(OpenError::new(path, Problem::WrongKind { found, remedy }))
    };
    let link = Problem::WrongKind {
        found: "a symbolic link, which somebody else may lead elsewhere",
        remedy: "name the directory that it leads to",
    };
    match facts.kind {
        FileKind::Directory if facts.is_trusted => Ok(()),
        FileKind::Directory => Err(OpenError::new(
            path,
            Problem::Untrusted {
                found: "owned by another user, or writable by group or others, who could put code into it"
                    .to_owned(),
                remedy: "if it is a sealed store that is shared, give its secret (`with_seal`, or `--seal-key FILE`); else use \
                         a directory of your own, or chown it to yourself and chmod go-w",
            },
        )),
        FileKind::File => wrong("a file"),
        FileKind::Link => Err(OpenError::new(path, link)),
        _ => wrong("neither a file nor a directory"),
    }
}
