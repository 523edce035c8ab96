//! An open database: its operations, each in one transaction.

use std::time::Duration;

use rusqlite::{OptionalExtension, Transaction, TransactionBehavior, config::DbConfig};
use warmstart_core::{
    envelope,
    lru::Limits,
    miss::Miss,
    reason::MissReason,
    statistics::{PersistedStats, Statistics},
};

use super::{
    error::DbError,
    heads::Heads,
    open::{self, Opened},
    place::Place,
    space::{self, GIVE_BACK, KEEP_UNUSED, SHORT_OF_SPACE, WAL_LIMIT},
};
use crate::store::{Entry, SHORT_HEAD, StoreOptions, Totals, recency::Recency};

/// The number of heads that are read at once; fewer if together they are longer than `HEAD_BYTES`.
const HEADS: usize = 256;
const HEAD_BYTES: usize = 256 << 10;

/// The number of entries that are pruned in one transaction.
const PRUNED_AT_ONCE: u64 = 64;

/// An envelope longer than 64 KiB is read in pieces directly into its buffer, so that SQLite does not assemble it
/// in memory of its own first.
const FIND: &str = "SELECT entry.id, CASE WHEN length(envelope) <= 65536 THEN envelope END \
     FROM entry LEFT JOIN content ON content.id = entry.id WHERE key = ?1";
const FIND_ID: &str = "SELECT id FROM entry WHERE key = ?1";
const KEYS: &str = "SELECT key FROM entry NOT INDEXED";
const IDS_BY_USE: &str = "SELECT id FROM entry ORDER BY accessed_at, id";
const REMOVE: &str = "DELETE FROM entry WHERE id = ?1";
const REMOVE_KEY: &str = "DELETE FROM entry WHERE key = ?1";
const ADD: &str = "INSERT INTO entry (key, size, accessed_at) VALUES (?1, ?2, ?3)";
const ADD_CONTENT: &str = "INSERT OR REPLACE INTO content (id, envelope) VALUES (?1, ?2)";
const NEWEST: &str = "SELECT max(accessed_at) FROM entry";
const USE: &str = "UPDATE entry SET accessed_at = ?2 WHERE id = ?1";
const FIND_NOTE: &str = "SELECT value FROM note WHERE id = ?1";
const NOTE: &str = "INSERT INTO note VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET value = excluded.value";

/// The ids of the rows in the table `note`.
const COUNTERS: i64 = 1;
const MISS: i64 = 2;

/// An open database of this version.
#[derive(Debug)]
pub(super) struct Database {
    pub(super) opened: Opened,
    place: Place,
    options: StoreOptions,
    /// The ids of entries that were used since uses were last written.
    uses: Recency<i64>,
}

impl Database {
    /// Opens the database at `place`, as [`open::open`] does.
    pub(super) fn open(place: &Place, options: &StoreOptions, timeout: Duration) -> Result<Self, DbError> {
        let opened = open::open(place, options, timeout)?;
        Ok(Self { opened, place: place.clone(), options: options.clone(), uses: Recency::default() })
    }

    /// Returns whether a database that was opened read-only has been replaced or changed, so that it must be opened again.
    pub(super) fn has_changed(&self) -> bool {
        self.opened.seen.is_some() && self.opened.seen != self.place.stamp()
    }

    /// Returns whether the path may lead to another database now. A read-only connection also loses the index of its log when the
    /// last writer closes.
    pub(super) fn may_have_moved(&self) -> bool {
        self.opened.seen.is_some() || self.opened.identity != self.place.identity()
    }

    /// Returns the id and the envelope of the entry of `key`, unverified. The envelope is empty if it is missing, as in a damaged
    /// database. Counts no use.
    pub(super) fn find(&self, key: &[u8]) -> Result<Option<(i64, Vec<u8>)>, DbError> {
        let connection = &self.opened.connection;
        let mut statement = connection.prepare_cached(FIND)?;
        let mut rows = statement.query([key])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let id = row.get(0)?;
        match row.get(1)? {
            Some(envelope) => Ok(Some((id, envelope))),
            // In the same transaction, which lasts as long as the statement.
            None => Ok(Some((id, Heads::new(connection).read(id, usize::MAX)?.0))),
        }
    }

