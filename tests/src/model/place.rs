//! The kinds of store, and where one is kept.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use tempfile::TempDir;
use warmstart::{
    Artifact, Key, Limits, Reason, Seal, Store,
    store::{FileOptions, FileStore, MemoryStore, SqliteOptions, SqliteStore, TieredStore},
};
use warmstart_core::envelope;

use super::program::Program;
use crate::{faulty::FaultyDisk, proof::SetClock};

/// What a tiered store keeps in memory.
pub const FRONT: Limits = Limits { max_entries: Some(3), max_bytes: Some(4000) };

/// What the file of a database may be longer than the cap: `docs/format.md`.
const DATABASE_OVERHEAD: u64 = 64 << 10;

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Memory.
    Memory,
    /// Files, on a disk that fails when it is told to.
    Files,
    /// A database.
    Sqlite,
    /// Memory of the limits [`FRONT`] in front of files.
    Tiered,
    /// Files that are sealed.
    SealedFiles,
    /// A database of sealed entries.
    SealedSqlite,
}

/// A store that is open.
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

/// Where a store is kept.
#[derive(Debug)]
pub struct Place {
    pub(super) kind: Kind,
    directory: TempDir,
    durable: bool,
    /// The disk that files are on.
    pub disk: Arc<FaultyDisk>,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Memory, Self::Files, Self::Sqlite, Self::Tiered, Self::SealedFiles, Self::SealedSqlite];

    /// Whether a store that is opened anew holds what the one before it held.
    #[must_use]
    pub fn is_persistent(self) -> bool {
        self != Self::Memory
    }

    /// Whether files hold the entries.
    #[must_use]
    pub const fn has_files(self) -> bool {
        matches!(self, Self::Files | Self::Tiered | Self::SealedFiles)
    }

    /// Whether entries are in a database.
    #[must_use]
    pub const fn has_database(self) -> bool {
        matches!(self, Self::Sqlite | Self::SealedSqlite)
    }

    /// What entries are sealed with.
    #[must_use]
    pub fn seal(self) -> Option<Seal> {
        matches!(self, Self::SealedFiles | Self::SealedSqlite).then(|| Seal::new(&[7; 32]))
    }

    /// What an artifact counts against the cap, as documented.
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
        let encoded = envelope::encode_with(key, artifact, self.seal().as_ref());
        encoded.expect("what the model stores is short").len()
    }
}

/// What an artifact counts in memory.
#[must_use]
pub fn memory_size(key: &[u8], artifact: &Artifact) -> u64 {
    (key.len() + artifact.payload().len() + artifact.encoded_metadata().len()) as u64
}

impl Opened {
    /// As any store.
    #[must_use]
    pub fn store(&self) -> &dyn Store {
        match self {
            Self::Memory(store) => &**store,
            Self::Files(store) => &**store,
            Self::Sqlite(store) => &**store,
            Self::Tiered(store) => &**store,
        }
    }

    /// What all entries count, added up.
    ///
    /// # Errors
    /// The reason why that is not known.
    pub fn total_bytes(&self) -> Result<u64, Reason> {
        match self {
            Self::Memory(store) => Ok(store.total_bytes()),
            Self::Files(store) => store.total_bytes(),
            Self::Sqlite(store) => store.total_bytes(),
            Self::Tiered(store) => store.back().total_bytes(),
        }
    }
}

impl Place {
    /// An empty place, in memory where there is such a file system.
    ///
    /// # Panics
    /// If none can be made.
    #[must_use]
    pub fn new(kind: Kind, program: &Program) -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let directory = directory.expect("a directory for temporary files");
        Self { kind, directory, durable: program.durable, disk: Arc::new(FaultyDisk::new()) }
    }

    /// Opens the store.
    ///
    /// # Panics
    /// If it cannot be: only mistakes of the caller are errors.
    #[must_use]
    pub fn open(&self, limits: Limits) -> Opened {
        self.open_as(limits, false)
    }

    /// Opens the store, also to be read only.
    ///
    /// # Panics
    /// If it cannot be: only mistakes of the caller are errors.
    #[must_use]
    pub fn open_as(&self, limits: Limits, read_only: bool) -> Opened {
        // A clock that stands still: nothing depends on it.
        let clock = Arc::new(SetClock::at(1_700_000_000_000));
        let files = || {
            let mut options = FileOptions::default()
                .with_limits(limits)
                .with_durability(self.durable)
                .with_read_only(read_only)
                .with_clock(clock.clone())
                .with_disk(Arc::clone(&self.disk) as _);
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
                let mut options = SqliteOptions::default()
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

    /// What the cap bounds, as it is on disk, and how much that may be more than the cap. Nothing if nothing is on disk.
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

    /// All that is there: of each file its length, a digest of its bytes, and when it was last written.
    ///
    /// # Panics
    /// If it cannot be read.
    #[must_use]
    pub fn contents(&self) -> BTreeMap<PathBuf, (usize, Key, SystemTime)> {
        let mut contents = BTreeMap::new();
        let mut directories = vec![self.root().to_owned()];
        while let Some(directory) = directories.pop() {
            for found in fs::read_dir(directory).expect("the place is our own") {
                let path = found.expect("the place is our own").path();
                let facts = fs::metadata(&path).expect("nobody else is here");
                let bytes = if facts.is_dir() {
                    directories.push(path.clone());
                    Vec::new()
                } else {
                    fs::read(&path).expect("nobody else is here")
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
