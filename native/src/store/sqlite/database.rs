//! An open database: the calls, each in one transaction.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Transaction, TransactionBehavior};
use warmstart_core::{envelope, lru::Limits, reason::Reason};

use super::{
    connect::{self, Opened},
    fault::Fault,
    heads::Heads,
    notes::{self, Notes},
    options::SqliteOptions,
    place::{Identity, Place},
    rows,
    space::{self, WAL_LIMIT},
};
use crate::store::{Entry, Kept, Pruned, Report, Totals, recency::Recency};

const REMOVE: &str = "DELETE FROM entry WHERE key = ?1";
const REMOVE_ID: &str = "DELETE FROM entry WHERE id = ?1";
const ADD: &str = "INSERT INTO entry (key, size, accessed_at) VALUES (?1, ?2, ?3)";
const ADD_CONTENT: &str = "INSERT OR REPLACE INTO content (id, envelope) VALUES (?1, ?2)";

/// An open database of this version.
#[derive(Debug)]
pub(super) struct Database {
    opened: Opened,
    place: Place,
    wal: PathBuf,
    options: SqliteOptions,
    /// The entries used since that was last written down, by id.
    uses: Recency<i64>,
}

impl Database {
    /// Opens the database at `place`, as [`connect::open`] does.
    pub(super) fn open(place: &Place, options: &SqliteOptions, patience: Duration) -> Result<Self, Fault> {
        Ok(Self {
            opened: connect::open(place, options, patience)?,
            place: place.clone(),
            wal: place.beside("-wal"),
            options: options.clone(),
            uses: Recency::default(),
        })
    }

    /// Whether anything can be stored.
    pub(super) fn is_writable(&self) -> bool {
        self.opened.writable
    }

    /// Whether nobody else can open the database until this is dropped.
    pub(super) fn is_alone(&self) -> bool {
        self.opened.alone
    }

    /// The envelope stored under `key`, as it is. Counts as a use.
    pub(super) fn find(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        let Some((id, stored)) = rows::find(&self.opened.connection, key)? else { return Ok(None) };
        self.note_use(id);
        Ok(Some(stored))
    }

    /// The id of what is stored under `key`, the first bytes of its envelope, and the length of that.
    pub(super) fn head(&self, key: &[u8]) -> Result<Option<(i64, Vec<u8>, u64)>, Fault> {
        let transaction = self.opened.connection.unchecked_transaction()?;
        let Some(id) = rows::find_id(&transaction, key)? else { return Ok(None) };
        Ok(rows::read_head(&transaction, id)?.map(|(head, len)| (id, head, len)))
    }

    /// Reads the payload of an entry, from `at` of its envelope to the end, if that is still so long; says whether it is.
    /// Counts as a use.
    pub(super) fn read_payload(&self, id: i64, at: usize, into: &mut [u8]) -> Result<bool, Fault> {
        let transaction = self.opened.connection.unchecked_transaction()?;
        let is_read = rows::read_into(&transaction, id, at, into)?;
        drop(transaction);
        if is_read {
            self.note_use(id);
        }
        Ok(is_read)
    }

    /// The envelope stored under `key`, as it is. Counts no use.
    pub(super) fn read(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        let connection = &self.opened.connection;
        match rows::find(connection, key)? {
            Some((_, stored)) => Ok(Some(stored)),
            // One without an envelope, as only a damaged database has it, is cut to nothing.
            None => Ok(rows::find_id(connection, key)?.map(|_| Vec::new())),
        }
    }

    /// Every key, once the table and the index of the order of use were read to their ends. The index of keys is read as each
    /// is looked up.
    pub(super) fn keys(&self) -> Result<Vec<Vec<u8>>, Fault> {
        let transaction = self.opened.connection.unchecked_transaction()?;
        rows::ids_by_use(&transaction)?;
        rows::keys(&transaction)
    }

