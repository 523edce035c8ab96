//! Disks for packs that stop, are full, or have no mappings.

use std::{
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

use warmstart::os::{Access, FileFacts, LocalMapDisk, Lock, MapDisk, Mapping};

/// A disk on which a process dies: after so many operations nothing happens any more. What was written to a mapping before
/// stays, as it does when a process is killed.
#[derive(Debug)]
pub struct Mortal {
    disk: LocalMapDisk,
    left: AtomicI64,
    done: AtomicU64,
    watched: Option<PathBuf>,
    moments: Mutex<Vec<Moment>>,
}

/// The bytes of a file before an operation: as last synced, and as a process reads them. After a loss of power each sector is
/// one or the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// On the medium.
    pub synced: Vec<u8>,
    /// In memory.
    pub now: Vec<u8>,
}

impl Mortal {
    /// A disk that does all operations, and remembers what the file under this path held before each.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn watching(path: &Path) -> io::Result<Self> {
        let now = fs::read(path)?;
        let first = Moment { synced: now.clone(), now };
        Ok(Self { watched: Some(path.into()), moments: Mutex::new(vec![first]), ..Self::after(u64::MAX) })
    }

    /// Takes the moments since the previous call, beginning with the last one that it returned. Equal neighbours are left out.
    ///
    /// # Panics
    /// If an operation has panicked.
    pub fn take_moments(&self) -> Vec<Moment> {
        let mut moments = self.moments.lock().expect("no operation has panicked");
        let last = moments.last().cloned();
        mem::replace(&mut *moments, last.into_iter().collect())
    }

    fn remember(&self, is_synced: bool) {
        let Some(now) = self.watched.as_deref().and_then(|path| fs::read(path).ok()) else { return };
        let mut moments = self.moments.lock().expect("no operation has panicked");
        let last = moments.last().cloned().unwrap_or_default();
        let synced = if is_synced { now.clone() } else { last.synced.clone() };
        let moment = Moment { synced, now };
        if moment != last {
            moments.push(moment);
        }
    }

    /// A disk that does `operations` operations.
    #[must_use]
    pub fn after(operations: u64) -> Self {
        Self {
            disk: LocalMapDisk::new(),
            left: AtomicI64::new(i64::try_from(operations).unwrap_or(i64::MAX)),
            done: AtomicU64::new(0),
            watched: None,
            moments: Mutex::default(),
        }
    }

    /// How many operations were done.
    pub fn operations(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Whether the process died.
    pub fn is_dead(&self) -> bool {
        self.left.load(Ordering::Relaxed) <= 0
    }

    fn lives(&self) -> io::Result<()> {
        self.remember(false);
        if self.left.fetch_sub(1, Ordering::Relaxed) > 0 {
            self.done.fetch_add(1, Ordering::Relaxed);
            Ok(())
        } else {
            Err(io::Error::other("the process is dead"))
        }
    }
}

impl MapDisk for Mortal {
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

    fn facts(&self, file: &File) -> io::Result<FileFacts> {
        self.lives()?;
        self.disk.facts(file)
    }

    fn facts_at(&self, path: &Path) -> io::Result<FileFacts> {
        self.lives()?;
        self.disk.facts_at(path)
    }

    fn lock(&self, file: &File, lock: Lock, patience: Duration) -> io::Result<()> {
        self.lives()?;
        self.disk.lock(file, lock, patience)
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
            // The last thing that a dying process does is done by half.
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
        self.remember(true);
        Ok(())
    }

    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        self.lives()?;
        self.disk.set_len(file, len)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.lives()?;
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.lives()?;
        self.disk.remove(path)
    }
}

/// A disk on which some things cannot be had.
#[derive(Debug)]
pub struct Poor {
    disk: LocalMapDisk,
    /// Up to where a file can grow, in bytes.
    room: u64,
    maps: bool,
    panics: bool,
}

impl Poor {
    /// A disk on which no file grows beyond `room` bytes.
    #[must_use]
    pub fn with_room(room: u64) -> Self {
        Self { disk: LocalMapDisk::new(), room, maps: true, panics: false }
    }

    /// A disk without mappings.
    #[must_use]
    pub fn without_mappings() -> Self {
        Self { disk: LocalMapDisk::new(), room: u64::MAX, maps: false, panics: false }
    }

    /// A disk that panics when a file is to grow.
    #[must_use]
    pub fn that_panics() -> Self {
        Self { disk: LocalMapDisk::new(), room: u64::MAX, maps: true, panics: true }
    }

    fn has_room(&self, end: u64) -> io::Result<()> {
        assert!(!self.panics, "a disk that panics");
        if end <= self.room { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
    }
}

impl MapDisk for Poor {
    fn open(&self, path: &Path, access: Access) -> io::Result<File> {
        self.disk.open(path, access)
    }

    fn open_to_write(&self, path: &Path) -> io::Result<File> {
        self.disk.open_to_write(path)
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        self.disk.create(path)
    }

    fn facts(&self, file: &File) -> io::Result<FileFacts> {
        self.disk.facts(file)
    }

    fn facts_at(&self, path: &Path) -> io::Result<FileFacts> {
        self.disk.facts_at(path)
    }

    fn lock(&self, file: &File, lock: Lock, patience: Duration) -> io::Result<()> {
        self.disk.lock(file, lock, patience)
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
