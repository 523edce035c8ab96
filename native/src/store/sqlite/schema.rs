//! The tables, and how a database is identified as ours.
//!
//! ```text
//! entry     one row per entry: key, what it counts against the cap, when it was last used
//! content   its envelope, under the same id
//! total     one row: the number of entries and the sum of their sizes, kept by triggers in every transaction
//! note      what was reported: the counters, and the last miss
//! ```
//!
//! The envelope has its own table because SQLite writes a whole row, including megabytes of blob, to change one
//! column of it, and `accessed_at` changes with every use.

use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};
use warmstart_core::reason::MissReason;

use super::{error::DbError, place::Place};
use crate::store::detect::APPLICATION_ID;

/// The version that is read and written.
const VERSION: i32 = 3;

/// The previous version, which had one more table. Its entries are kept.
const WITH_SKETCHES: i32 = 2;

/// Every object of the schema, in SQLite's canonical text.
const OBJECTS: [&str; 7] = [
    "CREATE TABLE entry (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, size INTEGER NOT NULL, \
     accessed_at INTEGER NOT NULL) STRICT",
    "CREATE INDEX entry_accessed_at ON entry (accessed_at)",
    "CREATE TABLE content (id INTEGER PRIMARY KEY, envelope BLOB NOT NULL) STRICT",
    "CREATE TABLE total (id INTEGER PRIMARY KEY CHECK (id = 1), entries INTEGER NOT NULL, bytes INTEGER NOT NULL) STRICT",
    "CREATE TABLE note (id INTEGER PRIMARY KEY CHECK (id IN (1, 2)), value BLOB NOT NULL) STRICT",
    "CREATE TRIGGER entry_added AFTER INSERT ON entry BEGIN \
     UPDATE total SET entries = entries + 1, bytes = bytes + NEW.size; END",
    "CREATE TRIGGER entry_removed AFTER DELETE ON entry BEGIN \
     UPDATE total SET entries = entries - 1, bytes = bytes - OLD.size; \
     DELETE FROM content WHERE id = OLD.id; END",
];

/// Selects the objects of a database except for those that SQLite creates itself: indexes, which have no text, and the tables of
/// `ANALYZE`. SQLite checks that the type and name of an object match its text.
const FOUND: &str = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL \
     AND NOT (type = 'table' AND sql LIKE 'CREATE TABLE sqlite\\_stat_(%' ESCAPE '\\') ORDER BY rowid";

/// Returns whether the database is of this version; if not, it is empty or of an older version. Only reads, but several times, and
/// so needs a transaction.
///
/// # Errors
/// It is of a newer version, of another application, or damaged.
pub(super) fn is_ours(place: &Place, transaction: &Transaction<'_>) -> Result<bool, DbError> {
    match numbers(transaction)? {
        (APPLICATION_ID, VERSION) => {}
        (APPLICATION_ID, version) if version > VERSION => {
            return Err(DbError::Refused(MissReason::NewerVersion));
        }
        (APPLICATION_ID, _) => return Ok(false),
        numbers => {
            let objects = "SELECT count(*) FROM sqlite_schema";
            let objects: i64 = transaction.query_row(objects, [], |row| row.get(0))?;
            return if numbers == (0, 0) && objects == 0 { Ok(false) } else { Err(place.foreign().into()) };
        }
    }
    let mut statement = transaction.prepare(FOUND)?;
    let found = statement.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    // Statements on tables that only look like ours could have side effects.
    if found == OBJECTS { Ok(true) } else { Err(DbError::Damaged(MissReason::Malformed)) }
}

/// Turns a database that is empty or of an older version into one of this version, unless another process just did.
pub(super) fn create(place: &Place, connection: &mut Connection) -> Result<(), DbError> {
    // Both take effect only before the first page is written. That happens without a log, so that the file has the application id.
    connection.execute_batch("PRAGMA page_size = 4096; PRAGMA auto_vacuum = FULL;")?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if is_ours(place, &transaction)? {
        return Ok(());
    }
    match numbers(&transaction)? {
        (0, _) => {
            OBJECTS.iter().try_for_each(|sql| transaction.execute_batch(sql))?;
            transaction.execute_batch("INSERT INTO total VALUES (1, 0, 0);")?;
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        }
        (_, WITH_SKETCHES) => {
            let [.., trigger] = OBJECTS;
            let upgrade = format!("DROP TRIGGER entry_removed; DROP TABLE sketch; {trigger};");
            transaction.execute_batch(&upgrade).map_err(|error| match error.sqlite_error_code() {
                // SQLite reports a missing table or another kind of object: the database only looks like one of that version.
                Some(ErrorCode::Unknown) => DbError::Damaged(MissReason::Malformed),
                _ => error.into(),
            })?;
        }
        _ => return Err(DbError::Damaged(MissReason::Malformed)),
    }
    transaction.pragma_update(None, "user_version", VERSION)?;
    is_ours(place, &transaction)?;
    Ok(transaction.commit()?)
}

/// Returns the application id and the version in the header of a database.
fn numbers(transaction: &Transaction<'_>) -> Result<(i32, i32), DbError> {
    let number = |sql| transaction.query_row(sql, [], |row| row.get(0));
    Ok((number("PRAGMA application_id")?, number("PRAGMA user_version")?))
}
