//! The tables, and how a database is told to be ours.
//!
//! ```text
//! entry     one row an entry: key, what it counts against the cap, when it was last used
//! content   its envelope, under the same id
//! total     one row: the number of entries and the sum of their sizes, kept by triggers in every transaction
//! note      what was reported: the tally, and the last miss
//! ```
//!
//! The envelope has a table of its own because SQLite writes a whole row, megabytes of blob included, to change one
//! column of it, and `accessed_at` changes with every use.

use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};
use warmstart_core::reason::Reason;

use super::fault::Fault;
use crate::store::recognise::APPLICATION_ID;

/// What this version reads and writes.
pub(super) const VERSION: i32 = 3;

/// The version before, which had a table more. Its entries are kept.
const WITH_SKETCHES: i32 = 2;

/// The size of a page in bytes.
pub(super) const PAGE: u64 = 4096;

/// Every object of the schema, as SQLite keeps it: its type, its name, the name of its table, its text.
const OBJECTS: [[&str; 4]; 7] = [
    [
        "table",
        "entry",
        "entry",
        "CREATE TABLE entry (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, size INTEGER NOT NULL, \
         accessed_at INTEGER NOT NULL) STRICT",
    ],
    ["index", "entry_accessed_at", "entry", "CREATE INDEX entry_accessed_at ON entry (accessed_at)"],
    [
        "table",
        "content",
        "content",
        "CREATE TABLE content (id INTEGER PRIMARY KEY, envelope BLOB NOT NULL) STRICT",
    ],
    [
        "table",
        "total",
        "total",
        "CREATE TABLE total (id INTEGER PRIMARY KEY CHECK (id = 1), entries INTEGER NOT NULL, bytes INTEGER NOT NULL) STRICT",
    ],
    [
        "table",
        "note",
        "note",
        "CREATE TABLE note (id INTEGER PRIMARY KEY CHECK (id IN (1, 2)), value BLOB NOT NULL) STRICT",
    ],
    [
        "trigger",
        "entry_added",
        "entry",
        "CREATE TRIGGER entry_added AFTER INSERT ON entry BEGIN \
         UPDATE total SET entries = entries + 1, bytes = bytes + NEW.size; END",
    ],
    [
        "trigger",
        "entry_removed",
        "entry",
        "CREATE TRIGGER entry_removed AFTER DELETE ON entry BEGIN \
         UPDATE total SET entries = entries - 1, bytes = bytes - OLD.size; \
         DELETE FROM content WHERE id = OLD.id; END",
    ],
];

/// The tables that SQLite makes for itself, such as when somebody has it analyse a database.
const INTERNAL: [&str; 5] =
    ["sqlite_sequence", "sqlite_stat1", "sqlite_stat2", "sqlite_stat3", "sqlite_stat4"];

/// Whose a database is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Nothing is in it yet.
    Empty,
    /// This version's.
    Ours,
    /// An older version's.
    Older,
    /// A newer version's.
    Newer,
    /// Another application's.
    Foreign,
}

/// Says whose the database is. Reads only, but several times, and so needs a transaction.
pub(super) fn recognise(connection: &Transaction<'_>) -> Result<Origin, Fault> {
    let number = |sql| connection.query_row(sql, [], |row| row.get::<_, i32>(0));
    let application = number("PRAGMA application_id")?;
    let version = number("PRAGMA user_version")?;
    if application != APPLICATION_ID {
        let objects = number("SELECT count(*) FROM sqlite_schema")?;
        let empty = application == 0 && version == 0 && objects == 0;
        return Ok(if empty { Origin::Empty } else { Origin::Foreign });
    }
    if version != VERSION {
        return Ok(if version > VERSION { Origin::Newer } else { Origin::Older });
    }
    let mut statement = connection
        .prepare("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema ORDER BY rowid")?;
    let found = statement
        .query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?]))?
        .collect::<Result<Vec<[String; 4]>, _>>()?;
    // Statements run against tables that only look like ours could be made to do anything.
    if found.iter().filter(|object| !is_internal(object)).eq(&OBJECTS) {
        Ok(Origin::Ours)
    } else {
        Err(Fault::Damaged(Reason::Malformed))
    }
}

