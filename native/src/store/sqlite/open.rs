//! How a database is opened and made, and what a connection is told.

use std::{
    fmt::Write as _,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, OpenFlags, config::DbConfig};
use warmstart_core::reason::Reason;

use super::{
    fault::Fault,
    options::SqliteOptions,
    place::{Identity, Place, Sight},
    schema,
    space::GIVE_BACK,
};

/// The longest that a look-up waits: for somebody who recovers the log or who wants the database for himself.
pub(super) const LOOK_UP: Duration = Duration::from_millis(50);

/// The pause between attempts to open a database that another process is about to make.
const PAUSE: Duration = Duration::from_millis(2);

/// What `PRAGMA auto_vacuum` says of a database that gives unused pages back with every commit.
const FULL_VACUUM: i64 = 1;

/// A connection to a database of this version.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) connection: Connection,
    pub(super) identity: Option<Identity>,
    pub(super) writable: bool,
    /// What was seen of a database that was opened to be read only.
    pub(super) seen: Option<Sight>,
}

/// Opens the database at `place`; makes it if it is missing, and sets it aside if it is damaged. Waits for others who are
/// making it, at most for `timeout`.
pub(super) fn open(place: &Place, options: &SqliteOptions, timeout: Duration) -> Result<Opened, Fault> {
    let deadline = Instant::now().checked_add(if options.read_only { wait(options) } else { timeout });
    // Who closes a database last removes the index of the log a moment before the log. Only if the log stays, somebody died.
    let is_in_use = || place.sight().is_some_and(|sight| sight.has_log);
    let mut is_set_aside = false;
    loop {
        let is_in_time = deadline.is_none_or(|at| Instant::now() < at);
        let path = place.prepare(!options.read_only)?;
        let identity = place.identity();
        let opened = if options.read_only {
            open_to_read(place, &path, options)
        } else {
            open_to_write(place, &path, options)
        };
        match opened {
            // Somebody else is making it, or has changed it while it was opened.
            Err(Fault::Refused(Reason::Busy)) if is_in_time => thread::sleep(PAUSE),
            Err(Fault::Disconnected(_)) if is_in_time && options.read_only && is_in_use() => {
                thread::sleep(PAUSE);
            }
            Err(Fault::Damaged(_)) if !is_set_aside && !options.read_only => {
                is_set_aside = true;
                // On a read-only medium this fails, and the damage is what is reported.
                let _ = place.set_aside(identity);
            }
            opened => return opened,
        }
    }
}

/// How long one attempt waits for a lock.
pub(super) fn wait(options: &SqliteOptions) -> Duration {
    options.patience.min(LOOK_UP)
}

/// Until the database is known to be ours, an error closes it without a trace: what is not ours is left as it was,
/// to the byte.
fn open_to_write(place: &Place, path: &Path, options: &SqliteOptions) -> Result<Opened, Fault> {
    let identity = place.identity();
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut connection = Connection::open_with_flags(path, flags)?;
    if connection.is_readonly("main")? {
        drop(connection);
        // Nobody writes to it, so it need not be watched.
        return open_to_read(place, path, options).map(|opened| Opened { seen: None, ..opened });
    }
    prepare(&connection, options)?;
    if !examine(place, &mut connection)? {
        schema::create(place, &mut connection)?;
    }
    // Once more: SQLite has opened what lies beside the database only now.
    place.check_files()?;
    settle(&connection, options)?;
    Ok(Opened { connection, identity, writable: true, seen: None })
}

/// Opens what is there, and leaves no trace, whether others have the database open or not.
fn open_to_read(place: &Place, path: &Path, options: &SqliteOptions) -> Result<Opened, Fault> {
    let Some(sight) = place.sight().filter(|sight| sight.len > 0) else {
        return Err(Fault::Disconnected(Reason::Unavailable));
    };
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        let _ = write!(uri, "%{byte:02X}");
    }
    // With a log, its index is only read as well: where nobody alive keeps it, SQLite makes one in memory. Without a log, SQLite
    // would make one, and leave it there: so the database is opened as one that nobody writes to, without locks.
    uri.push_str(if sight.has_log { "?readonly_shm=1" } else { "?immutable=1" });
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let mut connection = Connection::open_with_flags(uri, flags)?;
    prepare(&connection, options)?;
    let is_ours = examine(place, &mut connection);
    // Once more: others may have begun, or may have been done, before it was open.
    if place.sight() != Some(sight) {
        return Err(Fault::Refused(Reason::Busy));
    }
    if !is_ours? {
        // What is to be made first is nothing to be read.
        return Err(Fault::Disconnected(Reason::Unavailable));
    }
    place.check_files()?;
    Ok(Opened { connection, identity: Some(sight.identity), writable: false, seen: Some(sight) })
}

/// Whether the database is ours. In one transaction, so that a database which another process is making is empty or made, and
/// nothing between.
fn examine(place: &Place, connection: &mut Connection) -> Result<bool, Fault> {
    let transaction = connection.transaction()?;
    schema::is_ours(place, &transaction)
}

/// What is right for any database: closing leaves no trace until [`settle`] has said otherwise.
fn prepare(connection: &Connection, options: &SqliteOptions) -> Result<(), Fault> {
    connection.busy_timeout(wait(options))?;
    connection.set_prepared_statement_cache_capacity(32);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // What is in a file cannot change what our statements mean.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // Otherwise SQLite prepares a statement anew for each value that is bound to it, which doubles the cost of a hit.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection.execute_batch("PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0;")?)
}

/// What is only right for a database that is known to be ours.
fn settle(connection: &Connection, options: &SqliteOptions) -> Result<(), Fault> {
    // Where the file system has what it takes (shared memory); elsewhere SQLite keeps to the rollback journal, with which
    // readers and writers wait for each other.
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    let vacuum: i64 = connection.query_row("PRAGMA auto_vacuum", [], |row| row.get(0))?;
    if vacuum != FULL_VACUUM {
        // Where that cannot be written, unused pages are used again, and nothing of it is left in the log.
        if connection.execute_batch(GIVE_BACK).is_err() {
            let _ = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        }
    }
    let synchronous = if options.durable { "FULL" } else { "NORMAL" };
    // Checkpoints are made by `bound_log`, which also empties the log.
    connection
        .execute_batch(&format!("PRAGMA synchronous = {synchronous}; PRAGMA wal_autocheckpoint = 0"))?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    Ok(())
}
