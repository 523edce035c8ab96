//! An open database: the statements, each in one transaction.

use std::{
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use foldhash::fast::RandomState;
use rusqlite::{Connection, OpenFlags, OptionalExtension, TransactionBehavior, config::DbConfig};
use warmstart_core::{
    envelope,
    lru::{Limits, Lru},
    reason::Reason,
};

use super::{
    fault::Fault,
    options::SqliteOptions,
    place::{Identity, Place},
    schema::{self, Origin},
    space::{self, WAL_LIMIT},
};

/// So many entries may have been used before it is written down which.
const FLUSH_AT: usize = 1024;

/// So many uses are remembered while they cannot be written down. The oldest are forgotten first.
const REMEMBERED: usize = 4 * FLUSH_AT;

/// The pause between attempts to open a database that another process is about to make.
const PAUSE: Duration = Duration::from_millis(2);

/// An envelope of more than 64 KiB is read by pieces into its place, so that SQLite does not put it together somewhere
/// else first.
const FIND: &str = "SELECT entry.id, CASE WHEN length(envelope) <= 65536 THEN envelope END \
     FROM entry JOIN content ON content.id = entry.id WHERE key = ?1";
const FIND_ID: &str = "SELECT id FROM entry WHERE key = ?1";
const REMOVE: &str = "DELETE FROM entry WHERE key = ?1";
const REMOVE_ID: &str = "DELETE FROM entry WHERE id = ?1";
const ADD: &str = "INSERT INTO entry (key, size, accessed_at) VALUES (?1, ?2, ?3)";
const ADD_CONTENT: &str = "INSERT OR REPLACE INTO content (id, envelope) VALUES (?1, ?2)";
const NEWEST: &str = "SELECT max(accessed_at) FROM entry";
const USE: &str = "UPDATE entry SET accessed_at = ?2 WHERE id = ?1";
const IDS: &str = "SELECT id FROM entry";

/// An open database of this version.
#[derive(Debug)]
pub(super) struct Database {
    connection: Connection,
    place: Place,
    wal: PathBuf,
    identity: Option<Identity>,
    writable: bool,
    options: SqliteOptions,
    /// The entries used since that was last written down, by id, in the order of their last use.
    used: Lru<i64, (), RandomState>,
}

impl Database {
    /// Opens the database at `place`; makes it if it is missing, rebuilds it if an older version made it, and sets it
    /// aside if it is damaged.
    pub(super) fn open(place: &Place, options: &SqliteOptions) -> Result<Self, Fault> {
        let deadline = Instant::now() + options.patience;
        let mut set_aside = false;
        loop {
            match Self::open_once(place, options) {
                // Somebody else is making it.
                Err(Fault::Refused(Reason::Busy)) if Instant::now() < deadline => thread::sleep(PAUSE),
                Err(Fault::Damaged(_)) if !set_aside => set_aside = true,
                result => return result,
            }
        }
    }

    fn open_once(place: &Place, options: &SqliteOptions) -> Result<Self, Fault> {
        let path = place.prepare()?;
        let identity = place.identity();
        let opened = Self::open_what_is_there(place, &path, identity, options);
        if let Err(Fault::Damaged(_)) = opened {
            // On a read-only medium this fails, and the damage is what is reported.
            let _ = place.set_aside(identity);
        }
        opened
    }

    /// Until the database is known to be ours, an error closes it without a trace: what is not ours is left as it was,
    /// to the byte.
    fn open_what_is_there(
        place: &Place,
        path: &Path,
        identity: Option<Identity>,
        options: &SqliteOptions,
    ) -> Result<Self, Fault> {
        let mut connection = connect(path, options)?;
        let origin = match examine(&mut connection) {
            Err(Fault::Disconnected(_)) if is_readable_without_log(place, &connection) => {
                connection = connect_immutable(path)?;
                examine(&mut connection)?
            }
            origin => origin?,
        };
        let writable = !connection.is_readonly("main")?;
        match origin {
            Origin::Ours => {}
            Origin::Newer => return Err(Fault::Refused(Reason::NewerVersion)),
            Origin::Foreign => return Err(place.foreign().into()),
            Origin::Empty | Origin::Older if !writable => return Err(Fault::Disconnected(Reason::ReadOnly)),
            Origin::Empty | Origin::Older => schema::create(&mut connection)?,
        }
        // Once more: SQLite has opened what lies beside the database only now.
        place.check_files()?;
        if writable {
            settle(&connection, options)?;
        }
        Ok(Self {
            connection,
            place: place.clone(),
            wal: place.beside("-wal"),
            identity,
            writable,
            options: options.clone(),
            used: Lru::new(Limits::NONE, RandomState::default()),
        })
    }

    /// Whether anything can be stored.
    pub(super) fn is_writable(&self) -> bool {
        self.writable
    }

    /// The envelope stored under `key`, as it is. Counts as a use.
    pub(super) fn find(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        let Some((id, stored)) = find(&self.connection, key)? else { return Ok(None) };
        if self.writable {
            self.note_use(id);
        }
        Ok(Some(stored))
    }

    /// Counts a use of what is stored under `key`, if there is anything.
    pub(super) fn touch(&mut self, key: &[u8]) -> Result<(), Fault> {
        let id = self.connection.prepare_cached(FIND_ID)?.query_row([key], |row| row.get(0)).optional()?;
        if let (Some(id), true) = (id, self.writable) {
            self.note_use(id);
        }
        Ok(())
    }

    /// Stores `stored` under `key` and says how many entries were evicted for it.
    pub(super) fn put(&mut self, key: &[u8], size: u64, stored: &[u8]) -> Result<u64, Fault> {
        self.check_writable()?;
        let limits = self.options.limits;
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let at = write_uses(&transaction, &self.used, self.options.clock.unix_ms())?;
        transaction.prepare_cached(REMOVE)?.execute([key])?;
        let mut evicted = space::make_room(&transaction, limits, size)?;
        let counted = i64::try_from(size).map_err(|_| Fault::Refused(Reason::TooLong))?;
        transaction.prepare_cached(ADD)?.execute((key, counted, at))?;
        let id = transaction.last_insert_rowid();
        transaction.prepare_cached(ADD_CONTENT)?.execute((id, stored))?;
        evicted += space::trim(&transaction, limits, id)?;
        transaction.commit()?;
        self.used.clear();
        self.bound_log(false);
        Ok(evicted)
    }

    /// Removes what is stored under `key`.
    pub(super) fn remove(&mut self, key: &[u8]) -> Result<bool, Fault> {
        self.check_writable()?;
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let removed = transaction.prepare_cached(REMOVE)?.execute([key])?;
        if removed > 0 {
            space::give_back(&transaction)?;
        }
        transaction.commit()?;
        self.bound_log(false);
        Ok(removed > 0)
    }

    /// Removes what is stored under `key` if it is still damaged; another process may have replaced it meanwhile.
    pub(super) fn remove_damaged(&mut self, key: &[u8]) -> Result<(), Fault> {
        self.check_writable()?;
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if let Some((id, stored)) = find(&transaction, key)?
            && envelope::decode(stored, key).is_err_and(Reason::is_damage)
        {
            transaction.prepare_cached(REMOVE_ID)?.execute([id])?;
        }
        Ok(transaction.commit()?)
    }

    /// Whether something whole, by header and length, is stored under `key`.
    pub(super) fn contains(&mut self, key: &[u8]) -> Result<bool, Fault> {
        let transaction = self.connection.transaction()?;
        let id: Option<i64> =
            transaction.prepare_cached(FIND_ID)?.query_row([key], |row| row.get(0)).optional()?;
        match id {
            Some(id) => Ok(space::look_at(&transaction, id)?.is_ok()),
            None => Ok(false),
        }
    }

    /// The number of entries that are whole by header and length; the others are removed.
    pub(super) fn len(&mut self) -> Result<u64, Fault> {
        let transaction = self.connection.transaction()?;
        let (whole, damaged) = survey(&transaction)?;
        drop(transaction);
        if !damaged.is_empty() && self.writable {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for id in damaged {
                // It may have been replaced meanwhile.
                if space::look_at(&transaction, id)?.is_err_and(Reason::is_damage) {
                    transaction.prepare_cached(REMOVE_ID)?.execute([id])?;
                }
            }
            transaction.commit()?;
        }
        Ok(whole)
    }

    /// What all entries count, added up.
    pub(super) fn total_bytes(&self) -> Result<u64, Fault> {
        Ok(space::totals(&self.connection)?.1)
    }

    /// Removes every entry and gives their space back.
    pub(super) fn clear(&mut self) -> Result<(), Fault> {
        self.check_writable()?;
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        space::empty(&transaction)?;
        transaction.commit()?;
        self.used.clear();
        self.bound_log(true);
        Ok(())
    }

    /// Writes down what was used since that was last done.
    pub(super) fn flush(&mut self) -> Result<(), Fault> {
        if self.used.is_empty() {
            return Ok(());
        }
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        write_uses(&transaction, &self.used, self.options.clock.unix_ms())?;
        transaction.commit()?;
        self.used.clear();
        Ok(())
    }

    /// Whether the path still leads to this database.
    pub(super) fn is_current(&self) -> bool {
        self.identity == self.place.identity()
    }

    /// Closes the connection because the database is damaged, and sets that aside, with its log as it is.
    pub(super) fn set_aside(self) {
        let (place, identity, writable) = (self.place.clone(), self.identity, self.writable);
        let _ = leave_log_alone(&self.connection, true);
        drop(self);
        if writable {
            // If it cannot be done now, the next call finds the damage again.
            let _ = place.set_aside(identity);
        }
    }

    fn check_writable(&self) -> Result<(), Fault> {
        if !self.writable {
            Err(Fault::Refused(Reason::ReadOnly))
        } else if !self.is_current() {
            // Removed or set aside by somebody else: what was stored here would be lost.
            Err(Fault::Disconnected(Reason::Unavailable))
        } else {
            Ok(())
        }
    }

    fn note_use(&mut self, id: i64) {
        if self.used.touch(&id) {
            return;
        }
        if self.used.len() >= REMEMBERED {
            self.used.pop_oldest();
        }
        self.used.insert(id, (), 0);
        if self.used.len().is_multiple_of(FLUSH_AT) {
            // A hit does not wait for a lock. If it cannot be had, the uses are kept for the next time.
            let _ = self.connection.busy_timeout(Duration::ZERO);
            let _ = self.flush();
            let _ = self.connection.busy_timeout(self.options.patience);
        }
    }

    /// Moves the log into the database and empties it, when it is too long or when the database could shrink. If
    /// somebody reads or writes, it is left to whoever writes next.
    fn bound_log(&self, shrunk: bool) {
        let len = |path: &Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        let shrunk =
            shrunk || space::file_limit(self.options.limits).is_some_and(|max| len(self.place.path()) > max);
        if shrunk || len(&self.wal) > WAL_LIMIT {
            let _ = space::vacuum_on_demand(&self.connection);
            let _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        }
    }
}

/// Opens without making anything, and so that closing leaves no trace until [`settle`] has said otherwise.
fn connect(path: &Path, options: &SqliteOptions) -> Result<Connection, Fault> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(options.patience)?;
    prepare(&connection)?;
    Ok(connection)
}

