//! The paths of a cache directory, and the checks whether it may be used.

use std::{
    io,
    path::{Path, PathBuf},
};

use warmstart_core::reason::MissReason;

use super::temps::Temps;
use crate::{
    error::{OpenError, Problem},
    os::{FileKind, FileMetadata, StorageBackend, if_there, reason_of, retry_sharing},
    store::claims::LockDirectory,
};

/// Tells backup programs to skip the directory. See the Cache Directory Tagging Specification.
pub(in crate::store) const TAG_FILE: &str = "CACHEDIR.TAG";
pub(in crate::store) const TAG: &[u8] =
    b"Signature: 8a477f597d28d172789f06886806bc55\n# A cache made by warmstart. Removing it costs time only.\n";

/// The other names that identify a cache directory.
pub(in crate::store) const ENTRIES: &str = "entries";
pub(in crate::store) const JOURNAL: &str = "journal";

/// The paths of a cache directory.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) root: PathBuf,
    pub(super) entries: PathBuf,
    pub(super) locks: LockDirectory,
    pub(super) journal: PathBuf,
    pub(super) statistics: PathBuf,
    pub(super) last_miss: PathBuf,
    pub(super) temps: Temps,
}

impl Layout {
    /// Creates the layout of the directory at `root`. A relative path is resolved now, so a later change of the working
    /// directory has no effect.
    pub(super) fn new(root: &Path) -> Self {
        let root = std::path::absolute(root).unwrap_or_else(|_| root.to_path_buf());
        Self {
            entries: root.join(ENTRIES),
            locks: LockDirectory(root.join("locks")),
            journal: root.join(JOURNAL),
            statistics: root.join("statistics"),
            last_miss: root.join("last-miss"),
            temps: Temps::new(root.join("tmp")),
            root,
        }
    }

    /// Creates missing directories, accessible to the owner only, and checks existing ones. If `durable`, waits
    /// until new directories are on the medium.
    ///
    /// Returns `Ok(Some(reason))` if the medium prevents creating them.
    pub(super) fn prepare(
        &self,
        disk: &dyn StorageBackend,
        durable: bool,
    ) -> Result<Option<MissReason>, OpenError> {
        if self.root.as_os_str().is_empty() {
            let remedy = "name a directory, or a path where one can be created";
            return Err(OpenError::new(&self.root, Problem::WrongKind { found: "an empty path", remedy }));
        }
        let mut missing = None;
        // Parents are created if they are missing, and not checked if they exist.
        let parents: Vec<&Path> = self.root.ancestors().skip(1).collect();
        let first = parents.iter().position(|parent| parent.is_dir()).unwrap_or(parents.len());
        for parent in parents[..first].iter().rev() {
            // A failure here shows when the directory itself is created.
            if disk.make_directory(parent).is_ok() && durable {
                sync_parent(disk, parent);
            }
        }
        for path in [&self.root, &self.entries, self.temps.path(), &self.locks.0] {
            let before = disk.metadata(path);
            let made = if before.is_ok() { Ok(()) } else { disk.make_directory(path) };
            match before.or_else(|_| disk.metadata(path)) {
                Ok(metadata) => check_directory(path, &metadata)?,
                Err(error) => {
                    let error = made.err().unwrap_or(error);
                    if error.kind() == io::ErrorKind::NotADirectory {
                        let remedy = "name a directory whose parents are all directories";
                        let problem = Problem::WrongKind { found: "below a file", remedy };
                        return Err(OpenError::new(path, problem));
                    }
                    if error.kind() == io::ErrorKind::InvalidInput {
                        return Err(OpenError::new(path, Problem::Io(error)));
                    }
                    missing = missing.or(Some(match reason_of(&error) {
                        MissReason::Absent => MissReason::Unavailable,
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
            // It exists already, or a failure does not matter.
            let _ = disk.create(&self.root.join(TAG_FILE), &[TAG], false);
        }
        Ok(missing)
    }

    /// Checks existing directories, and creates none.
    pub(super) fn check(&self, disk: &dyn StorageBackend) -> Result<(), OpenError> {
        for path in [&self.root, &self.entries] {
            if let Ok(metadata) = disk.metadata(path) {
                check_directory(path, &metadata)?;
            }
        }
        Ok(())
    }

    /// Moves something that is neither a file nor a link, and therefore cannot be removed or replaced, into the temp directory.
    pub(super) fn quarantine(&self, disk: &dyn StorageBackend, path: &Path) -> io::Result<()> {
        disk.rename(path, &self.temps.new_path(disk))
    }

    /// Clears the path for a new file, by removing or moving what is there.
    pub(super) fn clear_away(&self, disk: &dyn StorageBackend, path: &Path) -> io::Result<()> {
        match if_there(disk.metadata(path))? {
            Some(metadata) if metadata.kind == FileKind::Directory => self.quarantine(disk, path),
            Some(_) => retry_sharing(disk, || disk.remove(path)),
            None => Ok(()),
        }
    }
}

/// Syncs the parent directory. A failure is reported by the put that needs the directory.
fn sync_parent(disk: &dyn StorageBackend, path: &Path) {
    if let Some(parent) = path.parent() {
        let _ = disk.sync_directory(parent);
    }
}

fn check_directory(path: &Path, metadata: &FileMetadata) -> Result<(), OpenError> {
    let remedy = "name a directory, or a path where one can be created";
    let problem = match metadata.kind {
        FileKind::Directory if metadata.is_trusted => return Ok(()),
        FileKind::Directory => Problem::Untrusted {
            found: "owned by another user, or writable by group or others, who could put code into it".into(),
            remedy: "if it is a sealed store that is shared, give its secret (`with_seal`, or `--seal-key FILE`); else use \
                     a directory of your own, or chown it to yourself and chmod go-w",
        },
        FileKind::File => Problem::WrongKind { found: "a file", remedy },
        FileKind::Link => Problem::WrongKind {
            found: "a symbolic link, whose target another user could change",
            remedy: "name the directory that it leads to",
        },
        _ => Problem::WrongKind { found: "neither a file nor a directory", remedy },
    };
    Err(OpenError::new(path, problem))
}
