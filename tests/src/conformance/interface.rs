//! The calls, one by one, and what they say of each other.

use warmstart::{Artifact, Cache, Metadata, Provenance, Reason};

use super::{Harness, store};
use crate::proof::{artifact, prove};

/// `"k"` equals `b"k"`.
pub fn text_and_bytes_are_one_key(harness: &dyn Harness) {
    let cache = Cache::new(store(harness));
    cache.put("k", &artifact(b"k", 1, 100)).unwrap();
    assert_eq!(prove(b"k", &cache.get(b"k").hit().unwrap()), 1);
    cache.put(b"k", &artifact(b"k", 2, 100)).unwrap();
    assert_eq!(prove(b"k", &cache.get("k").hit().unwrap()), 2);
    assert_eq!(cache.store().len(), Ok(1));
}

/// Metadata and provenance come back with the payload.
pub fn what_is_put_is_found_with_metadata_and_provenance(harness: &dyn Harness) {
    let store = store(harness);
    let metadata = Metadata::new().with_attribute("entry_point", b"f").with_attribute("none", b"");
    let provenance = Provenance { created_unix_ms: 1_700_000_000_123, build_nanos: u64::MAX };
    let written = artifact(b"k", 1, 5000).with_metadata(&metadata).with_provenance(provenance);
    assert_eq!(store.get(b"k").miss(), Some(Reason::Absent));
    assert_eq!(store.put(b"k", &written).unwrap().evicted, 0);
    for _ in 0..2 {
        let found = store.get(b"k").hit().unwrap();
        assert_eq!(prove(b"k", &found), 1);
        assert_eq!(found.metadata(), Ok(metadata.clone()));
        assert_eq!(found.provenance(), provenance);
    }
}

/// The last writer's artifact is found, whichever is longer.
pub fn an_overwrite_replaces(harness: &dyn Harness) {
    let store = store(harness);
    for (version, len) in [(1, 100), (2, 200_000), (3, 16), (4, 5000)] {
        store.put(b"k", &artifact(b"k", version, len)).unwrap();
        let found = store.get(b"k").hit().unwrap();
        assert_eq!((prove(b"k", &found), found.payload().len()), (version, len));
        assert_eq!(store.len(), Ok(1));
    }
}

/// A removal says whether there was anything.
pub fn what_is_removed_is_absent(harness: &dyn Harness) {
    let store = store(harness);
    assert_eq!(store.remove(b"k"), Ok(false));
    store.put(b"k", &artifact(b"k", 1, 100)).unwrap();
    store.put(b"other", &artifact(b"other", 1, 100)).unwrap();
    assert_eq!(store.remove(b"k"), Ok(true));
    assert_eq!(store.remove(b"k"), Ok(false));
    assert_eq!(store.get(b"k").miss(), Some(Reason::Absent));
    assert_eq!(prove(b"other", &store.get(b"other").hit().unwrap()), 1);
}

/// `contains` agrees with `get`.
pub fn membership_is_what_a_look_up_would_say(harness: &dyn Harness) {
    let store = store(harness);
    assert_eq!(store.contains(b"k"), Ok(false));
    store.put(b"k", &artifact(b"k", 1, 300_000)).unwrap();
    assert_eq!(
        (store.contains(b"k"), store.contains(b"K"), store.contains(b"")),
        (Ok(true), Ok(false), Ok(false))
    );
    store.remove(b"k").unwrap();
    assert_eq!(store.contains(b"k"), Ok(false));
}

/// The number of entries, before and after all are removed.
pub fn len_and_clear(harness: &dyn Harness) {
    let store = store(harness);
    assert_eq!((store.len(), store.is_empty()), (Ok(0), Ok(true)));
    for n in 0..20u64 {
        store.put(&n.to_le_bytes(), &artifact(&n.to_le_bytes(), 1, 16 + 500 * n as usize)).unwrap();
    }
    assert_eq!((store.len(), store.is_empty()), (Ok(20), Ok(false)));
    store.clear().unwrap();
    assert_eq!((store.len(), store.is_empty()), (Ok(0), Ok(true)));
    assert_eq!(store.get(&3u64.to_le_bytes()).miss(), Some(Reason::Absent));
    store.put(b"k", &artifact(b"k", 1, 100)).unwrap();
    assert_eq!(store.len(), Ok(1));
}

