//! The file store on media that fail, and under the hands of others.

use std::{
    convert::Infallible,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use warmstart::{
    Artifact, Cache, Key, Reason, Store,
    os::RETRY_PAUSES,
    store::{FileOptions, FileStore},
};
use warmstart_tests::{faulty::FaultyDisk, mount::Mount, own_process};

const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const EIO: i32 = 5;
const EACCES: i32 = 13;

fn open(path: &Path) -> FileStore {
    FileStore::open(path, FileOptions::default()).expect("the store opens")
}

fn entry_path(root: &Path, key: &[u8]) -> PathBuf {
    root.join("entries").join(Key::digest(key).to_string())
}

fn artifact(n: u8, len: usize) -> Artifact {
    Artifact::new(vec![n; len])
}

/// The caller of the one call gets what it built, and the reason why it is not stored.
fn builds_anyway<S: Store>(cache: &Cache<S>, key: &str) -> Option<Reason> {
    let Ok(fetched) = cache.get_or_build(key, || Ok::<_, Infallible>(vec![9; 4096]));
    assert_eq!(fetched.artifact().payload(), [9; 4096]);
    fetched.refusal()
}

fn bytes_of_entries(root: &Path) -> u64 {
    let entries = fs::read_dir(root.join("entries")).expect("there are entries");
    entries.map(|entry| entry.and_then(|entry| entry.metadata()).expect("nothing changes").len()).sum()
}

/// A name that is not synced may be gone when power is lost, and with it what was stored.
#[test]
fn a_durable_put_syncs_its_directory_and_another_does_not() {
    for is_durable in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let disk = Arc::new(FaultyDisk::new());
        let options = FileOptions::default().with_disk(disk.clone()).with_durability(is_durable);
        let store = FileStore::open(directory.path().join("store"), options).unwrap();
        store.put(b"first", &artifact(1, 10)).unwrap();
        let before = disk.directory_syncs();
        store.put(b"second", &artifact(2, 10)).unwrap();
        assert_eq!(disk.directory_syncs() - before, u64::from(is_durable));
    }
}

/// What took the place of a damaged entry since it was read is not removed in its stead.
#[test]
fn what_replaced_a_damaged_entry_meanwhile_stays() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::new());
    let options = FileOptions::default().with_disk(disk.clone());
    let store = FileStore::open(directory.path(), options).unwrap();
    let other = open(directory.path());
    store.put(b"key", &artifact(1, 100)).unwrap();
    let path = entry_path(directory.path(), b"key");
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    disk.after_read(move || assert!(other.put(b"key", &artifact(2, 100)).is_ok()));
    assert!(store.get(b"key").hit().is_none_or(|found| found.payload() == [2; 100]));
    assert_eq!(store.get(b"key").hit().map(|found| found.payload().to_vec()), Some(vec![2; 100]));
}

/// What another writer has not published yet takes room already.
#[test]
fn eviction_leaves_room_for_what_a_living_writer_is_writing() {
    for is_writing in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let open =
            || FileStore::open(directory.path(), FileOptions::default().with_max_bytes(10_000)).unwrap();
        let (store, writer) = (open(), open());
        store.put(b"oldest", &artifact(1, 3000)).unwrap();
        writer.put(b"older", &artifact(2, 3000)).unwrap();
        if is_writing {
            let temps = fs::read_dir(directory.path().join("tmp")).unwrap();
            let mut names = temps.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let alive = names.find_map(|name| Some(name.strip_suffix(".alive")?.to_owned())).unwrap();
            fs::write(directory.path().join("tmp").join(alive + ".999"), [0; 2500]).unwrap();
        }
        store.put(b"new", &artifact(3, 5000)).unwrap();
        let found = [b"oldest".as_slice(), b"older", b"new"].map(|key| store.get(key).hit().is_some());
        assert_eq!(found, [false, !is_writing, true]);
    }
}

