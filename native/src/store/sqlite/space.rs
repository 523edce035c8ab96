//! How much there is, and how much there may be.

use rusqlite::{Connection, OptionalExtension};
use warmstart_core::{lru::Limits, reason::Reason};

use super::{fault::Fault, place::Place, schema::PAGE};
use crate::store::Pruned;

/// What the file of a database may be longer than its cap: the pages of its tables and indexes, of which the last of
/// each is never full.
pub(super) const FILE_OVERHEAD: u64 = 64 << 10;

/// How long the log may be at rest.
pub(super) const WAL_LIMIT: u64 = 4 << 20;

/// What a put leaves free, so that an entry can be removed and the database opened when nothing more can be stored.
const RESERVE: u64 = 128 << 10;

/// So many entries are pruned in one transaction.
const PRUNED_AT_ONCE: u64 = 256;

/// More pages than these (16 MiB) are given back all at once.
const MANY_PAGES: u64 = 4096;

/// What `PRAGMA auto_vacuum` says of a database that is vacuumed on demand.
const INCREMENTAL: u64 = 2;

const TOTALS: &str = "SELECT entries, bytes FROM total";
const RECOUNT: &str =
    "UPDATE total SET (entries, bytes) = (SELECT count(*), coalesce(sum(size), 0) FROM entry) WHERE id = 1";
const EVICT: &str =
    "DELETE FROM entry WHERE id = (SELECT id FROM entry WHERE id <> ?1 ORDER BY accessed_at, id LIMIT 1)";

const SWEEP: &str = "DELETE FROM content WHERE id NOT IN (SELECT id FROM entry)";

/// No entry's id: SQLite numbers from 1.
pub(super) const NONE: i64 = 0;

/// What an entry counts against the cap: its envelope, its key in the table and in the index, and what SQLite adds to link pages (4 bytes in a page of 4096, and a 5-byte pointer elsewhere).
pub(super) fn size_of(key: &[u8], envelope: u64) -> u64 {
    let keys = (key.len() as u64).saturating_mul(2);
    let bytes = envelope.saturating_add(keys);
    bytes.saturating_add(bytes / 256)
}

/// How long the file of the database may be.
pub(super) fn file_limit(limits: Limits) -> Option<u64> {
    limits.max_bytes.map(|max| max.saturating_add(FILE_OVERHEAD))
}

