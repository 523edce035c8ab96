//! How a database is opened, made and rebuilt, and what a connection is told.

use std::{
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
    schema::{self, Origin},
    space::{self, WAL_LIMIT},
};

/// The longest that a look-up waits: for somebody who recovers the log or who wants the database for himself.
const LOOK_UP: Duration = Duration::from_millis(50);

/// The pause between attempts to open a database that another process is about to make.
const PAUSE: Duration = Duration::from_millis(2);

/// A connection to a database of this version.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) connection: Connection,
    pub(super) identity: Option<Identity>,
    pub(super) writable: bool,
    /// Nobody else can open the database meanwhile: to be closed as soon as what was asked for is read.
    pub(super) alone: bool,
    /// What was seen of a database that is only read.
    pub(super) watched: Option<Watched>,
}

/// What is watched of a database that is only read.
#[derive(Debug)]
pub(super) enum Watched {
    /// Which file it is: SQLite sees what others write.
    Name(Identity),
    /// All that can be seen: nobody had it open, so that it was opened without locks.
    All(Sight),
}

impl Watched {
    /// Whether it is what it was.
    pub(super) fn is_still(&self, place: &Place) -> bool {
        match self {
            Self::Name(identity) => place.identity() == Some(*identity),
            Self::All(sight) => place.sight() == Some(*sight),
        }
    }
}

/// Opens the database at `place`; makes it if it is missing, rebuilds it if an older version made it, and sets it
/// aside if it is damaged. Waits for others who are making it, at most for `patience`.
pub(super) fn open(place: &Place, options: &SqliteOptions, patience: Duration) -> Result<Opened, Fault> {
    let deadline = Instant::now().checked_add(patience);
    let mut set_aside = false;
    loop {
        match open_once(place, options) {
            // Somebody else is making it, or has changed it while it was opened.
            Err(Fault::Refused(Reason::Busy)) if deadline.is_none_or(|at| Instant::now() < at) => {
                thread::sleep(PAUSE);
            }
            Err(Fault::Damaged(_)) if !set_aside => set_aside = true,
            result => return result,
        }
    }
}

/// How long one attempt waits for a lock.
pub(super) fn wait(options: &SqliteOptions) -> Duration {
    options.patience.min(LOOK_UP)
}

fn open_once(place: &Place, options: &SqliteOptions) -> Result<Opened, Fault> {
    if options.read_only {
        return open_to_read(place, options);
    }
    let path = place.prepare(true)?;
    let identity = place.identity();
    let opened = open_what_is_there(place, &path, identity, options);
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
) -> Result<Opened, Fault> {
    let mut connection = connect(path, options)?;
    let mut alone = false;
    let origin = match examine(&mut connection) {
        Err(Fault::Disconnected(_)) if is_readable_without_log(place, &connection) => {
            connection = connect_immutable(path)?;
            examine(&mut connection)?
        }
        Err(fault) if fault.reason() == Reason::NoSpace => {
            // It holds a lock that the other must have.
            drop(connection);
            connection = connect_alone(path, options)?;
            alone = true;
            examine(&mut connection).map_err(|_| fault)?
        }
        origin => origin?,
    };
    let writable = !alone && !connection.is_readonly("main")?;
    match origin {
        Origin::Ours => {}
        Origin::Newer => return Err(Fault::Refused(Reason::NewerVersion)),
        Origin::Foreign => return Err(place.foreign().into()),
        Origin::Empty | Origin::Older if alone => return Err(Fault::Disconnected(Reason::NoSpace)),
        Origin::Empty | Origin::Older if !writable => return Err(Fault::Disconnected(Reason::ReadOnly)),
        Origin::Empty | Origin::Older => schema::create(&mut connection)?,
    }
    // Once more: SQLite has opened what lies beside the database only now.
    place.check_files()?;
    if writable {
        settle(&connection, options)?;
    }
    Ok(Opened { connection, identity, writable, alone, watched: None })
}

/// Opens what is there, and leaves no trace, whether others have the database open or not.
///
/// Who closes a database last removes the index of the log a moment before the log. Only if the log stays, somebody died.
fn open_to_read(place: &Place, options: &SqliteOptions) -> Result<Opened, Fault> {
    let deadline = Instant::now().checked_add(wait(options));
    let path = place.prepare(false)?;
    let (connection, sight) = loop {
        let Some(sight) = place.sight().filter(|sight| sight.len > 0) else {
            return Err(Fault::Disconnected(Reason::Unavailable));
        };
        let found = if sight.has_log {
            connect_to_read(&path, options)
        } else {
            // SQLite would make a log, and leave it there.
            connect_immutable(&path)
        };
        let found =
            found.and_then(|mut connection| examine(&mut connection).map(|origin| (connection, origin)));
        // Once more: others may have begun, or may have been done, before it was open. With a log, SQLite sees what they write.
        let is_sound = sight.has_log
            && matches!(found, Ok((_, Origin::Ours)))
            && place.identity() == Some(sight.identity);
        if !is_sound && place.sight() != Some(sight) {
            return Err(Fault::Refused(Reason::Busy));
        }
        match found {
            Ok((connection, Origin::Ours)) => break (connection, sight),
            Err(Fault::Disconnected(_)) if sight.has_log && deadline.is_none_or(|at| Instant::now() < at) => {
                thread::sleep(PAUSE);
            }
            Ok((_, Origin::Newer)) => return Err(Fault::Refused(Reason::NewerVersion)),
            Ok((_, Origin::Foreign)) => return Err(place.foreign().into()),
            // What is to be made, to be rebuilt or to be recovered first is nothing to be read.
            Ok((_, Origin::Empty | Origin::Older)) | Err(Fault::Disconnected(_)) => {
                return Err(Fault::Disconnected(Reason::Unavailable));
            }
            Err(fault) => return Err(fault),
        }
    };
    let watched = if sight.has_log { Watched::Name(sight.identity) } else { Watched::All(sight) };
    place.check_files()?;
    let identity = Some(sight.identity);
    Ok(Opened { connection, identity, writable: false, alone: false, watched: Some(watched) })
}

/// Opens without making anything, and so that closing leaves no trace until [`settle`] has said otherwise.
fn connect(path: &Path, options: &SqliteOptions) -> Result<Connection, Fault> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(wait(options))?;
    prepare(&connection)?;
    Ok(connection)
}

/// Opens a database on a disk that is too full for the index of a log: SQLite keeps that in memory for who has the
/// database alone, and refuses that while anybody else has it open.
fn connect_alone(path: &Path, options: &SqliteOptions) -> Result<Connection, Fault> {
    let connection = connect(path, options)?;
    connection.query_row("PRAGMA locking_mode = EXCLUSIVE", [], |_| Ok(()))?;
    Ok(connection)
}

/// Opens a database with a log, to read it. The log's index is only read as well: where nobody alive keeps it, SQLite makes
/// one in memory.
fn connect_to_read(path: &Path, options: &SqliteOptions) -> Result<Connection, Fault> {
    let connection = connect_by_uri(path, "readonly_shm=1")?;
    connection.busy_timeout(wait(options))?;
    Ok(connection)
}

/// Opens a database that nobody writes to, without locks and without the index of a log.
fn connect_immutable(path: &Path) -> Result<Connection, Fault> {
    connect_by_uri(path, "immutable=1")
}

fn connect_by_uri(path: &Path, parameter: &str) -> Result<Connection, Fault> {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte));
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri.push('?');
    uri.push_str(parameter);
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

pub(super) fn leave_log_alone(connection: &Connection, alone: bool) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, alone).map(drop)
}
