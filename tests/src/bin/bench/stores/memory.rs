//! The memory store against a concurrent cache of references.

use std::error::Error;

use quick_cache::sync::Cache as QuickCache;
use warmstart::{Artifact, Cache, Key, Limits, Store, store::MemoryStore};

use crate::{
    Rows,
    measure::Plan,
    row::{Compared, Row, Sense},
};

const ENTRIES: usize = 1000;

/// The rows of the memory store.
pub(super) fn rows(plan: &Plan) -> Rows {
    memory_hit(plan)
}

/// A look-up of the memory store against one of a concurrent cache that counts entries and has keys of one size. Both
/// find the same artifacts under the same keys, and hand out a reference.
fn memory_hit(plan: &Plan) -> Result<Vec<Row>, Box<dyn Error>> {
    let keys: Vec<[u8; 32]> = (0..ENTRIES).map(|n| *Key::digest(&n.to_le_bytes()).as_bytes()).collect();
    let store = MemoryStore::new(Limits::bytes(1 << 30));
    // Twice the room, for it is divided into shards that fill unevenly.
    let peer = QuickCache::new(2 * ENTRIES);
    for (n, key) in keys.iter().enumerate() {
        let artifact = Artifact::new(vec![n as u8; 1024]);
        store.put(key, &artifact)?;
        peer.insert(*key, artifact);
    }
    let found = |key: &[u8; 32]| store.get(key).is_ok() && peer.get(key).is_some();
    if !keys.iter().all(found) {
        return Err("memory_hit: an entry was not kept".into());
    }
    let compared = plan.compare(|call| store.get(rotate(&keys, call)), |call| peer.get(rotate(&keys, call)));
    let mut rows = compared.rows("memory_hit", "quick_cache", 2.0).to_vec();
    // The same through the cache, which counts what it does.
    let cache = Cache::new(store);
    let counted = plan.compare(|call| cache.get(rotate(&keys, call)), |call| peer.get(rotate(&keys, call)));
    rows.push(Row::bounded(
        "memory_hit/counted",
        (counted.ratio(), "ratio"),
        "quick_cache",
        Sense::AtMost,
        2.0,
    ));
    Ok(rows)
}

/// The keys in turn, far from the order in which they were stored.
fn rotate(keys: &[[u8; 32]], call: u64) -> &[u8; 32] {
    // The stride has no factor in common with the number of keys, so all of them take their turn.
    &keys[(call as usize).wrapping_mul(619) % ENTRIES]
}
