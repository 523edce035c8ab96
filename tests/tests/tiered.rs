//! Memory in front of files passes what of the conformance suite makes sense for it: which entry goes, and damage, are
//! the business of the store behind.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

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

warmstart_tests::conformance!(Tiered: interface {
    text_and_bytes_are_one_key,
    what_is_put_is_found_with_metadata_and_provenance,
    an_overwrite_replaces,
    what_is_removed_is_absent,
    membership_is_what_a_look_up_would_say,
    len_and_clear,
    empty_payloads_and_empty_keys,
    a_key_of_a_mebibyte,
    keys_that_begin_alike_are_told_apart,
    after_close_everything_is_refused,
    what_was_stored_is_there_when_it_is_opened_again,
});
warmstart_tests::conformance!(Tiered: inspect {
    entries_come_in_the_order_of_their_eviction,
    whoever_looks_at_entries_may_call_the_store,
    the_nearest_recipe_is_one_that_differs_least,
    what_went_is_nearest_no_more,
    pruning_takes_the_oldest,
    reports_add_up_and_outlive_what_is_cleared,
    verifying_tells_of_each_entry,
    a_closed_store_tells_nothing,
});
warmstart_tests::conformance!(Tiered: threads {
    every_read_is_what_was_written_under_its_key,
    readers_and_writers_race_with_eviction_and_clear,
});
warmstart_tests::conformance!(Tiered: one_call {
    it_builds_once_and_then_hits,
    of_many_threads_one_builds,
    an_error_stores_nothing_and_the_next_builds,
    a_panic_stores_nothing_and_those_who_wait_go_on,
    nested_builds_never_deadlock,
    what_the_store_refuses_is_returned_all_the_same,
});

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