/// Opens a database on a read-only medium, which has no place for the locks and the index of a log.
fn connect_immutable(path: &Path) -> Result<Connection, Fault> {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte));
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri.push_str("?immutable=1");
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(uri, flags)?;
    prepare(&connection)?;
    Ok(connection)
}

/// Whether the database is on a read-only medium and all of it is in its file.
fn is_readable_without_log(place: &Place, connection: &Connection) -> bool {
    let log = std::fs::metadata(place.beside("-wal")).map_or(0, |metadata| metadata.len());
    log == 0 && connection.is_readonly("main").unwrap_or(false)
}

/// In one transaction, so that a database which another process is making is empty or made, and nothing between.
fn examine(connection: &mut Connection) -> Result<Origin, Fault> {
    let transaction = connection.transaction()?;
    schema::recognise(&transaction)
}

fn prepare(connection: &Connection) -> Result<(), Fault> {
    connection.set_prepared_statement_cache_capacity(32);
    leave_log_alone(connection, true)?;
    // What is in a file cannot change what our statements mean.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // Otherwise SQLite prepares a statement anew for each value that is bound to it, which doubles the cost of a hit.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection.execute_batch("PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0;")?)
}

/// What is only right for a database that is known to be ours.
fn settle(connection: &Connection, options: &SqliteOptions) -> Result<(), Fault> {
    schema::set_journal(connection)?;
    // A process may have died between the two halves of a large vacuum.
    space::vacuum_on_demand(connection)?;
    let synchronous = if options.durable { "FULL" } else { "NORMAL" };
    // Checkpoints are made by `bound_log`, which also empties the log.
    connection.execute_batch(&format!(
        "PRAGMA synchronous = {synchronous}; PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = {WAL_LIMIT};"
    ))?;
    Ok(leave_log_alone(connection, false)?)
}

