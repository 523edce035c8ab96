//! Memory in front of a store on disk.

use warmstart::{
    Artifact, Limits, Store,
    store::{FileStore, SqliteStore, StoreOptions, TieredStore},
};

/// Only memory answers for `hot`, again and again, and the store behind still knows that it is used.
fn what_is_hot_in_memory_is_not_evicted_behind_it(back: impl Store) {
    let artifact = Artifact::new(vec![0; 100]);
    let store = TieredStore::new(Limits::NONE, back);
    for key in [b"hot", b"old"] {
        store.put(key, &artifact).unwrap();
    }
    for n in 0..20u8 {
        assert!(store.get(b"hot").is_ok());
        store.put(&[n], &artifact).unwrap();
    }
    assert_eq!(store.back().contains(b"hot"), Ok(true));
    assert_eq!(store.back().contains(b"old"), Ok(false));
}

#[test]
fn what_is_hot_in_memory_is_not_evicted_from_files() {
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions::default().with_limits(Limits { max_entries: Some(3), max_bytes: None });
    what_is_hot_in_memory_is_not_evicted_behind_it(FileStore::open(directory.path(), options).unwrap());
}

#[test]
fn what_is_hot_in_memory_is_not_evicted_from_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions::default().with_limits(Limits { max_entries: Some(3), max_bytes: None });
    let path = directory.path().join("cache.db");
    what_is_hot_in_memory_is_not_evicted_behind_it(SqliteStore::open(path, options).unwrap());
}

#[test]
fn get_many_finds_each_key_in_memory_or_behind_it() {
    let directory = tempfile::tempdir().unwrap();
    let open = || FileStore::open(directory.path(), StoreOptions::default()).unwrap();
    let names: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    let keys: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
    {
        let behind = open();
        for key in keys.iter().filter(|key| **key != b"50") {
            behind.put(key, &Artifact::new(key.to_vec())).unwrap();
        }
    }
    let store = TieredStore::new(Limits::NONE, open());
    for key in keys.iter().step_by(3) {
        let _ = store.get(key);
    }
    for _ in 0..2 {
        for (key, found) in keys.iter().zip(store.get_many(&keys)) {
            assert_eq!(found.is_ok(), *key != b"50");
            assert!(found.is_err() || found.unwrap().payload() == *key);
        }
    }
    // By now, memory has all of them.
    store.back().clear().unwrap();
    assert_eq!(store.get_many(&keys).iter().filter(|found| found.is_ok()).count(), 99);
}
