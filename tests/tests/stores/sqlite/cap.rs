//! The cap bounds the bytes on disk.

use std::{
    fs,
    path::{Path, PathBuf},
};

use warmstart::{
    Limits, MissReason, Statistics, Store,
    store::{SqliteStore, StoreOptions},
};
use warmstart_core::miss::Miss;
use warmstart_tests::proof::{artifact, numbered_key, numbered_len, verify};
use warmstart_tests::whole::Whole;

const CAP: u64 = 8 << 20;
/// The limits that `SqliteStore` documents.
const FILE_OVERHEAD: u64 = 64 << 10;
const REPORTED: u64 = 48 << 10;
const LOG: u64 = 4 << 20;
const LOG_INDEX: u64 = 64 << 10;

fn len(path: &Path, suffix: &str) -> u64 {
    fs::metadata(PathBuf::from(format!("{}{suffix}", path.display()))).map_or(0, |metadata| metadata.len())
}

fn check(path: &Path, cap: u64) {
    let (file, log, index) = (len(path, ""), len(path, "-wal"), len(path, "-shm"));
    assert!(file <= cap + FILE_OVERHEAD, "the database is {file} bytes long");
    assert!(log <= LOG, "the log is {log} bytes long");
    assert!(index <= LOG_INDEX, "the index of the log is {index} bytes long");
}

/// Sizes that fit SQLite's pages well, badly (one to a page, half of it unused), and at random.
#[test]
fn after_every_put_the_files_are_within_the_cap() {
    for size in [Some(1024), Some(1950), Some(16 << 10), Some(256 << 10), None] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cache.db");
        let store = SqliteStore::open(&path, StoreOptions::default().with_max_bytes(CAP)).unwrap();
        let mut evicted = 0;
        let mut written = 0;
        for n in 0.. {
            let key = numbered_key(n % 9000);
            let payload = size.unwrap_or_else(|| numbered_len(n));
            evicted += store.put(&key, &artifact(&key, n, payload)).unwrap();
            written += payload as u64;
            check(&path, CAP);
            if n % 3 == 0 {
                let _ = store.get(&numbered_key(n / 2));
            }
            if written > 3 * CAP {
                break;
            }
        }
        assert!(evicted > 0);
        let (kept, len_kept) =
            (store.inspect().unwrap().totals().map(|totals| totals.bytes).unwrap(), store.whole().unwrap());
        println!("{size:?}: {len_kept} entries, {kept} bytes counted, {} on disk", len(&path, ""));
        assert!((CAP * 4 / 10..=CAP).contains(&kept), "{size:?}: {kept} of {CAP} bytes are used");
    }
}

#[test]
fn what_is_removed_is_given_back_to_the_file_system() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache.db");
    let fill = |store: &SqliteStore| {
        for n in 0..200 {
            let key = numbered_key(n);
            store.put(&key, &artifact(&key, n, 100_000)).unwrap();
        }
        assert!(len(&path, "") > 10 << 20);
    };
    let store = SqliteStore::open(&path, StoreOptions::default()).unwrap();
    fill(&store);
    store.clear().unwrap();
    assert!(len(&path, "") + len(&path, "-wal") <= FILE_OVERHEAD, "{} bytes are left", len(&path, ""));

    fill(&store);
    for n in 0..199 {
        assert_eq!(store.remove(&numbered_key(n)), Ok(true));
    }
    store.close().unwrap();
    assert!(len(&path, "") <= 100_000 + FILE_OVERHEAD, "{} bytes are left", len(&path, ""));

    // Opened with a smaller cap, it shrinks with the next put.
    let store = SqliteStore::open(&path, StoreOptions::default()).unwrap();
    fill(&store);
    store.close().unwrap();
    let store = SqliteStore::open(&path, StoreOptions::default().with_max_bytes(1_000_000)).unwrap();
    store.put(b"k", &artifact(b"k", 1, 1000)).unwrap();
    check(&path, 1_000_000);
    assert_eq!(verify(b"k", &store.get(b"k").unwrap()), 1);
    assert!(store.whole().unwrap() >= 9);
}

/// One entry as large as the cap allows takes the place of all others, and stays within it.
#[test]
fn the_largest_entry_fits() {
    for (key_len, cap) in [(10, 100_000), (10, 20_000_000), (300_000, 2_000_000), (10, 400)] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cache.db");
        let store =
            SqliteStore::open(&path, StoreOptions::default().with_limits(Limits::bytes(cap))).unwrap();
        let key = vec![b'k'; key_len];
        let fits = |len: u64| store.put(&key, &artifact(&key, len, len as usize)).is_ok();
        let (mut largest, mut too_large) = (0, cap);
        while too_large - largest > 1 {
            let middle = largest + (too_large - largest) / 2;
            *if fits(middle) { &mut largest } else { &mut too_large } = middle;
        }
        let overhead = cap - largest;
        assert!(overhead < 3 * key_len as u64 + cap / 200 + 200, "{largest} of {cap}");
        assert!(fits(largest));
        assert_eq!((store.whole(), verify(&key, &store.get(&key).unwrap())), (Ok(1), largest));
        store.close().unwrap();
        assert!(len(&path, "") <= cap + FILE_OVERHEAD);
    }
}

