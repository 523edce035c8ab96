//! The stores of warmstart.

use std::path::Path;

use warmstart::{
    Limits, Store,
    store::{FileOptions, FileStore, MemoryStore, SqliteOptions, SqliteStore, TieredStore},
};

use super::{Peer, Wanted};
use crate::value::{Key, Value};

/// What the tests of eight processes wait for: nobody is to be refused in a comparison.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

struct Ours<S>(S);

impl<S: Store> Peer for Ours<S> {
    fn put(&self, key: &Key, value: &Value) {
        self.0.put(key, &value.artifact).expect("the medium has room");
    }

    fn get(&self, key: &Key, show: &mut dyn FnMut(&[u8])) -> bool {
        let found = self.0.get(key).hit();
        if let Some(artifact) = &found {
            show(artifact.payload());
        }
        found.is_some()
    }
}

fn limits(wanted: Wanted) -> Limits {
    Limits { max_entries: None, max_bytes: wanted.max_bytes }
}

pub(super) fn files(path: &Path, wanted: Wanted) -> Box<dyn Peer> {
    let options = FileOptions::default().with_limits(limits(wanted)).with_durability(wanted.durable);
    Box::new(Ours(FileStore::open(path, options.with_patience(PATIENCE)).expect("the directory is ours")))
}

pub(super) fn sqlite(path: &Path, wanted: Wanted) -> Box<dyn Peer> {
    let options = SqliteOptions::default().with_limits(limits(wanted)).with_durability(wanted.durable);
    Box::new(Ours(SqliteStore::open(path, options.with_patience(PATIENCE)).expect("the file is ours")))
}

pub(super) fn memory(_: &Path, wanted: Wanted) -> Box<dyn Peer> {
    Box::new(Ours(MemoryStore::new(limits(wanted))))
}

/// Memory in front of files.
pub(super) fn tiered(path: &Path, wanted: Wanted) -> Box<dyn Peer> {
    let files = FileStore::open(path, FileOptions::default()).expect("the directory is ours");
    Box::new(Ours(TieredStore::new(limits(wanted), files)))
}
