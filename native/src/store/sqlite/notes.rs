//! What was reported: the tally of all processes, and the last miss.

use rusqlite::{Connection, OptionalExtension};
use warmstart_core::{
    miss::{self, Miss},
    reason::Reason,
    seal::Seal,
    tally::Tally,
};

use super::fault::Fault;
use crate::store::{Kept, Report};

/// What both notes take at most, in bytes: names of counters are short.
pub(super) const MOST: u64 = 2 * miss::MAX_LEN as u64;

/// The tally and the last miss, as they are kept.
pub(super) type Notes = [Option<Vec<u8>>; 2];

const TALLY: i64 = 1;
const MISS: i64 = 2;

const READ: &str = "SELECT value FROM note WHERE id = ?1";
const WRITE: &str = "INSERT INTO note VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET value = excluded.value";

/// Adds a report to what is kept. `now` is the time in milliseconds since 1970 UTC.
pub(super) fn add(
    connection: &Connection,
    report: &Report,
    now: u64,
    seal: Option<&Seal>,
) -> Result<(), Fault> {
    let mut tally = Tally::resume(read_tally(connection)?, now).map_err(Fault::Refused)?;
    tally.add(&report.counted);
    write(connection, TALLY, &tally.encode())?;
    if let Some(envelope) = report.last_miss.as_ref().and_then(|miss| miss.encode(seal)) {
        write(connection, MISS, &envelope)?;
    }
    Ok(())
}

/// What is kept. Damage is not mended here.
pub(super) fn kept(connection: &Connection, seal: Option<&Seal>) -> Result<Kept, Fault> {
    let tally = Tally::resume(read_tally(connection)?, 0).map_err(Fault::Refused)?;
    let last_miss = read(connection, MISS)?.and_then(|stored| Miss::decode(stored, seal).ok());
    Ok(Kept { tally, last_miss })
}

/// Both notes as they are.
pub(super) fn all(connection: &Connection) -> Result<Notes, Fault> {
    Ok([read(connection, TALLY)?, read(connection, MISS)?])
}

/// Writes down what [`all`] has read.
pub(super) fn restore(connection: &Connection, notes: &Notes) -> Result<(), Fault> {
    for (id, note) in [TALLY, MISS].into_iter().zip(notes) {
        if let Some(note) = note {
            write(connection, id, note)?;
        }
    }
    Ok(())
}

fn read_tally(connection: &Connection) -> Result<Result<Tally, Reason>, Fault> {
    Ok(read(connection, TALLY)?.map_or(Err(Reason::Absent), |bytes| Tally::decode(&bytes)))
}

fn read(connection: &Connection, id: i64) -> Result<Option<Vec<u8>>, Fault> {
    Ok(connection.prepare_cached(READ)?.query_row([id], |row| row.get(0)).optional()?)
}

fn write(connection: &Connection, id: i64, value: &[u8]) -> Result<(), Fault> {
    connection.prepare_cached(WRITE)?.execute((id, value))?;
    Ok(())
}
