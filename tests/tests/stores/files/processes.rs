//! The file store between processes that live, and that are killed.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use warmstart::{
    Store,
    store::{FileStore, StoreOptions},
};
use warmstart_tests::proof::{artifact, numbered_key, verify};
use warmstart_tests::whole::Whole;

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
    FileStore::open(root, StoreOptions::default().with_max_bytes(CAP)).expect("the store opens")
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
    assert_eq!(store.whole(), Ok(before), "an entry was not whole");
    for n in 0..200 {
        let key = numbered_key(n);
        if let Ok(found) = store.get(&key) {
            let _ = verify(&key, &found);
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

/// Stores new entries until some are evicted. Nothing else writes, so nothing that fits is evicted.
fn assert_one_writer_evicts_only_for_need(store: &FileStore) {
    for n in 1000..1020 {
        let (key, before) = (numbered_key(n), store.total_bytes().unwrap());
        let evicted = store.put(&key, &artifact(&key, n, 16000)).unwrap();
        if evicted > 0 {
            let after = store.total_bytes().unwrap();
            assert!(before + ENTRY > CAP, "{evicted} entries were evicted from {before} bytes");
            assert!(after > CAP - ENTRY, "{evicted} entries were evicted, and {after} bytes are left");
            return;
        }
    }
    panic!("twenty more entries fit under the cap");
}

#[test]
fn eight_processes_keep_one_cap() {
    let directory = tempfile::tempdir().unwrap();
    watching(directory.path(), 8, || succeed(churners(directory.path(), 8, "1500", &[])));
    let bytes = bytes_in(&directory.path().join("entries"));
    // Each writer makes room for what the others are writing. Where that replaces a larger entry, the room stays free.
    assert!(bytes <= CAP && bytes > CAP - 9 * ENTRY, "{bytes} bytes at rest: too much was evicted");
    let store = open(directory.path());
    assert_eq!(store.total_bytes().unwrap(), bytes, "without kills the accounts are exact");
    assert_one_writer_evicts_only_for_need(&store);
    drop(store);
    check_at_rest(directory.path());
}

#[test]
fn eight_processes_keep_one_cap_while_the_accounts_are_deleted() {
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
