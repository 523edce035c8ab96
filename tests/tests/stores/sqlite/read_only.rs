//! A database that is only looked at.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant, SystemTime},
};

use rusqlite::Connection;
use warmstart::{
    MissReason, Statistics, Store,
    store::{SqliteStore, StoreOptions},
};
use warmstart_tests::proof::{artifact, numbered_key, verify};
use warmstart_tests::whole::Whole;

use super::{beside, open, place};

fn look(path: &Path) -> SqliteStore {
    SqliteStore::open(path, StoreOptions::default().with_read_only(true)).unwrap()
}

/// Everything in the directory: what it is called, when it was changed, and its bytes.
fn image(path: &Path) -> Vec<(PathBuf, SystemTime, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let changed = entry.metadata().unwrap().modified().unwrap();
            (entry.path(), changed, fs::read(entry.path()).unwrap_or_default())
        })
        .collect();
    files.sort();
    files
}

fn fill(store: &SqliteStore, entries: u64) {
    for n in 0..entries {
        store.put(&numbered_key(n), &artifact(&numbered_key(n), n, 5000)).unwrap();
    }
    let mut counted = Statistics::default();
    counted.hits = entries;
    store.inspect().unwrap().report(&counted, None).unwrap();
}

/// The entries are in the log alone. A live process is one that has its locks; a dead one has left its files.
#[test]
fn inspecting_a_database_in_use_or_after_crash_changes_nothing() {
    for dead in [false, true] {
        let (_directory, path) = place();
        drop(open(&path));
        let mut worker = Command::new(env!("CARGO_BIN_EXE_worker"))
            .args(["--store", "sqlite", "--path"])
            .arg(&path)
            .args(["put", "--count", "20", "--len", "5000", "--wait"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stored = BufReader::new(worker.stdout.take().unwrap()).lines().take(20).count();
        assert_eq!(stored, 20);
        if dead {
            worker.kill().unwrap();
            worker.wait().unwrap();
        }
        assert!(fs::metadata(beside(&path, "-wal")).unwrap().len() > 100_000);
        let before = image(&path);
        let store = look(&path);
        for n in 0..20 {
            assert_eq!(verify(&numbered_key(n), &store.get(&numbered_key(n)).unwrap()), n, "{dead}");
        }
        assert_eq!((store.whole(), store.inspect().unwrap().stats().is_ok()), (Ok(20), true));
        assert_eq!(store.put(b"k", &artifact(b"k", 1, 100)), Err(MissReason::ReadOnly));
        assert!(before == image(&path), "while it was looked at; dead: {dead}");
        drop(store);
        assert!(before == image(&path), "dead: {dead}");
        drop(worker.stdin.take());
        worker.wait().unwrap();
        assert_eq!(open(&path).whole(), Ok(20));
    }
}

#[test]
fn what_is_written_meanwhile_is_seen() {
    let (_directory, path) = place();
    fill(&open(&path), 3);
    let store = look(&path);
    assert_eq!(store.whole(), Ok(3));
    for round in 0..5 {
        let key = [round];
        let writer = open(&path);
        writer.put(&key, &artifact(&key, 7, 9000)).unwrap();
        assert_eq!(verify(&key, &store.get(&key).unwrap()), 7, "with a log");
        assert_eq!(writer.remove(&numbered_key(u64::from(round))), Ok(round < 3));
        drop(writer);
        assert_eq!(store.get(&numbered_key(u64::from(round))).err(), Some(MissReason::Absent));
        assert_eq!(verify(&key, &store.get(&key).unwrap()), 7, "without");
    }
    fs::remove_file(&path).unwrap();
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(beside(&path, suffix));
    }
    assert_eq!(store.get(&[1]).err(), Some(MissReason::Unavailable), "it is gone");
    fill(&open(&path), 2);
    assert_eq!(verify(&numbered_key(1), &store.get(&numbered_key(1)).unwrap()), 1);
}

#[test]
fn where_there_is_no_database_nothing_is_made() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["cache.db", "a/b/cache.db"] {
        let path = directory.path().join(name);
        let store = look(&path);
        assert_eq!(
            (store.get(b"k").err(), store.whole()),
            (Some(MissReason::Unavailable), Err(MissReason::Unavailable))
        );
        assert_eq!(store.put(b"k", &artifact(b"k", 1, 100)), Err(MissReason::ReadOnly));
        assert_eq!(store.inspect().unwrap().stats(), Err(MissReason::Unavailable));
        drop(store);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "{name}");
    }
    // An empty file is no database yet, and keeps its mode.
    let (_directory, path) = place();
    fs::write(&path, b"").unwrap();
    let before = image(&path);
    assert_eq!(look(&path).whole(), Err(MissReason::Unavailable));
    assert!(before == image(&path));
}

