//! Which entry goes when, and what the cap counts.
//!
//! Entries here are `LEN` bytes of payload. Every store counts a little more for each, never 4% more; so a cap of
//! `n` and a half holds `n`.

use std::sync::Arc;

use warmstart::{Clock, Limits, Reason, Store, SystemClock};

use super::Harness;
use crate::proof::{SetClock, artifact, prove};

/// The length of an ordinary payload.
const LEN: usize = 100_000;

/// Room for `n` ordinary entries, and not for one more.
fn room_for(n: u64) -> Limits {
    Limits::bytes(n * LEN as u64 + LEN as u64 / 2)
}

fn open(harness: &dyn Harness, limits: Limits) -> Box<dyn Store> {
    harness.open(limits, Arc::new(SystemClock))
}

fn put(store: &dyn Store, key: &[u8]) -> u64 {
    store.put(key, &artifact(key, 1, LEN)).unwrap().evicted
}

/// The keys, of those given, that are held.
fn held<'a>(store: &dyn Store, keys: &[&'a [u8]]) -> Vec<&'a [u8]> {
    keys.iter().copied().filter(|key| store.contains(key).unwrap()).collect()
}

/// A read makes an entry the newest.
pub fn the_least_recently_used_goes_first(harness: &dyn Harness) {
    let store = open(harness, room_for(3));
    for key in [b"a", b"b", b"c"] {
        assert_eq!(put(&store, key), 0);
    }
    assert_eq!(prove(b"a", &store.get(b"a").hit().unwrap()), 1);
    assert_eq!(put(&store, b"d"), 1);
    assert_eq!(held(&store, &[b"a", b"b", b"c", b"d"]), [b"a", b"c", b"d"]);
    assert_eq!(store.get(b"b").miss(), Some(Reason::Absent));
    let _ = store.get(b"c");
    let _ = store.get(b"a");
    assert_eq!((put(&store, b"e"), put(&store, b"f")), (1, 1));
    assert_eq!(held(&store, &[b"a", b"c", b"d", b"e", b"f"]), [b"a", b"e", b"f"]);
}

/// Neither `contains` nor `len` saves an entry.
pub fn membership_is_not_a_use(harness: &dyn Harness) {
    let store = open(harness, room_for(2));
    put(&store, b"a");
    put(&store, b"b");
    assert_eq!((store.contains(b"a"), store.len()), (Ok(true), Ok(2)));
    put(&store, b"c");
    assert_eq!(held(&store, &[b"a", b"b", b"c"]), [b"b", b"c"]);
}

/// What was overwritten is the newest.
pub fn an_overwrite_is_a_use(harness: &dyn Harness) {
    let store = open(harness, room_for(2));
    put(&store, b"a");
    put(&store, b"b");
    assert_eq!(put(&store, b"a"), 0);
    put(&store, b"c");
    assert_eq!(held(&store, &[b"a", b"b", b"c"]), [b"a", b"c"]);
}

/// The order of use is there when the store is opened again, after a close and after a drop.
pub fn recency_survives_reopening(harness: &dyn Harness) {
    if !harness.is_persistent() {
        return;
    }
    let store = open(harness, room_for(3));
    for key in [b"a", b"b", b"c"] {
        put(&store, key);
    }
    let _ = store.get(b"a");
    store.close().unwrap();
    let store = open(harness, room_for(3));
    put(&store, b"d");
    assert_eq!(held(&store, &[b"a", b"b", b"c", b"d"]), [b"a", b"c", b"d"]);
    let _ = store.get(b"c");
    drop(store);
    let store = open(harness, room_for(3));
    put(&store, b"e");
    assert_eq!(held(&store, &[b"a", b"c", b"d", b"e"]), [b"c", b"d", b"e"]);
}

/// The clock dates uses; it does not order them.
pub fn recency_survives_a_clock_that_is_set_back(harness: &dyn Harness) {
    let clock = SetClock::at(1_700_000_000_000);
    let reopen = || harness.open(room_for(3), Arc::new(clock.clone()) as Arc<dyn Clock>);
    let mut store = reopen();
    put(&store, b"a");
    put(&store, b"b");
    clock.set(1_000);
    let _ = store.get(b"a");
    if harness.is_persistent() {
        drop(store);
        store = reopen();
    }
    put(&store, b"c");
    put(&store, b"d");
    assert_eq!(held(&store, &[b"a", b"b", b"c", b"d"]), [b"a", b"c", b"d"]);
    clock.set(0);
    put(&store, b"e");
    assert_eq!(held(&store, &[b"a", b"c", b"d", b"e"]), [b"c", b"d", b"e"]);
}

