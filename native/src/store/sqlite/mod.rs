//! The SQLite store: one database file, shared by any number of processes.
//!
//! | module | holds |
//! |---|---|
//! | `connection` | the state machine: open, or the reason why not, and its reaction to faults |
//! | `open` | opening a database and configuring its connection |
//! | `place` | the path: its permissions, and quarantine |
//! | `schema` | the tables, and how a database is identified as ours |
//! | `database` | the operations, each in one transaction |
//! | `heads` | the heads of entries |
//! | `space` | the cap, and the medium's space |
//! | `error` | faults, and how the store reacts to each |

mod connection;
mod database;
mod error;
mod heads;
mod open;
mod place;
mod schema;
mod space;

use std::{ops::ControlFlow, path::Path, sync::Arc};

use warmstart_core::{
    artifact::Artifact,
    envelope,
    key::Key,
    lru::Limits,
    miss::Miss,
    reason::MissReason,
    statistics::{PersistedStats, Statistics},
};

use self::{connection::Connection, database::Database};
use super::{
    Buffer, Claims, Entry, Inspect, LOOKED_UP_AT_ONCE, Proof, Store, StoreOptions, Totals, copy_into,
    inspect::REPORT_TIMEOUT, room_for,
};
use crate::{error::OpenError, os::fork};

/// Stores artifacts in one SQLite database, which any number of threads and processes share.
///
/// An entry counts its envelope and twice its key against the cap, plus 1/256 of that for the links between SQLite's pages. The cap
/// bounds the bytes on disk: at rest the database is at most 64 KiB longer than the cap, and another 48 KiB between a
/// [report](Inspect::report) and the next put. Its log (`-wal`) is at most 4 MiB long, and the log's index (`-shm`) takes 32 KiB per
/// 16 MiB of the longest log so far. During a put, the log also holds what that writes; while other processes read without a
/// pause, it cannot be emptied.
///
/// A put may leave the file a few pages longer than that, which the next one corrects.
///
/// On a medium with less than 16 MiB free, the log is emptied after each call that writes. A put is refused if it would leave less
/// than 128 KiB, or no room to move the log into the database. So [`remove`](Store::remove) frees space at once, or, if there is no
/// room to move pages, leaves that to the next put. On a full medium every call that writes is refused,
/// [`clear`](Store::clear) too: free space on the disk, or remove the files of the database.
///
/// Uses are written with the next call that writes, with every 1024th used entry, and when the store is closed.
///
/// A call that writes waits for other writers up to its [timeout](StoreOptions::with_timeout). A look-up does not wait for
/// writers, nor for calls of this process that wait for one; it waits at most 50 ms for a process that locks the whole database.
///
/// The store reacts as follows to a database that it cannot use as it is:
///
/// | the database is | reaction |
/// |---|---|
/// | damaged | renamed to `<name>.damaged-1` with its log, replacing an earlier one, and a new database is created |
/// | not a database | the same, but never replaced: the next one becomes `<name>.damaged-2` and so on |
/// | an empty file | used, with mode 0600 |
/// | of the previous version | upgraded to this version, with all entries |
/// | of another older version | renamed like a damaged one |
/// | of a newer version | left alone; every look-up misses with [`MissReason::NewerVersion`] |
/// | of this version, with an entry of a newer one | that entry is a miss, and replacing it is refused, with [`MissReason::NewerVersion`] |
/// | another application's | left alone; [`open`](Self::open) fails |
/// | locked | left alone; [`MissReason::Busy`] |
/// | on a read-only medium | hits, without locks and without recency |
/// | opened [read-only](StoreOptions::with_read_only) | hits, without recency; none of the above happens |
/// | on a disk too full to open it | misses and refusals with [`MissReason::NoSpace`], until there is space |
///
/// SQLite's locks do not work on network file systems. Keep the file on a local one.
///
/// ```
/// use warmstart::{Artifact, Store, store::{SqliteStore, StoreOptions}};
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("kernels.db");
/// let store = SqliteStore::open(&path, StoreOptions::default().with_max_bytes(1 << 30))?;
/// store.put(b"k", &Artifact::new(vec![1, 2, 3]))?;
/// store.close()?;
///
/// let store = SqliteStore::open(&path, StoreOptions::default().with_max_bytes(1 << 30))?;
/// assert_eq!(store.get(b"k")?.payload(), [1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SqliteStore(Arc<Connection>);

