//! A look-up of many keys answers each as a look-up of that key alone.

use std::sync::Arc;

use warmstart::{Limits, MissReason, Store, SystemClock};

use super::{Harness, OnDisk, store};
use crate::proof::{artifact, verify};

/// Enough for several threads and several transactions.
const KEYS: u64 = 300;

fn keys() -> Vec<[u8; 8]> {
    (0..KEYS).map(u64::to_le_bytes).collect()
}

/// Checks that the keys are found in their order, and that `lost` are missing for a reason that satisfies `is_expected`.
#[track_caller]
fn check(store: &dyn Store, keys: &[[u8; 8]], lost: &[u64], is_expected: impl Fn(MissReason) -> bool) {
    let asked: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();
    let found = store.get_many(&asked);
    assert_eq!(found.len(), asked.len());
    for (key, found) in keys.iter().zip(found) {
        let number = u64::from_le_bytes(*key);
        match found {
            Ok(found) => assert_eq!(verify(key, &found), number),
            Err(reason) => assert!(lost.contains(&number) && is_expected(reason), "{number}: {reason:?}"),
        }
    }
}

/// Long and short payloads, absent keys, equal keys, none, and a closed store.
pub fn get_many_returns_each_key_in_order(harness: &dyn Harness) {
    let store = store(harness);
    assert!(store.get_many(&[]).is_empty());
    let mut asked = keys();
    for (number, key) in (0..).zip(&asked) {
        // Long ones among them, which SQLite keeps on several pages.
        let len = if number % 50 == 0 { 100_000 } else { 24 + 10 * number as usize };
        store.put(key, &artifact(key, number, len)).unwrap();
    }
    asked.reverse();
    check(&*store, &asked, &[], |_| false);
    store.remove(&7_u64.to_le_bytes()).unwrap();
    asked.extend([7, 8, 8, 1000].map(u64::to_le_bytes));
    check(&*store, &asked, &[7, 1000], |reason| reason == MissReason::Absent);
    store.close().unwrap();
    let closed = store.get_many(&[&asked[0], &asked[1]]);
    assert!(closed.iter().all(|found| matches!(found, Err(MissReason::Closed))), "{closed:?}");
}

/// Keys that were looked up together are not the next to be evicted.
pub fn get_many_counts_as_a_use_of_each_key(harness: &dyn Harness) {
    let limits = Limits { max_entries: Some(3), ..Limits::NONE };
    let store = harness.open(limits, Arc::new(SystemClock));
    for key in [b"a", b"b", b"c"] {
        store.put(key, &artifact(key, 1, 100)).unwrap();
    }
    assert!(store.get_many(&[b"a", b"c"]).iter().all(Result::is_ok));
    store.put(b"d", &artifact(b"d", 1, 100)).unwrap();
    let found = store.get_many(&[b"a", b"b", b"c", b"d"]);
    let found: Vec<bool> = found.iter().map(Result::is_ok).collect();
    assert_eq!(found, [true, false, true, true]);
}

/// Damaged entries miss and are removed, and their neighbours are found.
pub fn get_many_returns_the_others_beside_damage(harness: &dyn OnDisk) {
    let store = harness.open_default();
    let asked = keys();
    for (number, key) in (0..).zip(&asked) {
        store.put(key, &artifact(key, number, 100)).unwrap();
    }
    let damaged = [0_u64, 63, 64, 150, 299];
    for number in damaged {
        let last = |bytes: &mut Vec<u8>| *bytes.last_mut().unwrap() ^= 1;
        harness.damage(&number.to_le_bytes(), &mut { last });
    }
    check(&*store, &asked, &damaged, MissReason::is_damage);
    check(&*store, &asked, &damaged, |reason| reason == MissReason::Absent);
    for number in damaged {
        assert_eq!(store.contains(&number.to_le_bytes()), Ok(false), "damage is removed");
    }
}
