//! That no damaged entry is handed out: it is a miss with a reason, it is removed, and the next put heals.

use warmstart::{Metadata, Reason, Store};
use xxhash_rust::xxh3::xxh3_64;

use super::{Harness, store};
use crate::proof::{artifact, prove};

const KEY: &[u8] = b"the key of the entry";

fn put(store: &dyn Store, version: u64) {
    let metadata = Metadata::new().with_attribute("name", b"value");
    store.put(KEY, &artifact(KEY, version, 100).with_metadata(&metadata)).unwrap();
}

fn stored_len(harness: &dyn Harness) -> usize {
    let mut len = 0;
    harness.damage(KEY, &mut |bytes| len = bytes.len());
    len
}

/// Puts, damages, and looks: a miss for damage, then absent.
fn expect_miss(harness: &dyn Harness, store: &dyn Store, what: &str, alter: &mut dyn FnMut(&mut Vec<u8>)) {
    put(store, 1);
    harness.damage(KEY, alter);
    let reason = store.get(KEY).miss().unwrap_or_else(|| panic!("{what} was handed out"));
    assert!(reason.is_damage(), "{what}: {reason:?}");
    assert_eq!(store.get(KEY).miss(), Some(Reason::Absent), "{what} was not removed");
}

/// Each byte in turn, each with another bit.
pub fn no_flipped_byte_is_handed_out(harness: &dyn Harness) {
    if !harness.is_checked() {
        return;
    }
    let store = store(harness);
    put(&store, 1);
    for at in 0..stored_len(harness) {
        expect_miss(harness, &store, &format!("byte {at}"), &mut |bytes| bytes[at] ^= 1 << (at % 8));
    }
    assert_eq!(store.len(), Ok(0));
    put(&store, 2);
    assert_eq!(prove(KEY, &store.get(KEY).hit().unwrap()), 2);
}

/// Every length that is shorter, the empty one included, and some that are longer.
pub fn no_truncation_is_handed_out(harness: &dyn Harness) {
    if !harness.is_checked() {
        return;
    }
    let store = store(harness);
    put(&store, 1);
    let len = stored_len(harness);
    for end in (0..len).chain([len + 1, len + 5000]) {
        expect_miss(harness, &store, &format!("length {end}"), &mut |bytes| bytes.resize(end, 0));
    }
    put(&store, 2);
    assert_eq!(prove(KEY, &store.get(KEY).hit().unwrap()), 2);
}

/// By header and length: what only a checksum can find is counted until it is read.
pub fn len_removes_what_is_not_whole(harness: &dyn Harness) {
    if !harness.is_checked() {
        return;
    }
    let store = store(harness);
    store.put(b"whole", &artifact(b"whole", 1, 100_000)).unwrap();
    put(&store, 1);
    harness.damage(KEY, &mut |bytes| *bytes.last_mut().unwrap() ^= 1);
    assert_eq!((store.contains(KEY), store.len()), (Ok(true), Ok(2)), "a payload was read to count it");
    for alter in [
        (|bytes: &mut Vec<u8>| bytes.truncate(bytes.len() - 1)) as fn(&mut Vec<u8>),
        |bytes| bytes.push(0),
        |bytes| bytes[0] = 0,
        Vec::clear,
    ] {
        put(&store, 1);
        harness.damage(KEY, &mut |bytes| alter(bytes));
        assert_eq!(store.contains(KEY), Ok(false));
        assert_eq!(store.len(), Ok(1));
        assert_eq!(store.get(KEY).miss(), Some(Reason::Absent), "it was counted out, but not removed");
    }
    assert_eq!(prove(b"whole", &store.get(b"whole").hit().unwrap()), 1);
}

/// Whole, with a checksum that holds, but in another's place.
pub fn another_keys_envelope_is_not_handed_out(harness: &dyn Harness) {
    if !harness.is_checked() {
        return;
    }
    let store = store(harness);
    store.put(b"other", &artifact(b"other", 1, 100)).unwrap();
    put(&store, 1);
    let mut others = Vec::new();
    harness.damage(b"other", &mut |bytes| others.clone_from(bytes));
    harness.damage(KEY, &mut |bytes| bytes.clone_from(&others));
    assert_eq!(store.get(KEY).miss(), Some(Reason::KeyMismatch));
    assert_eq!(store.get(KEY).miss(), Some(Reason::Absent));
    assert_eq!(prove(b"other", &store.get(b"other").hit().unwrap()), 1);
}

/// A newer version wrote it, and finds it again.
pub fn a_newer_envelope_is_a_miss_and_left_alone(harness: &dyn Harness) {
    if !harness.is_checked() {
        return;
    }
    let store = store(harness);
    put(&store, 1);
    let mut newer = Vec::new();
    harness.damage(KEY, &mut |bytes| {
        bytes[16] = 2;
        let sum = xxh3_64(&bytes[16..]);
        bytes[8..16].copy_from_slice(&sum.to_le_bytes());
        newer.clone_from(bytes);
    });
    assert_eq!(store.get(KEY).miss(), Some(Reason::NewerVersion));
    assert_eq!(store.contains(KEY), Ok(false));
    store.len().unwrap();
    assert_eq!(store.get(KEY).miss(), Some(Reason::NewerVersion));
    // Whoever missed builds, and wants to keep what was built.
    assert_eq!(store.put(KEY, &artifact(KEY, 2, 100)), Err(Reason::NewerVersion));
    harness.damage(KEY, &mut |bytes| assert_eq!(*bytes, newer));

    // One that only says so is damaged.
    harness.damage(KEY, &mut |bytes| *bytes.last_mut().unwrap() ^= 1);
    put(&store, 3);
    assert_eq!(prove(KEY, &store.get(KEY).hit().unwrap()), 3);

    // Who wants room, or nothing at all, may remove it.
    harness.damage(KEY, &mut |bytes| bytes.clone_from(&newer));
    store.clear().unwrap();
    put(&store, 4);
    assert_eq!(prove(KEY, &store.get(KEY).hit().unwrap()), 4);
}

/// A flipped bit in a payload, which neither header nor length shows.
pub fn verify_finds_and_removes_what_len_cannot_see(harness: &dyn Harness) {
    if !harness.is_checked() {
        return;
    }
    let store = store(harness);
    put(&store, 1);
    store.put(b"whole", &artifact(b"whole", 1, 100_000)).unwrap();
    harness.damage(KEY, &mut |bytes| *bytes.last_mut().unwrap() ^= 1);
    assert_eq!(store.len(), Ok(2));
    let found = store.verify().unwrap();
    assert_eq!((found.whole, found.damaged), (1, 1));
    let found = store.verify().unwrap();
    assert_eq!((found.whole, found.damaged), (1, 0));
    assert_eq!(store.get(KEY).miss(), Some(Reason::Absent));
    assert_eq!(prove(b"whole", &store.get(b"whole").hit().unwrap()), 1);
}
