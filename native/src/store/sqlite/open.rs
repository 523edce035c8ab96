//! Opening and creating a database, and configuring a connection.

use std::{
    fmt::Write as _,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, OpenFlags, config::DbConfig};
use warmstart_core::reason::MissReason;

use super::{
    error::DbError,
    place::{FileStamp, Identity, Place},
    schema,
    space::GIVE_BACK,
};
use crate::store::StoreOptions;

/// The longest time that a look-up waits for a process that recovers the log or locks the whole database.
pub(super) const LOOK_UP: Duration = Duration::from_millis(50);

/// The pause between attempts to open a database that another process is creating.
const PAUSE: Duration = Duration::from_millis(2);

/// The value of `PRAGMA auto_vacuum` for a database that frees unused pages with every commit.
const FULL_VACUUM: i64 = 1;

/// A connection to a database of this version.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) connection: Connection,
    pub(super) identity: Option<Identity>,
    pub(super) writable: bool,
    /// The state of a database that was opened read-only, to notice changes.
    pub(super) seen: Option<FileStamp>,
}

/// Opens the database at `place`. Creates it if it is missing, and quarantines it if it is damaged. Waits at most `timeout` for
/// another process that is creating it.
pub(super) fn open(place: &Place, options: &StoreOptions, timeout: Duration) -> Result<Opened, DbError> {
    let deadline = Instant::now().checked_add(if options.read_only { wait(options) } else { timeout });
    // The last process to close a database removes the index of the log just before the log. Only if the log remains, a process died.
    let is_in_use = || place.stamp().is_some_and(|stamp| stamp.has_log);
    let mut is_quarantined = false;
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
            // Another process is creating it, or changed it while it was being opened.
            Err(DbError::Refused(MissReason::Busy)) if is_in_time => thread::sleep(PAUSE),
            Err(DbError::Disconnected(_)) if is_in_time && options.read_only && is_in_use() => {
                thread::sleep(PAUSE);
            }
            Err(DbError::Damaged(_)) if !is_quarantined && !options.read_only => {
                is_quarantined = true;
                // On a read-only medium this fails, and the damage is reported.
                let _ = place.quarantine(identity);
            }
            opened => return opened,
        }
    }
}

/// The longest time that one attempt waits for a lock.
pub(super) fn wait(options: &StoreOptions) -> Duration {
    options.timeout.min(LOOK_UP)
}

/// Opens the database for writing. Until it is identified as ours, an error closes it without a trace: other databases stay
/// unchanged to the byte.
fn open_to_write(place: &Place, path: &Path, options: &StoreOptions) -> Result<Opened, DbError> {
    let identity = place.identity();
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut connection = Connection::open_with_flags(path, flags)?;
    if connection.is_readonly("main")? {
        drop(connection);
        // No process writes to it, so changes need not be watched for.
        return open_to_read(place, path, options).map(|opened| Opened { seen: None, ..opened });
    }
    prepare(&connection, options)?;
    if !examine(place, &mut connection)? {
        schema::create(place, &mut connection)?;
    }
    // Checked again, because SQLite opens the files beside the database only now.
    place.check_files()?;
    settle(&connection, options)?;
    Ok(Opened { connection, identity, writable: true, seen: None })
}

/// Opens an existing database for reading, and leaves no trace, whether other processes have it open or not.
fn open_to_read(place: &Place, path: &Path, options: &StoreOptions) -> Result<Opened, DbError> {
    let Some(stamp) = place.stamp().filter(|stamp| stamp.len > 0) else {
        return Err(DbError::Disconnected(MissReason::Unavailable));
    };
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        let _ = write!(uri, "%{byte:02X}");
    }
    // If there is a log, its index is opened read-only too; if no living process maintains that, SQLite builds one in memory. If there
    // is no log, SQLite would create an index and leave it: so the database is opened as immutable, without locks.
    uri.push_str(if stamp.has_log { "?readonly_shm=1" } else { "?immutable=1" });
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let mut connection = Connection::open_with_flags(uri, flags)?;
    prepare(&connection, options)?;
    let is_ours = examine(place, &mut connection);
    // Checked again, because other processes may have opened or closed it meanwhile.
    if place.stamp() != Some(stamp) {
        return Err(DbError::Refused(MissReason::Busy));
    }
    if !is_ours? {
        // An empty database has nothing to read yet.
        return Err(DbError::Disconnected(MissReason::Unavailable));
    }
    place.check_files()?;
    Ok(Opened { connection, identity: Some(stamp.identity), writable: false, seen: Some(stamp) })
}

/// Returns whether the database is ours. Checks in one transaction, so that a database which another process is creating is either
/// empty or complete.
fn examine(place: &Place, connection: &mut Connection) -> Result<bool, DbError> {
    let transaction = connection.transaction()?;
    schema::is_ours(place, &transaction)
}

/// Configures a connection to any database: closing leaves no trace until [`settle`] allows it.
fn prepare(connection: &Connection, options: &StoreOptions) -> Result<(), DbError> {
    connection.busy_timeout(wait(options))?;
    connection.set_prepared_statement_cache_capacity(32);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // The contents of a file must not change the meaning of our statements.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // Without this, SQLite prepares a statement again for each bound value, which doubles the cost of a hit.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection.execute_batch("PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0;")?)
}

/// Configures a connection to a database that is known to be ours.
fn settle(connection: &Connection, options: &StoreOptions) -> Result<(), DbError> {
    // Needs a file system with shared memory. Elsewhere SQLite stays with the rollback journal, where
    // readers and writers wait for each other.
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    let vacuum: i64 = connection.query_row("PRAGMA auto_vacuum", [], |row| row.get(0))?;
    if vacuum != FULL_VACUUM {
        // If this cannot be written, unused pages are used again, and none of it is left in the log.
        if connection.execute_batch(GIVE_BACK).is_err() {
            let _ = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        }
    }
    let synchronous = if options.durable { "FULL" } else { "NORMAL" };
    // `bound_log` makes checkpoints, because it also empties the log.
    connection
        .execute_batch(&format!("PRAGMA synchronous = {synchronous}; PRAGMA wal_autocheckpoint = 0"))?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    Ok(())
}
