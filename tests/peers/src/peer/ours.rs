//! The stores of warmstart.

use std::path::Path;

use warmstart::{
    Limits, Store,
    store::{FileStore, MemoryStore, SqliteStore, StoreOptions, TieredStore},
};

use super::{Peer, Settings};
use crate::value::{Key, Value};

/// Long enough that no put of eight processes is refused in a comparison.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60);

struct Ours<S>(S);

impl<S: Store> Peer for Ours<S> {
    fn put(&self, key: &Key, value: &Value) {
        self.0.put(key, &value.artifact).expect("the medium has room");
    }

    fn get(&self, key: &Key, show: &mut dyn FnMut(&[u8])) -> bool {
        let found = self.0.get(key).ok();
        if let Some(artifact) = &found {
            show(artifact.payload());
        }
        found.is_some()
    }
}

fn limits(settings: Settings) -> Limits {
    Limits { max_entries: None, max_bytes: settings.max_bytes }
}

pub(super) fn files(path: &Path, settings: Settings) -> Box<dyn Peer> {
    let options = StoreOptions::default().with_limits(limits(settings)).with_durability(settings.durable);
    Box::new(Ours(FileStore::open(path, options.with_timeout(TIMEOUT)).expect("the directory is ours")))
}

pub(super) fn sqlite(path: &Path, settings: Settings) -> Box<dyn Peer> {
    let options = StoreOptions::default().with_limits(limits(settings)).with_durability(settings.durable);
    Box::new(Ours(SqliteStore::open(path, options.with_timeout(TIMEOUT)).expect("the file is ours")))
}

pub(super) fn memory(_: &Path, settings: Settings) -> Box<dyn Peer> {
    Box::new(Ours(MemoryStore::new(limits(settings))))
}

/// Memory in front of files.
pub(super) fn tiered(path: &Path, settings: Settings) -> Box<dyn Peer> {
    let files = FileStore::open(path, StoreOptions::default()).expect("the directory is ours");
    Box::new(Ours(TieredStore::new(limits(settings), files)))
}
