//! moka: a concurrent cache in memory.

use std::path::Path;

use moka::{policy::EvictionPolicy, sync::Cache};
use warmstart::Artifact;

use super::{Peer, Settings};
use crate::value::{Key, Value};

/// Values are shared, as our memory store shares them.
struct Moka(Cache<Key, Artifact>);

impl Peer for Moka {
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

fn cache(settings: Settings, policy: EvictionPolicy) -> Box<dyn Peer> {
    let weigh = |key: &Key, artifact: &Artifact| (key.len() + artifact.payload().len()) as u32;
    let builder = Cache::builder().weigher(weigh).eviction_policy(policy);
    Box::new(Moka(builder.max_capacity(settings.max_bytes.unwrap_or(u64::MAX)).build()))
}

/// Its own policy, which weighs how often something is used.
pub(super) fn open(_: &Path, settings: Settings) -> Box<dyn Peer> {
    cache(settings, EvictionPolicy::tiny_lfu())
}

/// Ours, least recently used.
pub(super) fn open_lru(_: &Path, settings: Settings) -> Box<dyn Peer> {
    cache(settings, EvictionPolicy::lru())
}
