//! The kinds of store, and the directory of one.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use tempfile::TempDir;
use warmstart::{
    Artifact, Key, Limits, MissReason, Seal, Store,
    store::{FileStore, Inspect, MemoryStore, SqliteStore, StoreOptions, TieredStore},
};
use warmstart_core::envelope;

use super::program::Program;
use crate::{faulty::FaultyBackend, proof::SetClock};

/// The limit of a tiered store's memory.
pub const FRONT: Limits = Limits { max_entries: Some(3), max_bytes: Some(4000) };

/// The excess of a database's file over the cap: `docs/format.md`.
const DATABASE_OVERHEAD: u64 = 64 << 10;

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Memory.
    Memory,
    /// Files, on a backend that fails on request.
    Files,
    /// A database.
    Sqlite,
    /// Memory with the limits [`FRONT`], in front of files.
    Tiered,
    /// Sealed files.
    SealedFiles,
    /// A database of sealed entries.
    SealedSqlite,
}

/// An open store.
#[derive(Debug)]
pub enum Opened {
    /// Memory.
    Memory(Box<MemoryStore>),
    /// Files.
    Files(Box<FileStore>),
    /// A database.
    Sqlite(Box<SqliteStore>),
    /// Memory in front of files.
    Tiered(Box<TieredStore<FileStore>>),
}

/// The location of a store.
#[derive(Debug)]
pub struct Place {
    pub(super) kind: Kind,
    directory: TempDir,
    durable: bool,
    /// The backend of the file store.
    pub disk: Arc<FaultyBackend>,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Memory, Self::Files, Self::Sqlite, Self::Tiered, Self::SealedFiles, Self::SealedSqlite];

    /// Returns whether the store keeps its entries when it is reopened.
    #[must_use]
    pub fn is_persistent(self) -> bool {
        self != Self::Memory
    }

    /// Returns whether entries are in files.
    #[must_use]
    pub const fn has_files(self) -> bool {
        matches!(self, Self::Files | Self::Tiered | Self::SealedFiles)
    }

    /// Returns whether entries are in a database.
    #[must_use]
    pub const fn has_database(self) -> bool {
        matches!(self, Self::Sqlite | Self::SealedSqlite)
    }

    /// Returns the secret of the store.
    #[must_use]
    pub fn seal(self) -> Option<Seal> {
        matches!(self, Self::SealedFiles | Self::SealedSqlite).then(|| Seal::new(&[7; 32]))
    }

    /// Returns the size of an artifact that counts against the cap, as documented.
    ///
    /// # Panics
    /// If the artifact cannot be encoded.
    #[must_use]
    pub fn size(self, key: &[u8], artifact: &Artifact) -> u64 {
        match self {
            Self::Memory => memory_size(key, artifact),
            Self::Files | Self::Tiered | Self::SealedFiles => self.envelope_len(key, artifact),
            Self::Sqlite | Self::SealedSqlite => {
                let bytes = self.envelope_len(key, artifact) + 2 * key.len() as u64;
                bytes + bytes / 256
            }
        }
    }

    fn envelope_len(self, key: &[u8], artifact: &Artifact) -> u64 {
        let encoded = envelope::encode(key, artifact, self.seal().as_ref());
        encoded.expect("what the model stores is short").len()
    }
}

/// Returns the size of an artifact in memory.
#[must_use]
pub fn memory_size(key: &[u8], artifact: &Artifact) -> u64 {
    (key.len() + artifact.payload().len() + artifact.encoded_metadata().len()) as u64
}

impl Opened {
    /// Returns the store as a trait object.
    #[must_use]
    pub fn store(&self) -> &dyn Store {
        match self {
            Self::Memory(store) => &**store,
            Self::Files(store) => &**store,
            Self::Sqlite(store) => &**store,
            Self::Tiered(store) => &**store,
        }
    }

    /// Returns the inspection of the store.
    ///
    /// # Panics
    /// Never: every store here supports inspection.
    #[must_use]
    pub fn inspect(&self) -> &dyn Inspect {
        self.store().inspect().expect("every store here can be looked into")
    }

    /// Returns the sum of the sizes of all entries.
    ///
    /// # Errors
    /// The reason why the sum is unknown.
    pub fn total_bytes(&self) -> Result<u64, MissReason> {
        match self {
            Self::Memory(store) => store.totals().map(|totals| totals.bytes),
            Self::Files(store) => store.total_bytes(),
            Self::Sqlite(store) => store.totals().map(|totals| totals.bytes),
            Self::Tiered(store) => store.back().total_bytes(),
        }
    }
}

