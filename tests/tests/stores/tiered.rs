//! Memory in front of files passes what of the conformance suite makes sense for it: which entry goes, and damage, are
//! the business of the store behind.

use std::sync::Arc;

use warmstart::{
    Artifact, Clock, Limits, Store,
    store::{FileOptions, FileStore, SqliteOptions, SqliteStore, TieredStore},
};
use warmstart_tests::conformance::Harness;

struct Tiered {
    directory: tempfile::TempDir,
}

impl Harness for Tiered {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn open(&self, limits: Limits, clock: Arc<dyn Clock>) -> Box<dyn Store> {
        let options = FileOptions::default().with_limits(limits).with_clock(clock);
        let files = FileStore::open(self.directory.path(), options).unwrap();
        Box::new(TieredStore::new(Limits::bytes(1 << 20), files))
    }

    fn is_checked(&self) -> bool {
        false
    }
}

warmstart_tests::conformance!(Tiered: interface);
warmstart_tests::conformance!(Tiered: inspect);
warmstart_tests::conformance!(Tiered: threads);
warmstart_tests::conformance!(Tiered: one_call);

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
