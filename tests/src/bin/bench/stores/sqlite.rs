//! The SQLite store against a prepared statement.

use std::{error::Error, hint::black_box};

use rusqlite::Connection;
use warmstart::{
    Key, Store,
    store::{SqliteStore, StoreOptions},
};
use warmstart_core::envelope;
use warmstart_tests::proof::artifact;
use xxhash_rust::xxh3::xxh3_64;

use super::{SIZES, get_into, medium::Medium};
use crate::{Rows, measure::Plan, row::Compared};

/// Bytes of payload in a database, so that all sizes fit in memory alike.
const BYTES: usize = 32 << 20;

/// The rows of the SQLite store.
pub(super) fn rows(plan: &Plan) -> Rows {
    let disk = Medium::disk()?;
    let mut rows = Vec::new();
    for (label, size) in SIZES {
        let entries = (BYTES / size).min(1000);
        let keys: Vec<Key> = (0..entries).map(|n| Key::digest(&n.to_le_bytes())).collect();
        let store = SqliteStore::open(disk.path(&format!("{label}.db")), StoreOptions::default())?;
        let floor = Connection::open(disk.path(&format!("{label}-floor.db")))?;
        floor.execute_batch(
            "PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
             CREATE TABLE floor (key BLOB PRIMARY KEY, envelope BLOB NOT NULL) STRICT;",
        )?;
        for key in &keys {
            let artifact = artifact(key.as_bytes(), 1, size);
            store.put(key.as_bytes(), &artifact)?;
            let envelope = envelope::encode(key.as_bytes(), &artifact, None)?.to_vec();
            floor.execute("INSERT INTO floor VALUES (?1, ?2)", (key.as_bytes(), envelope))?;
        }
        let mut select = floor.prepare("SELECT envelope FROM floor WHERE key = ?1")?;
        let mut read = |key: &Key| -> Result<u64, Box<dyn Error>> {
            let blob = select.query_row([key.as_bytes()], |row| Ok(row.get_ref(0)?.as_blob()?.to_vec()))?;
            Ok(xxh3_64(black_box(&blob)))
        };
        for key in &keys {
            read(key)?;
            store.get(key.as_bytes()).ok().ok_or("sqlite_hit: an entry was not kept")?;
        }
        let at = |call: u64| &keys[(call as usize).wrapping_mul(619) % keys.len()];
        let compared = plan.compare(|call| store.get(at(call).as_bytes()).ok(), |call| read(at(call)).ok());
        rows.extend(compared.rows(&format!("sqlite_hit/{label}"), "floor", 1.3).map(|row| row.on(disk.name)));
        let mut find = floor.prepare("SELECT rowid FROM floor WHERE key = ?1")?;
        let (mut ours, mut raw) = (Vec::new(), Vec::new());
        let mut read_into = |key: &Key| -> Result<u64, Box<dyn Error>> {
            let id = find.query_row([key.as_bytes()], |row| row.get(0))?;
            let blob = floor.blob_open("main", "floor", "envelope", id, true)?;
            raw.resize(blob.len(), 0);
            blob.read_at_exact(&mut raw, 0)?;
            Ok(xxh3_64(black_box(&raw)))
        };
        let compared = plan
            .compare(|call| store.get_into(at(call).as_bytes(), &mut ours), |call| read_into(at(call)).ok());
        rows.extend(get_into(&compared, label, "sqlite").into_iter().map(|row| row.on(disk.name)));
    }
    Ok(rows)
}
