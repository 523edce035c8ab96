//! Temp files, and whose they are.
//!
//! A temp file is garbage when its writer is dead. So each handle holds the OS lock on a file of its own, `<handle>.alive`,
//! for as long as its process lives, and whoever can take that lock knows.

use std::{
    collections::HashMap,
    fs::{self, File},
    hash::{BuildHasher, Hasher, RandomState},
    path::{Path, PathBuf},
    process,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::os::{Disk, FileKind, private_options};

/// Where locks are not to be had, a temp file this old belongs to nobody.
const STALE_AFTER: Duration = Duration::from_secs(3600);

/// The directory of temp files, as one handle uses it.
#[derive(Debug)]
pub(super) struct Temps {
    directory: PathBuf,
    /// Begins the names of this handle's temp files, so that no other handle makes the same.
    handle: String,
    /// The process that made the handle. A forked child is another, and must not pass for it.
    process: u32,
    counter: AtomicU64,
    /// The handle's own file, locked.
    alive: Mutex<Option<File>>,
    shows_life: AtomicBool,
    /// Whether this is a forked child of the process that made the handle.
    is_forked: AtomicBool,
}

/// What is known about the process of a handle.
#[derive(Clone, Copy, Debug)]
enum Life {
    Alive,
    Dead,
    Unknown,
}

impl Temps {
    pub(super) fn new(directory: PathBuf) -> Self {
        let random = RandomState::new().build_hasher().finish();
        let process = process::id();
        Self {
            directory,
            handle: format!("{process}-{random:016x}"),
            process,
            counter: AtomicU64::new(0),
            alive: Mutex::new(None),
            shows_life: AtomicBool::new(false),
            is_forked: AtomicBool::new(false),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.directory
    }

    /// A path for a temp file that nobody else has.
    pub(super) fn new_path(&self, disk: &dyn Disk) -> PathBuf {
        let n = self.counter.fetch_add(1, Ordering::Relaxed);
        if !self.shows_life.swap(true, Ordering::Relaxed) {
            self.is_forked.store(process::id() != self.process, Ordering::Relaxed);
            self.show_life(disk);
        }
        if self.is_forked.load(Ordering::Relaxed) {
            // Nobody vouches for a forked child's files: they go when they are old.
            return self.directory.join(format!("{}-{}.{n}", self.handle, process::id()));
        }
        self.directory.join(format!("{}.{n}", self.handle))
    }

    /// The next temp file shows life anew, because the directory, or this process, may be another one.
    pub(super) fn begin_anew(&self) {
        self.shows_life.store(false, Ordering::Relaxed);
    }

    /// Removes the temp files of handles whose process is dead.
    pub(super) fn sweep(&self, disk: &dyn Disk, now_unix_ms: u64) {
        self.bytes_being_written(disk, Path::new(""), now_unix_ms);
    }

    /// The bytes of the temp files of the living, except `own`: what other writers are about to add. Those of the dead go.
    pub(super) fn bytes_being_written(&self, disk: &dyn Disk, own: &Path, now_unix_ms: u64) -> u64 {
        let mut living: HashMap<String, Life> = HashMap::from([(self.handle.clone(), Life::Alive)]);
        let mut names = Vec::new();
        let _ = disk.list(&self.directory, &mut |name| names.extend(name.to_str().map(str::to_owned)));
        let mut bytes = 0u64;
        for name in names {
            let path = self.directory.join(&name);
            let Ok(facts) = disk.facts(&path) else { continue };
            if path == own || facts.kind != FileKind::File {
                continue;
            }
            let handle = name.rsplit_once('.').map_or(name.as_str(), |(handle, _)| handle);
            let life = living.entry(handle.to_owned()).or_insert_with(|| self.life_of(disk, handle));
            let age_ms = i128::from(now_unix_ms) - facts.modified_ns / 1_000_000;
            match life {
                Life::Alive => bytes = bytes.saturating_add(facts.len),
                Life::Unknown if age_ms < STALE_AFTER.as_millis().cast_signed() => {}
                Life::Dead | Life::Unknown => _ = disk.remove(&path),
            }
        }
        bytes
    }

    /// Whether the process of a handle lives: then it holds the lock on the handle's file.
    fn life_of(&self, disk: &dyn Disk, handle: &str) -> Life {
        let path = self.alive_path(handle);
        if !disk.facts(&path).is_ok_and(|facts| facts.is_readable()) {
            return Life::Unknown;
        }
        // It may have become a pipe by now, which is not waited for.
        match private_options().read(true).open(path).map(|file| file.try_lock()) {
            Ok(Ok(())) => Life::Dead,
            Ok(Err(fs::TryLockError::WouldBlock)) => Life::Alive,
            Ok(Err(fs::TryLockError::Error(_))) | Err(_) => Life::Unknown,
        }
    }

    fn alive_path(&self, handle: &str) -> PathBuf {
        self.directory.join(format!("{handle}.alive"))
    }

    /// Shows other processes, for as long as this handle lives, that its temp files are being written.
    ///
    /// Where locks are not to be had, or the file is lost, age tells the files of the dead from those of the living.
    fn show_life(&self, disk: &dyn Disk) {
        if self.is_forked.load(Ordering::Relaxed) {
            return;
        }
        let mut alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.alive_path(&self.handle);
        if alive.is_none() || disk.facts(&path).is_err() {
            // Locked before its name is one that anybody looks for.
            let unnamed = self.directory.join(format!("{}.new", self.handle));
            *alive = disk.open_log(&unnamed).ok().filter(|file| disk.lock(file, Duration::ZERO).is_ok());
            if disk.rename(&unnamed, &path).is_err() {
                *alive = None;
            }
        }
    }
}

impl Drop for Temps {
    fn drop(&mut self) {
        let is_shown = self.alive.get_mut().unwrap_or_else(PoisonError::into_inner).is_some();
        if is_shown && process::id() == self.process {
            let _ = fs::remove_file(self.alive_path(&self.handle));
        }
    }
}
