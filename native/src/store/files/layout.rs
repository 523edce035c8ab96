//! Where things are in a cache directory, and whether it may be used at all.

use std::{
    collections::HashMap,
    fs::{self, DirBuilder, File},
    io,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
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
    /// The handle's own file in `tmp/`, locked for as long as the handle lives.
    alive: Mutex<Option<File>>,
    shows_life: AtomicBool,
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
            alive: Mutex::new(None),
            shows_life: AtomicBool::new(false),
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
            // The next temp file shows life anew, in case the directory is.
            self.shows_life.store(false, Ordering::Relaxed);
        }
        Ok(missing)
    }

    /// Removes the temp files of handles whose process is dead.
    pub(super) fn sweep_temps(&self, disk: &dyn Disk, now_unix_ms: u64) {
        self.bytes_being_written(disk, Path::new(""), now_unix_ms);
    }

    /// The bytes of the temp files, except of `own`: what other writers are about to add. Those of the dead go.
    pub(super) fn bytes_being_written(&self, disk: &dyn Disk, own: &Path, now_unix_ms: u64) -> u64 {
        let mut living: HashMap<String, Life> = HashMap::from([(self.handle.clone(), Life::Alive)]);
        let mut names = Vec::new();
        let _ = disk.list(&self.temps, &mut |name| names.extend(name.to_str().map(str::to_owned)));
        let mut bytes = 0u64;
        for name in names {
            let path = self.temps.join(&name);
            let Ok(facts) = disk.facts(&path) else { continue };
            let handle = name.rsplit_once('.').map_or(name.as_str(), |(handle, _)| handle);
            let life = living.entry(handle.to_owned()).or_insert_with(|| self.life_of(handle));
            let age_ms = i128::from(now_unix_ms) - facts.modified_ns / 1_000_000;
            let is_dead = match life {
                Life::Alive => false,
                Life::Dead => true,
                Life::Unknown => age_ms >= STALE_AFTER.as_millis().cast_signed(),
            };
            if path != own && (!is_dead || disk.remove(&path).is_err()) {
                bytes = bytes.saturating_add(facts.len);
            }
        }
        bytes
    }

    /// Whether the process of a handle lives: then it holds the lock on the handle's file.
    fn life_of(&self, handle: &str) -> Life {
        match File::open(self.alive_path(handle)).map(|file| file.try_lock()) {
            Ok(Ok(())) => Life::Dead,
            Ok(Err(fs::TryLockError::WouldBlock)) => Life::Alive,
            Ok(Err(fs::TryLockError::Error(_))) | Err(_) => Life::Unknown,
        }
    }

    fn alive_path(&self, handle: &str) -> PathBuf {
        self.temps.join(format!("{handle}.alive"))
    }

    /// Shows other processes, for as long as this handle lives, that its temp files are being written.
    ///
    /// Where locks are not to be had, or the file is lost, age tells the files of the dead from those of the living.
    fn show_life(&self, disk: &dyn Disk) {
        let mut alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.alive_path(&self.handle);
        if alive.is_none() || disk.facts(&path).is_err() {
            // Locked before its name is one that anybody looks for.
            let unnamed = self.temps.join(format!("{}.new", self.handle));
            *alive = disk.open_log(&unnamed).ok().filter(|file| file.try_lock().is_ok());
            if disk.rename(&unnamed, &path).is_err() {
                *alive = None;
            }
        }
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
    pub(super) fn new_temp(&self, disk: &dyn Disk) -> PathBuf {
        let n = self.counter.fetch_add(1, Ordering::Relaxed);
        if !self.shows_life.swap(true, Ordering::Relaxed) {
            self.show_life(disk);
        }
        self.temps.join(format!("{}.{n}", self.handle))
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

/// What is known about the process of a handle.
#[derive(Clone, Copy, Debug)]
enum Life {
    Alive,
    Dead,
    Unknown,
}

impl Drop for Layout {
    fn drop(&mut self) {
        if self.alive.get_mut().unwrap_or_else(PoisonError::into_inner).is_some() {
            let _ = fs::remove_file(self.alive_path(&self.handle));
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
