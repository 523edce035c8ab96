//! The SQLite store: one database file, shared by any number of processes.
//!
//! | module | holds |
//! |---|---|
//! | `options` | how it is opened |
//! | `connection` | the state machine: open, or why not; what becomes of it after a fault |
//! | `open` | how a database is opened, and what its connection is told |
//! | `place` | the path: who may have written there, how it is set aside |
//! | `schema` | the tables, and how a database is told to be ours |
//! | `database` | the calls, each in one transaction |
//! | `heads` | what entries say of themselves |
//! | `space` | the cap, and the medium's space |
//! | `fault` | what can go wrong, and what is to be done about it |

mod connection;
mod database;
mod fault;
mod heads;
mod open;
mod options;
mod place;
mod schema;
mod space;

pub use options::SqliteOptions;

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

use warmstart_core::{artifact::Artifact, envelope, key::Key, lru::Limits, reason::Reason, recipe::Recipe};

use self::{connection::Connection, database::Database};
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
/// A put may leave the file a few pages longer than that, and the next one makes up for it.
///
/// On a medium with less than 16 MiB free the log is emptied after each call that writes, and a put is refused that would leave no
/// room to move the log into the database, or less than 128 KiB: so [`remove`](Store::remove) frees space at once, or, where there
/// is no room to move what lies behind it, leaves it to the next put. Where others have taken all of it, every call that writes is
/// refused, [`clear`](Store::clear) too: make room on the disk, or remove the files of the database.
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
/// | damaged | renamed to `<name>.damaged-1` with its log, in place of the one before, and a new one is made |
/// | no database | the same, but kept for good: what follows is `<name>.damaged-2` and so on |
/// | an empty file | taken over, with mode 0600 |
/// | the version's before | brought to this version, with all entries |
/// | another older version's | renamed, as a damaged one is |
/// | a newer version's | left alone; everything is a miss, because of [`Reason::NewerVersion`] |
/// | this version's, with an entry of a newer one | that entry is a miss, and a put in its place is refused, because of [`Reason::NewerVersion`] |
/// | another application's | left alone; [`open`](Self::open) fails |
/// | locked | left alone; [`Reason::Busy`] |
/// | on a read-only medium | hits, without locks and without recency |
/// | opened [read-only](SqliteOptions::with_read_only) | hits, without recency; nothing above is done |
/// | on a disk too full to open it | misses and refusals, because of [`Reason::NoSpace`], until there is room |
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
pub struct SqliteStore(Arc<Connection>);

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
        let connection = Arc::new(Connection::new(path.as_ref(), options)?);
        fork::watch(&connection);
        Ok(Self(connection))
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
        &self.0.place.path
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
        self.0.with(Database::totals).map(|totals| totals.bytes)
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
        let found = self.0.with(|database| {
            let found = database.find(key)?;
            if let Some((id, _)) = &found {
                database.note_use(*id);
            }
            Ok(found)
        });
        let stored = match found {
            Ok(Some((_, stored))) => stored,
            Ok(None) => return Lookup::Miss(Reason::Absent),
            Err(reason) => return Lookup::Miss(miss(reason)),
        };
        // Without the lock: others look up while this thread proves its hit.
        let found = envelope::decode_with(stored, key, self.0.options.seal.as_ref());
        if found.as_ref().is_err_and(|reason| reason.is_damage()) {
            let _ = self.0.with(|database| database.remove_damaged(key));
        }
        found.into()
    }

    fn get_into(&self, key: &[u8], buffer: &mut dyn Buffer) -> Result<usize, Reason> {
        let (id, head, len) =
            self.0.with(|database| database.head(key)).map_err(miss)?.ok_or(Reason::Absent)?;
        // Anything but a whole entry with a short head is left to `get`.
        if let Ok(layout) = envelope::Layout::parse(&head, len)
            && let Some(head) = head.get(..layout.payload().start)
        {
            let payload = layout.payload();
            // Without the lock: the buffer is the caller's.
            let room = room_for(payload.len(), buffer)?;
            let is_read = self.0.with(|database| database.read_payload(id, payload.start, room));
            let seal = self.0.options.seal.as_ref();
            if is_read == Ok(true) && envelope::verify_split(head, room, key, seal).is_ok() {
                return Ok(payload.len());
            }
        }
        match self.get(key) {
            Lookup::Hit(artifact) => copy_into(&artifact, buffer),
            Lookup::Miss(reason) => Err(reason),
        }
    }

    fn put(&self, key: &[u8], artifact: &Artifact) -> Result<Stored, Reason> {
        let options = &self.0.options;
        let encoded = envelope::encode_with(key, artifact, options.seal.as_ref())?;
        let size = space::size_of(key, encoded.len());
        self.0.check_writable()?;
        options.limits.admit(size)?;
        let stored = encoded.to_vec();
        let put = self.0.with_timeout(options.patience, |database| database.put(key, size, &stored));
        put.map(|evicted| Stored { evicted })
    }

    fn remove(&self, key: &[u8]) -> Result<bool, Reason> {
        self.0.check_writable()?;
        self.0.with_timeout(self.0.options.patience, |database| database.remove(key))
    }

    fn contains(&self, key: &[u8]) -> Result<bool, Reason> {
        self.0.with(|database| database.contains(key))
    }

    fn len(&self) -> Result<u64, Reason> {
        self.0.with_timeout(self.0.options.patience, Database::len)
    }

    /// A database that is found damaged is set aside with all that it held. Then everything in it counts as damaged, what was
    /// told to be whole before as well.
    fn verify_each(&self, visit: &mut dyn FnMut(&Proof)) -> Result<Verified, Reason> {
        let options = &self.0.options;
        let list = |database: &Database| Ok((database.opened.identity, database.keys()?));
        let (listed, keys) = self.0.with_timeout(options.patience, list)?;
        let (mut found, mut lost) = (Verified::default(), None);
        for key in keys {
            let read = |database: &Database| Ok((database.opened.identity, database.find(&key)?));
            let (size, result) = match lost.map_or_else(|| self.0.with(read), Err) {
                Err(Reason::Closed) => return Err(Reason::Closed),
                Err(reason) => (0, Err(reason)),
                // Somebody else found it damaged, or made another.
                Ok((identity, _)) if identity != listed => return Err(Reason::Unavailable),
                // Gone since it was listed.
                Ok((_, None)) => continue,
                Ok((_, Some((_, stored)))) => {
                    let size = stored.len() as u64;
                    (size, envelope::decode_with(stored, &key, options.seal.as_ref()).map(drop))
                }
            };
            let damage = result.err().filter(|reason| reason.is_damage());
            let mut is_removed = lost.is_some();
            if damage.is_some() && lost.is_none() {
                let remove = |database: &Database| database.remove_damaged(&key);
                is_removed = self.0.with_timeout(options.patience, remove).is_ok();
                if self.0.place.identity() != listed {
                    (lost, is_removed) = (damage, true);
                    found = Verified { whole: 0, damaged: found.damaged + found.whole };
                }
            }
            let proof = Proof { is_removed, ..Proof::new(Key::digest(&key), size, result) };
            found.count(&proof);
            visit(&proof);
        }
        Ok(found)
    }

    /// In the order of use as it is when this is called. What goes meanwhile is left out.
    fn entries(&self, visit: &mut dyn FnMut(Entry) -> ControlFlow<()>) -> Result<(), Reason> {
        let patience = self.0.options.patience;
        // What cannot be written down now only makes the order a little older.
        let _ = self.0.with(Database::flush);
        let ids = self.0.with_timeout(patience, Database::ids_by_use)?;
        for ids in ids.chunks(HEADS) {
            for entry in self.0.with_timeout(patience, |database| database.entries(ids))? {
                if visit(entry).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn totals(&self) -> Result<Totals, Reason> {
        self.0.with_timeout(self.0.options.patience, Database::totals)
    }

    fn nearest(&self, recipe: &Recipe) -> Result<Option<Entry>, Reason> {
        // What is not sealed cannot be a hit.
        let is_sealed = |entry: &Entry| entry.head.as_ref().is_ok_and(|head| head.is_sealed);
        nearest_of(self, recipe, |entry| self.0.options.seal.is_none() || is_sealed(entry))
    }

    fn prune(&self, limits: Limits) -> Result<Pruned, Reason> {
        self.0.check_writable()?;
        let mut pruned = Pruned::default();
        loop {
            let gone = self.0.with_timeout(self.0.options.patience, |database| database.prune(limits))?;
            if gone.entries == 0 {
                return Ok(pruned);
            }
            pruned.entries += gone.entries;
            pruned.bytes += gone.bytes;
        }
    }

    fn report(&self, report: &Report) -> Result<(), Reason> {
        self.0.check_writable()?;
        let timeout = self.0.options.patience.min(REPORT_PATIENCE);
        self.0.with_timeout(timeout, |database| database.report(report))
    }

    fn kept(&self) -> Result<Kept, Reason> {
        self.0.with_timeout(self.0.options.patience, Database::kept)
    }

    fn flush(&self) -> Result<(), Reason> {
        self.0.with_timeout(self.0.options.patience, Database::flush)
    }

    fn clear(&self) -> Result<(), Reason> {
        self.0.check_writable()?;
        self.0.with_timeout(self.0.options.patience, Database::clear)
    }

    fn touch(&self, keys: &[&[u8]]) {
        let _ = self.0.with(|database| keys.iter().try_for_each(|key| database.touch(key)));
    }

    fn close(&self) -> Result<(), Reason> {
        self.0.close()
    }

    fn lock_directory(&self) -> Option<&Path> {
        self.0.lock_directory.get().map(PathBuf::as_path)
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        let _ = self.close();
    }
}
