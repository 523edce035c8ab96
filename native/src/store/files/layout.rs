//! Where things are in a cache directory, and whether it may be used at all.

use std::{
    fs::{self, DirBuilder},
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use warmstart_core::{key::Key, reason::Reason};

use crate::{
    error::{OpenError, Problem},
    os::{Disk, FileFacts, FileKind, reason_of},
};

/// Where locks are not to be had, a temp file this old belongs to nobody.
const STALE_AFTER: Duration = Duration::from_secs(3600);

/// Tells backup programs to pass the directory over. See the Cache Directory Tagging Specification.
const TAG_FILE: &str = "CACHEDIR.TAG";
const TAG: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55\n# A cache made by warmstart. Removing it costs time only.\n";

/// The paths of a cache directory.
#[derive(Debug)]
pub(super) struct Layout {
    root: PathBuf,
    entries: PathBuf,
    temps: PathBuf,
    locks: PathBuf,
    journal: PathBuf,
    /// Begins the names of this handle's temp files, so that no other handle makes the same.
    handle: String,
    counter: AtomicU64,
}

impl Layout {
    pub(super) fn new(root: &Path) -> Self {
        use std::hash::{BuildHasher, Hasher, RandomState};

        let random = RandomState::new().build_hasher().finish();
        Self {
            root: root.to_path_buf(),
            entries: root.join("entries"),
            temps: root.join("tmp"),
            locks: root.join("locks"),
            journal: root.join("journal"),
            handle: format!("{}-{random:016x}", std::process::id()),
            counter: AtomicU64::new(0),
        }
    }

    /// Makes the directories that are missing, for the owner only, and checks those that are there.
    ///
    /// `Ok(Some(reason))` says that the medium does not let them be made.
    pub(super) fn prepare(&self, disk: &dyn Disk) -> Result<Option<Reason>, OpenError> {
        if let Some(parent) = self.root.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            // Whatever goes wrong here shows when the directory itself is made.
            let _ = make_directories(parent);
        }
        let mut missing = None;
        for path in [&self.root, &self.entries, &self.temps, &self.locks] {
            let made = make_directory(path);
            match disk.facts(path) {
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
                }
            }
        }
        if missing.is_none() {
            self.write_tag();
        }
        Ok(missing)
    }

    /// Removes the temp files of writers that are dead.
    pub(super) fn sweep_temps(&self, disk: &dyn Disk, now_unix_ms: u64) {
        self.each_temp(disk, &mut |path, facts| {
            if !is_being_written(path, facts, now_unix_ms) {
                let _ = disk.remove(path);
            }
        });
    }

    /// The bytes of the temp files, except of `own`: what other writers are about to add. Those of the dead go.
    pub(super) fn bytes_being_written(&self, disk: &dyn Disk, own: &Path, now_unix_ms: u64) -> u64 {
        let mut bytes = 0u64;
        self.each_temp(disk, &mut |path, facts| {
            if path != own && (is_being_written(path, facts, now_unix_ms) || disk.remove(path).is_err()) {
                bytes = bytes.saturating_add(facts.len);
            }
        });
        bytes
    }

    fn each_temp(&self, disk: &dyn Disk, visit: &mut dyn FnMut(&Path, &FileFacts)) {
        let _ = disk.list(&self.temps, &mut |name| {
            let path = self.temps.join(name);
            match disk.facts(&path) {
                Ok(facts) if facts.kind == FileKind::File => visit(&path, &facts),
                _ => {}
            }
        });
    }

    fn write_tag(&self) {
        let path = self.root.join(TAG_FILE);
        if !path.exists() {
            let _ = fs::write(path, TAG);
        }
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

    /// A path for a temp file that nobody else has.
    pub(super) fn new_temp(&self) -> PathBuf {
        let n = self.counter.fetch_add(1, Ordering::Relaxed);
        self.temps.join(format!("{}-{n}", self.handle))
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
}

/// Whether the writer of a temp file is alive: then it holds the lock on it.
///
/// A writer is between creating and locking its file for a moment. One that loses its file in that moment notices when
/// it gives the file its name, and writes it again.
fn is_being_written(path: &Path, facts: &FileFacts, now_unix_ms: u64) -> bool {
    match fs::File::open(path).map(|file| file.try_lock()) {
        Ok(Ok(())) => false,
        Ok(Err(fs::TryLockError::WouldBlock)) => true,
        Ok(Err(fs::TryLockError::Error(_))) | Err(_) => {
            let age_ms = i128::from(now_unix_ms) - facts.modified_ns / 1_000_000;
            age_ms < STALE_AFTER.as_millis().cast_signed()
        }
    }
}

fn check_directory(path: &Path, facts: &FileFacts) -> Result<(), OpenError> {
    let wrong = |found| {
        let remedy = "name a directory, or a path where one can be made";
        Err(OpenError::new(path, Problem::WrongKind { found, remedy }))
    };
    match facts.kind {
        FileKind::Directory if facts.is_trusted => Ok(()),
        FileKind::Directory => Err(OpenError::new(
            path,
            Problem::Untrusted {
                found: "owned by another user, or writable by others, who could put code into it".to_owned(),
                remedy: "use a directory of your own, or take it over: chown it to yourself and chmod go-w",
            },
        )),
        FileKind::File => wrong("a file"),
        FileKind::Link => wrong("a symbolic link, which somebody else may lead elsewhere"),
        FileKind::Other => wrong("neither a file nor a directory"),
    }
}

fn make_directory(path: &Path) -> io::Result<()> {
    match private().create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

fn make_directories(path: &Path) -> io::Result<()> {
    private().recursive(true).create(path)
}

fn private() -> DirBuilder {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has a mode to set"))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}
