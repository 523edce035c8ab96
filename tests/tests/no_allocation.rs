//! A hit in memory allocates nothing: proved by counting what the allocator is asked for.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use warmstart::{Artifact, Cache, Key, Limits, Metadata, Store, store::MemoryStore};
use warmstart_tests::counting::{Counting, bytes_held, requests_of};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ENTRIES: u64 = 1000;

fn keys() -> Vec<Key> {
    (0..ENTRIES).map(|n| Key::digest(&n.to_le_bytes())).collect()
}

fn filled(keys: &[Key]) -> MemoryStore {
    let store = MemoryStore::new(Limits::bytes(1 << 24));
    for key in keys {
        let artifact =
            Artifact::new(vec![7; 1024]).with_metadata(&Metadata::new().with_attribute("name", b"f"));
        store.put(key.as_bytes(), &artifact).expect("there is room");
    }
    store
}

#[test]
fn the_count_sees_what_is_allocated() {
    assert_eq!(requests_of(|| ()), 0);
    assert_eq!(requests_of(|| drop(std::hint::black_box(Box::new(1)))), 1);
    assert_eq!(requests_of(|| drop(std::hint::black_box(vec![0u8; 100]))), 1);
}

#[test]
fn what_is_held_is_what_was_not_given_back() {
    let before = bytes_held();
    let mut bytes = std::hint::black_box(Vec::<u8>::with_capacity(100));
    assert_eq!(bytes_held() - before, 100);
    bytes.reserve_exact(300);
    assert_eq!(bytes_held() - before, 300);
    drop(bytes);
    assert_eq!(bytes_held() - before, 0);
}

#[test]
fn a_hit_of_the_memory_store_allocates_nothing() {
    let keys = keys();
    let store = filled(&keys);
    let requests = requests_of(|| {
        for key in &keys {
            assert_eq!(store.get(key.as_bytes()).hit().unwrap().payload().len(), 1024);
        }
    });
    assert_eq!(requests, 0);
}

#[test]
fn a_hit_of_the_cache_allocates_nothing() {
    let keys = keys();
    let cache = Cache::new(filled(&keys));
    let requests = requests_of(|| {
        for key in &keys {
            assert_eq!(cache.get(key).hit().unwrap().payload().len(), 1024);
        }
    });
    assert_eq!(requests, 0);
    assert_eq!(cache.statistics().hits, ENTRIES);
}