/// Uses are written down too, and nothing else is written where everything is found.
#[test]
fn a_workload_of_hits_keeps_the_log_short() {
    const ENTRIES: u64 = 4000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache.db");
    let store = SqliteStore::open(&path, StoreOptions::default()).unwrap();
    for n in 0..ENTRIES {
        store.put(&numbered_key(n), &artifact(&numbered_key(n), n, 10)).unwrap();
    }
    let mut longest = 0;
    for n in 0..16 * ENTRIES {
        // Each use is far from the last, so that each is written to a page of its own.
        assert!(store.get(&numbered_key(n * 1237 % ENTRIES)).is_ok());
        longest = longest.max(len(&path, "-wal"));
        check(&path, CAP);
    }
    println!("the log was at most {longest} bytes long");
}

/// A damaged entry is removed without a put, and that is written to the log as well.
#[test]
fn removing_what_is_damaged_keeps_the_log_short() {
    const LEN: u64 = 6 << 20;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache.db");
    let store = SqliteStore::open(&path, StoreOptions::default()).unwrap();
    for by_look_up in [false, true] {
        for n in 0..8 {
            store.put(&numbered_key(n), &artifact(&numbered_key(n), n, (LEN / 8) as usize)).unwrap();
        }
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection
            .execute_batch(
                "PRAGMA wal_autocheckpoint = 0; UPDATE content SET envelope = zeroblob(length(envelope));",
            )
            .unwrap();
        drop(connection);
        assert!(len(&path, "-wal") > LOG, "the log is already long");
        if by_look_up {
            assert!(store.get(&numbered_key(0)).err().unwrap().is_damage());
        } else {
            assert_eq!(store.whole(), Ok(0));
        }
        check(&path, 2 * LEN);
    }
}

/// An eviction outside a put would not be counted.
#[test]
fn a_report_evicts_nothing_under_a_smaller_cap() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache.db");
    let store = SqliteStore::open(&path, StoreOptions::default()).unwrap();
    for n in 0..20 {
        store.put(&numbered_key(n), &artifact(&numbered_key(n), n, 20_000)).unwrap();
    }
    store.close().unwrap();
    let store = SqliteStore::open(&path, StoreOptions::default().with_max_bytes(100_000)).unwrap();
    let mut counted = Statistics::default();
    counted.hits = 3;
    store.inspect().unwrap().report(&counted, None).unwrap();
    assert_eq!((store.whole(), store.inspect().unwrap().stats().unwrap().counted.hits), (Ok(20), 3));
    let evicted = store.put(b"k", &artifact(b"k", 1, 1000)).unwrap();
    assert_eq!(store.whole(), Ok(21 - evicted));
    check(&path, 100_000);
}

/// A database at its cap that keeps its first report, with the longest miss there is, is longer until the next put.
#[test]
fn a_report_makes_the_database_little_longer() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache.db");
    let store = SqliteStore::open(&path, StoreOptions::default().with_max_bytes(CAP / 8)).unwrap();
    let put = |n: u64| store.put(&numbered_key(n), &artifact(&numbered_key(n), n, 1950)).unwrap();
    (0..1500).for_each(|n| _ = put(n));
    let key = vec![7; 16_000];
    let last_miss = Some(Miss { key, reason: MissReason::Absent, refusal: None, recipe: None, unix_ms: 3 });
    store.inspect().unwrap().report(&Statistics::default(), last_miss.as_ref()).unwrap();
    assert!(store.inspect().unwrap().stats().unwrap().last_miss.is_some());
    check(&path, CAP / 8 + REPORTED);
    put(2000);
    store.close().unwrap();
    check(&path, CAP / 8);
}

/// Earlier builds gave pages back when they were asked to.
#[test]
fn a_database_of_an_earlier_build_gives_its_space_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache.db");
    let store = SqliteStore::open(&path, StoreOptions::default()).unwrap();
    for n in 0..20 {
        store.put(&numbered_key(n), &artifact(&numbered_key(n), n, 100_000)).unwrap();
    }
    store.close().unwrap();
    let earlier = rusqlite::Connection::open(&path).unwrap();
    earlier.execute_batch("PRAGMA auto_vacuum = INCREMENTAL; DELETE FROM entry WHERE id > 1").unwrap();
    drop(earlier);
    assert!(len(&path, "") > 1 << 20);
    let store = SqliteStore::open(&path, StoreOptions::default()).unwrap();
    assert_eq!(verify(&numbered_key(0), &store.get(&numbered_key(0)).unwrap()), 0);
    store.close().unwrap();
    assert!(len(&path, "") <= 100_000 + FILE_OVERHEAD, "{} bytes are left", len(&path, ""));
}
