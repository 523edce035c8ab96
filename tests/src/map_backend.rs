//! Backends for packs that stop working, are full, or cannot map files.

use std::{
    collections::HashMap,
    fs::{self, File},
    io, mem,
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use warmstart::os::{Access, FileMetadata, LocalMapBackend, Lock, MapBackend, Mapping};

/// A backend that simulates the death of a process: after a number of operations, all further ones fail without effect. Bytes
/// that were written to a mapping before stay, as when a process is killed.
#[derive(Debug)]
pub struct DyingBackend {
    disk: LocalMapBackend,
    left: AtomicI64,
    done: AtomicU64,
    watched: Option<PathBuf>,
    /// The bytes on the medium of each file that was synced, by its identity.
    synced: Mutex<HashMap<(u64, u64), Vec<u8>>>,
    /// The identity of the file whose name under the watched path is on the medium.
    named: Mutex<Option<(u64, u64)>>,
    moments: Mutex<Vec<Moment>>,
}

/// The bytes of a file before an operation: as last synced, and as a process reads them. After a loss of power each sector is
/// one or the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The bytes on the medium.
    pub synced: Vec<u8>,
    /// The bytes that processes read.
    pub now: Vec<u8>,
    /// Whether its name is on the medium: if not, a loss of power may remove the file.
    pub is_named: bool,
}

impl Moment {
    /// The sector of a medium, in bytes: it is written whole or not at all.
    const SECTOR: usize = 512;

    /// Calls `visit` with the bytes that a loss of power may leave: of what was written since the last sync, one sector, or all
    /// but one.
    pub fn after_losses(mut self, mut visit: impl FnMut(&[u8])) {
        let used = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let len = used(&self.synced).max(used(&self.now)).next_multiple_of(Self::SECTOR);
        self.synced.resize(len, 0);
        self.now.resize(len, 0);
        for at in (0..len).step_by(Self::SECTOR) {
            let sector = at..at + Self::SECTOR;
            if self.synced[sector.clone()] != self.now[sector.clone()] {
                for (kept, from) in [(&self.synced, &self.now), (&self.now, &self.synced)] {
                    let mut kept = kept.clone();
                    kept[sector.clone()].copy_from_slice(&from[sector.clone()]);
                    visit(&kept);
                }
            }
        }
    }
}

impl DyingBackend {
    /// Creates a backend that does all operations, and remembers the contents of the file at this path before each. Its current
    /// contents count as synced.
    ///
    /// # Errors
    /// If the file is there and cannot be read.
    pub fn watching(path: &Path) -> io::Result<Self> {
        let disk = Self { watched: Some(path.into()), ..Self::after(u64::MAX) };
        match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(disk),
            read => disk.keep(disk.disk.metadata_at(path)?.identity, read?),
        }
        disk.name(path);
        disk.remember();
        Ok(disk)
    }

    /// Returns the moments since the previous call, beginning with the last one that it returned, without repetitions.
    ///
    /// # Panics
    /// If an operation has panicked.
    pub fn take_moments(&self) -> Vec<Moment> {
        self.remember();
        let mut moments = self.moments.lock().expect("no operation has panicked");
        let last = moments.last().cloned();
        mem::replace(&mut *moments, last.into_iter().collect())
    }

    fn remember(&self) {
        let Some(path) = self.watched.as_deref() else { return };
        let (Ok(now), Ok(metadata)) = (fs::read(path), self.disk.metadata_at(path)) else { return };
        let synced = self.synced.lock().expect("no operation has panicked");
        let synced = synced.get(&metadata.identity).cloned().unwrap_or_default();
        let is_named = *self.named.lock().expect("no operation has panicked") == Some(metadata.identity);
        let moment = Moment { synced, now, is_named };
        let mut moments = self.moments.lock().expect("no operation has panicked");
        if moments.last() != Some(&moment) {
            moments.push(moment);
        }
    }

    /// Remembers these bytes of a file as synced.
    fn keep(&self, identity: (u64, u64), bytes: Vec<u8>) {
        self.synced.lock().expect("no operation has panicked").insert(identity, bytes);
    }

    /// Remembers the name of the file under this path as synced.
    fn name(&self, path: &Path) {
        if self.watched.as_deref() == Some(path) {
            let identity = self.disk.metadata_at(path).ok().map(|metadata| metadata.identity);
            *self.named.lock().expect("no operation has panicked") = identity;
        }
    }

    /// Creates a backend that stops after `operations` operations.
    #[must_use]
    pub fn after(operations: u64) -> Self {
        Self {
            disk: LocalMapBackend::new(),
            left: AtomicI64::new(i64::try_from(operations).unwrap_or(i64::MAX)),
            done: AtomicU64::new(0),
            watched: None,
            synced: Mutex::default(),
            named: Mutex::default(),
            moments: Mutex::default(),
        }
    }

    /// Returns the number of operations so far.
    pub fn operations(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Returns whether the simulated process is dead.
    pub fn is_dead(&self) -> bool {
        self.left.load(Ordering::Relaxed) <= 0
    }

    fn lives(&self) -> io::Result<()> {
        self.remember();
        if self.left.fetch_sub(1, Ordering::Relaxed) > 0 {
            self.done.fetch_add(1, Ordering::Relaxed);
            Ok(())
        } else {
            Err(io::Error::other("the process is dead"))
        }
    }
}