    /// The id of every entry, the one that would be evicted first at first.
    pub(super) fn ids_by_use(&self) -> Result<Vec<i64>, Fault> {
        rows::ids_by_use(&self.opened.connection)
    }

    /// What is known about these entries; what is gone is left out.
    pub(super) fn entries(&self, ids: &[i64]) -> Result<Vec<Entry>, Fault> {
        let transaction = self.opened.connection.unchecked_transaction()?;
        let mut heads = Heads::new(&transaction);
        ids.iter().filter_map(|id| heads.entry(*id).transpose()).collect()
    }

    /// Counts a use of what is stored under `key`, if there is anything.
    pub(super) fn touch(&self, key: &[u8]) -> Result<(), Fault> {
        if let Some(id) = rows::find_id(&self.opened.connection, key)? {
            self.note_use(id);
        }
        Ok(())
    }

    /// Stores `stored` under `key` and says how many entries were evicted for it.
    pub(super) fn put(&self, key: &[u8], size: u64, stored: &[u8]) -> Result<u64, Fault> {
        let limits = self.options.limits;
        self.write(|transaction, at| {
            let free = self.place.free();
            space::check_free(transaction, &self.place, size, free)?;
            if let Some(old) = rows::find_id(transaction, key)? {
                if rows::is_newer(transaction, old)? {
                    return Err(Fault::Refused(Reason::NewerVersion));
                }
                transaction.prepare_cached(REMOVE_ID)?.execute([old])?;
            }
            let mut evicted = space::make_room(transaction, limits, size)?;
            let counted = i64::try_from(size).map_err(|_| Fault::Refused(Reason::TooLong))?;
            transaction.prepare_cached(ADD)?.execute((key, counted, at))?;
            let id = transaction.last_insert_rowid();
            transaction.prepare_cached(ADD_CONTENT)?.execute((id, stored))?;
            evicted += space::trim(transaction, limits, id)?;
            space::check_free(transaction, &self.place, size, free)?;
            Ok(evicted)
        })
    }

    /// Removes what is stored under `key`.
    pub(super) fn remove(&self, key: &[u8]) -> Result<bool, Fault> {
        let (removed, unused) = self.write(|transaction, _| {
            let removed = transaction.prepare_cached(REMOVE)?.execute([key])? > 0;
            Ok((removed, removed && space::give_back(transaction, self.place.free())?))
        })?;
        let is_short = unused || (removed && self.place.free().is_some_and(|free| free < WAL_LIMIT));
        if is_short {
            self.bound_log(true);
        }
        self.give_back_the_rest(unused);
        Ok(removed)
    }

    /// Removes some of what was not used for longest and is beyond `limits`; says what went, and whether more is to go.
    pub(super) fn prune(&self, limits: Limits) -> Result<(Pruned, bool), Fault> {
        let (pruned, more, unused) = self.write(|transaction, _| {
            let (pruned, more) = space::prune(transaction, limits)?;
            Ok((pruned, more, pruned.entries > 0 && space::give_back(transaction, self.place.free())?))
        })?;
        if pruned.entries > 0 {
            self.bound_log(true);
        }
        self.give_back_the_rest(unused);
        Ok((pruned, more))
    }

    /// Adds a report to what is kept.
    pub(super) fn report(&self, report: &Report) -> Result<(), Fault> {
        let now = self.options.clock.unix_ms();
        self.write(|transaction, _| {
            let free = self.place.free();
            // What it takes beyond the cap, the next put gives back: what a report evicted, nobody would count.
            notes::add(transaction, report, now, self.options.seal.as_ref())?;
            space::check_free(transaction, &self.place, notes::MOST, free)
        })
    }

    /// What is kept of all reports.
    pub(super) fn kept(&self) -> Result<Kept, Fault> {
        notes::kept(&*self.opened.connection.unchecked_transaction()?, self.options.seal.as_ref())
    }

