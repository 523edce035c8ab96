//! The rows of entries: finding them, reading them, writing down their uses. A caller has begun a transaction where that
//! matters.

use rusqlite::{Connection, OptionalExtension};
use warmstart_core::{envelope, reason::Reason, seal::Seal};

use super::{fault::Fault, heads::Heads};
use crate::store::{SHORT_HEAD, recency::Batch};

/// An envelope of more than 64 KiB is read by pieces into its place, so that SQLite does not put it together somewhere
/// else first.
const FIND: &str = "SELECT entry.id, CASE WHEN length(envelope) <= 65536 THEN envelope END \
     FROM entry JOIN content ON content.id = entry.id WHERE key = ?1";
const LENGTH: &str = "SELECT length(envelope) FROM content WHERE id = ?1";
const FIND_ID: &str = "SELECT id FROM entry WHERE key = ?1";
const NEWEST: &str = "SELECT max(accessed_at) FROM entry";
const USE: &str = "UPDATE entry SET accessed_at = ?2 WHERE id = ?1";
const KEYS: &str = "SELECT key FROM entry NOT INDEXED";
const IDS: &str = "SELECT id FROM entry";
const IDS_BY_USE: &str = "SELECT id FROM entry ORDER BY accessed_at, id";

/// The id and the envelope of the entry of `key`.
pub(super) fn find(connection: &Connection, key: &[u8]) -> Result<Option<(i64, Vec<u8>)>, Fault> {
    let mut statement = connection.prepare_cached(FIND)?;
    let mut rows = statement.query([key])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let id = row.get(0)?;
    if let Some(envelope) = row.get_ref(1)?.as_blob_or_null()? {
        return Ok(Some((id, envelope.to_vec())));
    }
    // In the same transaction, which lasts as long as the statement.
    Ok(Some((id, read(connection, id)?)))
}

/// The id of the entry of `key`.
pub(super) fn find_id(connection: &Connection, key: &[u8]) -> Result<Option<i64>, Fault> {
    Ok(connection.prepare_cached(FIND_ID)?.query_row([key], |row| row.get(0)).optional()?)
}

/// Whether an entry is a newer version's, and whole. Only one that says it is newer is read to its end.
pub(super) fn is_newer(connection: &Connection, id: i64) -> Result<bool, Fault> {
    if Heads::new(connection).look_at(id, None)? != Err(Reason::NewerVersion) {
        return Ok(false);
    }
    Ok(envelope::verify(&read(connection, id)?) == Err(Reason::NewerVersion))
}

/// The envelope of the entry `id`.
pub(super) fn read(connection: &Connection, id: i64) -> Result<Vec<u8>, Fault> {
    let blob = connection.blob_open("main", "content", "envelope", id, true)?;
    let mut envelope = vec![0; blob.len()];
    blob.read_at_exact(&mut envelope, 0)?;
    Ok(envelope)
}

/// The first bytes of the envelope of the entry `id`, and its length. Nothing if it has none, as only a damaged database says.
pub(super) fn read_head(connection: &Connection, id: i64) -> Result<Option<(Vec<u8>, u64)>, Fault> {
    let Some(len) = envelope_len(connection, id)? else { return Ok(None) };
    let mut head = vec![0; len.min(SHORT_HEAD)];
    connection.blob_open("main", "content", "envelope", id, true)?.read_at_exact(&mut head, 0)?;
    Ok(Some((head, len as u64)))
}

fn envelope_len(connection: &Connection, id: i64) -> Result<Option<usize>, Fault> {
    let len: Option<i64> = connection.prepare_cached(LENGTH)?.query_row([id], |row| row.get(0)).optional()?;
    Ok(len.and_then(|len| usize::try_from(len).ok()))
}

/// Reads the envelope of the entry `id` from `at` to the end; says whether there is one that is so long.
pub(super) fn read_into(connection: &Connection, id: i64, at: usize, into: &mut [u8]) -> Result<bool, Fault> {
    if envelope_len(connection, id)? != Some(at + into.len()) {
        return Ok(false);
    }
    connection.blob_open("main", "content", "envelope", id, true)?.read_at_exact(into, at)?;
    Ok(true)
}

/// Writes down that the entries in `used` were used, in that order and after every use that is written down already,
/// whatever the clock says. Returns what comes after.
pub(super) fn write_uses(connection: &Connection, used: &Batch<i64>, now: u64) -> Result<i64, Fault> {
    let newest: Option<i64> = connection.prepare_cached(NEWEST)?.query_row([], |row| row.get(0))?;
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let mut at = now.max(newest.map_or(0, |newest| newest.saturating_add(1)));
    let mut statement = connection.prepare_cached(USE)?;
    for id in used.names() {
        statement.execute((id, at))?;
        at = at.saturating_add(1);
    }
    Ok(at)
}

/// The number of entries that are whole by header and length and sealed as they are to be, and the ids of those that are
/// damaged.
pub(super) fn survey(connection: &Connection, seal: Option<&Seal>) -> Result<(u64, Vec<i64>), Fault> {
    let mut statement = connection.prepare_cached(IDS)?;
    let mut rows = statement.query([])?;
    let (mut whole, mut damaged) = (0, Vec::new());
    let mut heads = Heads::new(connection);
    while let Some(row) = rows.next()? {
        let id = row.get(0)?;
        match heads.look_at(id, seal)? {
            Ok(()) => whole += 1,
            Err(reason) if reason.is_damage() => damaged.push(id),
            Err(_) => {}
        }
    }
    Ok((whole, damaged))
}

/// Every key.
pub(super) fn keys(connection: &Connection) -> Result<Vec<Vec<u8>>, Fault> {
    let mut statement = connection.prepare_cached(KEYS)?;
    Ok(statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

/// The id of every entry, the one that was not used for longest first.
pub(super) fn ids_by_use(connection: &Connection) -> Result<Vec<i64>, Fault> {
    let mut statement = connection.prepare_cached(IDS_BY_USE)?;
    Ok(statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
}
