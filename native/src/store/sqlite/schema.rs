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

use super::{fault::Fault, place::Place};
use crate::store::recognise::APPLICATION_ID;

/// What this version reads and writes.
const VERSION: i32 = 3;

/// The version before, which had a table more. Its entries are kept.
const WITH_SKETCHES: i32 = 2;

/// Every object of the schema, in the words that SQLite keeps of it.
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

/// The objects of a database, but for what SQLite makes for itself: indexes, which have no text, and the tables of those who
/// have it analyse a database. SQLite checks that an object's type and name are those of its text.
const FOUND: &str = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL \
     AND NOT (type = 'table' AND sql LIKE 'CREATE TABLE sqlite\\_stat_(%' ESCAPE '\\') ORDER BY rowid";

/// Whether the database is this version's; if not, it is empty or an older version's. Reads only, but several times, and so
/// needs a transaction.
///
/// # Errors
/// It is a newer version's, another application's, or damaged.
pub(super) fn is_ours(place: &Place, transaction: &Transaction<'_>) -> Result<bool, Fault> {
    match numbers(transaction)? {
        (APPLICATION_ID, VERSION) => {}
        (APPLICATION_ID, version) if version > VERSION => return Err(Fault::Refused(Reason::NewerVersion)),
        (APPLICATION_ID, _) => return Ok(false),
        numbers => {
            let objects = "SELECT count(*) FROM sqlite_schema";
            let objects: i64 = transaction.query_row(objects, [], |row| row.get(0))?;
            return if numbers == (0, 0) && objects == 0 { Ok(false) } else { Err(place.foreign().into()) };
        }
    }
    let mut statement = transaction.prepare(FOUND)?;
    let found = statement.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    // Statements run against tables that only look like ours could be made to do anything.
    if found == OBJECTS { Ok(true) } else { Err(Fault::Damaged(Reason::Malformed)) }
}

/// Makes a database, empty or an older version's, one of this version. Unless somebody else just did.
pub(super) fn create(place: &Place, connection: &mut Connection) -> Result<(), Fault> {
    // Both take effect only before the first page is written. That is done without a log, so that the file says whose it is.
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
                // SQLite's word for what is not there, or is of another kind: it only looks like one of that version.
                Some(ErrorCode::Unknown) => Fault::Damaged(Reason::Malformed),
                _ => error.into(),
            })?;
        }
        _ => return Err(Fault::Damaged(Reason::Malformed)),
    }
    transaction.pragma_update(None, "user_version", VERSION)?;
    is_ours(place, &transaction)?;
    Ok(transaction.commit()?)
}

/// The application and the version that a database says it is of.
fn numbers(transaction: &Transaction<'_>) -> Result<(i32, i32), Fault> {
    let number = |sql| transaction.query_row(sql, [], |row| row.get(0));
    Ok((number("PRAGMA application_id")?, number("PRAGMA user_version")?))
}