/// Nothing is a payload, and nothing is a key.
pub fn empty_payloads_and_empty_keys(harness: &dyn Harness) {
    let store = store(harness);
    store.put(b"", &artifact(b"", 1, 100)).unwrap();
    store.put(b"empty", &Artifact::new(Vec::new())).unwrap();
    assert_eq!(prove(b"", &store.get(b"").hit().unwrap()), 1);
    assert_eq!(store.get(b"empty").hit().unwrap().payload(), b"");
    assert_eq!((store.contains(b""), store.contains(b"empty"), store.len()), (Ok(true), Ok(true), Ok(2)));
    store.put(b"", &Artifact::new(Vec::new())).unwrap();
    assert_eq!(store.get(b"").hit().unwrap().payload(), b"");
    assert_eq!(store.remove(b""), Ok(true));
    assert_eq!(store.len(), Ok(1));
}

/// A key may be as long as a source file.
pub fn a_key_of_a_mebibyte(harness: &dyn Harness) {
    let store = store(harness);
    let key = vec![b'k'; 1 << 20];
    let mut other = key.clone();
    *other.last_mut().unwrap() = b'l';
    store.put(&key, &artifact(&key, 1, 100)).unwrap();
    assert_eq!(prove(&key, &store.get(&key).hit().unwrap()), 1);
    assert_eq!((store.contains(&key), store.contains(&other), store.len()), (Ok(true), Ok(false), Ok(1)));
    assert_eq!(store.get(&other).miss(), Some(Reason::Absent));
    assert_eq!(store.remove(&key), Ok(true));
}

/// Neither length, nor case, nor what a file system makes of a name joins two keys.
pub fn keys_that_begin_alike_are_told_apart(harness: &dyn Harness) {
    let store = store(harness);
    let keys: [&[u8]; 9] = [b"a", b"A", b"a\0", b"a/", b"../a", b"a\xff", b"\xff", b"a ", b"aa"];
    for (version, key) in (1..).zip(keys) {
        store.put(key, &artifact(key, version, 64)).unwrap();
    }
    for (version, key) in (1..).zip(keys) {
        assert_eq!(prove(key, &store.get(key).hit().unwrap()), version);
    }
    assert_eq!(store.len(), Ok(keys.len() as u64));
}

/// Every call says so, and closing twice is no mistake.
pub fn after_close_everything_is_refused(harness: &dyn Harness) {
    let store = store(harness);
    store.put(b"k", &artifact(b"k", 1, 100)).unwrap();
    store.close().unwrap();
    assert_eq!(store.get(b"k").miss(), Some(Reason::Closed));
    assert_eq!(store.put(b"k", &artifact(b"k", 2, 100)), Err(Reason::Closed));
    assert_eq!(store.remove(b"k"), Err(Reason::Closed));
    assert_eq!(store.contains(b"k"), Err(Reason::Closed));
    assert_eq!(store.len(), Err(Reason::Closed));
    assert_eq!(store.clear(), Err(Reason::Closed));
    assert_eq!(store.close(), Ok(()));
}

/// Closed or only dropped, and also beside a handle that is still open.
pub fn what_was_stored_is_there_when_it_is_opened_again(harness: &dyn Harness) {
    if !harness.is_persistent() {
        return;
    }
    let first = store(harness);
    first.put(b"a", &artifact(b"a", 1, 100)).unwrap();
    let beside = store(harness);
    assert_eq!(prove(b"a", &beside.get(b"a").hit().unwrap()), 1);
    beside.put(b"b", &artifact(b"b", 2, 100_000)).unwrap();
    assert_eq!(prove(b"b", &first.get(b"b").hit().unwrap()), 2);
    first.close().unwrap();
    drop(beside);
    let again = store(harness);
    assert_eq!((prove(b"a", &again.get(b"a").hit().unwrap()), again.len()), (1, Ok(2)));
    assert_eq!(prove(b"b", &again.get(b"b").hit().unwrap()), 2);
}
