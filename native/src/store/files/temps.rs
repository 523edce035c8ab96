//! Temp files and their owners.
//!
//! A temp file is garbage when its writer is dead. So each handle holds the OS lock on its file `<handle>.alive` for as long as
//! its process lives; if another process can take that lock, the writer is dead.

use std::{
    collections::HashMap,
    fs,
    hash::{BuildHasher, Hasher, RandomState},
    path::{Path, PathBuf},
    process,
    time::Duration,
};

use crate::os::{
    FileKind, StorageBackend,
    fork::{self, LockHolder, Mutex, MutexGuard},
    private_options,
};

/// The age from which a temp file counts as garbage if locks are unavailable.
const STALE_AFTER: Duration = Duration::from_secs(3600);

/// The directory of temp files, as used by one handle.
#[derive(Debug)]
pub(super) struct Temps {
    directory: PathBuf,
    writer: Mutex<Writer>,
}

/// The identity of this handle and process, which distinguishes its temp files from all others.
#[derive(Debug)]
struct Writer {
    /// The [generation](fork::generation) of the writer: a forked child becomes another writer.
    generation: u64,
    /// The prefix of the names of its temp files.
    name: String,
    /// The number of temp files named so far.
    count: u64,
    /// The locked `.alive` file of this writer.
    alive: Option<LockHolder>,
    shows_life: bool,
}

/// The known state of the process that owns a handle.
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
    pub(super) fn new_path(&self, disk: &dyn StorageBackend) -> PathBuf {
        let mut writer = self.writer();
        if !writer.shows_life {
            self.show_life(&mut writer, disk);
        }
        writer.count += 1;
        self.directory.join(format!("{}.{}", writer.name, writer.count))
    }

    /// Creates the `.alive` file again before the next temp file, because the directory may have been replaced.
    pub(super) fn renew(&self) {
        self.writer().shows_life = false;
    }

    /// Locks the writer. In a forked child, first replaces it by one with a new name.
    fn writer(&self) -> MutexGuard<'_, Writer> {
        let mut writer = self.writer.lock();
        if writer.generation != fork::generation() {
            *writer = Writer::new();
        }
        writer
    }

    /// Removes the temp files of dead writers.
    pub(super) fn sweep(&self, disk: &dyn StorageBackend, now_unix_ms: u64) {
        self.bytes_being_written(disk, Path::new(""), now_unix_ms);
    }

    /// Returns the bytes of the temp files of living writers, threads of this handle too, except `own`. Removes those of dead writers.
    pub(super) fn bytes_being_written(&self, disk: &dyn StorageBackend, own: &Path, now_unix_ms: u64) -> u64 {
        let mut living: HashMap<String, Life> = HashMap::from([(self.writer().name.clone(), Life::Alive)]);
        let mut names = Vec::new();
        let _ = disk.list(&self.directory, &mut |name| names.extend(name.to_str().map(str::to_owned)));
        let mut bytes = 0u64;
        for name in names {
            let path = self.directory.join(&name);
            let Ok(metadata) = disk.metadata(&path) else { continue };
            if path == own || metadata.kind != FileKind::File {
                continue;
            }
            let handle = name.rsplit_once('.').map_or(name.as_str(), |(handle, _)| handle);
            let life = living.entry(handle.to_owned()).or_insert_with(|| self.life_of(disk, handle));
            let age_ms = i128::from(now_unix_ms) - metadata.modified_ns / 1_000_000;
            match life {
                Life::Alive => bytes = bytes.saturating_add(metadata.len),
                Life::Unknown if age_ms < STALE_AFTER.as_millis().cast_signed() => {}
                Life::Dead | Life::Unknown => _ = disk.remove(&path),
            }
        }
        bytes
    }

    /// Determines whether the process of a handle lives, by trying its lock.
    fn life_of(&self, disk: &dyn StorageBackend, handle: &str) -> Life {
        let path = self.alive_path(handle);
        if !disk.metadata(&path).is_ok_and(|metadata| metadata.is_readable()) {
            return Life::Unknown;
        }
        // Something else may have taken its place; opening that must not block.
        match private_options().read(true).open(path).map(|file| file.try_lock()) {
            Ok(Ok(())) => Life::Dead,
            Ok(Err(fs::TryLockError::WouldBlock)) => Life::Alive,
            Ok(Err(fs::TryLockError::Error(_))) | Err(_) => Life::Unknown,
        }
    }

    fn alive_path(&self, handle: &str) -> PathBuf {
        self.directory.join(format!("{handle}.alive"))
    }

    /// Creates and locks the `.alive` file, which tells other processes that the temp files of this handle are in use.
    ///
    /// If locks are unavailable or the file is lost, the age of temp files decides.
    fn show_life(&self, writer: &mut Writer, disk: &dyn StorageBackend) {
        writer.shows_life = true;
        let path = self.alive_path(&writer.name);
        if writer.alive.is_none() || disk.metadata(&path).is_err() {
            // Locked before the rename, so that no process finds it unlocked.
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