    /// Returns the envelopes of the entries of `keys`, in one transaction. Counts their uses.
    pub(super) fn find_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, DbError> {
        let transaction = self.opened.connection.unchecked_transaction()?;
        let found = keys.iter().map(|key| self.find(key)).collect::<Result<Vec<_>, _>>()?;
        drop(transaction);
        found.iter().flatten().for_each(|(id, _)| self.note_use(*id));
        Ok(found.into_iter().map(|found| Some(found?.1)).collect())
    }

    /// Returns the id of the entry of `key`, the first bytes of its envelope, and the envelope's length.
    pub(super) fn head(&self, key: &[u8]) -> Result<Option<(i64, Vec<u8>, u64)>, DbError> {
        let transaction = self.opened.connection.unchecked_transaction()?;
        let Some(id) = self.find_id(key)? else { return Ok(None) };
        let (head, len) = Heads::new(&transaction).read(id, SHORT_HEAD)?;
        Ok(Some((id, head, len)))
    }

    /// Reads an envelope from offset `at` to its end, if that still has the length of `into`. Returns whether it has, and then counts
    /// a use.
    pub(super) fn read_payload(&self, id: i64, at: usize, into: &mut [u8]) -> Result<bool, DbError> {
        let mut heads = Heads::new(&self.opened.connection);
        let Some(blob) = heads.open(id)?.filter(|blob| blob.len() == at + into.len()) else {
            return Ok(false);
        };
        blob.read_at_exact(into, at)?;
        drop(heads);
        self.note_use(id);
        Ok(true)
    }