/// Every single call of a scenario fails in turn, with each error, once or from then on. The host never notices, and
/// when the disk is well again nothing is wrong and the accounts agree with the directory.
#[test]
fn whichever_call_fails_the_host_goes_on_and_nothing_is_handed_back_wrong() {
    const CAP: u64 = 20_000;
    let scenario = |store: &FileStore, fails: bool| {
        for n in 0..6u8 {
            let stored = store.put(&[n], &artifact(n, 5000));
            assert!(fails || stored.is_ok(), "{stored:?}");
            for m in 0..=n {
                if let Some(found) = store.get(&[m]).hit() {
                    assert_eq!(found.payload(), [m; 5000]);
                }
            }
        }
        let _ = store.remove(&[5]);
        let _ = store.len();
        let _ = store.put(&[4], &artifact(4, 5000));
        let _ = store.clear();
        let _ = store.put(&[0], &artifact(0, 5000));
    };
    let options = |disk: &Arc<FaultyDisk>| {
        FileOptions::default().with_max_bytes(CAP).with_durability(true).with_disk(Arc::clone(disk) as _)
    };
    let disk = Arc::new(FaultyDisk::new());
    // In memory where there is such a file system: the scenario waits for the medium thousands of times.
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    disk.fail(u64::MAX, 0, 0);
    scenario(&FileStore::open(directory.path().join("whole"), options(&disk)).unwrap(), false);
    let calls = disk.calls();
    assert!(calls > 50, "the scenario makes {calls} calls");

    for code in [ENOSPC, EROFS, EIO, EACCES] {
        for count in [1, u64::MAX] {
            for skip in 0..calls {
                let root = directory.path().join(format!("{code}-{count}-{skip}"));
                disk.fail(skip, count, code);
                if let Ok(store) = FileStore::open(&root, options(&disk)) {
                    scenario(&store, true);
                    disk.fail(u64::MAX, 0, 0);
                    let again = store.put(b"after", &artifact(7, 100));
                    assert!(again.is_ok(), "the same handle recovers from {code} at call {skip}: {again:?}");
                    assert_eq!(store.get(b"after").hit().unwrap().payload(), [7; 100]);
                }
                disk.fail(u64::MAX, 0, 0);
                let store = FileStore::open(&root, options(&disk)).unwrap();
                for n in 0..8u8 {
                    store.put(&[n], &artifact(n, 5000)).unwrap();
                }
                assert_eq!(
                    store.total_bytes().unwrap(),
                    bytes_of_entries(&root),
                    "error {code} at call {skip}"
                );
                assert!(bytes_of_entries(&root) <= CAP);
                assert_eq!(store.get(&[7]).hit().unwrap().payload(), [7; 5000]);
                drop(store);
                fs::remove_dir_all(&root).unwrap();
            }
        }
    }
}

/// The accounts are made anew from the entries. One that cannot be looked at just then is there all the same.
#[test]
fn an_entry_that_cannot_be_looked_at_is_not_forgotten_by_the_accounts() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::new());
    for skip in 0.. {
        let root = directory.path().join(skip.to_string());
        let open =
            || FileStore::open(&root, FileOptions::default().with_disk(Arc::clone(&disk) as _)).unwrap();
        for n in 0..3 {
            open().put(&[n], &artifact(n, 1000)).unwrap();
        }
        fs::remove_file(root.join("journal")).unwrap();
        let store = open();
        disk.fail(skip, 1, EIO);
        let _ = store.total_bytes();
        let is_over = disk.calls() <= skip;
        disk.fail(u64::MAX, 0, 0);
        assert_eq!(store.total_bytes(), Ok(bytes_of_entries(&root)), "call {skip} failed");
        if is_over {
            return;
        }
    }
}

#[test]
fn a_sharing_violation_is_retried_and_then_a_miss() {
    const SHARING_VIOLATION: i32 = 32;
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::windows());
    let store =
        FileStore::open(directory.path(), FileOptions::default().with_disk(Arc::clone(&disk) as _)).unwrap();
    store.put(b"k", &artifact(1, 10)).unwrap();

    disk.fail(0, 3, SHARING_VIOLATION);
    assert!(store.get(b"k").hit().is_some(), "the fourth attempt succeeds");

    disk.fail(0, u64::MAX, SHARING_VIOLATION);
    let started = Instant::now();
    assert_eq!(store.get(b"k").miss(), Some(Reason::Busy));
    let waited: Duration = RETRY_PAUSES.iter().sum();
    assert!(started.elapsed() >= waited && started.elapsed() < 5 * waited);
    assert_eq!(disk.calls(), 1 + RETRY_PAUSES.len() as u64, "attempts are bounded");

    disk.fail(u64::MAX, 0, 0);
    assert!(store.get(b"k").hit().is_some());
}

#[test]
#[cfg_attr(not(can_mount), ignore = "needs root on Linux, to mount a file system")]
fn a_full_disk_still_yields_the_artifact() {
    own_process!(|| {
        let directory = tempfile::tempdir().unwrap();
        let small = directory.path().join("small");
        let _mount = Mount::memory(&small, 1 << 20).unwrap();
        let cache = Cache::new(open(&small.join("cache")));
        let mut refused = 0;
        for n in 0..600 {
            match builds_anyway(&cache, &format!("key {n}")) {
                None => {}
                Some(reason) => {
                    assert_eq!(reason, Reason::NoSpace);
                    refused += 1;
                }
            }
        }
        let statistics = cache.statistics();
        assert!(refused > 300, "{refused} were refused");
        assert_eq!(statistics.refusals.of(Reason::NoSpace), refused);
        assert!(cache.get("key 0").hit().is_some(), "what was stored before is still there");
        cache.store().clear().unwrap();
        assert_eq!(builds_anyway(&cache, "after"), None, "room was made");
        // The mount goes when nothing on it is open.
        drop(cache);
    });
}

