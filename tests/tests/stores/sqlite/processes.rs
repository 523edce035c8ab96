//! Several processes on one database, and processes that die.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use warmstart::{
    MissReason, Store,
    store::{SqliteStore, StoreOptions},
};
use warmstart_tests::proof::{artifact, numbered_key, verify};
use warmstart_tests::whole::Whole;

fn worker(command: &str, path: &Path) -> Command {
    let mut worker = Command::new(env!("CARGO_BIN_EXE_worker"));
    worker.args(["--store", "sqlite", "--path"]).arg(path).arg(command).stdout(Stdio::piped());
    worker
}

fn patient() -> StoreOptions {
    StoreOptions::default().with_timeout(Duration::from_secs(10))
}

/// The numbers that a worker said it had stored.
fn stored(child: &mut Child) -> Vec<u64> {
    let out = BufReader::new(child.stdout.take().unwrap());
    out.lines().map_while(Result::ok).filter_map(|line| line.parse().ok()).collect()
}

#[test]
fn what_one_process_stores_others_find() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache.db");
    let store = SqliteStore::open(&path, patient()).unwrap();
    let mut children: Vec<_> = (0..4)
        .map(|seed| {
            worker("put", &path).args(["--count", "100", "--seed", &seed.to_string()]).spawn().unwrap()
        })
        .collect();
    // Read and write meanwhile.
    let mut version = 0;
    while children.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
        version += 1;
        store.put(b"mine", &artifact(b"mine", version, 3000)).unwrap();
        for n in (0..4).map(|seed| seed * 1_000_000 + version % 100) {
            let key = numbered_key(n);
            match store.get(&key) {
                Ok(found) => assert_eq!(verify(&key, &found), n),
                Err(reason) => assert_eq!(reason, MissReason::Absent),
            }
        }
    }
    for mut child in children {
        assert_eq!(stored(&mut child).len(), 100);
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(store.whole(), Ok(401));
    for seed in 0..4u64 {
        let got =
            worker("get", &path).args(["--count", "100", "--seed", &seed.to_string()]).output().unwrap();
        assert_eq!(String::from_utf8(got.stdout).unwrap().trim(), "100");
    }
}

/// A database that others are about to make is neither another application's nor damaged.
#[test]
fn of_many_who_open_at_once_each_finds_it_made() {
    const HANDLES: u64 = 6;
    for _ in 0..60 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cache.db");
        let start = std::sync::Barrier::new(HANDLES as usize);
        std::thread::scope(|scope| {
            for n in 0..HANDLES {
                let (path, start) = (&path, &start);
                scope.spawn(move || {
                    start.wait();
                    let store = SqliteStore::open(path, patient()).unwrap();
                    store.put(&numbered_key(n), &artifact(&numbered_key(n), n, 100)).unwrap();
                });
            }
        });
        assert_eq!(SqliteStore::open(&path, patient()).unwrap().whole(), Ok(HANDLES));
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 2, "the database, and its locks");
    }
}

#[test]
fn the_cap_holds_for_all_processes_together() {
    const CAP: u64 = 2_000_000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache.db");
    let children: Vec<_> = (0..4)
        .map(|seed| {
            let arguments = ["--count", "150", "--max-bytes", "2000000", "--seed", &seed.to_string()];
            worker("put", &path).args(arguments).spawn().unwrap()
        })
        .collect();
    for mut child in children {
        assert_eq!(stored(&mut child).len(), 150);
        assert!(child.wait().unwrap().success());
    }
    let store = SqliteStore::open(&path, patient().with_max_bytes(CAP)).unwrap();
    let total = store.inspect().unwrap().totals().map(|totals| totals.bytes).unwrap();
    assert!((CAP - 120_000..=CAP).contains(&total), "{total}");
    assert!(std::fs::metadata(&path).unwrap().len() <= CAP + (64 << 10));
    let connection = rusqlite::Connection::open(&path).unwrap();
    let summed: (i64, i64) = connection
        .query_row("SELECT count(*), sum(size) FROM entry", [], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    assert_eq!(summed, (store.whole().unwrap() as i64, total as i64));
}

/// Killed at any instant: the database opens, what was said to be stored is there, and every entry is whole.
#[test]
fn what_was_stored_survives_the_death_of_its_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache.db");
    let mut expected = Vec::new();
    for seed in 0..20u64 {
        let mut child = worker("put", &path).args(["--seed", &seed.to_string()]).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(15 + seed * 4));
        child.kill().unwrap();
        expected.extend(stored(&mut child));
        child.wait().unwrap();
        let store = SqliteStore::open(&path, patient()).unwrap();
        let len = store.whole().unwrap();
        assert!(len >= expected.len() as u64);
        let connection = rusqlite::Connection::open(&path).unwrap();
        let check: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok");
    }
    assert!(expected.len() > 20, "too few were stored to prove anything: {}", expected.len());
    let store = SqliteStore::open(&path, patient()).unwrap();
    for n in &expected {
        let key = numbered_key(*n);
        assert_eq!(verify(&key, &store.get(&key).ok().unwrap_or_else(|| panic!("{n} is gone"))), *n);
    }
    // At most one entry of each process was stored without its having been said.
    assert!(store.whole().unwrap() <= expected.len() as u64 + 20);
}

/// The same at a cap, so that the kills hit evictions, vacuums and checkpoints.
#[test]
fn the_cap_survives_the_death_of_processes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache.db");
    for seed in 0..10u64 {
        let arguments = ["--max-bytes", "400000", "--seed", &seed.to_string()];
        let mut child = worker("put", &path).args(arguments).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(30 + seed * 3));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let store = SqliteStore::open(&path, patient().with_max_bytes(400_000)).unwrap();
    store.put(b"k", &artifact(b"k", 1, 100)).unwrap();
    assert!(store.inspect().unwrap().totals().map(|totals| totals.bytes).unwrap() <= 400_000);
    store.close().unwrap();
    assert!(std::fs::metadata(&path).unwrap().len() <= 400_000 + (64 << 10));
    let connection = rusqlite::Connection::open(&path).unwrap();
    let wrong: i64 = connection
        .query_row("SELECT count(*) FROM total WHERE bytes <> (SELECT sum(size) FROM entry)", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(wrong, 0);
}
