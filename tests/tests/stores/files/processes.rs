//! The file store between processes that live, and that are killed.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::MetadataExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use warmstart::{
    Store,
    store::{FileOptions, FileStore},
};
use warmstart_tests::proof::{artifact, numbered_key, prove};

const CAP: u64 = 1 << 20;
const LEN: u64 = 16384;
/// The most that one entry of such a payload counts.
const ENTRY: u64 = LEN + 128;

fn worker(root: &Path, cap: u64, work: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_worker"))
        .args(["--store", "files", "--path"])
        .arg(root)
        .args(["--max-bytes", &cap.to_string()])
        .args(work)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the worker starts")
}

fn churners(root: &Path, n: u64, count: &str, more: &[&str]) -> Vec<Child> {
    (0..n)
        .map(|seed| {
            let seed = (seed * 7919 + 17).to_string();
            let mut work = vec!["churn", "--seed", &seed, "--count", count];
            work.extend(more);
            worker(root, CAP, &work)
        })
        .collect()
}

fn succeed(children: Vec<Child>) {
    for mut child in children {
        assert!(child.wait().expect("it ends").success(), "a worker failed: see its message");
    }
}

fn open(root: &Path) -> FileStore {
    FileStore::open(root, FileOptions::default().with_max_bytes(CAP)).expect("the store opens")
}

/// The bytes of everything in a directory, as far as it can be seen while others change it.
fn bytes_in(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

fn names_in(directory: &Path) -> Vec<String> {
    let names =
        fs::read_dir(directory).expect("it is a directory").map(|entry| entry.expect("it can be read"));
    names.map(|entry| entry.file_name().into_string().expect("our names are ASCII")).collect()
}

/// Every entry is whole, the accounts agree with the directory, and the cap holds.
fn check_at_rest(root: &Path) {
    let store = open(root);
    let before = names_in(&root.join("entries")).len() as u64;
    assert_eq!(store.len(), Ok(before), "an entry was not whole");
    for n in 0..200 {
        let key = numbered_key(n);
        if let Some(found) = store.get(&key).hit() {
            let _ = prove(&key, &found);
        }
    }
    assert_eq!(names_in(&root.join("entries")).len() as u64, before, "a damaged entry was found and removed");
    let bytes = bytes_in(&root.join("entries"));
    assert!(bytes <= CAP, "{bytes} bytes at rest");
    assert!(store.total_bytes() >= Ok(bytes), "the accounts say too little");
    store.put(b"last", &artifact(b"last", 1, 16000)).expect("there is room");
    let bytes = bytes_in(&root.join("entries"));
    assert!(bytes <= CAP, "{bytes} bytes at rest");
    assert!(store.total_bytes() >= Ok(bytes), "the accounts say too little");
    drop(store);
    assert_eq!(bytes_in(&root.join("tmp")), 0, "temp files are left");
    assert_eq!(names_in(&root.join("locks")), Vec::<String>::new(), "locks are left");
}

/// Watches the directory while `work` runs: at most the cap plus one entry for each of `writers`.
///
/// Under the journal's lock nothing is published or evicted, so what is seen is the state of one instant.
fn watching(root: &Path, writers: u64, work: impl FnOnce()) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut most = 0;
            while !done.load(Ordering::Relaxed) {
                if let Ok(journal) = fs::File::open(root.join("journal")) {
                    journal.lock().expect("locks work here");
                    let still_there = journal.metadata().is_ok_and(|metadata| metadata.nlink() > 0);
                    let entries = bytes_in(&root.join("entries"));
                    if still_there {
                        assert!(entries <= CAP, "{entries} bytes of entries");
                        most = most.max(entries + bytes_in(&root.join("tmp")));
                    }
                }
                thread::sleep(Duration::from_millis(1));
            }
            most
        });
        work();
        done.store(true, Ordering::Relaxed);
        let most = watcher.join().expect("the watcher does not panic");
        assert!(most <= CAP + writers * ENTRY, "{most} bytes while {writers} writers were at work");
        assert!(most > CAP / 2, "the watcher saw only {most} bytes");
    });
}