#[test]
#[cfg_attr(not(can_mount), ignore = "needs root on Linux, to mount a file system")]
fn a_read_only_medium_serves_hits_and_refuses_puts() {
    own_process!(|| {
        let directory = tempfile::tempdir().unwrap();
        let (source, frozen) = (directory.path().join("source"), directory.path().join("frozen"));
        let writer = open(&source.join("cache"));
        writer.put(b"k", &artifact(1, 100)).unwrap();
        let _mount = Mount::read_only(&source, &frozen).unwrap();
        let cache = Cache::new(open(&frozen.join("cache")));
        // More than a batch of uses, none of which can be written down.
        for _ in 0..3000 {
            assert_eq!(cache.get("k").hit().unwrap().payload(), [1; 100]);
        }
        assert_eq!(builds_anyway(&cache, "other"), Some(Reason::ReadOnly));
        assert_eq!(cache.store().len(), Ok(1));
        assert_eq!(cache.store().remove(b"k"), Err(Reason::ReadOnly));
        assert_eq!(cache.store().clear(), Err(Reason::ReadOnly));
        assert_eq!(cache.statistics().refusals.of(Reason::ReadOnly), 1);
        // Who may write still does.
        writer.put(b"later", &artifact(2, 100)).unwrap();
        assert_eq!(cache.get("later").hit().unwrap().payload(), [2; 100]);
        cache.store().close().unwrap();
        drop(cache);
    });
}

/// Sparse files of a size that no memory holds.
#[test]
fn files_of_absurd_length_take_neither_memory_nor_time() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("cache");
    let store = open(&root);
    for sparse in [entry_path(&root, b"k"), root.join("journal")] {
        store.put(b"k", &artifact(1, 100)).unwrap();
        let file = fs::OpenOptions::new().write(true).open(sparse).unwrap();
        file.set_len(1 << 40).unwrap();
        drop(file);
        let started = Instant::now();
        let _ = store.get(b"k");
        store.put(b"k", &artifact(2, 100)).unwrap();
        assert_eq!(open(&root).get(b"k").hit().unwrap().payload(), [2; 100]);
        assert!(started.elapsed() < Duration::from_secs(2));
        assert_eq!(store.total_bytes().unwrap(), bytes_of_entries(&root));
    }
}

#[test]
fn an_entry_of_many_mebibytes_is_served_and_a_damaged_one_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let path = entry_path(directory.path(), b"k");
    store.put(b"k", &artifact(1, 40 << 20)).unwrap();
    assert_eq!(store.get(b"k").hit().unwrap().payload().len(), 40 << 20);
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(39 << 20).unwrap();
    assert!(store.get(b"k").miss().is_some_and(Reason::is_damage));
    assert!(!path.exists());
}

#[test]
fn accounts_that_are_lost_or_damaged_are_made_again_from_the_entries() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("cache");
    let journal = root.join("journal");
    let damage: [&dyn Fn(); 6] = [
        &|| fs::remove_file(&journal).unwrap(),
        &|| fs::write(&journal, b"not a journal").unwrap(),
        &|| fs::write(&journal, b"").unwrap(),
        &|| {
            let mut bytes = fs::read(&journal).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(&journal, bytes).unwrap();
        },
        &|| {
            let bytes = fs::read(&journal).unwrap();
            fs::write(&journal, &bytes[..bytes.len() - 10]).unwrap();
        },
        &|| {
            fs::remove_file(&journal).unwrap();
            symlink("/dev/null", &journal).unwrap();
        },
    ];
    for reopen in [false, true] {
        for (n, damage) in damage.iter().enumerate() {
            let _ = fs::remove_dir_all(&root);
            let options = || FileOptions::default().with_max_bytes(30_000);
            let mut store = FileStore::open(&root, options()).unwrap();
            for n in 0..20 {
                store.put(&[n], &artifact(n, 2000)).unwrap();
            }
            damage();
            if reopen {
                store = FileStore::open(&root, options()).unwrap();
            }
            for n in 20..25 {
                store.put(&[n], &artifact(n, 2000)).unwrap();
                assert_eq!(store.get(&[n]).hit().unwrap().payload(), [n; 2000]);
            }
            assert_eq!(
                store.total_bytes().unwrap(),
                bytes_of_entries(&root),
                "damage {n}, reopened: {reopen}"
            );
            assert!(bytes_of_entries(&root) <= 30_000);
        }
    }
}

