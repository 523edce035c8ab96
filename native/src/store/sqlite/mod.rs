//! The SQLite store: one database file, shared by any number of processes.
//!
//! | module | holds |
//! |---|---|
//! | `options` | how it is opened |
//! | `place` | the path: who may have written there, how it is made and set aside |
//! | `schema` | the tables, and how a database is told to be ours |
//! | `connect` | how it is opened, made and rebuilt |
//! | `state` | the connection: opened again when it must be, and what becomes of it after a fault |
//! | `database` | the calls, each in one transaction |
//! | `rows`, `heads` | the rows of entries, and what entries say of themselves |
//! | `notes` | what was reported |
//! | `space` | the cap |
//! | `fault` | what can go wrong, and what is to be done about it |

mod connect;
mod database;
mod fault;
mod heads;
mod notes;
mod options;
mod place;
mod rows;
mod schema;
mod space;
mod state;

pub use options::SqliteOptions;

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Instant,
};

use warmstart_core::{artifact::Artifact, envelope, key::Key, lru::Limits, reason::Reason, recipe::Recipe};

use self::{
    database::Database,
    fault::Fault,
    place::Place,
    state::{Connection, State, patiently},
};
use super::{
    Buffer, Entry, Kept, Lookup, Proof, Pruned, REPORT_PATIENCE, Report, Store, Stored, Totals, Verified,
    copy_into, nearest_of, room_for,
};
use crate::{error::OpenError, os::fork};

/// So many heads are read at once for whoever looks at the entries.
const HEADS: usize = 256;

/// Keeps artifacts in one SQLite database, which any number of threads and processes share.
///
/// An entry counts its envelope and twice its key against the cap, and 1/256 of that for the links between SQLite's pages. The cap bounds the bytes on disk: at rest the database is at most the cap and 64 KiB long, and
/// after a [report](Store::report), until the next put, 48 KiB longer; its log (`-wal`) is at most 4 MiB long, and the log's
/// index (`-shm`) 32 KiB for each 16 MiB of the longest log there was. While a put is at work, the log is longer by what that
/// writes; while somebody reads without a pause, it cannot be emptied.
///
/// On a medium with little space left the log is kept shorter, and a put is refused that would leave no room to move
/// the log into the database, or less than 128 KiB: so [`remove`](Store::remove) frees space at once. Where others have
/// taken all of it, only [`clear`](Store::clear) does, which then removes the files.
///
/// A use is written down with the next call that writes, with every 1024th entry used, and when the store is closed.
///
/// A call that writes waits for other writers for as long as its
/// [patience](SqliteOptions::with_patience). A look-up waits for no writer, nor for a call of this process that does;
/// for somebody who wants the whole database it waits 50 ms at most.
///
/// What happens to a database that cannot be used:
///
/// | it is | then |
/// |---|---|
/// | damaged | renamed to `<name>.damaged-1` with its log, and made anew; two are kept |
/// | no database | the same, but kept for good, as `<name>.damaged-2` and so on when others follow |
/// | an empty file | taken over, with mode 0600 |
/// | an older version's | rebuilt, empty |
/// | a newer version's | left alone; everything is a miss, because of [`Reason::NewerVersion`] |
/// | this version's, with an entry of a newer one | that entry is a miss, and a put in its place is refused, because of [`Reason::NewerVersion`] |
/// | another application's | left alone; [`open`](Self::open) fails |
/// | locked | left alone; [`Reason::Busy`] |
/// | on a read-only medium | hits, without locks and without recency |
/// | opened [read-only](SqliteOptions::with_read_only) | hits, without recency; nothing above is done |
/// | on a disk too full to open it | hits, one at a time, and without recency, while no other process has it open |
///
/// SQLite's locks do not work on network disks. Keep the file on a local one.
///
/// ```
/// use warmstart::{Artifact, Store, store::{SqliteOptions, SqliteStore}};
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("kernels.db");
/// let store = SqliteStore::open(&path, SqliteOptions::default().with_max_bytes(1 << 30))?;
/// store.put(b"k", &Artifact::new(vec![1, 2, 3]))?;
/// store.close()?;
///
/// let store = SqliteStore::open(&path, SqliteOptions::default().with_max_bytes(1 << 30))?;
/// assert_eq!(store.get(b"k").hit().unwrap().payload(), [1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SqliteStore {
    place: Place,
    options: SqliteOptions,
    connection: Arc<Connection>,
    lock_directory: OnceLock<PathBuf>,
}

