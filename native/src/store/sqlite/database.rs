//! An open database: the calls, each in one transaction.

use std::time::Duration;

use rusqlite::{OptionalExtension, Transaction, TransactionBehavior, config::DbConfig};
use warmstart_core::{envelope, lru::Limits, miss::Miss, reason::Reason, tally::Tally};

use super::{
    fault::Fault,
    heads::Heads,
    open::{self, Opened},
    options::SqliteOptions,
    place::Place,
    space::{self, GIVE_BACK, KEEP_UNUSED, SHORT_OF_SPACE, WAL_LIMIT},
};
use crate::store::{
    Entry, Kept, Pruned, Report, SHORT_HEAD, Totals,
    recency::{Batch, Recency},
};

/// So many entries are pruned in one transaction.
const PRUNED_AT_ONCE: u64 = 64;

/// An envelope of more than 64 KiB is read by pieces into its place, so that SQLite does not put it together somewhere
/// else first.
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

/// The ids of the notes.
const TALLY: i64 = 1;
const MISS: i64 = 2;

/// An open database of this version.
#[derive(Debug)]
pub(super) struct Database {
    pub(super) opened: Opened,
    place: Place,
    options: SqliteOptions,
    /// The entries used since that was last written down, by id.
    uses: Recency<i64>,
}

impl Database {
    /// Opens the database at `place`, as [`open::open`] does.
    pub(super) fn open(place: &Place, options: &SqliteOptions, timeout: Duration) -> Result<Self, Fault> {
        let opened = open::open(place, options, timeout)?;
        Ok(Self { opened, place: place.clone(), options: options.clone(), uses: Recency::default() })
    }

    /// Whether what was opened to be read only is not what is there now: it is to be opened again.
    pub(super) fn has_changed(&self) -> bool {
        self.opened.seen.is_some() && self.opened.seen != self.place.sight()
    }

    /// Whether the path may lead to another database now. One that is only read may have lost the index of its log to who was
    /// the last to write.
    pub(super) fn may_have_moved(&self) -> bool {
        self.opened.seen.is_some() || self.opened.identity != self.place.identity()
    }