#[test]
fn what_is_damaged_older_or_to_be_recovered_is_left_as_it_is() {
    type Make<'a> = &'a dyn Fn(&Path);
    let older = |path: &Path| {
        drop(open(path));
        Connection::open(path).unwrap().execute_batch("PRAGMA user_version = 1").unwrap();
    };
    let garbage = |path: &Path| fs::write(path, [0xa5; 10_000]).unwrap();
    let no_index = |path: &Path| {
        let store = open(path);
        fill(&store, 3);
        let copies = ["", "-wal"].map(|suffix| (suffix, fs::read(beside(path, suffix)).unwrap()));
        drop(store);
        copies.iter().for_each(|(suffix, bytes)| fs::write(beside(path, suffix), bytes).unwrap());
    };
    let cases: [(Make<'_>, Option<MissReason>); 3] = [
        (&older, Some(MissReason::Unavailable)),
        (&garbage, None),
        (&no_index, Some(MissReason::Unavailable)),
    ];
    for (at, (make, reason)) in cases.iter().enumerate() {
        let (_directory, path) = place();
        make(&path);
        let before = image(&path);
        let store = look(&path);
        for _ in 0..2 {
            let found = store.get(&numbered_key(1)).err().unwrap();
            assert!(reason.map_or(found.is_damage(), |reason| found == reason), "case {at}: {found:?}");
        }
        drop(store);
        assert!(before == image(&path), "case {at}");
    }
    // One damaged entry stays too.
    let (_directory, path) = place();
    fill(&open(&path), 3);
    let damage = "UPDATE content SET envelope = zeroblob(length(envelope)) WHERE id = 2";
    Connection::open(&path).unwrap().execute(damage, []).unwrap();
    let before = image(&path);
    let store = look(&path);
    for _ in 0..2 {
        assert_eq!(store.get(&numbered_key(1)).err(), Some(MissReason::Foreign));
        assert_eq!(store.whole(), Ok(2));
        assert_eq!(store.whole_and_damaged(), Ok((2, 1)));
    }
    drop(store);
    assert!(before == image(&path));
}

/// As a process leaves them that was killed at the wrong time: there is nothing in them to be read or played back.
#[test]
fn reader_beside_an_empty_log_or_journal_makes_no_log() {
    for (suffix, bytes) in [("-journal", &b""[..]), ("-journal", &[0; 512]), ("-wal", b"")] {
        let (_directory, path) = place();
        fill(&open(&path), 2);
        fs::write(beside(&path, suffix), bytes).unwrap();
        fs::set_permissions(beside(&path, suffix), std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
        let before = image(&path);
        let store = look(&path);
        assert_eq!(verify(&numbered_key(1), &store.get(&numbered_key(1)).unwrap()), 1, "{suffix}");
        assert!(before == image(&path), "{suffix}");
        drop(store);
        assert!(before == image(&path), "{suffix}");
        fill(&open(&path), 2);
        assert!(!beside(&path, "-wal").exists());
    }
}

/// The index of the log goes a moment before the log, and that is what is seen here. A busy machine may wake the thread that
/// removes the log later than a look waits: then the log is taken for one that a dead process left, so this is tried again.
#[test]
fn a_look_waits_for_who_is_just_closing_the_database() {
    let waited = (0..10).any(|_| {
        let (_directory, path) = place();
        let store = open(&path);
        fill(&store, 3);
        let log = fs::read(beside(&path, "-wal")).unwrap();
        store.close().unwrap();
        fs::write(beside(&path, "-wal"), log).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(10));
                fs::remove_file(beside(&path, "-wal")).unwrap();
            });
            assert_eq!(verify(&numbered_key(1), &look(&path).get(&numbered_key(1)).unwrap()), 1);
        });
        !beside(&path, "-wal").exists()
    });
    assert!(waited, "no look waited for the log to go");
}

