//! Many look-ups that all hit, in one call and in a loop.

use std::{convert::Infallible, hint::black_box};

use warmstart::{Cache, Limits, Store, cache::ManyOptions, store::MemoryStore};
use warmstart_tests::{
    measure::Plan,
    medium::Medium,
    proof::{artifact, numbered_key},
};

use super::process::StoreKind;
use crate::{Rows, row::Compared};

const ENTRIES: u64 = 1000;

const PAYLOAD: usize = 4096;

/// The rows of stores that have all that is asked for.
pub(super) fn rows(plan: &Plan, disk: &Medium) -> Rows {
    let mut rows = Vec::new();
    let files = StoreKind::Files.open(&disk.path("warm-files"))?;
    let sqlite = StoreKind::Sqlite.open(&disk.path("warm-sqlite"))?;
    let memory: Box<dyn Store> = Box::new(MemoryStore::new(Limits::NONE));
    for (name, store, bound) in [("files", files, 0.9), ("sqlite", sqlite, 0.7), ("memory", memory, 1.1)] {
        let cache = Cache::new(store);
        let keys: Vec<Vec<u8>> = (0..ENTRIES).map(numbered_key).collect();
        for key in &keys {
            cache.put(key, &artifact(key, 0, PAYLOAD))?;
        }
        let build = |_| -> Result<Vec<u8>, Infallible> { unreachable!("everything is stored") };
        let many = |_| black_box(cache.get_or_build_many(&keys, ManyOptions::default(), build));
        let each = |_| {
            let single = |key| cache.get_or_build(key, || build(0));
            black_box(keys.iter().map(single).collect::<Vec<_>>())
        };
        let compared = plan.compare(many, each);
        if cache.statistics().builds > 0 {
            return Err("warm: not all was a hit".into());
        }
        let compared = compared.rows(&format!("warm/{name}"), "single calls", bound);
        rows.extend(compared.map(|row| if name == "memory" { row } else { row.on(disk.name) }));
    }
    Ok(rows)
}