/// The journal is removed, and made anew by another handle, between the account of an entry and its appearance.
#[test]
fn accounts_that_are_lost_in_the_middle_of_a_put_are_made_up_for() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::new());
    let store =
        FileStore::open(directory.path(), FileOptions::default().with_disk(Arc::clone(&disk) as _)).unwrap();
    store.put(b"a", &artifact(1, 100)).unwrap();
    let root = directory.path().to_path_buf();
    disk.before_rename(move || {
        fs::remove_file(root.join("journal")).unwrap();
        open(&root).put(b"b", &artifact(2, 100)).unwrap();
    });
    store.put(b"c", &artifact(3, 100)).unwrap();
    assert_eq!(open(directory.path()).total_bytes().unwrap(), bytes_of_entries(directory.path()));
}

#[test]
fn a_directory_or_a_part_of_it_that_is_removed_under_way_is_made_again() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("cache");
    let store = FileStore::open(&root, FileOptions::default().with_max_bytes(10_000)).unwrap();
    for part in ["", "entries", "tmp", "locks"] {
        store.put(b"a", &artifact(1, 1000)).unwrap();
        fs::remove_dir_all(root.join(part)).unwrap();
        let expected = matches!(part, "tmp" | "locks");
        assert_eq!(store.get(b"a").hit().is_some(), expected, "{part}");
        for n in 0..20 {
            store.put(&[n], &artifact(n, 1000)).unwrap();
            assert_eq!(store.get(&[n]).hit().unwrap().payload(), [n; 1000]);
        }
        assert_eq!(store.total_bytes().unwrap(), bytes_of_entries(&root), "{part}");
        let left: u64 =
            fs::read_dir(root.join("tmp")).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
        assert_eq!(left, 0, "temp files were left when {part} was gone");
        fs::remove_dir_all(root.join("entries")).unwrap();
        store.clear().unwrap();
    }
}

#[test]
fn an_account_that_is_made_up_for_keeps_the_cap() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::new());
    let options = || FileOptions::default().with_max_bytes(10_000);
    let store = FileStore::open(directory.path(), options().with_disk(Arc::clone(&disk) as _)).unwrap();
    store.put(b"a", &artifact(1, 4000)).unwrap();
    let root = directory.path().to_path_buf();
    disk.before_rename(move || {
        fs::remove_file(root.join("journal")).unwrap();
        let other = FileStore::open(&root, options()).unwrap();
        other.put(b"b", &artifact(2, 5000)).unwrap();
    });
    store.put(b"c", &artifact(3, 4000)).unwrap();
    let bytes = bytes_of_entries(directory.path());
    assert!(bytes <= 10_000, "{bytes} bytes at rest");
    assert_eq!(store.total_bytes().unwrap(), bytes);
}

/// Two handles must not keep two caps because the name of the journal, or of the whole directory, leads elsewhere now.
#[test]
fn a_journal_that_is_moved_or_linked_elsewhere_does_not_split_the_accounts() {
    let move_directory: &dyn Fn(&Path) = &|root| fs::rename(root, root.with_extension("moved")).unwrap();
    let move_journal: &dyn Fn(&Path) = &|root| fs::rename(root.join("journal"), root.join("old")).unwrap();
    let link_journal: &dyn Fn(&Path) = &|root| {
        fs::hard_link(root.join("journal"), root.join("link")).unwrap();
        fs::remove_file(root.join("journal")).unwrap();
    };
    for change in [move_directory, move_journal, link_journal] {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("cache");
        let options = || FileOptions::default().with_max_bytes(20_000);
        let one = FileStore::open(&root, options()).unwrap();
        one.put(b"before", &artifact(0, 1000)).unwrap();
        change(&root);
        // As often as a handle asks.
        std::thread::sleep(Duration::from_millis(20));
        let other = FileStore::open(&root, options()).unwrap();
        for n in 0..30 {
            one.put(&[n], &artifact(n, 1000)).unwrap();
            other.put(&[100 + n], &artifact(n, 1000)).unwrap();
        }
        let bytes = bytes_of_entries(&root);
        assert!(bytes <= 20_000, "{bytes} bytes at rest");
        assert_eq!((one.total_bytes().unwrap(), other.total_bytes().unwrap()), (bytes, bytes));
    }
}