/// Whether SQLite made the object for itself. Its name does not say so: who writes into the schema can give any name.
fn is_internal([kind, name, table, sql]: &[String; 4]) -> bool {
    match kind.as_str() {
        // What UNIQUE is kept by.
        "index" => name == "sqlite_autoindex_entry_1" && table == "entry" && sql.is_empty(),
        "table" => {
            name == table
                && INTERNAL.contains(&name.as_str())
                && sql.strip_prefix("CREATE TABLE ").is_some_and(|sql| sql.starts_with(name.as_str()))
        }
        _ => false,
    }
}

/// Makes an empty database, or one of an older version, one of this version. Whichever process comes second finds it
/// done.
pub(super) fn create(connection: &mut Connection) -> Result<(), Fault> {
    // Both take effect only before the first page is written.
    connection.execute_batch("PRAGMA page_size = 4096; PRAGMA auto_vacuum = INCREMENTAL;")?;
    set_journal(connection)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    match recognise(&transaction)? {
        Origin::Ours => return Ok(()),
        Origin::Older if upgrade(&transaction)? => {
            transaction.commit()?;
            let _ = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
            return Ok(());
        }
        Origin::Older => drop_everything(&transaction)?,
        Origin::Empty => {}
        Origin::Newer | Origin::Foreign => return Err(Fault::Disconnected(Reason::Unavailable)),
    }
    for [_, _, _, sql] in OBJECTS {
        transaction.execute_batch(sql)?;
    }
    transaction.execute_batch("INSERT INTO total VALUES (1, 0, 0);")?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()?;
    let auto_vacuum: i32 = connection.query_row("PRAGMA auto_vacuum", [], |row| row.get(0))?;
    if auto_vacuum != 2 {
        // An older version had it otherwise; only this rewrites the (empty) file.
        connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL; VACUUM;")?;
    }
    // So that the file says whose it is while it is in use, and if its log is lost. Who reads just now keeps it from that.
    let _ = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    Ok(())
}

/// Makes a database of the version before one of this version, with all its entries. Says whether it is one of that version.
///
/// # Errors
/// [`Fault::Damaged`] if it only looks like one.
fn upgrade(transaction: &Transaction<'_>) -> Result<bool, Fault> {
    let version: i32 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if version != WITH_SKETCHES {
        return Ok(false);
    }
    let [_, _, _, trigger] = OBJECTS[OBJECTS.len() - 1];
    let upgraded =
        transaction.execute_batch(&format!("DROP TRIGGER entry_removed; DROP TABLE sketch; {trigger};"));
    match upgraded {
        // SQLite's word for what is not there, or is of another kind.
        Err(rusqlite::Error::SqliteFailure(failure, _)) if failure.code == ErrorCode::Unknown => {
            return Err(Fault::Damaged(Reason::Malformed));
        }
        upgraded => upgraded?,
    }
    transaction.pragma_update(None, "user_version", VERSION)?;
    match recognise(transaction)? {
        Origin::Ours => Ok(true),
        _ => Err(Fault::Damaged(Reason::Malformed)),
    }
}

/// Write-ahead logging, where the file system has what it takes (shared memory); elsewhere SQLite keeps to the
/// rollback journal, with which readers and writers wait for each other.
pub(super) fn set_journal(connection: &Connection) -> Result<(), Fault> {
    Ok(connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?)
}

fn drop_everything(connection: &Connection) -> Result<(), Fault> {
    let mut statement = connection.prepare(
        "SELECT type, name FROM sqlite_schema WHERE type IN ('table', 'view') \
         AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
    )?;
    let found = statement
        .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?
        .collect::<Result<Vec<_>, _>>()?;
    for (kind, name) in found {
        connection.execute_batch(&format!("DROP {kind} \"{}\"", name.replace('"', "\"\"")))?;
    }
    Ok(())
}