    /// What was reported, as it is kept, for a database that takes the place of this one.
    pub(super) fn notes(&self) -> Result<Notes, Fault> {
        notes::all(&self.opened.connection)
    }

    /// Keeps what another database kept.
    pub(super) fn restore(&self, notes: &Notes) -> Result<(), Fault> {
        self.write(|transaction, _| notes::restore(transaction, notes))
    }

    /// Removes what is stored under `key` if it is still damaged; another process may have replaced it meanwhile.
    pub(super) fn remove_damaged(&self, key: &[u8]) -> Result<(), Fault> {
        self.write(|transaction, _| {
            let damaged = match rows::find(transaction, key)? {
                Some((id, stored)) => {
                    let found = envelope::decode_with(stored, key, self.options.seal.as_ref());
                    found.is_err_and(Reason::is_damage).then_some(id)
                }
                None => rows::find_id(transaction, key)?,
            };
            if let Some(id) = damaged {
                transaction.prepare_cached(REMOVE_ID)?.execute([id])?;
            }
            Ok(())
        })
    }

    /// Whether something whole, by header and length, is stored under `key`.
    pub(super) fn contains(&self, key: &[u8]) -> Result<bool, Fault> {
        let transaction = self.opened.connection.unchecked_transaction()?;
        match rows::find_id(&transaction, key)? {
            Some(id) => Ok(Heads::new(&transaction).look_at(id, self.options.seal.as_ref())?.is_ok()),
            None => Ok(false),
        }
    }

    /// The number of entries that are whole by header and length; the others are removed.
    pub(super) fn len(&self) -> Result<u64, Fault> {
        let transaction = self.opened.connection.unchecked_transaction()?;
        let (whole, damaged) = rows::survey(&transaction, self.options.seal.as_ref())?;
        drop(transaction);
        if !damaged.is_empty() && self.opened.writable {
            self.write(|transaction, _| {
                for id in &damaged {
                    // It may have been replaced meanwhile.
                    if Heads::new(transaction).look_at(*id, None)?.is_err_and(Reason::is_damage) {
                        transaction.prepare_cached(REMOVE_ID)?.execute([id])?;
                    }
                }
                Ok(())
            })?;
        }
        Ok(whole)
    }

    /// The number of entries, and what they count, added up.
    pub(super) fn totals(&self) -> Result<Totals, Fault> {
        let (entries, bytes) = space::totals(&self.opened.connection)?;
        Ok(Totals { entries, bytes })
    }

    /// Removes every entry and gives their space back.
    pub(super) fn clear(&self) -> Result<(), Fault> {
        self.write(|transaction, _| space::empty(transaction))?;
        self.bound_log(true);
        Ok(())
    }

    /// Writes down what was used since that was last done.
    pub(super) fn flush(&self) -> Result<(), Fault> {
        if self.uses.is_empty() { Ok(()) } else { self.write(|_, _| Ok(())) }
    }

    /// Whether it was opened to be read only.
    pub(super) fn is_only_read(&self) -> bool {
        self.opened.watched.is_some()
    }

    /// Whether what was opened to be read only is not what is there now: it is to be opened again.
    pub(super) fn has_changed(&self) -> bool {
        self.opened.watched.as_ref().is_some_and(|seen| !seen.is_still(&self.place))
    }

    /// Which file it is.
    pub(super) fn identity(&self) -> Option<Identity> {
        self.opened.identity
    }

    /// Whether the path still leads to this database.
    pub(super) fn is_current(&self) -> bool {
        self.opened.identity == self.place.identity()
    }

    /// Closes the connection and removes the database, because there is no room to empty it.
    pub(super) fn discard(self) -> Result<(), Fault> {
        if !self.opened.writable && !self.opened.alone {
            return Err(Fault::Refused(Reason::ReadOnly));
        }
        connect::leave_log_alone(&self.opened.connection, true)?;
        drop(self.opened.connection);
        Ok(self.place.discard(self.opened.identity)?)
    }

