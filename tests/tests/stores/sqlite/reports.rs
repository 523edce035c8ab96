//! The reports of caches that the SQLite store persists.

use std::{fs, process::Command, time::Duration};

use rusqlite::Connection;
use warmstart::{
    KeyFields, MissReason, Recipe, Statistics, Store,
    store::{SqliteStore, StoreOptions},
};
use warmstart_core::miss::Miss;
use warmstart_tests::proof::artifact;

use super::{open, place};

fn fields(name: u64, flags: &'static str) -> KeyFields<'static> {
    KeyFields::new("example", 1).number("name", name).text("flags", flags)
}

#[test]
fn reports_of_processes_and_threads_add_up() {
    const KEYS: u64 = 10;
    let (directory, path) = place();
    let workers: Vec<_> = (0..3)
        .map(|n| {
            Command::new(env!("CARGO_BIN_EXE_worker"))
                .args(["--store", "sqlite", "--path"])
                .arg(&path)
                .args(["build", "--keys", &KEYS.to_string(), "--build-ms", "1", "--log"])
                .arg(directory.path().join(format!("log {n}")))
                .spawn()
                .unwrap()
        })
        .collect();
    let patient = || StoreOptions::default().with_timeout(Duration::from_secs(10));
    let store = SqliteStore::open(&path, patient()).unwrap();
    let mut counted = Statistics::default();
    counted.hits = 1000;
    let reported: u64 = std::thread::scope(|scope| {
        let tell = || {
            let own = SqliteStore::open(&path, patient()).unwrap();
            (0..50).map(|_| u64::from(own.inspect().unwrap().report(&counted, None).is_ok())).sum::<u64>()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(tell)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    for mut worker in workers {
        assert!(worker.wait().unwrap().success());
    }
    assert!(reported > 0);
    let built: usize = (0..3)
        .map(|n| {
            fs::read_to_string(directory.path().join(format!("log {n}"))).unwrap_or_default().lines().count()
        })
        .sum();
    let kept = store.inspect().unwrap().stats().unwrap();
    let statistics = kept.counted;
    assert_eq!(statistics.hits / 1000, reported);
    assert_eq!(statistics.builds, built as u64);
    assert_eq!(statistics.hits % 1000 + statistics.misses.total(), 3 * KEYS);
    assert!(kept.since_unix_ms > 1_700_000_000_000);
}

#[test]
fn damaged_statistics_are_reset_and_that_is_counted() {
    let (_directory, path) = place();
    let store = open(&path);
    let mut counted = Statistics::default();
    counted.hits = 1;
    let report = || store.inspect().unwrap().report(&counted, None);
    let kept = || store.inspect().unwrap().stats().map(|kept| (kept.resets, kept.counted.hits));
    let execute = |sql: &str| Connection::open(&path).unwrap().execute(sql, []).unwrap();
    for damage in ["x''", "x'00'", "zeroblob(1000)", "substr(value, 1, length(value) - 1)"] {
        report().unwrap();
        execute(&format!("UPDATE note SET value = {damage} WHERE id = 1"));
        assert_eq!((kept(), kept()), (Ok((1, 0)), Ok((1, 0))));
        report().unwrap();
        report().unwrap();
        assert_eq!(kept(), Ok((1, 2)), "{damage}");
        execute("DELETE FROM note WHERE id = 1");
    }

    // A newer version's is left alone.
    report().unwrap();
    let mut newer = store.inspect().unwrap().stats().unwrap().encode();
    newer[16] = 2;
    let sum = xxhash_rust::xxh3::xxh3_64(&newer[16..]);
    newer[8..16].copy_from_slice(&sum.to_le_bytes());
    let connection = Connection::open(&path).unwrap();
    connection.execute("UPDATE note SET value = ?1 WHERE id = 1", [&newer]).unwrap();
    assert_eq!((report(), kept()), (Err(MissReason::NewerVersion), Err(MissReason::NewerVersion)));
    let left: Vec<u8> =
        connection.query_row("SELECT value FROM note WHERE id = 1", [], |row| row.get(0)).unwrap();
    assert_eq!(left, newer);
    store.put(b"k", &artifact(b"k", 1, 100)).unwrap();
}

#[test]
fn a_last_miss_that_is_damaged_or_too_long_says_less() {
    let (_directory, path) = place();
    let store = open(&path);
    let tell = |key: Vec<u8>, recipe: &Recipe| {
        let miss =
            Miss { key, reason: MissReason::Absent, refusal: None, recipe: Some(recipe.clone()), unix_ms: 3 };
        store.inspect().unwrap().report(&Statistics::default(), Some(&miss)).unwrap();
        store.inspect().unwrap().stats().unwrap().last_miss.map(|miss| (miss.key.len(), miss.recipe))
    };
    let short = fields(1, "").recipe();
    let long = (0..200)
        .fold(KeyFields::new("example", 1), |key, n| key.text(format!("header {n}"), "x".repeat(100)))
        .recipe();
    assert_eq!(tell(vec![1; 10], &short), Some((10, Some(short.clone()))));
    assert_eq!(tell(vec![1; 20], &long), Some((20, None)));
    assert_eq!(tell(vec![1; 20_000], &short), Some((20, None)), "the one before is still the last");
    Connection::open(&path)
        .unwrap()
        .execute("UPDATE note SET value = substr(value, 2) WHERE id = 2", [])
        .unwrap();
    assert_eq!(store.inspect().unwrap().stats().unwrap().last_miss, None);
}
