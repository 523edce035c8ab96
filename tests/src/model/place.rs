//! The kinds of store, where one is kept, and how it is damaged.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use rusqlite::{Connection, OptionalExtension as _};
use tempfile::TempDir;
use warmstart::{
    Artifact, Key, Limits, Reason, Store,
    store::{FileOptions, FileStore, MemoryStore, SqliteOptions, SqliteStore, TieredStore},
};
use warmstart_core::envelope;

use super::{
    lru::State,
    program::{Damage, Program},
};
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
    kind: Kind,
    directory: TempDir,
    durable: bool,
    /// The disk that files are on.
    pub disk: Arc<FaultyDisk>,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Memory, Self::Files, Self::Sqlite, Self::Tiered];

    /// Whether a store that is opened anew holds what the one before it held.
    #[must_use]
    pub fn is_persistent(self) -> bool {
        self != Self::Memory
    }

    /// Whether files hold the entries.
    #[must_use]
    pub const fn has_files(self) -> bool {
        matches!(self, Self::Files | Self::Tiered)
    }

    /// What an artifact counts against the cap, as documented.
    ///
    /// # Panics
    /// If the artifact cannot be encoded.
    #[must_use]
    pub fn size(self, key: &[u8], artifact: &Artifact) -> u64 {
        match self {
            Self::Memory => memory_size(key, artifact),
            Self::Files | Self::Tiered => envelope_len(key, artifact),
            Self::Sqlite => {
                let bytes = envelope_len(key, artifact) + 2 * key.len() as u64;
                bytes + bytes / 256
            }
        }
    }
}

/// What an artifact counts in memory.
#[must_use]
pub fn memory_size(key: &[u8], artifact: &Artifact) -> u64 {
    (key.len() + artifact.payload().len() + artifact.encoded_metadata().len()) as u64
}

fn envelope_len(key: &[u8], artifact: &Artifact) -> u64 {
    envelope::encode(key, artifact).expect("what the model stores is short").len()
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
        // A clock that stands still: nothing depends on it.
        let clock = Arc::new(SetClock::at(1_700_000_000_000));
        let files = || {
            let options = FileOptions::default()
                .with_limits(limits)
                .with_durability(self.durable)
                .with_clock(clock.clone())
                .with_disk(Arc::clone(&self.disk) as _);
            FileStore::open(self.root(), options).expect("the place is our own")
        };
        match self.kind {
            Kind::Memory => Opened::Memory(Box::new(MemoryStore::new(limits))),
            Kind::Files => Opened::Files(Box::new(files())),
            Kind::Tiered => Opened::Tiered(Box::new(TieredStore::new(FRONT, files()))),
            Kind::Sqlite => {
                let options = SqliteOptions::default().with_limits(limits).with_clock(clock.clone());
                let store = SqliteStore::open(self.database(), options).expect("the place is our own");
                Opened::Sqlite(Box::new(store))
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
            Kind::Sqlite => fs::metadata(self.database()).ok().map(|found| (found.len(), DATABASE_OVERHEAD)),
            Kind::Files | Kind::Tiered => {
                let entries = fs::read_dir(self.entries()).into_iter().flatten();
                let lens =
                    entries.map(|entry| entry.and_then(|entry| entry.metadata()).expect("an entry").len());
                Some((lens.sum(), 0))
            }
        }
    }

    /// Damages the entry of `key`, behind the store's back, and says what that made of it. Nothing if there is none.
    ///
    /// # Panics
    /// If the directory is not as the store left it.
    pub fn damage(&self, key: &[u8], damage: Damage) -> Option<State> {
        let mut stored = self.read(key)?;
        let last = stored.len().checked_sub(1)?;
        match damage {
            // Of a database only the store itself takes entries away.
            Damage::Gone if !self.kind.has_files() => return None,
            Damage::Gone => return fs::remove_file(self.entry(key)).ok().map(|()| State::Gone),
            Damage::Flip { at, mask } => stored[last - at % (last + 1)] ^= mask,
            Damage::Cut { len } => stored.truncate(len.min(last)),
        }
        self.write(key, &stored)?;
        let len = stored.len() as u64;
        let seen = envelope::Layout::parse(&stored, len).map(drop);
        // What is flipped twice is whole again.
        let is_whole = envelope::decode(stored, key).is_ok();
        let size = self.kind.has_files().then_some(len);
        Some(if is_whole { State::Whole } else { State::Damaged { seen, size } })
    }

    /// Flips bits of what is not entries, while no store is open. Says whether there was anything.
    ///
    /// # Panics
    /// If it cannot be.
    #[must_use]
    pub fn vandalise(&self, at: usize, mask: u8) -> bool {
        // The first bytes say whose it is, and of which version: what is not ours is left alone.
        let (path, begin) = match self.kind {
            Kind::Memory => return false,
            Kind::Sqlite => (self.database(), 100),
            Kind::Files | Kind::Tiered => (self.root().join("journal"), 16),
        };
        let Ok(mut bytes) = fs::read(&path) else { return false };
        let Some(rest) = bytes.get_mut(begin..).filter(|rest| !rest.is_empty()) else { return false };
        rest[at % rest.len()] ^= mask;
        fs::write(path, bytes).expect("the place is our own");
        true
    }

    fn read(&self, key: &[u8]) -> Option<Vec<u8>> {
        match self.kind {
            Kind::Memory => None,
            Kind::Files | Kind::Tiered => fs::read(self.entry(key)).ok(),
            Kind::Sqlite => self
                .connect()
                .query_row(
                    "SELECT envelope FROM entry JOIN content USING (id) WHERE key = ?1",
                    [key],
                    |row| row.get(0),
                )
                .optional()
                .ok()?,
        }
    }

    fn write(&self, key: &[u8], stored: &[u8]) -> Option<()> {
        match self.kind {
            Kind::Memory => None,
            Kind::Files | Kind::Tiered => fs::write(self.entry(key), stored).ok(),
            Kind::Sqlite => {
                let sql = "UPDATE content SET envelope = ?2 WHERE id = (SELECT id FROM entry WHERE key = ?1)";
                self.connect().execute(sql, (key, stored)).ok().map(drop)
            }
        }
    }

    fn connect(&self) -> Connection {
        Connection::open(self.database()).expect("the place is our own")
    }

    fn entry(&self, key: &[u8]) -> PathBuf {
        self.entries().join(Key::digest(key).to_string())
    }

    fn entries(&self) -> PathBuf {
        self.root().join("entries")
    }

    fn database(&self) -> PathBuf {
        self.root().join("cache.db")
    }

    fn root(&self) -> &Path {
        self.directory.path()
    }
}