impl SqliteStore {
    /// Opens the database at `path`. Creates it and its parent directories if they are missing.
    ///
    /// A medium that fails, is full or is read-only is not an error: the store then misses and refuses with the reason,
    /// and works as soon as the medium does.
    ///
    /// # Errors
    /// `path` is a directory, a symbolic link or another application's database, or another user could have written
    /// to it.
    pub fn open(path: impl AsRef<Path>, options: StoreOptions) -> Result<Self, OpenError> {
        let connection = Arc::new(Connection::new(path.as_ref(), options)?);
        fork::watch(&connection);
        Ok(Self(connection))
    }

    /// Returns the absolute path of the database.
    ///
    /// ```
    /// # use warmstart::store::{SqliteStore, StoreOptions};
    /// # let directory = tempfile::tempdir()?;
    /// let path = directory.path().join("kernels.db");
    /// assert_eq!(SqliteStore::open(&path, StoreOptions::default())?.path(), path);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.place.path
    }

    /// Decodes an envelope without the lock, so that other threads can look up meanwhile. Removes it if it is damaged.
    fn verified(&self, key: &[u8], stored: Vec<u8>) -> Result<Artifact, MissReason> {
        let found = envelope::decode(stored, key, self.0.options.seal.as_ref());
        if found.as_ref().is_err_and(|reason| reason.is_damage()) {
            let _ = self.0.with(|database| database.remove_damaged(key));
        }
        found
    }
}

/// Converts the reason of a failed call into the reason of a miss.
const fn miss(reason: MissReason) -> MissReason {
    match reason {
        // Nothing could be read, and a reason that concerns writing does not explain that.
        MissReason::ReadOnly | MissReason::NoSpace => MissReason::Unavailable,
        reason => reason,
    }
}

impl Store for SqliteStore {
    fn get(&self, key: &[u8]) -> Result<Artifact, MissReason> {
        let found = self.0.with(|database| {
            let found = database.find(key)?;
            if let Some((id, _)) = &found {
                database.note_use(*id);
            }
            Ok(found)
        });
        let (_, stored) = found.map_err(miss)?.ok_or(MissReason::Absent)?;
        self.verified(key, stored)
    }

    fn get_many(&self, keys: &[&[u8]]) -> Vec<Result<Artifact, MissReason>> {
        let mut all = Vec::with_capacity(keys.len());
        for keys in keys.chunks(LOOKED_UP_AT_ONCE) {
            match self.0.with(|database| database.find_many(keys)) {
                Ok(found) => all.extend(
                    keys.iter()
                        .zip(found)
                        .map(|(key, stored)| self.verified(key, stored.ok_or(MissReason::Absent)?)),
                ),
                Err(reason) => all.extend(keys.iter().map(|_| Err(miss(reason)))),
            }
        }
        all
    }

    fn get_into(&self, key: &[u8], buffer: &mut dyn Buffer) -> Result<usize, MissReason> {
        let (id, head, len) =
            self.0.with(|database| database.head(key)).map_err(miss)?.ok_or(MissReason::Absent)?;
        // Anything but a whole entry with a short head is left to `get`.
        if let Ok(layout) = envelope::Layout::parse(&head, len)
            && let Some(head) = head.get(..layout.payload().start)
        {
            let payload = layout.payload();
            // Without the lock, because the buffer is the caller's.
            let room = room_for(payload.len(), buffer)?;
            let is_read = self.0.with(|database| database.read_payload(id, payload.start, room));
            let seal = self.0.options.seal.as_ref();
            if is_read == Ok(true) && envelope::verify_split(head, room, key, seal).is_ok() {
                return Ok(payload.len());
            }
        }
        copy_into(&self.get(key)?, buffer)
    }

    fn put(&self, key: &[u8], artifact: &Artifact) -> Result<u64, MissReason> {
        let options = &self.0.options;
        let encoded = envelope::encode(key, artifact, options.seal.as_ref())?;
        let size = space::size_of(key, encoded.len());
        self.0.check_writable()?;
        options.limits.admit(size)?;
        let stored = encoded.to_vec();
        self.0.with_timeout(options.timeout, |database| database.put(key, size, &stored))
    }

    fn remove(&self, key: &[u8]) -> Result<bool, MissReason> {
        self.0.check_writable()?;
        self.0.with_timeout(self.0.options.timeout, |database| database.remove(key))
    }

    fn contains(&self, key: &[u8]) -> Result<bool, MissReason> {
        self.0.with(|database| database.contains(key))
    }

    fn flush(&self) -> Result<(), MissReason> {
        self.0.with_timeout(self.0.options.timeout, Database::flush)
    }

