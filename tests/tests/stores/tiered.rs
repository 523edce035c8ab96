//! Memory in front of a store on disk.

use warmstart::{
    Artifact, Limits, Store,
    store::{FileOptions, FileStore, SqliteOptions, SqliteStore, TieredStore},
};

/// Only memory answers for `hot`, again and again, and the store behind still knows that it is used.
fn what_is_hot_in_memory_is_not_evicted_behind_it(back: impl Store) {
    let artifact = Artifact::new(vec![0; 100]);
    let store = TieredStore::new(Limits::NONE, back);
    for key in [b"hot", b"old"] {
        store.put(key, &artifact).unwrap();
    }
    for n in 0..20u8 {
        assert!(store.get(b"hot").hit().is_some());
        store.put(&[n], &artifact).unwrap();
    }
    assert_eq!(store.back().contains(b"hot"), Ok(true));
    assert_eq!(store.back().contains(b"old"), Ok(false));
}

#[test]
fn what_is_hot_in_memory_is_not_evicted_from_files() {
    let directory = tempfile::tempdir().unwrap();
    let options = FileOptions::default().with_limits(Limits { max_entries: Some(3), max_bytes: None });
    what_is_hot_in_memory_is_not_evicted_behind_it(FileStore::open(directory.path(), options).unwrap());
}

#[test]
fn what_is_hot_in_memory_is_not_evicted_from_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let options = SqliteOptions::default().with_limits(Limits { max_entries: Some(3), max_bytes: None });
    let path = directory.path().join("cache.db");
    what_is_hot_in_memory_is_not_evicted_behind_it(SqliteStore::open(path, options).unwrap());
}