impl MapBackend for DyingBackend {
    fn open(&self, path: &Path, access: Access) -> io::Result<File> {
        self.lives()?;
        self.disk.open(path, access)
    }

    fn open_to_write(&self, path: &Path) -> io::Result<File> {
        self.lives()?;
        self.disk.open_to_write(path)
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        self.lives()?;
        self.disk.create(path)
    }

    fn metadata(&self, file: &File) -> io::Result<FileMetadata> {
        self.lives()?;
        self.disk.metadata(file)
    }

    fn metadata_at(&self, path: &Path) -> io::Result<FileMetadata> {
        self.lives()?;
        self.disk.metadata_at(path)
    }

    fn lock(&self, file: &File, lock: Lock, timeout: Duration) -> io::Result<()> {
        self.lives()?;
        self.disk.lock(file, lock, timeout)
    }

    fn unlock(&self, file: &File) {
        // Death releases locks too.
        self.disk.unlock(file);
    }

    fn hold(&self, file: &File) -> bool {
        self.disk.hold(file)
    }

    fn allocate(&self, file: &File, range: Range<u64>) -> io::Result<()> {
        self.lives()?;
        self.disk.allocate(file, range)
    }

    fn map(&self, file: &File, range: Range<u64>, access: Access) -> io::Result<Mapping> {
        self.lives()?;
        self.disk.map(file, range, access)
    }

    fn read_at(&self, file: &File, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.lives()?;
        self.disk.read_at(file, at, into)
    }

    fn write_at(&self, file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
        if self.left.load(Ordering::Relaxed) == 1 && bytes.len() > 1 {
            // The last operation of a dying process writes half of its bytes.
            self.lives()?;
            self.disk.write_at(file, at, &bytes[..bytes.len() / 2])?;
            return Err(io::Error::other("the process died while it wrote"));
        }
        self.lives()?;
        self.disk.write_at(file, at, bytes)
    }

    fn start_write_back(&self, file: &File, range: Range<u64>) {
        if self.lives().is_ok() {
            self.disk.start_write_back(file, range);
        }
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.lives()?;
        self.disk.sync(file)?;
        if self.watched.is_some() {
            let metadata = self.disk.metadata(file)?;
            self.keep(metadata.identity, self.disk.read(file, 0..metadata.len)?);
            self.remember();
        }
        Ok(())
    }

    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        self.lives()?;
        self.disk.set_len(file, len)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.lives()?;
        self.disk.rename(from, to)?;
        self.name(to);
        Ok(())
    }

    fn sync_name(&self, path: &Path) {
        if self.lives().is_ok() {
            self.disk.sync_name(path);
            self.name(path);
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.lives()?;
        self.disk.remove(path)
    }
}

/// A backend with little room, without mappings, or with a panic.
#[derive(Debug)]
pub struct Poor {
    disk: LocalMapBackend,
    /// The largest length of a file, in bytes.
    room: u64,
    maps: bool,
    panics: bool,
}

impl Poor {
    /// Creates a backend on which no file grows beyond `room` bytes.
    #[must_use]
    pub fn with_room(room: u64) -> Self {
        Self { disk: LocalMapBackend::new(), room, maps: true, panics: false }
    }

    /// Creates a backend that cannot map files.
    #[must_use]
    pub fn without_mappings() -> Self {
        Self { disk: LocalMapBackend::new(), room: u64::MAX, maps: false, panics: false }
    }

    /// Creates a backend that panics when a file grows.
    #[must_use]
    pub fn that_panics() -> Self {
        Self { disk: LocalMapBackend::new(), room: u64::MAX, maps: true, panics: true }
    }

    fn has_room(&self, end: u64) -> io::Result<()> {
        assert!(!self.panics, "a disk that panics");
        if end <= self.room { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
    }
}

impl MapBackend for Poor {
    fn open(&self, path: &Path, access: Access) -> io::Result<File> {
        self.disk.open(path, access)
    }

    fn open_to_write(&self, path: &Path) -> io::Result<File> {
        self.disk.open_to_write(path)
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        self.disk.create(path)
    }

    fn metadata(&self, file: &File) -> io::Result<FileMetadata> {
        self.disk.metadata(file)
    }

    fn metadata_at(&self, path: &Path) -> io::Result<FileMetadata> {
        self.disk.metadata_at(path)
    }

    fn lock(&self, file: &File, lock: Lock, timeout: Duration) -> io::Result<()> {
        self.disk.lock(file, lock, timeout)
    }

    fn unlock(&self, file: &File) {
        self.disk.unlock(file);
    }

    fn hold(&self, file: &File) -> bool {
        self.disk.hold(file)
    }

    fn allocate(&self, file: &File, range: Range<u64>) -> io::Result<()> {
        self.has_room(range.end)?;
        self.disk.allocate(file, range)
    }

    fn map(&self, file: &File, range: Range<u64>, access: Access) -> io::Result<Mapping> {
        if !self.maps {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.disk.map(file, range, access)
    }

    fn read_at(&self, file: &File, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.disk.read_at(file, at, into)
    }

    fn write_at(&self, file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.has_room(at.saturating_add(bytes.len() as u64))?;
        self.disk.write_at(file, at, bytes)
    }

    fn start_write_back(&self, file: &File, range: Range<u64>) {
        self.disk.start_write_back(file, range);
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.disk.sync(file)
    }

    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        self.disk.set_len(file, len)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }
}