/// The writers, one process after the other, make a log and remove it again, and readers see any of that.
#[test]
fn no_look_fails_while_writers_come_and_go() {
    let (_directory, path) = place();
    fill(&open(&path), 3);
    let write = || {
        let worker = Command::new(env!("CARGO_BIN_EXE_worker"))
            .args(["--store", "sqlite", "--path"])
            .arg(&path)
            .args(["put", "--count", "3", "--len", "5000"])
            .stdout(Stdio::null())
            .status();
        assert!(worker.unwrap().success());
    };
    let is_over = AtomicBool::new(false);
    let begun = Instant::now();
    let (rounds, looks) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut rounds = 0;
            while !is_over.load(Ordering::Relaxed) {
                write();
                rounds += 1;
            }
            rounds
        });
        let look_on = || {
            let (mut looks, mut busy) = (0, 0);
            while begun.elapsed() < Duration::from_secs(2) {
                let store = look(&path);
                for n in 0..3 {
                    match store.get(&numbered_key(n)) {
                        Ok(found) => assert_eq!(verify(&numbered_key(n), &found), n),
                        // Where the machine is slow, 50 ms may not do.
                        Err(MissReason::Busy) => busy += 1,
                        Err(reason) => panic!("look {looks}: {reason:?}"),
                    }
                }
                looks += 1;
            }
            assert!(busy * 20 <= looks, "{busy} of {looks} were busy");
            looks
        };
        let readers = [scope.spawn(look_on), scope.spawn(look_on)];
        let looks: Vec<u64> = readers.into_iter().map(|reader| reader.join().unwrap_or(0)).collect();
        is_over.store(true, Ordering::Relaxed);
        (writer.join().unwrap(), looks)
    });
    println!("{rounds} rounds, {looks:?} looks");
    assert!(looks.iter().all(|looks| *looks > 0), "a look failed");
    // The last one closed, perhaps, while another process looked.
    write();
    let left = fs::metadata(beside(&path, "-wal")).map(|metadata| metadata.len());
    assert!(left.is_err(), "a log is left: {left:?}");
    assert_eq!(look(&path).whole(), Ok(3));
}

/// SQLite shares the index of the log within a process, and here it was opened to be read first.
#[test]
fn store_beside_an_inspection_may_be_refused_to_write() {
    let (_directory, path) = place();
    let mut worker = Command::new(env!("CARGO_BIN_EXE_worker"))
        .args(["--store", "sqlite", "--path"])
        .arg(&path)
        .args(["put", "--count", "2", "--len", "5000", "--wait"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(BufReader::new(worker.stdout.take().unwrap()).lines().take(2).count(), 2);
    let reader = look(&path);
    assert_eq!(reader.whole(), Ok(2));
    let writer = open(&path);
    assert_eq!(writer.put(b"k", &artifact(b"k", 1, 100)), Err(MissReason::ReadOnly));
    assert_eq!(verify(&numbered_key(1), &writer.get(&numbered_key(1)).unwrap()), 1);
    drop((reader, writer));
    let writer = open(&path);
    assert!(writer.put(b"k", &artifact(b"k", 1, 100)).is_ok());
    drop(worker.stdin.take());
    worker.wait().unwrap();
}
