//! Temp files, and whose they are.
//!
//! A temp file is garbage when its writer is dead. So each handle holds the OS lock on a file of its own, `<handle>.alive`,
//! for as long as its process lives, and whoever can take that lock knows.

use std::{
    collections::HashMap,
    fs,
    hash::{BuildHasher, Hasher, RandomState},
    path::{Path, PathBuf},
    process,
    time::Duration,
};

use crate::os::{
    Disk, FileKind,
    fork::{self, LockHolder, Mutex, MutexGuard},
    private_options,
};

/// Where locks are not to be had, a temp file this old belongs to nobody.
const STALE_AFTER: Duration = Duration::from_secs(3600);

/// The directory of temp files, as one handle uses it.
#[derive(Debug)]
pub(super) struct Temps {
    directory: PathBuf,
    writer: Mutex<Writer>,
}

/// What tells the temp files of this handle and process from those of all others.
#[derive(Debug)]
struct Writer {
    /// The [generation](fork::generation) that it belongs to: a forked child becomes another writer.
    generation: u64,
    /// Begins the names of its temp files.
    name: String,
    /// How many temp files it has named.
    count: u64,
    /// Its own file, locked.
    alive: Option<LockHolder>,
    shows_life: bool,
}

/// What is known about the process of a handle.
#[derive(Clone, Copy, Debug)]
enum Life {
    Alive,
    Dead,
    Unknown,
}

impl Writer {
    fn new() -> Self {
        let random = RandomState::new().build_hasher().finish();
        let name = format!("{}-{random:016x}", process::id());
        Self { generation: fork::generation(), name, count: 0, alive: None, shows_life: false }
    }
}

impl Temps {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory, writer: Mutex::new(Writer::new()) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.directory
    }

    /// Returns a path for a temp file that no other handle or process uses.
    pub(super) fn new_path(&self, disk: &dyn Disk) -> PathBuf {
        let mut writer = self.writer();
        if !writer.shows_life {
            self.show_life(&mut writer, disk);
        }
        writer.count += 1;
        self.directory.join(format!("{}.{}", writer.name, writer.count))
    }

    /// Shows life again with the next temp file, because the directory may be another one.
    pub(super) fn begin_anew(&self) {
        self.writer().shows_life = false;
    }

    /// Locks the writer. A forked child is not its parent: it begins with a name of its own.
    fn writer(&self) -> MutexGuard<'_, Writer> {
        let mut writer = self.writer.lock();
        if writer.generation != fork::generation() {
            *writer = Writer::new();
        }
        writer
    }

    /// Removes the temp files of handles whose process is dead.
    pub(super) fn sweep(&self, disk: &dyn Disk, now_unix_ms: u64) {
        self.bytes_being_written(disk, Path::new(""), now_unix_ms);
    }

    /// The bytes of the temp files of the living, except `own`: what other writers are about to add. Those of the dead go.
    pub(super) fn bytes_being_written(&self, disk: &dyn Disk, own: &Path, now_unix_ms: u64) -> u64 {
        let mut living: HashMap<String, Life> = HashMap::from([(self.writer().name.clone(), Life::Alive)]);
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
    fn show_life(&self, writer: &mut Writer, disk: &dyn Disk) {
        writer.shows_life = true;
        let path = self.alive_path(&writer.name);
        if writer.alive.is_none() || disk.facts(&path).is_err() {
            // Locked before its name is one that anybody looks for.
            let unnamed = self.directory.join(format!("{}.new", writer.name));
            let file = LockHolder::open(|| disk.open_log(&unnamed)).ok();
            writer.alive = file.filter(|file| disk.lock(file, Duration::ZERO).is_ok());
            if disk.rename(&unnamed, &path).is_err() {
                writer.alive = None;
            }
        }
    }
}

impl Drop for Temps {
    fn drop(&mut self) {
        let writer = self.writer.get_mut();
        if writer.alive.as_ref().is_some_and(LockHolder::is_own) {
            let _ = fs::remove_file(self.directory.join(format!("{}.alive", writer.name)));
        }
    }
}