    /// Returns every key, and reads the table and the index of the order of use to their ends. The index of keys is read
    /// by the look-ups that follow.
    pub(super) fn keys(&self) -> Result<Vec<Vec<u8>>, DbError> {
        let transaction = self.opened.connection.unchecked_transaction()?;
        self.ids_by_use()?;
        let mut statement = transaction.prepare_cached(KEYS)?;
        Ok(statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
    }

    /// Returns the ids of all entries, in the order of eviction.
    pub(super) fn ids_by_use(&self) -> Result<Vec<i64>, DbError> {
        let mut statement = self.opened.connection.prepare_cached(IDS_BY_USE)?;
        Ok(statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
    }

    /// Describes the first of these entries, as many as can be read in a short time. Skips removed ones.
    pub(super) fn entries(&self, ids: &[i64]) -> Result<Vec<Option<Entry>>, DbError> {
        let transaction = self.opened.connection.unchecked_transaction()?;
        let mut heads = Heads::new(&transaction);
        let mut entries = Vec::new();
        for id in ids.iter().take(HEADS) {
            entries.push(heads.entry(*id)?);
            if heads.bytes >= HEAD_BYTES {
                break;
            }
        }
        Ok(entries)
    }

    /// Returns whether a whole entry, by its header and length, is stored under `key`.
    pub(super) fn contains(&self, key: &[u8]) -> Result<bool, DbError> {
        let transaction = self.opened.connection.unchecked_transaction()?;
        match self.find_id(key)? {
            Some(id) => Ok(Heads::new(&transaction).look_at(id, self.options.seal.as_ref())?.is_ok()),
            None => Ok(false),
        }
    }

    /// Returns the reported statistics. Does not repair damage.
    pub(super) fn stats(&self) -> Result<PersistedStats, DbError> {
        let _transaction = self.opened.connection.unchecked_transaction()?;
        let mut stats = PersistedStats::resume(self.counters()?, 0).map_err(DbError::Refused)?;
        let last_miss = self.note(MISS)?.ok_or(MissReason::Absent);
        stats.last_miss = last_miss.and_then(|stored| Miss::decode(stored, self.options.seal.as_ref())).ok();
        Ok(stats)
    }

    /// Stores `stored` under `key`, and returns how many entries were evicted for it.
    pub(super) fn put(&self, key: &[u8], size: u64, stored: &[u8]) -> Result<u64, DbError> {
        self.write(|transaction, at| {
            if let Some(old) = self.find_id(key)? {
                // Only an entry that claims a newer version is read to its end.
                if Heads::new(transaction).look_at(old, None)? == Err(MissReason::NewerVersion)
                    && let Some((_, found)) = self.find(key)?
                    && envelope::verify(&found, None) == Err(MissReason::NewerVersion)
                {
                    return Err(DbError::Refused(MissReason::NewerVersion));
                }
                transaction.prepare_cached(REMOVE)?.execute([old])?;
            }
            let evicted = space::make_room(transaction, self.options.limits, size)?;
            space::check_free(transaction, size, self.place.free())?;
            let counted = i64::try_from(size).map_err(|_| DbError::Refused(MissReason::TooLong))?;
            transaction.prepare_cached(ADD)?.execute((key, counted, at))?;
            let id = transaction.last_insert_rowid();
            transaction.prepare_cached(ADD_CONTENT)?.execute((id, stored))?;
            Ok(evicted)
        })
    }

    /// Removes the entry of `key`.
    pub(super) fn remove(&self, key: &[u8]) -> Result<bool, DbError> {
        self.write(|transaction, _| Ok(transaction.prepare_cached(REMOVE_KEY)?.execute([key])? > 0))
    }

    /// Removes the entry of `key` if it is still damaged. Another process may have replaced it.
    pub(super) fn remove_damaged(&self, key: &[u8]) -> Result<(), DbError> {
        self.write(|transaction, _| {
            let Some((id, stored)) = self.find(key)? else { return Ok(()) };
            if envelope::decode(stored, key, self.options.seal.as_ref()).is_err_and(MissReason::is_damage) {
                transaction.prepare_cached(REMOVE)?.execute([id])?;
            }
            Ok(())
        })
    }

    /// Evicts some of the least recently used entries beyond `limits`. Returns empty totals once the rest is within them.
    pub(super) fn prune(&self, limits: Limits) -> Result<Totals, DbError> {
        let pruned = self.write(|transaction, _| {
            let before = space::totals(transaction)?;
            let mut left = before;
            for _ in 0..PRUNED_AT_ONCE {
                if !limits.exceeded_by(left.entries, left.bytes) || !space::evict(transaction)? {
                    break;
                }
                left = space::totals(transaction)?;
                // A commit may have to move the freed pages through the log.
                if before.bytes.saturating_sub(left.bytes) >= WAL_LIMIT {
                    break;
                }
            }
            let entries = before.entries.saturating_sub(left.entries);
            Ok(Totals { entries, bytes: before.bytes.saturating_sub(left.bytes) })
        })?;
        if pruned.entries == 0 {
            self.empty_log();
        }
        Ok(pruned)
    }

    /// Removes every entry and frees its space.
    pub(super) fn clear(&self) -> Result<(), DbError> {
        self.write(|transaction, _| {
            transaction.execute_batch("DELETE FROM entry")?;
            // The rest are envelopes without an entry.
            space::evict(transaction)
        })?;
        self.empty_log();
        Ok(())
    }

    /// Adds a report to the statistics.
    pub(super) fn report(&self, counted: &Statistics, last_miss: Option<&Miss>) -> Result<(), DbError> {
        let now = self.options.clock.unix_ms();
        let last_miss = last_miss.and_then(|miss| miss.encode(self.options.seal.as_ref()));
        self.write(|transaction, _| {
            // The next put makes up for an excess over the cap. Evictions by a report would not be counted anywhere.
            let mut stats = PersistedStats::resume(self.counters()?, now).map_err(DbError::Refused)?;
            stats.add(counted);
            let mut statement = transaction.prepare_cached(NOTE)?;
            statement.execute((COUNTERS, stats.encode()))?;
            last_miss.as_ref().map_or(Ok(0), |envelope| statement.execute((MISS, envelope)))?;
            Ok(())
        })
    }

    /// Writes pending uses.
    pub(super) fn flush(&self) -> Result<(), DbError> {
        if self.uses.is_empty() { Ok(()) } else { self.write(|_, _| Ok(())) }
    }

    /// Counts a use of the entry of `key`, if there is one.
    pub(super) fn record_access(&self, key: &[u8]) -> Result<(), DbError> {
        if let Some(id) = self.find_id(key)? {
            self.note_use(id);
        }
        Ok(())
    }

    /// Counts a use of an entry.
    pub(super) fn note_use(&self, id: i64) {
        if self.opened.writable && self.uses.note(&id, |id| *id) {
            // A hit does not wait. If uses cannot be written now, they are kept for later.
            let _ = self.write_within(Duration::ZERO, |_, _| Ok(()));
            let _ = self.opened.connection.busy_timeout(open::wait(&self.options));
        }
    }

    /// Closes the connection because the database is damaged, and quarantines the database with its log.
    pub(super) fn quarantine(self) {
        let (place, identity, writable) = (self.place, self.opened.identity, self.opened.writable);
        let _ = self.opened.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        drop(self.opened.connection);
        if writable {
            // If this fails, the next call finds the damage again.
            let _ = place.quarantine(identity);
        }
    }

    fn counters(&self) -> Result<Result<PersistedStats, MissReason>, DbError> {
        Ok(self.note(COUNTERS)?.ok_or(MissReason::Absent).and_then(|bytes| PersistedStats::decode(&bytes)))
    }

    fn note(&self, id: i64) -> Result<Option<Vec<u8>>, DbError> {
        let mut statement = self.opened.connection.prepare_cached(FIND_NOTE)?;
        Ok(statement.query_row([id], |row| row.get(0)).optional()?)
    }

    fn find_id(&self, key: &[u8]) -> Result<Option<i64>, DbError> {
        let mut statement = self.opened.connection.prepare_cached(FIND_ID)?;
        Ok(statement.query_row([key], |row| row.get(0)).optional()?)
    }

    /// Runs `work` in one transaction that also writes pending uses, and bounds the log. Passes the next value of `accessed_at`
    /// to `work`.
    ///
    /// Does not wait for another writer. A caller with a timeout retries, so that look-ups of other threads can run in
    /// between.
    fn write<T>(
        &self,
        mut work: impl FnMut(&Transaction<'_>, i64) -> Result<T, DbError>,
    ) -> Result<T, DbError> {
        let (connection, wait) = (&self.opened.connection, open::wait(&self.options));
        let done = self.write_within(wait, &mut work);
        if !matches!(done, Err(DbError::Refused(MissReason::NoSpace))) || !self.empty_log() {
            return done;
        }
        // Retried with an empty log, and without moving pages through it.
        let _ = connection.execute_batch(KEEP_UNUSED);
        let done = self.write_within(wait, work);
        let _ = connection.execute_batch(GIVE_BACK);
        // Removes from the log what did not fit.
        self.empty_log();
        done
    }

    /// Does the same as [`write`](Self::write), without a retry. When it writes, it waits for readers up to this time.
    fn write_within<T>(
        &self,
        wait: Duration,
        work: impl FnOnce(&Transaction<'_>, i64) -> Result<T, DbError>,
    ) -> Result<T, DbError> {
        if !self.opened.writable {
            return Err(DbError::Refused(MissReason::ReadOnly));
        } else if self.may_have_moved() {
            // Removed or quarantined by another process: an entry stored in it would be lost.
            return Err(DbError::Disconnected(MissReason::Unavailable));
        }
        let connection = &self.opened.connection;
        connection.busy_timeout(Duration::ZERO)?;
        let begun = Transaction::new_unchecked(connection, TransactionBehavior::Immediate);
        connection.busy_timeout(wait)?;
        let transaction = begun?;
        let uses = self.uses.take();
        let done = self
            .write_uses(&uses)
            .and_then(|at| work(&transaction, at))
            .and_then(|value| Ok(transaction.commit().map(|()| value)?));
        match done {
            Ok(_) => self.bound_log(),
            Err(_) => self.uses.give_back(uses),
        }
        done
    }

    /// Writes uses of these entries, in that order and later than all earlier uses, whatever the clock says. Returns the next value
    /// of `accessed_at`.
    fn write_uses(&self, uses: &[(u64, i64)]) -> Result<i64, DbError> {
        let connection = &self.opened.connection;
        let newest: Option<i64> = connection.prepare_cached(NEWEST)?.query_row([], |row| row.get(0))?;
        let now = i64::try_from(self.options.clock.unix_ms()).unwrap_or(i64::MAX);
        let mut at = now.max(newest.map_or(0, |newest| newest.saturating_add(1)));
        let mut statement = connection.prepare_cached(USE)?;
        for (_, id) in uses {
            statement.execute((id, at))?;
            at = at.saturating_add(1);
        }
        Ok(at)
    }

    /// Empties the log if it is too long, or if the database file is too long and can be truncated. If another process reads or
    /// writes, the next writer does this.
    fn bound_log(&self) {
        let len = |suffix| std::fs::metadata(self.place.beside(suffix)).map_or(0, |metadata| metadata.len());
        let is_short = self.place.free().is_some_and(|free| free < SHORT_OF_SPACE);
        let limit = if is_short { 0 } else { WAL_LIMIT };
        if len("-wal") > limit || len("") > space::file_limit(self.options.limits) {
            self.empty_log();
        }
    }

    /// Moves the log into the database, and returns whether that succeeded.
    fn empty_log(&self) -> bool {
        let connection = &self.opened.connection;
        let is_busy =
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
        is_busy.is_ok_and(|is_busy| !is_busy)
    }
}