#[test]
fn eight_processes_keep_one_cap() {
    let directory = tempfile::tempdir().unwrap();
    watching(directory.path(), 8, || succeed(churners(directory.path(), 8, "1500", &[])));
    let bytes = bytes_in(&directory.path().join("entries"));
    assert!(
        bytes <= CAP && bytes > CAP - 2 * ENTRY,
        "{bytes} bytes at rest: nothing was evicted without need"
    );
    let store = open(directory.path());
    assert_eq!(store.total_bytes().unwrap(), bytes, "without kills the accounts are exact");
    check_at_rest(directory.path());
}

#[test]
fn eight_processes_keep_one_cap_while_the_accounts_are_deleted_under_them() {
    let directory = tempfile::tempdir().unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = fs::remove_file(directory.path().join("journal"));
                thread::sleep(Duration::from_millis(3));
            }
        });
        succeed(churners(directory.path(), 8, "600", &[]));
        done.store(true, Ordering::Relaxed);
    });
    check_at_rest(directory.path());
}

#[test]
fn eight_processes_against_eviction_and_clear() {
    let directory = tempfile::tempdir().unwrap();
    succeed(churners(directory.path(), 8, "1000", &["--clear-every", "100"]));
    check_at_rest(directory.path());
}

/// 200 processes are killed while they write. What they said was stored is there, and nothing is torn.
#[test]
fn two_hundred_killed_writers_leave_nothing_torn_and_nothing_locked() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let mut acknowledged = Vec::new();
    for round in 0..25u64 {
        let seeds = round * 8..round * 8 + 8;
        let mut children: Vec<_> = seeds
            .map(|seed| {
                let seed_text = seed.to_string();
                let mut child = worker(root, 1 << 40, &["put", "--seed", &seed_text, "--len", "20000"]);
                let said = BufReader::new(child.stdout.take().unwrap()).lines();
                (seed, child, said)
            })
            .collect();
        for (_, _, said) in &mut children {
            assert!(said.next().unwrap().is_ok(), "all of them are at work");
        }
        // For a time that is different in each round.
        thread::sleep(Duration::from_micros(round * 137 % 3000));
        for (_, child, _) in &mut children {
            child.kill().unwrap();
        }
        for (seed, mut child, said) in children {
            child.wait().unwrap();
            acknowledged.push(seed * 1_000_000);
            acknowledged.extend(said.map_while(Result::ok).filter_map(|line| line.parse::<u64>().ok()));
        }
    }
    assert!(acknowledged.len() > 200);

    let store = FileStore::open(root, FileOptions::default()).unwrap();
    let entries = names_in(&root.join("entries"));
    assert_eq!(store.len(), Ok(entries.len() as u64), "an entry was torn");
    for n in acknowledged {
        let key = numbered_key(n);
        let found = store.get(&key).hit().expect("what was stored survives");
        assert_eq!(prove(&key, &found), n);
    }
    let started = Instant::now();
    store.put(b"last", &artifact(b"last", 1, 16)).unwrap();
    assert!(started.elapsed() < Duration::from_secs(1), "a lock was left behind");
    let accounted = store.total_bytes().unwrap();
    assert!(accounted >= bytes_in(&root.join("entries")), "the accounts say too little");
    drop(store);
    assert_eq!(names_in(&root.join("tmp")), Vec::<String>::new(), "temp files are swept at open");
}

#[test]
fn killed_churners_leave_the_cap_and_every_entry_whole() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..12u64 {
        let mut children = churners(directory.path(), 4, "1000000", &[]);
        thread::sleep(Duration::from_millis(20 + round * 13 % 50));
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        check_at_rest(directory.path());
    }
}