impl SqliteStore {
    /// Opens the database at `path`; makes it, and the directories that lead to it, if they are missing.
    ///
    /// A medium that fails, is full or is read-only is no error: the store then misses and refuses with the reason,
    /// and works as soon as the medium does.
    ///
    /// # Errors
    /// `path` is a directory, a symbolic link or another application's database, or somebody else could have written
    /// to it.
    pub fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self, OpenError> {
        let place = Place::new(path.as_ref())?;
        let connection = Arc::new(Connection::new(State::Closed));
        fork::watch(&connection);
        let store = Self { place, options, connection, lock_directory: OnceLock::new() };
        let state = match Database::open(&store.place, &store.options, store.options.patience) {
            Ok(database) if database.is_alone() => State::Down(Reason::NoSpace),
            Ok(database) => store.opened(database),
            Err(Fault::Caller(error)) => return Err(error),
            Err(fault) => State::after(&fault),
        };
        store.with_state(|current| *current = state);
        Ok(store)
    }

    /// The path of the database, made absolute.
    ///
    /// ```
    /// # use warmstart::store::{SqliteOptions, SqliteStore};
    /// # let directory = tempfile::tempdir()?;
    /// let path = directory.path().join("kernels.db");
    /// assert_eq!(SqliteStore::open(&path, SqliteOptions::default())?.path(), path);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// What all entries count against the cap, added up.
    ///
    /// # Errors
    /// The reason why that is not known.
    ///
    /// ```
    /// # use warmstart::{Artifact, Store, store::{SqliteOptions, SqliteStore}};
    /// # let directory = tempfile::tempdir()?;
    /// let store = SqliteStore::open(directory.path().join("db"), SqliteOptions::default())?;
    /// assert_eq!(store.total_bytes()?, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn total_bytes(&self) -> Result<u64, Reason> {
        self.with(Database::totals).map(|totals| totals.bytes)
    }

    fn check_writable(&self) -> Result<(), Reason> {
        if !self.options.read_only {
            return Ok(());
        }
        match self.with(|_| Ok(())) {
            Err(Reason::Closed) => Err(Reason::Closed),
            _ => Err(Reason::ReadOnly),
        }
    }
}

/// Why a look-up missed where a call failed for this reason.
const fn miss(reason: Reason) -> Reason {
    match reason {
        // Nothing could be read: that nothing can be written is not why it missed.
        Reason::ReadOnly | Reason::NoSpace => Reason::Unavailable,
        reason => reason,
    }
}

impl Store for SqliteStore {
    fn get(&self, key: &[u8]) -> Lookup {
        let stored = match self.with(|database| database.find(key)) {
            Ok(Some(stored)) => stored,
            Ok(None) => return Lookup::Miss(Reason::Absent),
            Err(reason) => return Lookup::Miss(miss(reason)),
        };
        // Without the lock: others look up while this thread proves its hit.
        let found = envelope::decode_with(stored, key, self.options.seal.as_ref());
        if found.as_ref().is_err_and(|reason| reason.is_damage()) {
            let _ = self.with(|database| database.remove_damaged(key));
        }
        found.into()
    }

    fn get_into(&self, key: &[u8], buffer: &mut dyn Buffer) -> Result<usize, Reason> {
        let (id, head, len) =
            self.with(|database| database.head(key)).map_err(miss)?.ok_or(Reason::Absent)?;
        // Anything but a whole entry with a short head is left to `get`.
        if let Ok(layout) = envelope::Layout::parse(&head, len)
            && let Some(head) = head.get(..layout.payload().start)
        {
            let payload = layout.payload();
            // Without the lock: the buffer is the caller's.
            let room = room_for(payload.len(), buffer)?;
            let is_read = self.with(|database| database.read_payload(id, payload.start, room)) == Ok(true);
            if is_read && envelope::verify_split(head, room, key, self.options.seal.as_ref()).is_ok() {
                return Ok(payload.len());
            }
        }
        match self.get(key) {
            Lookup::Hit(artifact) => copy_into(&artifact, buffer),
            Lookup::Miss(reason) => Err(reason),
        }
    }

    fn put(&self, key: &[u8], artifact: &Artifact) -> Result<Stored, Reason> {
        let encoded = envelope::encode_with(key, artifact, self.options.seal.as_ref())?;
        let size = space::size_of(key, encoded.len());
        if let closed @ Err(Reason::Closed | Reason::NewerVersion) = self.with(|_| Ok(())) {
            return closed.map(|()| Stored::default());
        }
        self.check_writable()?;
        self.options.limits.admit(size)?;
        let stored = encoded.to_vec();
        self.with_patience(|database| database.put(key, size, &stored)).map(|evicted| Stored { evicted })
    }

    fn remove(&self, key: &[u8]) -> Result<bool, Reason> {
        self.check_writable()?;
        self.with_patience(|database| database.remove(key))
    }

    fn contains(&self, key: &[u8]) -> Result<bool, Reason> {
        self.with(|database| database.contains(key))
    }

    fn len(&self) -> Result<u64, Reason> {
        self.with_patience(Database::len)
    }