impl Place {
    /// Creates an empty location, on a file system in memory if there is one.
    ///
    /// # Panics
    /// If it cannot be created.
    #[must_use]
    pub fn new(kind: Kind, program: &Program) -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let directory = directory.expect("a directory for temporary files");
        Self { kind, directory, durable: program.durable, disk: Arc::new(FaultyBackend::new()) }
    }

    /// Opens the store.
    ///
    /// # Panics
    /// If it cannot be opened: only mistakes of the caller are errors.
    #[must_use]
    pub fn open(&self, limits: Limits) -> Opened {
        self.open_as(limits, false)
    }

    /// Opens the store, for reading only if requested.
    ///
    /// # Panics
    /// If it cannot be opened: only mistakes of the caller are errors.
    #[must_use]
    pub fn open_as(&self, limits: Limits, read_only: bool) -> Opened {
        // A clock that stands still: nothing depends on it.
        let clock = Arc::new(SetClock::at(1_700_000_000_000));
        let files = || {
            let mut options = StoreOptions::default()
                .with_limits(limits)
                .with_durability(self.durable)
                .with_read_only(read_only)
                .with_clock(clock.clone())
                .with_backend(Arc::clone(&self.disk) as _);
            if let Some(seal) = self.kind.seal() {
                options = options.with_seal(seal);
            }
            FileStore::open(self.root(), options).expect("the place is our own")
        };
        match self.kind {
            Kind::Memory => Opened::Memory(Box::new(MemoryStore::new(limits))),
            Kind::Files | Kind::SealedFiles => Opened::Files(Box::new(files())),
            Kind::Tiered => Opened::Tiered(Box::new(TieredStore::new(FRONT, files()))),
            Kind::Sqlite | Kind::SealedSqlite => {
                let mut options = StoreOptions::default()
                    .with_limits(limits)
                    .with_read_only(read_only)
                    .with_clock(clock.clone());
                if let Some(seal) = self.kind.seal() {
                    options = options.with_seal(seal);
                }
                Opened::Sqlite(Box::new(
                    SqliteStore::open(self.database(), options).expect("the place is our own"),
                ))
            }
        }
    }

    /// Returns the size on disk that the cap bounds, and the allowed excess; `None` if there are no files.
    ///
    /// # Panics
    /// If the entries cannot be listed.
    #[must_use]
    pub fn on_disk(&self) -> Option<(u64, u64)> {
        match self.kind {
            Kind::Memory => None,
            Kind::Sqlite | Kind::SealedSqlite => {
                fs::metadata(self.database()).ok().map(|found| (found.len(), DATABASE_OVERHEAD))
            }
            Kind::Files | Kind::Tiered | Kind::SealedFiles => {
                let entries = fs::read_dir(self.entries()).into_iter().flatten();
                let lens =
                    entries.map(|entry| entry.and_then(|entry| entry.metadata()).expect("an entry").len());
                Some((lens.sum(), 0))
            }
        }
    }

    /// Returns the length, a digest of the bytes and the modification time of each file.
    ///
    /// # Panics
    /// If a file cannot be read.
    #[must_use]
    pub fn contents(&self) -> BTreeMap<PathBuf, (usize, Key, SystemTime)> {
        let mut contents = BTreeMap::new();
        let mut directories = vec![self.root().to_owned()];
        while let Some(directory) = directories.pop() {
            for found in fs::read_dir(directory).expect("the place is our own") {
                let path = found.expect("the place is our own").path();
                let facts = fs::metadata(&path).expect("no other process is here");
                let bytes = if facts.is_dir() {
                    directories.push(path.clone());
                    Vec::new()
                } else {
                    fs::read(&path).expect("no other process is here")
                };
                let modified = facts.modified().expect("there is a time");
                contents.insert(path, (bytes.len(), Key::digest(&bytes), modified));
            }
        }
        contents
    }

    pub(super) fn entry(&self, key: &[u8]) -> PathBuf {
        self.entries().join(Key::digest(key).to_string())
    }

    fn entries(&self) -> PathBuf {
        self.root().join("entries")
    }

    pub(super) fn database(&self) -> PathBuf {
        self.root().join("cache.db")
    }

    pub(super) fn root(&self) -> &Path {
        self.directory.path()
    }
}
