//! The sketches of all entries, packed so that a scan of 50,000 takes a millisecond or two: a row for each 16 ids.
//!
//! ```text
//! id      the ids of its entries, divided by 16
//! slots   16 times: 1 and a sketch, or 57 zeros
//! ```
//!
//! Row by row they would take several times as long, most of it in SQLite's steps from row to row. A row of more would not
//! be read faster, and would waste more where only one of its entries is left.
//!
//! Sketches are derived from entries: a row of any other length holds none, and is made anew with the next put.

use rusqlite::Connection;
use warmstart_core::sketch::{Nearest, Sketch};

use super::fault::Fault;

/// The length of a row's slots in bytes.
pub(super) const ROW: usize = 16 * SLOT;

/// What a sketch takes, in bytes: four rows fill a page.
pub(super) const COST: u64 = 64;

const SLOT: usize = 1 + Sketch::LEN;

const WRITE: &str = "INSERT INTO sketch VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET slots = \
     CASE length(slots) WHEN length(?2) THEN CAST(substr(slots, 1, ?3) || ?4 || substr(slots, ?3 + 58) AS BLOB) \
     ELSE excluded.slots END";
const ALL: &str = "SELECT id, slots FROM sketch ORDER BY id";
const SWEEP: &str = "DELETE FROM sketch WHERE id NOT IN (SELECT id >> 4 FROM entry)";

/// Writes down the sketch of the entry `id`.
pub(super) fn write(connection: &Connection, id: i64, sketch: &Sketch) -> Result<(), Fault> {
    let at = place_of(id) * SLOT;
    let mut row = [0; ROW];
    row[at] = 1;
    row[at + 1..at + SLOT].copy_from_slice(&sketch.to_bytes());
    connection.prepare_cached(WRITE)?.execute((id >> 4, &row[..], at as i64, &row[at..at + SLOT]))?;
    Ok(())
}

/// Offers the sketch of every entry, with its id. Ids grow: an entry has the largest as it is stored. So the one stored
/// last is offered last.
pub(super) fn offer(connection: &Connection, proposals: &mut Nearest<i64>) -> Result<(), Fault> {
    let mut statement = connection.prepare_cached(ALL)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let first = row.get::<_, i64>(0)? << 4;
        let slots = row.get_ref(1)?.as_blob()?;
        if slots.len() != ROW {
            continue;
        }
        for (slot, id) in slots.as_chunks::<SLOT>().0.iter().zip((0..16).map(|n| first | n)) {
            if let [1, sketch @ ..] = slot {
                proposals.offer(&Sketch::from_bytes(sketch), id);
            }
        }
    }
    Ok(())
}

/// Removes what belongs to no entry, as only a damaged database has it.
pub(super) fn sweep(connection: &Connection) -> Result<(), Fault> {
    connection.prepare_cached(SWEEP)?.execute([])?;
    Ok(())
}

/// The slot of an entry in its row.
const fn place_of(id: i64) -> usize {
    (id & 15) as usize
}