/// Never more than the cap, and never less than what fits into it.
pub fn the_cap_is_kept_at_every_step(harness: &dyn Harness) {
    let store = open(harness, room_for(5));
    let mut evicted = 0;
    for n in 0..40u64 {
        evicted += put(&store, &n.to_le_bytes());
        assert_eq!(store.len(), Ok((n + 1).min(5)));
        assert_eq!(evicted, (n + 1).saturating_sub(5));
    }
}

/// An entry that shrinks makes room, one that grows takes it.
pub fn an_overwrite_adjusts_the_size(harness: &dyn Harness) {
    let store = open(harness, room_for(3));
    for key in [b"a", b"b", b"c"] {
        put(&store, key);
    }
    for version in 0..10 {
        assert_eq!(store.put(b"c", &artifact(b"c", version, LEN)).unwrap().evicted, 0, "counted twice");
    }
    store.put(b"c", &artifact(b"c", 1, 16)).unwrap();
    assert_eq!(put(&store, b"d"), 0, "the room of an entry that shrank was not given back");
    assert_eq!(store.put(b"c", &artifact(b"c", 2, 2 * LEN)).unwrap().evicted, 2);
    assert_eq!(held(&store, &[b"a", b"b", b"c", b"d"]), [b"c", b"d"]);
    assert_eq!(prove(b"c", &store.get(b"c").hit().unwrap()), 2);
}

/// What was removed no longer counts.
pub fn a_removal_adjusts_the_size(harness: &dyn Harness) {
    let store = open(harness, room_for(2));
    for round in 0..5 {
        put(&store, b"a");
        put(&store, b"b");
        assert_eq!(store.remove(b"a"), Ok(true));
        assert_eq!(put(&store, b"c"), 0, "round {round}");
        store.clear().unwrap();
    }
}

/// One entry above the cap leaves the cache as it is, also where it would replace another.
pub fn the_oversized_are_refused_before_anything_is_evicted(harness: &dyn Harness) {
    let store = open(harness, room_for(2));
    put(&store, b"a");
    put(&store, b"b");
    assert_eq!(store.put(b"huge", &artifact(b"huge", 1, 3 * LEN)), Err(Reason::Oversize));
    assert_eq!(store.put(b"a", &artifact(b"a", 2, 3 * LEN)), Err(Reason::Oversize));
    assert_eq!(held(&store, &[b"a", b"b", b"huge"]), [b"a", b"b"]);
    assert_eq!(prove(b"a", &store.get(b"a").hit().unwrap()), 1);
}

/// Not even an empty payload.
pub fn a_cap_of_zero_refuses_everything(harness: &dyn Harness) {
    let store = open(harness, Limits::bytes(0));
    assert_eq!(store.put(b"k", &Vec::new().into()), Err(Reason::Oversize));
    assert_eq!(store.put(b"", &Vec::new().into()), Err(Reason::Oversize));
    assert_eq!((store.get(b"k").miss(), store.len()), (Some(Reason::Absent), Ok(0)));
}

/// Entries are counted, however small they are.
pub fn the_number_of_entries_is_capped_too(harness: &dyn Harness) {
    let store = open(harness, Limits { max_entries: Some(3), max_bytes: None });
    for n in 0..10u64 {
        store.put(&n.to_le_bytes(), &artifact(b"", n, 20)).unwrap();
        assert_eq!(store.len(), Ok((n + 1).min(3)));
    }
    assert_eq!(store.contains(&6u64.to_le_bytes()), Ok(false));
    assert_eq!(store.contains(&7u64.to_le_bytes()), Ok(true));
    let none = open(harness, Limits { max_entries: Some(0), max_bytes: None });
    assert_eq!(none.put(b"k", &Vec::new().into()), Err(Reason::Oversize));
}
