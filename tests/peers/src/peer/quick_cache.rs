//! quick_cache: a concurrent cache in memory, in shards.

use std::path::Path;

use quick_cache::{Weighter, sync::Cache};
use warmstart::Artifact;

use super::{Peer, Settings};
use crate::value::{Key, Value};

/// The peer. Hits share the stored artifact without a copy, as our memory store does.
struct Quick(Cache<Key, Artifact, Bytes>);

/// Weighs an entry by the bytes of its key and its payload.
#[derive(Clone)]
struct Bytes;

impl Weighter<Key, Artifact> for Bytes {
    fn weight(&self, key: &Key, artifact: &Artifact) -> u64 {
        (key.len() + artifact.payload().len()) as u64
    }
}

impl Peer for Quick {
    fn put(&self, key: &Key, value: &Value) {
        self.0.insert(*key, value.artifact.clone());
    }

    fn get(&self, key: &Key, show: &mut dyn FnMut(&[u8])) -> bool {
        let found = self.0.get(key);
        if let Some(artifact) = &found {
            show(artifact.payload());
        }
        found.is_some()
    }
}

pub(super) fn open(_: &Path, settings: Settings) -> Box<dyn Peer> {
    let most = settings.max_bytes.unwrap_or(1 << 40);
    Box::new(Quick(Cache::with_weighter(50_000, most, Bytes)))
}