/// The number of entries, and what they count, added up.
pub(super) fn totals(connection: &Connection) -> Result<(u64, u64), Fault> {
    let mut statement = connection.prepare_cached(TOTALS)?;
    let (entries, bytes) =
        statement.query_row([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
    // Damage can make them negative; an empty store is then recounted.
    Ok((u64::try_from(entries).unwrap_or(u64::MAX), u64::try_from(bytes).unwrap_or(u64::MAX)))
}

/// Evicts until an entry of `size` bytes fits; says how many went.
pub(super) fn make_room(connection: &Connection, limits: Limits, size: u64) -> Result<u64, Fault> {
    let (mut evicted, mut swept) = (0, false);
    loop {
        let (entries, bytes) = totals(connection)?;
        let counted = !limits.exceeded_by(entries.saturating_add(1), bytes.saturating_add(size));
        let on_disk = match file_limit(limits) {
            Some(max) => pages_fit(connection, size, max)?,
            None => true,
        };
        if counted && on_disk {
            return Ok(evicted);
        }
        if counted && !swept && is_bloated(connection, bytes)? {
            swept = true;
            connection.prepare_cached(SWEEP)?.execute([])?;
            continue;
        }
        if !evict(connection, NONE)? {
            if !counted {
                // Nothing is left, so what is counted is wrong.
                connection.prepare_cached(RECOUNT)?.execute([])?;
            }
            return Ok(evicted);
        }
        evicted += 1;
    }
}

/// Evicts others than `kept` until the pages in use are within the cap, and cuts the file to it; says how many went.
pub(super) fn trim(connection: &Connection, limits: Limits, kept: i64) -> Result<u64, Fault> {
    let Some(max) = file_limit(limits) else { return Ok(0) };
    let mut evicted = 0;
    while !pages_fit(connection, 0, max)? && evict(connection, kept)? {
        evicted += 1;
    }
    let excess = number(connection, "PRAGMA page_count")?.saturating_sub(max / PAGE);
    if excess > MANY_PAGES {
        vacuum_at_commit(connection)?;
    } else {
        vacuum(connection, excess)?;
    }
    Ok(evicted)
}

/// Evicts until what is left is within `limits`, at most so many entries and bytes that the log stays short; says what
/// went, and whether more is to go.
pub(super) fn prune(connection: &Connection, limits: Limits) -> Result<(Pruned, bool), Fault> {
    let (_, bytes) = totals(connection)?;
    let mut pruned = Pruned::default();
    loop {
        let (now, bytes_now) = totals(connection)?;
        pruned.bytes = bytes.saturating_sub(bytes_now);
        if !limits.exceeded_by(now, bytes_now) {
            return Ok((pruned, false));
        }
        if pruned.entries >= PRUNED_AT_ONCE || pruned.bytes >= WAL_LIMIT {
            return Ok((pruned, true));
        }
        if !evict(connection, NONE)? {
            // Nothing is left, so what is counted is wrong.
            connection.prepare_cached(RECOUNT)?.execute([])?;
            return Ok((pruned, false));
        }
        pruned.entries += 1;
    }
}

/// Gives unused pages back to the file system: every one, if the log can take as many where `free` bytes are left.
/// Says whether some remain.
pub(super) fn give_back(connection: &Connection, free: Option<u64>) -> Result<bool, Fault> {
    let unused = number(connection, "PRAGMA freelist_count")?;
    // For each page, another one and what points to it may be written.
    let pages = free.map_or(unused, |free| unused.min(free / (4 * PAGE)));
    if pages == unused && pages > MANY_PAGES {
        vacuum_at_commit(connection)?;
    } else {
        vacuum(connection, pages)?;
    }
    Ok(pages < unused)
}

/// Refuses what would leave no room to move the log into the database: `size` bytes go into the log, and then the
/// database grows to what it has come to in this transaction. `free` is what was left when that began.
pub(super) fn check_free(
    connection: &Connection,
    place: &Place,
    size: u64,
    free: Option<u64>,
) -> Result<(), Fault> {
    let Some(free) = free else { return Ok(()) };
    let pages = number(connection, "PRAGMA page_count")?;
    let len = std::fs::metadata(place.path()).map_or(0, |metadata| metadata.len());
    let growth = pages.saturating_mul(PAGE).saturating_sub(len);
    // A page in the log has a header of 24 bytes.
    let logged = size.saturating_add(size / 64);
    let enough = growth.saturating_add(logged).saturating_add(RESERVE) <= free;
    if enough { Ok(()) } else { Err(Fault::Refused(Reason::NoSpace)) }
}

/// How long the log may be where `free` bytes are left.
pub(super) fn log_limit(free: Option<u64>) -> u64 {
    free.map_or(WAL_LIMIT, |free| WAL_LIMIT.min(free / 4))
}

/// Removes every entry, and every page that they took.
pub(super) fn empty(connection: &Connection) -> Result<(), Fault> {
    connection.execute_batch("DELETE FROM entry; DELETE FROM content;")?;
    connection.prepare_cached(RECOUNT)?.execute([])?;
    vacuum_at_commit(connection)
}

fn evict(connection: &Connection, kept: i64) -> Result<bool, Fault> {
    Ok(connection.prepare_cached(EVICT)?.execute([kept])? > 0)
}

/// Whether the pages in use are so many more than `bytes` explain that there must be envelopes without an entry: no
/// other transaction than a damaged database's leaves any. An entry takes at most twice what it counts, if each is
/// a little longer than half a page.
fn is_bloated(connection: &Connection, bytes: u64) -> Result<bool, Fault> {
    let explained = bytes.saturating_mul(5) / 2;
    Ok(!pages_fit(connection, 0, explained.saturating_add(FILE_OVERHEAD))?)
}

/// Whether the pages in use, and those that `size` more bytes will certainly need, are at most `max` bytes.
fn pages_fit(connection: &Connection, size: u64, max: u64) -> Result<bool, Fault> {
    let used =
        number(connection, "PRAGMA page_count")?.saturating_sub(number(connection, "PRAGMA freelist_count")?);
    Ok(used.saturating_add(size / PAGE) <= max / PAGE)
}

/// Moves the last pages of the file into unused ones, at most `pages` of them, and cuts it.
fn vacuum(connection: &Connection, pages: u64) -> Result<(), Fault> {
    if pages == 0 {
        return Ok(());
    }
    let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
    let mut rows = statement.query([])?;
    // A row a page.
    while rows.next()?.is_some() {}
    Ok(())
}

/// Gives every unused page back as the transaction commits; [`vacuum_on_demand`] is to be called after it.
///
/// SQLite looks for each page that it takes out of the list of unused ones, so that many pages one by one take
/// quadratic time. Here it drops the list as a whole.
fn vacuum_at_commit(connection: &Connection) -> Result<(), Fault> {
    Ok(connection.execute_batch("PRAGMA auto_vacuum = FULL")?)
}

/// From now on unused pages stay where they are until they are asked for.
pub(super) fn vacuum_on_demand(connection: &Connection) -> Result<(), Fault> {
    if number(connection, "PRAGMA auto_vacuum")? != INCREMENTAL {
        connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL")?;
    }
    Ok(())
}

fn number(connection: &Connection, pragma: &str) -> Result<u64, Fault> {
    let number: Option<i64> =
        connection.prepare_cached(pragma)?.query_row([], |row| row.get(0)).optional()?;
    number.and_then(|number| u64::try_from(number).ok()).ok_or(Fault::Damaged(Reason::Malformed))
}
