//! Readers and writers at once see only what was written.

use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use warmstart::{Limits, MissReason, SystemClock};

use super::{Harness, store};
use crate::proof::{artifact, verify};
use crate::whole::Whole;

const WRITERS: u64 = 4;
const READERS: u64 = 4;
const OPERATIONS: u64 = 200;
const KEYS: u64 = 16;

fn length(key: u64, version: u64) -> usize {
    16 + ((key * 7919 + version * 104_729) % 40_000) as usize
}

/// 4 writers and 4 readers of 200 operations each, on 16 keys. Every hit proves itself, and no key goes back to a
/// version older than one that was already read there.
pub fn every_read_is_what_was_written_under_its_key(harness: &dyn Harness) {
    let store = store(harness);
    for key in 0..KEYS {
        let name = key.to_le_bytes();
        store.put(&name, &artifact(&name, 0, length(key, 0))).unwrap();
    }
    let start = Barrier::new((WRITERS + READERS) as usize);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (store, start) = (&store, &start);
            scope.spawn(move || {
                start.wait();
                for n in 0..OPERATIONS {
                    // Each key has one writer, so that its versions only grow.
                    let key = (n * WRITERS + writer) % KEYS;
                    let name = key.to_le_bytes();
                    store.put(&name, &artifact(&name, n, length(key, n))).unwrap();
                    assert!(store.get(&name).ok().is_some_and(|found| verify(&name, &found) == n));
                }
            });
        }
        for reader in 0..READERS {
            let (store, start) = (&store, &start);
            scope.spawn(move || {
                let mut seen = [0; KEYS as usize];
                start.wait();
                for n in 0..OPERATIONS {
                    let key = (n * 5 + reader) % KEYS;
                    let name = key.to_le_bytes();
                    let version = verify(&name, &store.get(&name).unwrap());
                    assert!(version >= seen[key as usize], "key {key} went back to version {version}");
                    seen[key as usize] = version;
                }
            });
        }
    });
    assert_eq!(store.whole(), Ok(KEYS));
}

/// The same at a cap that holds a few entries, while another thread removes and clears.
pub fn readers_and_writers_race_with_eviction_and_clear(harness: &dyn Harness) {
    let store = harness.open(Limits::bytes(200_000), Arc::new(SystemClock));
    let evicted = AtomicU64::new(0);
    thread::scope(|scope| {
        for worker in 0..WRITERS + READERS {
            let (store, evicted) = (&store, &evicted);
            scope.spawn(move || {
                for n in 0..OPERATIONS {
                    let key = (n * 5 + worker) % KEYS;
                    let name = key.to_le_bytes();
                    if worker < WRITERS {
                        let gone = store.put(&name, &artifact(&name, n, length(key, n))).unwrap();
                        evicted.fetch_add(gone, Ordering::Relaxed);
                    } else {
                        match store.get(&name) {
                            Ok(found) => drop(verify(&name, &found)),
                            Err(reason) => assert_eq!(reason, MissReason::Absent),
                        }
                    }
                    if worker == 0 && n % 20 == 19 {
                        store.remove(&name).unwrap();
                    }
                    if worker == 1 && n % 100 == 99 {
                        store.clear().unwrap();
                    }
                }
            });
        }
    });
    assert!(evicted.load(Ordering::Relaxed) > 0, "nothing was evicted, so nothing raced with that");
    store.clear().unwrap();
    assert_eq!(store.whole(), Ok(0));
    assert_eq!(store.put(b"k", &artifact(b"k", 1, 150_000)).unwrap(), 0, "the total drifted");
}
