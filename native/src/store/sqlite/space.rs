//! How much there is, and how much there may be.

use rusqlite::Connection;
use warmstart_core::{lru::Limits, reason::Reason};

use super::fault::Fault;
use crate::store::Totals;

/// The size of a page in bytes.
const PAGE: u64 = 4096;

/// What the pages in use may take more than the cap before an entry is added: those of the tables and indexes, of which the last
/// of each is never full. With those of the entry that are not full either, the file is at most 64 KiB longer than the cap.
const OVERHEAD: u64 = 48 << 10;

/// How long the log may be at rest.
pub(super) const WAL_LIMIT: u64 = 4 << 20;

/// On a medium with less space left than this, the log is emptied after every commit.
pub(super) const SHORT_OF_SPACE: u64 = 4 * WAL_LIMIT;

/// What a put leaves free, so that an entry can be removed and the database opened when nothing more can be stored.
const RESERVE: u64 = 128 << 10;

/// Has every commit give unused pages back to the file system. To cut the file, what lies behind them moves, by way of the log.
pub(super) const GIVE_BACK: &str = "PRAGMA auto_vacuum = FULL";

/// Has unused pages stay where they are, to be used again.
pub(super) const KEEP_UNUSED: &str = "PRAGMA auto_vacuum = INCREMENTAL";

const TOTALS: &str = "SELECT entries, bytes FROM total";
const EVICT: &str = "DELETE FROM entry WHERE id = (SELECT id FROM entry ORDER BY accessed_at, id LIMIT 1)";
const HEAL: &str = "DELETE FROM content WHERE id NOT IN (SELECT id FROM entry); \
     UPDATE total SET (entries, bytes) = (SELECT count(*), coalesce(sum(size), 0) FROM entry) WHERE id = 1";

/// What an entry counts against the cap: its envelope, its key in the table and in the index, and what SQLite adds to link pages (4 bytes in a page of 4096, and a 5-byte pointer elsewhere).
pub(super) fn size_of(key: &[u8], envelope: u64) -> u64 {
    let keys = (key.len() as u64).saturating_mul(2);
    let bytes = envelope.saturating_add(keys);
    bytes.saturating_add(bytes / 256)
}

/// The number of entries, and what they count, added up.
pub(super) fn totals(connection: &Connection) -> Result<Totals, Fault> {
    let mut statement = connection.prepare_cached(TOTALS)?;
    let (entries, bytes): (i64, i64) = statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    // Damage can make them negative; an empty store is then recounted.
    let [entries, bytes] = [entries, bytes].map(|number| u64::try_from(number).unwrap_or(u64::MAX));
    Ok(Totals { entries, bytes })
}

/// Evicts until an entry of `size` bytes fits; says how many went.
pub(super) fn make_room(connection: &Connection, limits: Limits, size: u64) -> Result<u64, Fault> {
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

/// Evicts what was not used for longest. Where nothing is left, and nothing more can go, what is counted is wrong, or there are
/// envelopes without an entry: as only in a database that somebody damaged. That is healed.
pub(super) fn evict(connection: &Connection) -> Result<bool, Fault> {
    let is_evicted = connection.prepare_cached(EVICT)?.execute([])? > 0;
    if !is_evicted {
        connection.execute_batch(HEAL)?;
    }
    Ok(is_evicted)
}

/// Refuses what would leave too little of the `free` bytes: `size` bytes go into the log, and from there into the database, which
/// grows unless it has unused pages.
pub(super) fn check_free(connection: &Connection, size: u64, free: Option<u64>) -> Result<(), Fault> {
    // A page in the log has a header of 24 bytes.
    let logged = size.saturating_add(size / 64);
    let growth = size.saturating_sub(pages(connection, "PRAGMA freelist_count")?);
    let is_enough = free.is_none_or(|free| growth.saturating_add(logged.max(RESERVE)) <= free);
    if is_enough { Ok(()) } else { Err(Fault::Refused(Reason::NoSpace)) }
}

/// How long the file of the database may be, before it is cut to what is in use.
pub(super) fn file_limit(limits: Limits) -> u64 {
    limits.max_bytes.map_or(u64::MAX, |max| max.saturating_add(OVERHEAD))
}

/// What the pages that a pragma counts take, in bytes.
fn pages(connection: &Connection, pragma: &str) -> Result<u64, Fault> {
    let pages: i64 = connection.prepare_cached(pragma)?.query_row([], |row| row.get(0))?;
    Ok(u64::try_from(pages).unwrap_or(0).saturating_mul(PAGE))
}
