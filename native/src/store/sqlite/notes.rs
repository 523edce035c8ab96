//! What was reported: the tally of all processes, and the last miss.

use rusqlite::{Connection, OptionalExtension};
use warmstart_core::{envelope, miss::Miss, seal::Seal, tally::Tally};

use super::fault::Fault;
use crate::store::{Kept, Report};

/// A miss that takes more is kept without its recipe, or not at all: notes count against no cap.
const LONGEST_MISS: u64 = 16 << 10;

/// What both notes take at most, in bytes: names of counters are short.
pub(super) const MOST: u64 = 2 * LONGEST_MISS;

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
    let mut tally = match read(connection, TALLY)?.map(|bytes| Tally::decode(&bytes)) {
        None => Tally::new(now),
        Some(Ok(tally)) => tally,
        Some(Err(reason)) if reason.is_damage() => Tally::reset(now),
        Some(Err(reason)) => return Err(Fault::Refused(reason)),
    };
    tally.add(&report.counted);
    write(connection, TALLY, &tally.encode())?;
    if let Some(envelope) = report.last_miss.as_ref().and_then(|miss| envelope_of(miss, seal)) {
        write(connection, MISS, &envelope)?;
    }
    Ok(())
}

/// What is kept. Damage is not mended here.
pub(super) fn kept(connection: &Connection, seal: Option<&Seal>) -> Result<Kept, Fault> {
    let tally = match read(connection, TALLY)?.map(|bytes| Tally::decode(&bytes)) {
        None => Tally::default(),
        Some(Ok(tally)) => tally,
        Some(Err(reason)) if reason.is_damage() => Tally::reset(0),
        Some(Err(reason)) => return Err(Fault::Refused(reason)),
    };
    let last_miss = read(connection, MISS)?
        .and_then(|stored| envelope::decode_with(stored, Miss::KEY, seal).ok())
        .and_then(|artifact| Miss::from_artifact(&artifact).ok());
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

fn envelope_of(miss: &Miss, seal: Option<&Seal>) -> Option<Vec<u8>> {
    let encode = |miss: &Miss| {
        let artifact = miss.to_artifact();
        let encoded = envelope::encode_with(Miss::KEY, &artifact, seal).ok()?;
        (encoded.len() <= LONGEST_MISS).then(|| encoded.to_vec())
    };
    encode(miss).or_else(|| encode(&Miss { recipe: None, ..miss.clone() }))
}

fn read(connection: &Connection, id: i64) -> Result<Option<Vec<u8>>, Fault> {
    Ok(connection.prepare_cached(READ)?.query_row([id], |row| row.get(0)).optional()?)
}

fn write(connection: &Connection, id: i64, value: &[u8]) -> Result<(), Fault> {
    connection.prepare_cached(WRITE)?.execute((id, value))?;
    Ok(())
}
