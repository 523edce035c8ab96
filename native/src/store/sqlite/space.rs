//! The space that a database takes, and its limits.

use rusqlite::Connection;
use warmstart_core::{lru::Limits, reason::MissReason};

use super::error::DbError;
use crate::store::Totals;

/// The size of a page in bytes.
const PAGE: u64 = 4096;

/// The bytes by which pages in use may exceed the cap before an entry is added: the last page of each table and index
/// is never full. With the partial pages of the entry, the file is at most 64 KiB longer than the cap.
const OVERHEAD: u64 = 48 << 10;

/// The longest log at rest, in bytes.
pub(super) const WAL_LIMIT: u64 = 4 << 20;

/// On a medium with less free space than this, in bytes, the log is emptied after every commit.
pub(super) const SHORT_OF_SPACE: u64 = 4 * WAL_LIMIT;

/// The bytes that a put leaves free, so that entries can be removed and the database opened when no more can be stored.
const RESERVE: u64 = 128 << 10;

/// Makes every commit return unused pages to the file system. Truncating the file moves the pages behind them, through the log.
pub(super) const GIVE_BACK: &str = "PRAGMA auto_vacuum = FULL";

/// Keeps unused pages in the file, to be used again.
pub(super) const KEEP_UNUSED: &str = "PRAGMA auto_vacuum = INCREMENTAL";

const TOTALS: &str = "SELECT entries, bytes FROM total";
const EVICT: &str = "DELETE FROM entry WHERE id = (SELECT id FROM entry ORDER BY accessed_at, id LIMIT 1)";
const HEAL: &str = "DELETE FROM content WHERE id NOT IN (SELECT id FROM entry); \
     UPDATE total SET (entries, bytes) = (SELECT count(*), coalesce(sum(size), 0) FROM entry) WHERE id = 1";

/// Returns what an entry counts against the cap: its envelope, its key in the table and in the index, and what SQLite adds to link
/// pages (4 bytes in a page of 4096, and a 5-byte pointer elsewhere).
pub(super) fn size_of(key: &[u8], envelope: u64) -> u64 {
    let keys = (key.len() as u64).saturating_mul(2);
    let bytes = envelope.saturating_add(keys);
    bytes.saturating_add(bytes / 256)
}

/// Returns the number of entries and the sum of what they count.
pub(super) fn totals(connection: &Connection) -> Result<Totals, DbError> {
    let mut statement = connection.prepare_cached(TOTALS)?;
    let (entries, bytes): (i64, i64) = statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    // Damage can make them negative; an empty store is then counted again.
    let [entries, bytes] = [entries, bytes].map(|number| u64::try_from(number).unwrap_or(u64::MAX));
    Ok(Totals { entries, bytes })
}

/// Evicts until an entry of `size` bytes fits, and returns how many were evicted.
pub(super) fn make_room(connection: &Connection, limits: Limits, size: u64) -> Result<u64, DbError> {
    let most = file_limit(limits);
    let mut evicted = 0;
    loop {
        let Totals { entries, bytes } = totals(connection)?;
        let is_within = !limits.exceeded_by(entries.saturating_add(1), bytes.saturating_add(size));
        let unused = pages(connection, "PRAGMA freelist_count")?;
        let used = pages(connection, "PRAGMA page_count")?.saturating_sub(unused);
        let has_pages = used.saturating_add(size) <= most;
        if (is_within && has_pages) || !evict(connection)? {
            return Ok(evicted);
        }
        evicted += 1;
    }
}

/// Evicts the least recently used entry, and returns whether there was one. If not, corrects totals and removes envelopes without
/// an entry, which only a damaged database has.
pub(super) fn evict(connection: &Connection) -> Result<bool, DbError> {
    let is_evicted = connection.prepare_cached(EVICT)?.execute([])? > 0;
    if !is_evicted {
        connection.execute_batch(HEAL)?;
    }
    Ok(is_evicted)
}

/// Refuses to leave too little of the `free` bytes. The `size` bytes are written to the log, and from there to the database, which
/// grows unless it has unused pages.
pub(super) fn check_free(connection: &Connection, size: u64, free: Option<u64>) -> Result<(), DbError> {
    // A page in the log has a header of 24 bytes.
    let logged = size.saturating_add(size / 64);
    let growth = size.saturating_sub(pages(connection, "PRAGMA freelist_count")?);
    let is_enough = free.is_none_or(|free| growth.saturating_add(logged.max(RESERVE)) <= free);
    if is_enough { Ok(()) } else { Err(DbError::Refused(MissReason::NoSpace)) }
}

/// Returns the longest allowed length of the database file, in bytes, before it is truncated to the pages in use.
pub(super) fn file_limit(limits: Limits) -> u64 {
    limits.max_bytes.map_or(u64::MAX, |max| max.saturating_add(OVERHEAD))
}

/// Returns the bytes of the pages that a pragma counts.
fn pages(connection: &Connection, pragma: &str) -> Result<u64, DbError> {
    let pages: i64 = connection.prepare_cached(pragma)?.query_row([], |row| row.get(0))?;
    Ok(u64::try_from(pages).unwrap_or(0).saturating_mul(PAGE))
}