    /// Closes the connection because the database is damaged, and sets that aside, with its log as it is.
    pub(super) fn set_aside(self) {
        let (place, identity, writable) = (self.place, self.opened.identity, self.opened.writable);
        let _ = connect::leave_log_alone(&self.opened.connection, true);
        drop(self.opened.connection);
        if writable {
            // If it cannot be done now, the next call finds the damage again.
            let _ = place.set_aside(identity);
        }
    }

    /// Does `work` in one transaction, together with writing down what was used, and keeps the log short. `work` is told
    /// what `accessed_at` comes next.
    ///
    /// Where there is no space, it is done once more after the log was emptied.
    ///
    /// Does not wait for another writer: whoever has patience asks again, and lets look-ups of other threads come in
    /// between.
    fn write<T>(&self, mut work: impl FnMut(&Transaction<'_>, i64) -> Result<T, Fault>) -> Result<T, Fault> {
        let wait = connect::wait(&self.options);
        let done = self.write_within(wait, &mut work);
        match done {
            Err(Fault::Refused(Reason::NoSpace)) if self.empty_log() => self.write_within(wait, work),
            done => done,
        }
    }

    /// As [`write`](Self::write); waits so long, once it writes, for those who read.
    fn write_within<T>(
        &self,
        wait: Duration,
        work: impl FnOnce(&Transaction<'_>, i64) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        if self.opened.alone {
            return Err(Fault::Refused(Reason::NoSpace));
        } else if !self.opened.writable {
            return Err(Fault::Refused(Reason::ReadOnly));
        } else if !self.is_current() {
            // Removed or set aside by somebody else: what was stored here would be lost.
            return Err(Fault::Disconnected(Reason::Unavailable));
        }
        let connection = &self.opened.connection;
        connection.busy_timeout(Duration::ZERO)?;
        let begun = Transaction::new_unchecked(connection, TransactionBehavior::Immediate);
        connection.busy_timeout(wait)?;
        let transaction = begun?;
        let uses = self.uses.take();
        let done = rows::write_uses(&transaction, &uses, self.options.clock.unix_ms())
            .and_then(|at| work(&transaction, at))
            .and_then(|value| Ok(transaction.commit().map(|()| value)?));
        match done {
            Ok(_) => self.bound_log(false),
            Err(_) => self.uses.give_back(uses),
        }
        done
    }

    /// What could not be given back at once is, piece by piece; what cannot be is used again.
    fn give_back_the_rest(&self, mut unused: bool) {
        while unused {
            let free = self.place.free();
            let given = self.write(|transaction, _| space::give_back(transaction, self.place.free()));
            self.bound_log(true);
            unused = given.unwrap_or(false) && self.place.free() > free;
        }
    }

    fn note_use(&self, id: i64) {
        if self.opened.writable && self.uses.note(&id, |id| *id) {
            // A hit waits for nobody. If it cannot be done now, the uses are kept for the next time.
            let _ = self.write_within(Duration::ZERO, |_, _| Ok(()));
            let _ = self.opened.connection.busy_timeout(connect::wait(&self.options));
        }
    }

    /// Moves the log into the database and empties it, when it is too long or when the database could shrink. If
    /// somebody reads or writes, it is left to whoever writes next.
    fn bound_log(&self, shrunk: bool) {
        let len = |path: &Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        let shrunk =
            shrunk || space::file_limit(self.options.limits).is_some_and(|max| len(self.place.path()) > max);
        if shrunk || len(&self.wal) > space::log_limit(self.place.free()) {
            let _ = space::vacuum_on_demand(&self.opened.connection);
            self.empty_log();
        }
    }

    /// Moves the log into the database; says whether that could be done.
    fn empty_log(&self) -> bool {
        let busy = self
            .opened
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
        self.opened.writable && busy.is_ok_and(|busy| !busy)
    }
}