    fn clear(&self) -> Result<(), MissReason> {
        self.0.check_writable()?;
        self.0.with_timeout(self.0.options.timeout, Database::clear)
    }

    fn record_access(&self, keys: &[&[u8]]) {
        let _ = self.0.with(|database| keys.iter().try_for_each(|key| database.record_access(key)));
    }

    fn close(&self) -> Result<(), MissReason> {
        self.0.close()
    }

    fn inspect(&self) -> Option<&dyn Inspect> {
        Some(self)
    }

    fn claims(&self) -> Option<&dyn Claims> {
        self.0.claims.get().map(|claims| claims as &dyn Claims)
    }
}

impl Inspect for SqliteStore {
    /// A database that turns out to be damaged is quarantined with all its entries. Then no entry is whole, not even those already
    /// reported as whole.
    fn verify(&self, visit: &mut dyn FnMut(&Proof)) -> Result<u64, MissReason> {
        let options = &self.0.options;
        let list = |database: &Database| Ok((database.opened.identity, database.keys()?));
        let (listed, keys) = self.0.with_timeout(options.timeout, list)?;
        let (mut whole, mut lost) = (0, None);
        for key in keys {
            let read = |database: &Database| Ok((database.opened.identity, database.find(&key)?));
            let (size, result) = match lost.map_or_else(|| self.0.with(read), Err) {
                Err(MissReason::Closed) => return Err(MissReason::Closed),
                Err(reason) => (0, Err(reason)),
                // Another process found the damage, or created another database.
                Ok((identity, _)) if identity != listed => return Err(MissReason::Unavailable),
                // Removed since it was listed.
                Ok((_, None)) => continue,
                Ok((_, Some((_, stored)))) => {
                    let size = stored.len() as u64;
                    (size, envelope::decode(stored, &key, options.seal.as_ref()).map(drop))
                }
            };
            let damage = result.err().filter(|reason| reason.is_damage());
            let mut is_removed = lost.is_some();
            if damage.is_some() && lost.is_none() {
                let remove = |database: &Database| database.remove_damaged(&key);
                is_removed = self.0.with_timeout(options.timeout, remove).is_ok();
                if self.0.place.identity() != listed {
                    (lost, is_removed) = (damage, true);
                    whole = 0;
                }
            }
            let proof = Proof { is_removed, ..Proof::new(Key::digest(&key), size, result) };
            whole += u64::from(proof.result.is_ok());
            visit(&proof);
        }
        Ok(whole)
    }

    /// Lists in the order of use at the time of the call. Skips entries that are removed meanwhile.
    fn entries(&self, visit: &mut dyn FnMut(Entry) -> ControlFlow<()>) -> Result<(), MissReason> {
        let timeout = self.0.options.timeout;
        // If this fails, the order only becomes a little older.
        let _ = self.0.with(Database::flush);
        let ids = self.0.with_timeout(timeout, Database::ids_by_use)?;
        let mut left = ids.as_slice();
        while !left.is_empty() {
            // Look-ups of other threads run in between.
            let read = self.0.with_timeout(timeout, |database| database.entries(left))?;
            left = left.get(read.len()..).unwrap_or_default();
            if read.into_iter().flatten().any(|entry| visit(entry).is_break()) {
                break;
            }
        }
        Ok(())
    }

    fn totals(&self) -> Result<Totals, MissReason> {
        let totals = |database: &Database| space::totals(&database.opened.connection);
        self.0.with_timeout(self.0.options.timeout, totals)
    }

    fn is_sealed(&self) -> bool {
        self.0.options.seal.is_some()
    }

    fn prune(&self, limits: Limits) -> Result<Totals, MissReason> {
        self.0.check_writable()?;
        let mut pruned = Totals::default();
        loop {
            let gone = self.0.with_timeout(self.0.options.timeout, |database| database.prune(limits))?;
            if gone.entries == 0 {
                return Ok(pruned);
            }
            pruned.entries += gone.entries;
            pruned.bytes += gone.bytes;
        }
    }

    fn report(&self, counted: &Statistics, last_miss: Option<&Miss>) -> Result<(), MissReason> {
        self.0.check_writable()?;
        let timeout = self.0.options.timeout.min(REPORT_TIMEOUT);
        self.0.with_timeout(timeout, |database| database.report(counted, last_miss))
    }

    fn stats(&self) -> Result<PersistedStats, MissReason> {
        self.0.with_timeout(self.0.options.timeout, Database::stats)
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        let _ = self.close();
    }
}