fn leave_log_alone(connection: &Connection, alone: bool) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, alone).map(drop)
}

fn find(connection: &Connection, key: &[u8]) -> Result<Option<(i64, Vec<u8>)>, Fault> {
    let mut statement = connection.prepare_cached(FIND)?;
    let mut rows = statement.query([key])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let id = row.get(0)?;
    if let Some(envelope) = row.get_ref(1)?.as_blob_or_null()? {
        return Ok(Some((id, envelope.to_vec())));
    }
    // In the same transaction, which lasts as long as the statement.
    let blob = connection.blob_open("main", "content", "envelope", id, true)?;
    let mut envelope = vec![0; blob.len()];
    blob.read_at_exact(&mut envelope, 0)?;
    Ok(Some((id, envelope)))
}

/// Writes down that the entries in `used` were used, in that order and after every use that is written down already,
/// whatever the clock says. Returns what comes after.
fn write_uses(connection: &Connection, used: &Lru<i64, (), RandomState>, now: u64) -> Result<i64, Fault> {
    let newest: Option<i64> = connection.prepare_cached(NEWEST)?.query_row([], |row| row.get(0))?;
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let mut at = now.max(newest.map_or(0, |newest| newest.saturating_add(1)));
    let mut statement = connection.prepare_cached(USE)?;
    for (id, ..) in used.iter() {
        statement.execute((id, at))?;
        at = at.saturating_add(1);
    }
    Ok(at)
}

/// The number of entries that are whole by header and length, and the ids of those that are damaged.
fn survey(connection: &Connection) -> Result<(u64, Vec<i64>), Fault> {
    let mut statement = connection.prepare_cached(IDS)?;
    let mut rows = statement.query([])?;
    let (mut whole, mut damaged) = (0, Vec::new());
    let mut headers = space::Headers::new(connection);
    while let Some(row) = rows.next()? {
        let id = row.get(0)?;
        match headers.look_at(id)? {
            Ok(()) => whole += 1,
            Err(reason) if reason.is_damage() => damaged.push(id),
            Err(_) => {}
        }
    }
    Ok((whole, damaged))
}