#[test]
fn what_cannot_be_removed_does_not_stop_the_writing() {
    let directory = tempfile::tempdir().unwrap();
    let store = FileStore::open(directory.path(), FileOptions::default().with_max_bytes(5_000)).unwrap();
    for n in 0..4 {
        store.put(&[n], &artifact(n, 1000)).unwrap();
    }
    // A directory with something in it, where the oldest entry was and where a new one is to go.
    for key in [&[0][..], b"new"] {
        let path = entry_path(directory.path(), key);
        let _ = fs::remove_file(&path);
        fs::create_dir_all(path.join("full")).unwrap();
    }
    for n in 10..20 {
        store.put(&[n], &artifact(n, 1000)).unwrap();
    }
    store.put(b"new", &artifact(1, 1000)).unwrap();
    assert!(store.get(b"new").hit().is_some());
    // The disk refuses to remove the oldest entry, once: the next one goes instead.
    let disk = Arc::new(FaultyDisk::new());
    let options = FileOptions::default().with_max_bytes(5_000).with_disk(Arc::clone(&disk) as _);
    let store = FileStore::open(directory.path(), options).unwrap();
    disk.fail_removals(1, EACCES);
    assert_eq!(store.put(b"newer", &artifact(1, 1000)).map(|stored| stored.evicted > 0), Ok(true));
    assert!(store.total_bytes().unwrap() <= 5_000);
}

#[test]
fn what_somebody_else_removed_is_no_longer_counted() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    store.put(b"k", &artifact(1, 1000)).unwrap();
    fs::remove_file(entry_path(directory.path(), b"k")).unwrap();
    assert_eq!(store.remove(b"k"), Ok(false));
    assert_eq!(store.total_bytes(), Ok(0));
}

#[test]
fn a_stray_temp_file_evicts_nothing_and_a_pipe_stops_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let store = FileStore::open(directory.path(), FileOptions::default().with_max_bytes(10_000)).unwrap();
    for n in 0..8 {
        store.put(&[n], &artifact(n, 1000)).unwrap();
    }
    fs::write(directory.path().join("tmp/stray"), vec![0; 50_000]).unwrap();
    for name in ["x.alive", "x.0"] {
        let path = directory.path().join("tmp").join(name);
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }
    assert_eq!(store.put(b"more", &artifact(9, 1000)).unwrap().evicted, 1);
    assert!(open(directory.path()).get(b"more").hit().is_some());
}

#[test]
fn neither_hits_nor_many_threads_wait_longer_than_they_must() {
    let directory = tempfile::tempdir().unwrap();
    let patience = Duration::from_millis(300);
    let store = FileStore::open(directory.path(), FileOptions::default().with_patience(patience)).unwrap();
    for n in 0..1100u32 {
        store.put(&n.to_le_bytes(), &artifact(1, 10)).unwrap();
    }
    let other = fs::File::open(directory.path().join("journal")).unwrap();
    other.lock().unwrap();
    let started = Instant::now();
    std::thread::scope(|scope| {
        for n in 0..8u8 {
            let store = &store;
            scope.spawn(move || assert_eq!(store.put(&[n], &artifact(n, 10)), Err(Reason::Busy)));
        }
        // More than a batch of uses, while the others wait for the lock.
        let slowest = (0..1100u32).map(|n| {
            let started = Instant::now();
            assert!(store.get(&n.to_le_bytes()).hit().is_some());
            started.elapsed()
        });
        assert!(slowest.max().unwrap() < patience / 2, "a hit waited for the lock");
    });
    assert!(started.elapsed() < 6 * patience, "the threads waited one after the other");
}

#[test]
fn a_lock_that_does_not_come_refuses_the_put_in_bounded_time() {
    let directory = tempfile::tempdir().unwrap();
    let patience = Duration::from_millis(50);
    let store = FileStore::open(directory.path(), FileOptions::default().with_patience(patience)).unwrap();
    store.put(b"k", &artifact(1, 100)).unwrap();
    let other = fs::File::open(directory.path().join("journal")).unwrap();
    other.lock().unwrap();
    let started = Instant::now();
    assert_eq!(store.put(b"l", &artifact(1, 100)), Err(Reason::Busy));
    assert!(started.elapsed() >= patience && started.elapsed() < 20 * patience);
    assert!(store.get(b"k").hit().is_some(), "a hit takes no lock");
    drop(other);
    store.put(b"l", &artifact(1, 100)).unwrap();
    assert_eq!(
        fs::read_dir(directory.path().join("tmp")).unwrap().count(),
        1,
        "only the sign of life is left"
    );
}