    /// A database that is found damaged is set aside with all that it held. Then everything in it counts as damaged, what was
    /// told to be whole before as well.
    fn verify_each(&self, visit: &mut dyn FnMut(&Proof)) -> Result<Verified, Reason> {
        let (listed, keys) = self.with_patience(|database| Ok((database.identity(), database.keys()?)))?;
        let (mut found, mut damage) = (Verified::default(), None);
        for key in keys {
            let name = Key::digest(&key);
            let lost = |reason| Proof { is_removed: true, ..Proof::new(name, 0, Err(reason)) };
            let proof = match self.with(|database| Ok((database.identity(), database.read(&key)?))) {
                Err(Reason::Closed) => return Err(Reason::Closed),
                Err(reason) => {
                    damage = damage.or(Some(reason).filter(|reason| reason.is_damage()));
                    let is_removed = damage.is_some() && self.place.identity() != listed;
                    Proof { is_removed, ..Proof::new(name, 0, Err(reason)) }
                }
                Ok((identity, stored)) if identity != listed || stored.is_none() => match damage {
                    Some(reason) => lost(reason),
                    // Gone since it was listed.
                    None if identity == listed => continue,
                    // Somebody else found it damaged, or made another.
                    None => return Err(Reason::Unavailable),
                },
                Ok((_, stored)) => {
                    let stored = stored.unwrap_or_default();
                    let size = stored.len() as u64;
                    let result = envelope::decode_with(stored, &key, self.options.seal.as_ref()).map(drop);
                    let removed = match result {
                        Err(reason) if reason.is_damage() => {
                            self.with_patience(|database| database.remove_damaged(&key))
                        }
                        result => result,
                    };
                    let is_removed = result.is_err() && removed.is_ok();
                    damage = damage.or(removed.err().filter(|reason| reason.is_damage()));
                    Proof { is_removed, ..Proof::new(name, size, result) }
                }
            };
            found.count(&proof);
            visit(&proof);
        }
        if damage.is_some() && self.place.identity() != listed {
            found = Verified { whole: 0, damaged: found.damaged + found.whole };
        }
        Ok(found)
    }

    /// In the order of use as it is when this is called. What goes meanwhile is left out.
    fn entries(&self, visit: &mut dyn FnMut(Entry) -> ControlFlow<()>) -> Result<(), Reason> {
        // What cannot be written down now only makes the order a little older.
        let _ = self.with(Database::flush);
        let ids = self.with_patience(Database::ids_by_use)?;
        for ids in ids.chunks(HEADS) {
            for entry in self.with_patience(|database| database.entries(ids))? {
                if visit(entry).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn totals(&self) -> Result<Totals, Reason> {
        self.with_patience(Database::totals)
    }

    fn nearest(&self, recipe: &Recipe) -> Result<Option<Entry>, Reason> {
        // What is not sealed cannot be a hit.
        let is_sealed = |entry: &Entry| entry.head.as_ref().is_ok_and(|head| head.is_sealed);
        nearest_of(self, recipe, |entry| self.options.seal.is_none() || is_sealed(entry))
    }

    fn prune(&self, limits: Limits) -> Result<Pruned, Reason> {
        self.check_writable()?;
        let mut pruned = Pruned::default();
        loop {
            let (gone, more) = self.with_patience(|database| database.prune(limits))?;
            pruned.entries += gone.entries;
            pruned.bytes += gone.bytes;
            if !more {
                return Ok(pruned);
            }
        }
    }

    fn report(&self, report: &Report) -> Result<(), Reason> {
        self.check_writable()?;
        let patience = self.options.patience.min(REPORT_PATIENCE);
        patiently(Instant::now().checked_add(patience), || self.with(|database| database.report(report)))
    }

    fn kept(&self) -> Result<Kept, Reason> {
        self.with_patience(Database::kept)
    }

    fn flush(&self) -> Result<(), Reason> {
        self.with_patience(Database::flush)
    }

    fn clear(&self) -> Result<(), Reason> {
        self.check_writable()?;
        match self.with_patience(Database::clear) {
            Err(Reason::NoSpace) => self.start_over(),
            cleared => cleared,
        }
    }

    fn touch(&self, keys: &[&[u8]]) {
        let _ = self.with(|database| keys.iter().try_for_each(|key| database.touch(key)));
    }

    fn close(&self) -> Result<(), Reason> {
        let state = self.with_state(|state| std::mem::replace(state, State::Closed));
        match state {
            State::Open(database) => {
                let deadline = Instant::now().checked_add(self.options.patience);
                patiently(deadline, || database.flush().map_err(|fault| fault.reason()))
            }
            _ => Ok(()),
        }
    }

    fn lock_directory(&self) -> Option<&Path> {
        self.lock_directory.get().map(PathBuf::as_path)
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        let _ = self.close();
    }
}