    /// The id and the envelope of the entry of `key`, as they are. Of one without an envelope, as only a damaged database has
    /// it, the envelope is empty. Counts no use.
    pub(super) fn find(&self, key: &[u8]) -> Result<Option<(i64, Vec<u8>)>, Fault> {
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

    /// The id of the entry of `key`, the first bytes of its envelope, and the length of that.
    pub(super) fn head(&self, key: &[u8]) -> Result<Option<(i64, Vec<u8>, u64)>, Fault> {
        let transaction = self.opened.connection.unchecked_transaction()?;
        let Some(id) = self.find_id(key)? else { return Ok(None) };
        let (head, len) = Heads::new(&transaction).read(id, SHORT_HEAD)?;
        Ok(Some((id, head, len)))
    }

    /// Reads the payload of an entry, from `at` of its envelope to the end, if that is still so long; says whether it is. Counts as
    /// a use.
    pub(super) fn read_payload(&self, id: i64, at: usize, into: &mut [u8]) -> Result<bool, Fault> {
        let mut heads = Heads::new(&self.opened.connection);
        let Some(blob) = heads.open(id)?.filter(|blob| blob.len() == at + into.len()) else {
            return Ok(false);
        };
        blob.read_at_exact(into, at)?;
        drop(heads);
        self.note_use(id);
        Ok(true)
    }

    /// Every key, once the table and the index of the order of use were read to their ends. The index of keys is read as each
    /// is looked up.
    pub(super) fn keys(&self) -> Result<Vec<Vec<u8>>, Fault> {
        let transaction = self.opened.connection.unchecked_transaction()?;
        self.ids_by_use()?;
        let mut statement = transaction.prepare_cached(KEYS)?;
        Ok(statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
    }

    /// The id of every entry, the one that would be evicted first at first.
    pub(super) fn ids_by_use(&self) -> Result<Vec<i64>, Fault> {
        let mut statement = self.opened.connection.prepare_cached(IDS_BY_USE)?;
        Ok(statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
    }

    /// What is known about these entries; what is gone is left out.
    pub(super) fn entries(&self, ids: &[i64]) -> Result<Vec<Entry>, Fault> {
        let transaction = self.opened.connection.unchecked_transaction()?;
        let mut heads = Heads::new(&transaction);
        ids.iter().filter_map(|id| heads.entry(*id).transpose()).collect()
    }

    /// Whether something whole, by header and length, is stored under `key`.
    pub(super) fn contains(&self, key: &[u8]) -> Result<bool, Fault> {
        let transaction = self.opened.connection.unchecked_transaction()?;
        match self.find_id(key)? {
            Some(id) => Ok(Heads::new(&transaction).look_at(id, self.options.seal.as_ref())?.is_ok()),
            None => Ok(false),
        }
    }

    /// The number of entries that are whole by header and length and sealed as they are to be; what is damaged is removed.
    pub(super) fn len(&self) -> Result<u64, Fault> {
        let count = |transaction: &Transaction<'_>| {
            let (mut whole, mut damaged) = (0, Vec::new());
            let mut heads = Heads::new(transaction);
            for id in self.ids_by_use()? {
                match heads.look_at(id, self.options.seal.as_ref())? {
                    Ok(()) => whole += 1,
                    Err(reason) if reason.is_damage() => damaged.push(id),
                    Err(_) => {}
                }
            }
            Ok::<_, Fault>((whole, damaged))
        };
        let (whole, damaged) = count(&self.opened.connection.unchecked_transaction()?)?;
        if damaged.is_empty() || !self.opened.writable {
            return Ok(whole);
        }
        self.write(|transaction, _| {
            // Once more: they may have been replaced meanwhile.
            let (whole, damaged) = count(transaction)?;
            damaged.iter().try_for_each(|id| transaction.prepare_cached(REMOVE)?.execute([id]).map(drop))?;
            Ok(whole)
        })
    }

    /// The number of entries, and what they count, added up.
    pub(super) fn totals(&self) -> Result<Totals, Fault> {
        space::totals(&self.opened.connection)
    }

    /// What is kept of all reports. Damage is not mended here.
    pub(super) fn kept(&self) -> Result<Kept, Fault> {
        let _transaction = self.opened.connection.unchecked_transaction()?;
        let tally = Tally::resume(self.tally()?, 0).map_err(Fault::Refused)?;
        let seal = self.options.seal.as_ref();
        let last_miss = self.note(MISS)?.and_then(|stored| Miss::decode(stored, seal).ok());
        Ok(Kept { tally, last_miss })
    }

    /// Stores `stored` under `key` and says how many entries were evicted for it.
    pub(super) fn put(&self, key: &[u8], size: u64, stored: &[u8]) -> Result<u64, Fault> {
        self.write(|transaction, at| {
            if let Some(old) = self.find_id(key)? {
                // Only one that says it is a newer version's is read to its end.
                if Heads::new(transaction).look_at(old, None)? == Err(Reason::NewerVersion)
                    && let Some((_, found)) = self.find(key)?
                    && envelope::verify(&found) == Err(Reason::NewerVersion)
                {
                    return Err(Fault::Refused(Reason::NewerVersion));
                }
                transaction.prepare_cached(REMOVE)?.execute([old])?;
            }
            let evicted = space::make_room(transaction, self.options.limits, size)?;
            space::check_free(transaction, size, self.place.free())?;
            let counted = i64::try_from(size).map_err(|_| Fault::Refused(Reason::TooLong))?;
            transaction.prepare_cached(ADD)?.execute((key, counted, at))?;
            let id = transaction.last_insert_rowid();
            transaction.prepare_cached(ADD_CONTENT)?.execute((id, stored))?;
            Ok(evicted)
        })
    }

    /// Removes what is stored under `key`.
    pub(super) fn remove(&self, key: &[u8]) -> Result<bool, Fault> {
        self.write(|transaction, _| Ok(transaction.prepare_cached(REMOVE_KEY)?.execute([key])? > 0))
    }

    /// Removes what is stored under `key` if it is still damaged; another process may have replaced it meanwhile.
    pub(super) fn remove_damaged(&self, key: &[u8]) -> Result<(), Fault> {
        self.write(|transaction, _| {
            let Some((id, stored)) = self.find(key)? else { return Ok(()) };
            if envelope::decode_with(stored, key, self.options.seal.as_ref()).is_err_and(Reason::is_damage) {
                transaction.prepare_cached(REMOVE)?.execute([id])?;
            }
            Ok(())
        })
    }

    /// Removes some of what was not used for longest and is beyond `limits`. Nothing, once all the rest is within them.
    pub(super) fn prune(&self, limits: Limits) -> Result<Pruned, Fault> {
        let pruned = self.write(|transaction, _| {
            let before = space::totals(transaction)?;
            let mut left = before;
            for _ in 0..PRUNED_AT_ONCE {
                if !limits.exceeded_by(left.entries, left.bytes) || !space::evict(transaction)? {
                    break;
                }
                left = space::totals(transaction)?;
                // What a commit frees, it may have to move through the log.
                if before.bytes.saturating_sub(left.bytes) >= WAL_LIMIT {
                    break;
                }
            }
            let entries = before.entries.saturating_sub(left.entries);
            Ok(Pruned { entries, bytes: before.bytes.saturating_sub(left.bytes) })
        })?;
        if pruned.entries == 0 {
            self.empty_log();
        }
        Ok(pruned)
    }

    /// Removes every entry and gives their space back.
    pub(super) fn clear(&self) -> Result<(), Fault> {
        self.write(|transaction, _| {
            transaction.execute_batch("DELETE FROM entry")?;
            // Of what is left, nothing has an entry.
            space::evict(transaction)
        })?;
        self.empty_log();
        Ok(())
    }

    /// Adds a report to what is kept.
    pub(super) fn report(&self, report: &Report) -> Result<(), Fault> {
        let now = self.options.clock.unix_ms();
        let last_miss = report.last_miss.as_ref().and_then(|miss| miss.encode(self.options.seal.as_ref()));
        self.write(|transaction, _| {
            // What it takes beyond the cap, the next put gives back: what a report evicted, nobody would count.
            let mut tally = Tally::resume(self.tally()?, now).map_err(Fault::Refused)?;
            tally.add(&report.counted);
            let mut statement = transaction.prepare_cached(NOTE)?;
            statement.execute((TALLY, tally.encode()))?;
            last_miss.as_ref().map_or(Ok(0), |envelope| statement.execute((MISS, envelope)))?;
            Ok(())
        })
    }

    /// Writes down what was used since that was last done.
    pub(super) fn flush(&self) -> Result<(), Fault> {
        if self.uses.is_empty() { Ok(()) } else { self.write(|_, _| Ok(())) }
    }

    /// Counts a use of what is stored under `key`, if there is anything.
    pub(super) fn touch(&self, key: &[u8]) -> Result<(), Fault> {
        if let Some(id) = self.find_id(key)? {
            self.note_use(id);
        }
        Ok(())
    }

    /// Counts a use of an entry.
    pub(super) fn note_use(&self, id: i64) {
        if self.opened.writable && self.uses.note(&id, |id| *id) {
            // A hit waits for nobody. If it cannot be done now, the uses are kept for the next time.
            let _ = self.write_within(Duration::ZERO, |_, _| Ok(()));
            let _ = self.opened.connection.busy_timeout(open::wait(&self.options));
        }
    }

    /// Closes the connection because the database is damaged, and sets that aside, with its log as it is.
    pub(super) fn set_aside(self) {
        let (place, identity, writable) = (self.place, self.opened.identity, self.opened.writable);
        let _ = self.opened.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        drop(self.opened.connection);
        if writable {
            // If it cannot be done now, the next call finds the damage again.
            let _ = place.set_aside(identity);
        }
    }

    fn tally(&self) -> Result<Result<Tally, Reason>, Fault> {
        Ok(self.note(TALLY)?.map_or(Err(Reason::Absent), |bytes| Tally::decode(&bytes)))
    }

    fn note(&self, id: i64) -> Result<Option<Vec<u8>>, Fault> {
        let mut statement = self.opened.connection.prepare_cached(FIND_NOTE)?;
        Ok(statement.query_row([id], |row| row.get(0)).optional()?)
    }

    fn find_id(&self, key: &[u8]) -> Result<Option<i64>, Fault> {
        let mut statement = self.opened.connection.prepare_cached(FIND_ID)?;
        Ok(statement.query_row([key], |row| row.get(0)).optional()?)
    }

    /// Does `work` in one transaction, together with writing down what was used, and keeps the log short. `work` is told
    /// what `accessed_at` comes next.
    ///
    /// Does not wait for another writer: whoever has patience asks again, and lets look-ups of other threads come in
    /// between.
    fn write<T>(&self, mut work: impl FnMut(&Transaction<'_>, i64) -> Result<T, Fault>) -> Result<T, Fault> {
        let (connection, wait) = (&self.opened.connection, open::wait(&self.options));
        let done = self.write_within(wait, &mut work);
        if !matches!(done, Err(Fault::Refused(Reason::NoSpace))) || !self.empty_log() {
            return done;
        }
        // Once more, with an empty log, and without moving pages through it.
        let _ = connection.execute_batch(KEEP_UNUSED);
        let done = self.write_within(wait, work);
        let _ = connection.execute_batch(GIVE_BACK);
        // What did not fit is not left in it.
        self.empty_log();
        done
    }

    /// As [`write`](Self::write), once; waits so long, when it writes, for those who read.
    fn write_within<T>(
        &self,
        wait: Duration,
        work: impl FnOnce(&Transaction<'_>, i64) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        if !self.opened.writable {
            return Err(Fault::Refused(Reason::ReadOnly));
        } else if self.may_have_moved() {
            // Removed or set aside by somebody else: what was stored here would be lost.
            return Err(Fault::Disconnected(Reason::Unavailable));
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

    /// Writes down that these entries were used, in that order and after every use that is written down already, whatever the
    /// clock says. Returns what comes after.
    fn write_uses(&self, uses: &Batch<i64>) -> Result<i64, Fault> {
        let connection = &self.opened.connection;
        let newest: Option<i64> = connection.prepare_cached(NEWEST)?.query_row([], |row| row.get(0))?;
        let now = i64::try_from(self.options.clock.unix_ms()).unwrap_or(i64::MAX);
        let mut at = now.max(newest.map_or(0, |newest| newest.saturating_add(1)));
        let mut statement = connection.prepare_cached(USE)?;
        for id in uses.names() {
            statement.execute((id, at))?;
            at = at.saturating_add(1);
        }
        Ok(at)
    }

    /// Empties the log when it is too long, or when the file is and could be cut. If somebody reads or writes, that is left to
    /// whoever writes next.
    fn bound_log(&self) {
        let len = |suffix| std::fs::metadata(self.place.beside(suffix)).map_or(0, |metadata| metadata.len());
        let is_short = self.place.free().is_some_and(|free| free < SHORT_OF_SPACE);
        let limit = if is_short { 0 } else { WAL_LIMIT };
        if len("-wal") > limit || len("") > space::file_limit(self.options.limits) {
            self.empty_log();
        }
    }

    /// Moves the log into the database; says whether that could be done.
    fn empty_log(&self) -> bool {
        let connection = &self.opened.connection;
        let is_busy =
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
        is_busy.is_ok_and(|is_busy| !is_busy)
    }
}
