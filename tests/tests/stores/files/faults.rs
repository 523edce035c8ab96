//! The file store on media that fail, and under the hands of others.

use std::{
    convert::Infallible,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime},
};

use foldhash::fast::RandomState;
use tempfile::TempDir;
use warmstart::{
    Artifact, Cache, Key, Limits, MissReason, Store,
    cache::ManyOptions,
    os::RETRY_PAUSES,
    store::{FileStore, StoreOptions},
};
use warmstart_core::journal::{Accounts, HEADER_LEN, RECORD_LEN};
use warmstart_tests::whole::Whole;
use warmstart_tests::{faulty::FaultyBackend, mount::Mount, own_process};

const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const EIO: i32 = 5;
const EACCES: i32 = 13;

fn open(path: &Path) -> FileStore {
    FileStore::open(path, StoreOptions::default()).expect("the store opens")
}

/// Opens a store in a new directory, on a disk that fails on request.
fn open_faulty() -> (TempDir, Arc<FaultyBackend>, FileStore) {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyBackend::new());
    let options = StoreOptions::default().with_backend(Arc::clone(&disk) as _);
    let store = FileStore::open(directory.path(), options).unwrap();
    (directory, disk, store)
}

fn entry_path(root: &Path, key: &[u8]) -> PathBuf {
    root.join("entries").join(Key::digest(key).to_string())
}

fn artifact(n: u8, len: usize) -> Artifact {
    Artifact::new(vec![n; len])
}

/// The caller of the one call gets what it built, and the reason why it is not stored.
fn builds_anyway<S: Store>(cache: &Cache<S>, key: &str) -> Option<MissReason> {
    let Ok(fetched) = cache.get_or_build(key, || Ok::<_, Infallible>(vec![9; 4096]));
    assert_eq!(fetched.artifact().payload(), [9; 4096]);
    fetched.refusal()
}

/// Asks for 300 artifacts of 4 KiB in one call, twice, and returns how many of them are refused in the second.
fn builds_many_anyway<S: Store>(cache: &Cache<S>) -> usize {
    let keys: Vec<String> = (0..300).map(|n| format!("many {n}")).collect();
    let build = |index: usize| Ok::<_, Infallible>(vec![index as u8; 4096]);
    let mut refused = 0;
    for _ in 0..2 {
        let fetched = cache.get_or_build_many(&keys, ManyOptions::default().with_workers(3), build);
        assert_eq!(fetched.len(), keys.len());
        refused = 0;
        for (index, fetched) in fetched.into_iter().enumerate() {
            let Ok(fetched) = fetched;
            assert_eq!(fetched.artifact().payload(), [index as u8; 4096]);
            refused += usize::from(fetched.refusal().is_some());
        }
    }
    refused
}

/// The medium fails from a call on, and then works again.
#[test]
fn many_builds_on_a_failing_disk_all_return() {
    for code in [ENOSPC, EIO, EROFS, EACCES] {
        for skip in [0, 7, 100, 500, 2000] {
            let directory = tempfile::tempdir().unwrap();
            let disk = Arc::new(FaultyBackend::new());
            let options = StoreOptions::default().with_backend(disk.clone());
            let cache = Cache::new(FileStore::open(directory.path(), options).unwrap());
            disk.fail(skip, u64::MAX, code);
            builds_many_anyway(&cache);
            assert!(disk.failures() > 0, "{code} after {skip} calls");
            disk.fail(0, 0, code);
            assert_eq!(builds_many_anyway(&cache), 0, "{code} after {skip} calls");
        }
    }
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
        let disk = Arc::new(FaultyBackend::new());
        let options = StoreOptions::default().with_backend(disk.clone()).with_durability(is_durable);
        let store = FileStore::open(directory.path().join("store"), options).unwrap();
        store.put(b"first", &artifact(1, 10)).unwrap();
        let before = disk.directory_syncs();
        store.put(b"second", &artifact(2, 10)).unwrap();
        assert_eq!(disk.directory_syncs() - before, u64::from(is_durable));
    }
}

#[test]
fn a_durable_put_syncs_its_file_and_another_does_not() {
    for is_durable in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let disk = Arc::new(FaultyBackend::new());
        let options = StoreOptions::default().with_backend(disk.clone()).with_durability(is_durable);
        let store = FileStore::open(directory.path(), options).unwrap();
        let before = disk.synced_files();
        store.put(b"k", &artifact(1, 10)).unwrap();
        assert_eq!(disk.synced_files() - before, u64::from(is_durable));
    }
}

/// Directories that a store makes have names too, and so do their missing parents.
#[test]
fn a_durable_store_syncs_the_names_of_its_directories() {
    for (missing_parents, is_durable, expected) in
        [("", false, 0), ("", true, 4), ("a/b", false, 0), ("a/b", true, 6)]
    {
        let directory = tempfile::tempdir().unwrap();
        let disk = Arc::new(FaultyBackend::new());
        let options = StoreOptions::default().with_backend(disk.clone()).with_durability(is_durable);
        drop(FileStore::open(directory.path().join(missing_parents).join("store"), options).unwrap());
        assert_eq!(disk.directory_syncs(), expected, "{missing_parents:?}, durable: {is_durable}");
    }
}

/// If a process dies before an entry has its name, the accounts show too much, never too little.
#[test]
fn entry_is_accounted_for_before_it_has_its_name() {
    for (before, size, expected) in [(None, 200, 200), (Some(50), 200, 200), (Some(500), 200, 500)] {
        let (directory, disk, store) = open_faulty();
        store.put(b"other", &artifact(1, 10)).unwrap();
        if let Some(size) = before {
            store.put(b"k", &artifact(1, size)).unwrap();
        }
        let (journal, seen) = (directory.path().join("journal"), Arc::new(Mutex::new(None)));
        let told = Arc::clone(&seen);
        disk.before_rename(move || {
            let mut accounts = Accounts::new(Limits::NONE, RandomState::default());
            accounts.replay(&fs::read(journal).unwrap()[HEADER_LEN..]).unwrap();
            *told.lock().unwrap() = accounts.size_of(&Key::digest(b"k"));
        });
        store.put(b"k", &artifact(2, size)).unwrap();
        assert_eq!(*seen.lock().unwrap(), Some(128 + expected), "{before:?}");
    }
}

/// A program that does not use the journal has stored an entry since: it is not the least recently used one.
#[test]
fn entry_replaced_behind_the_journal_is_not_evicted() {
    let directory = tempfile::tempdir().unwrap();
    let store = FileStore::open(directory.path(), StoreOptions::default().with_max_bytes(10_000)).unwrap();
    for key in [b"a", b"b", b"c"] {
        store.put(key, &artifact(1, 2500)).unwrap();
    }
    let elsewhere = tempfile::tempdir().unwrap();
    open(elsewhere.path()).put(b"a", &artifact(2, 3500)).unwrap();
    fs::rename(entry_path(elsewhere.path(), b"a"), entry_path(directory.path(), b"a")).unwrap();
    assert_eq!(store.put(b"d", &artifact(1, 2500)), Ok(1));
    let found = [b"a", b"b", b"c", b"d"].map(|key| store.contains(key).unwrap());
    assert_eq!(found, [true, false, true, true]);
    assert_eq!(store.total_bytes(), Ok(bytes_of_entries(directory.path())));
}

/// Another user may have put a file of any length there: no memory is taken for it.
#[test]
fn entry_longer_than_the_longest_file_is_oversize() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyBackend::with_max_file(1000));
    let store =
        FileStore::open(directory.path(), StoreOptions::default().with_backend(Arc::clone(&disk) as _))
            .unwrap();
    let longest = artifact(1, 1000 - 128);
    store.put(b"k", &longest).unwrap();
    assert_eq!(store.get(b"k").unwrap().payload(), longest.payload());
    assert_eq!(store.get_into(b"k", &mut Vec::new()), Ok(1000 - 128));
    assert_eq!(store.put(b"k", &artifact(2, 1001 - 128)), Err(MissReason::Oversize));
    assert_eq!(store.get(b"k").unwrap().payload(), longest.payload(), "the refused put changed nothing");

    open(directory.path()).put(b"k", &artifact(3, 1001 - 128)).unwrap();
    let mut buffer = Vec::new();
    assert_eq!(store.get(b"k").err(), Some(MissReason::Oversize));
    assert_eq!(store.get_into(b"k", &mut buffer), Err(MissReason::Oversize));
    assert_eq!((store.contains(b"k"), buffer.capacity()), (Ok(false), 0));
}

/// An entry that replaced a damaged one since it was read is not removed in its stead.
#[test]
fn what_replaced_a_damaged_entry_meanwhile_stays() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyBackend::new());
    let options = StoreOptions::default().with_backend(disk.clone());
    let store = FileStore::open(directory.path(), options).unwrap();
    let other = open(directory.path());
    store.put(b"key", &artifact(1, 100)).unwrap();
    let path = entry_path(directory.path(), b"key");
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    disk.after_open(move || assert!(other.put(b"key", &artifact(2, 100)).is_ok()));
    assert!(store.get(b"key").ok().is_none_or(|found| found.payload() == [2; 100]));
    assert_eq!(store.get(b"key").ok().map(|found| found.payload().to_vec()), Some(vec![2; 100]));
}

/// A file that another program cuts, lengthens, or cuts and fills again while it is read is damage, in every piece of it.
#[test]
fn an_entry_that_changes_while_it_is_read_is_not_handed_out() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyBackend::new());
    let options = StoreOptions::default().with_backend(disk.clone());
    let store = FileStore::open(directory.path(), options).unwrap();
    let path = entry_path(directory.path(), b"key");
    let mut buffer = Vec::new();
    for kept in [10, 100, 5_000, 300_000, 599_000] {
        for (refilled, into) in [(false, false), (false, true), (true, false), (true, true)] {
            store.put(b"key", &artifact(1, 600_000)).unwrap();
            let path = path.clone();
            disk.after_open(move || {
                let file = fs::File::options().write(true).open(path).unwrap();
                file.set_len(kept).unwrap();
                if refilled {
                    file.set_len(700_000).unwrap();
                }
            });
            let found =
                if into { store.get_into(b"key", &mut buffer).err() } else { store.get(b"key").err() };
            assert!(found.is_some_and(MissReason::is_damage), "{kept} {refilled} {into}: {found:?}");
        }
    }
}

/// An entry that another writer has not published yet takes room already.
#[test]
fn eviction_leaves_room_for_what_a_living_writer_is_writing() {
    for is_writing in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let open =
            || FileStore::open(directory.path(), StoreOptions::default().with_max_bytes(10_000)).unwrap();
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
        let found = [b"oldest".as_slice(), b"older", b"new"].map(|key| store.get(key).is_ok());
        assert_eq!(found, [false, !is_writing, true]);
    }
}

/// Every single call of a scenario fails in turn, with each error, once or from then on. The host never notices, and
/// when the disk is well again nothing is wrong and the accounts agree with the directory.
#[test]
fn any_failing_call_lets_the_host_go_on_with_right_answers() {
    const CAP: u64 = 20_000;
    let scenario = |store: &FileStore, fails: bool| {
        for n in 0..6u8 {
            let stored = store.put(&[n], &artifact(n, 5000));
            assert!(fails || stored.is_ok(), "{stored:?}");
            for m in 0..=n {
                if let Ok(found) = store.get(&[m]) {
                    assert_eq!(found.payload(), [m; 5000]);
                }
            }
        }
        let _ = store.remove(&[5]);
        let _ = store.whole();
        let _ = store.put(&[4], &artifact(4, 5000));
        let _ = store.clear();
        let _ = store.put(&[0], &artifact(0, 5000));
    };
    let options = |disk: &Arc<FaultyBackend>| {
        StoreOptions::default().with_max_bytes(CAP).with_durability(true).with_backend(Arc::clone(disk) as _)
    };
    let disk = Arc::new(FaultyBackend::new());
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
                    assert_eq!(store.get(b"after").unwrap().payload(), [7; 100]);
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
                assert_eq!(store.get(&[7]).unwrap().payload(), [7; 5000]);
                drop(store);
                fs::remove_dir_all(&root).unwrap();
            }
        }
    }
}

/// The accounts are rebuilt from the entries. An entry whose metadata cannot be read just then is there all the same.
#[test]
fn entry_that_cannot_be_read_stays_in_the_accounts() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyBackend::new());
    for skip in 0.. {
        let root = directory.path().join(skip.to_string());
        let open =
            || FileStore::open(&root, StoreOptions::default().with_backend(Arc::clone(&disk) as _)).unwrap();
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
    let disk = Arc::new(FaultyBackend::windows());
    let store =
        FileStore::open(directory.path(), StoreOptions::default().with_backend(Arc::clone(&disk) as _))
            .unwrap();
    store.put(b"k", &artifact(1, 10)).unwrap();

    disk.fail(0, 3, SHARING_VIOLATION);
    assert!(store.get(b"k").is_ok(), "the fourth attempt succeeds");

    disk.fail(0, u64::MAX, SHARING_VIOLATION);
    let started = Instant::now();
    assert_eq!(store.get(b"k").err(), Some(MissReason::Busy));
    let waited: Duration = RETRY_PAUSES.iter().sum();
    assert!(started.elapsed() >= waited && started.elapsed() < 5 * waited);
    assert_eq!(disk.calls(), 1 + RETRY_PAUSES.len() as u64, "attempts are bounded");

    disk.fail(u64::MAX, 0, 0);
    assert!(store.get(b"k").is_ok());
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
                    assert_eq!(reason, MissReason::NoSpace);
                    refused += 1;
                }
            }
        }
        let statistics = cache.statistics();
        assert!(refused > 300, "{refused} were refused");
        assert_eq!(statistics.refusals.of(MissReason::NoSpace), refused);
        assert!(cache.get("key 0").is_ok(), "what was stored before is still there");
        let temps = fs::read_dir(small.join("cache/tmp")).unwrap();
        let is_alive = |path: PathBuf| path.extension().is_some_and(|extension| extension == "alive");
        assert!(temps.map(|temp| temp.unwrap().path()).all(is_alive), "a put that failed left its file");
        cache.store().clear().unwrap();
        assert_eq!(builds_anyway(&cache, "after"), None, "room was made");
        assert!(builds_many_anyway(&cache) > 50, "they take more room than there is");
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
            assert_eq!(cache.get("k").unwrap().payload(), [1; 100]);
        }
        assert_eq!(builds_anyway(&cache, "other"), Some(MissReason::ReadOnly));
        assert_eq!(cache.store().whole(), Ok(1));
        assert_eq!(cache.store().remove(b"k"), Err(MissReason::ReadOnly));
        assert_eq!(cache.store().clear(), Err(MissReason::ReadOnly));
        assert_eq!(cache.statistics().refusals.of(MissReason::ReadOnly), 1);
        assert_eq!(builds_many_anyway(&cache), 300);
        // Handles that may write still do.
        writer.put(b"later", &artifact(2, 100)).unwrap();
        assert_eq!(cache.get("later").unwrap().payload(), [2; 100]);
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
        assert_eq!(open(&root).get(b"k").unwrap().payload(), [2; 100]);
        assert!(started.elapsed() < Duration::from_secs(2));
        assert_eq!(store.total_bytes().unwrap(), bytes_of_entries(&root));
    }
}

#[test]
fn large_entry_is_served_and_a_damaged_one_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let path = entry_path(directory.path(), b"k");
    store.put(b"k", &artifact(1, 40 << 20)).unwrap();
    assert_eq!(store.get(b"k").unwrap().payload().len(), 40 << 20);
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(39 << 20).unwrap();
    assert!(store.get(b"k").err().is_some_and(MissReason::is_damage));
    assert!(!path.exists());
}

#[test]
fn lost_or_damaged_accounts_are_rebuilt_from_the_entries() {
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
            let options = || StoreOptions::default().with_max_bytes(30_000);
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
                assert_eq!(store.get(&[n]).unwrap().payload(), [n; 2000]);
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

/// The journal is removed, and rebuilt by another handle, between the account of an entry and its appearance.
#[test]
fn accounts_lost_during_a_put_are_rebuilt() {
    let (directory, disk, store) = open_faulty();
    store.put(b"a", &artifact(1, 100)).unwrap();
    let root = directory.path().to_path_buf();
    disk.before_rename(move || {
        fs::remove_file(root.join("journal")).unwrap();
        open(&root).put(b"b", &artifact(2, 100)).unwrap();
    });
    store.put(b"c", &artifact(3, 100)).unwrap();
    assert_eq!(open(directory.path()).total_bytes().unwrap(), bytes_of_entries(directory.path()));
}

/// A handle makes the journal again. Before it is published, that journal is removed too, and another handle makes one in which
/// it accounts for an entry: that one counts.
#[test]
fn a_rebuilt_journal_that_was_lost_replaces_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyBackend::new());
    let options = StoreOptions::default().with_backend(Arc::clone(&disk) as _);
    let store = FileStore::open(directory.path(), options).unwrap();
    store.put(b"a", &artifact(1, 100)).unwrap();
    let root = directory.path().to_path_buf();
    fs::remove_file(root.join("journal")).unwrap();
    disk.after_list(move || {
        fs::remove_file(root.join("journal")).unwrap();
        open(&root).put(b"b", &artifact(2, 100)).unwrap();
    });
    store.put(b"c", &artifact(3, 100)).unwrap();
    let bytes = bytes_of_entries(directory.path());
    assert_eq!((store.total_bytes(), open(directory.path()).total_bytes()), (Ok(bytes), Ok(bytes)));
}

/// A disk may have space for records and entries, and none for a second journal beside the first.
#[test]
fn journal_that_cannot_be_compacted_goes_on_to_work() {
    let directory = tempfile::tempdir().unwrap();
    let journal_len = || fs::metadata(directory.path().join("journal")).unwrap().len();
    let disk = Arc::new(FaultyBackend::new());
    let options = StoreOptions::default().with_backend(Arc::clone(&disk) as _);
    let store = FileStore::open(directory.path(), options).unwrap();
    store.put(b"k", &artifact(1, 100)).unwrap();
    disk.fail_renames_to("journal", ENOSPC);
    while disk.failures() == 0 {
        store.put(b"k", &artifact(2, 100)).unwrap();
    }
    let before = (disk.lists(), disk.failures(), journal_len());
    store.put(b"k", &artifact(3, 100)).unwrap();
    let record = journal_len() - before.2;
    assert_eq!((disk.lists(), disk.failures()), (before.0 + 1, before.1 + 1), "compaction is tried once");
    let before = journal_len();
    assert!(store.get(b"k").is_ok());
    assert_eq!((store.flush(), store.flush()), (Ok(()), Ok(())));
    assert_eq!(journal_len(), before + record, "the use is written once");
    assert_eq!(store.total_bytes(), Ok(128 + 100));
    assert_eq!(store.inspect().unwrap().prune(Limits::bytes(0)).unwrap().entries, 1);
    assert!(store.get(b"k").is_err());
    assert_eq!((store.total_bytes(), open(directory.path()).total_bytes()), (Ok(0), Ok(0)));
    assert_eq!(store.close(), Ok(()));
}

/// No handle that finds the new journal may write to it before the handle that made it is done.
#[test]
fn rebuilt_journal_is_locked_before_it_has_its_name() {
    let (directory, disk, store) = open_faulty();
    store.put(b"a", &artifact(1, 100)).unwrap();
    fs::remove_file(directory.path().join("journal")).unwrap();
    let (temps, was_locked) = (directory.path().join("tmp"), Arc::new(Mutex::new(None)));
    let found = Arc::clone(&was_locked);
    disk.before_rename(move || {
        let paths = fs::read_dir(&temps).unwrap().map(|entry| entry.unwrap().path());
        let journal = paths.into_iter().find(|path| fs::read(path).unwrap().starts_with(b"\x89WSJ")).unwrap();
        *found.lock().unwrap() = Some(fs::File::open(journal).unwrap().try_lock().is_err());
    });
    store.put(b"b", &artifact(2, 100)).unwrap();
    assert_eq!(*was_locked.lock().unwrap(), Some(true));
}

/// One handle goes on writing to a journal that was moved away, for as long as it believes in its name; what it wrote there is
/// in the accounts soon after.
#[test]
fn what_went_to_a_moved_journal_is_accounted_for_again() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let (one, other) = (open(root), open(root));
    one.put(b"before", &artifact(0, 100)).unwrap();
    fs::rename(root.join("journal"), root.join("old")).unwrap();
    other.put(b"other", &artifact(1, 100)).unwrap();
    one.put(b"lost", &artifact(2, 100)).unwrap();
    // It asks for the name again by then.
    std::thread::sleep(Duration::from_millis(20));
    one.put(b"after", &artifact(3, 100)).unwrap();
    assert_eq!(other.total_bytes().unwrap(), bytes_of_entries(root));
}

#[test]
fn accounts_of_a_failed_put_are_as_before() {
    for size_before in [None, Some(50), Some(500)] {
        for skip in 0.. {
            let directory = tempfile::tempdir().unwrap();
            let disk = Arc::new(FaultyBackend::new());
            let options = StoreOptions::default().with_backend(Arc::clone(&disk) as _);
            let store = FileStore::open(directory.path(), options).unwrap();
            if let Some(size) = size_before {
                store.put(b"k", &artifact(1, size)).unwrap();
            }
            disk.fail(skip, 1, EIO);
            let stored = store.put(b"k", &artifact(2, 200));
            disk.fail(u64::MAX, 0, 0);
            let journal = fs::metadata(directory.path().join("journal")).map_or(0, |metadata| metadata.len());
            assert_eq!(journal % RECORD_LEN as u64, 0, "call {skip} left a part of a record");
            let bytes = bytes_of_entries(directory.path());
            assert_eq!(store.total_bytes(), Ok(bytes), "call {skip} failed: {stored:?}");
            assert_eq!(open(directory.path()).total_bytes(), Ok(bytes), "call {skip} failed: {stored:?}");
            if disk.failures() == 0 {
                break;
            }
        }
    }
}

#[test]
fn directory_removed_in_use_is_made_again_whole_or_in_part() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("cache");
    let store = FileStore::open(&root, StoreOptions::default().with_max_bytes(10_000)).unwrap();
    for part in ["", "entries", "tmp", "locks"] {
        store.put(b"a", &artifact(1, 1000)).unwrap();
        fs::remove_dir_all(root.join(part)).unwrap();
        let expected = matches!(part, "tmp" | "locks");
        assert_eq!(store.get(b"a").is_ok(), expected, "{part}");
        for n in 0..20 {
            store.put(&[n], &artifact(n, 1000)).unwrap();
            assert_eq!(store.get(&[n]).unwrap().payload(), [n; 1000]);
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
    let disk = Arc::new(FaultyBackend::new());
    let options = || StoreOptions::default().with_max_bytes(10_000);
    let store = FileStore::open(directory.path(), options().with_backend(Arc::clone(&disk) as _)).unwrap();
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
fn moved_or_linked_journal_does_not_split_the_accounts() {
    let move_directory: &dyn Fn(&Path) = &|root| fs::rename(root, root.with_extension("moved")).unwrap();
    let move_journal: &dyn Fn(&Path) = &|root| fs::rename(root.join("journal"), root.join("old")).unwrap();
    let link_journal: &dyn Fn(&Path) = &|root| {
        fs::hard_link(root.join("journal"), root.join("link")).unwrap();
        fs::remove_file(root.join("journal")).unwrap();
    };
    for change in [move_directory, move_journal, link_journal] {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("cache");
        let options = || StoreOptions::default().with_max_bytes(20_000);
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
    let store = FileStore::open(directory.path(), StoreOptions::default().with_max_bytes(5_000)).unwrap();
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
    assert!(store.get(b"new").is_ok());
    // The disk refuses to remove the oldest entry, once: the next one goes instead.
    let disk = Arc::new(FaultyBackend::new());
    let options = StoreOptions::default().with_max_bytes(5_000).with_backend(Arc::clone(&disk) as _);
    let store = FileStore::open(directory.path(), options).unwrap();
    disk.fail_removals(1, EACCES);
    assert_eq!(store.put(b"newer", &artifact(1, 1000)).map(|evicted| evicted > 0), Ok(true));
    assert!(store.total_bytes().unwrap() <= 5_000);
}

#[test]
fn entry_removed_by_another_process_is_no_longer_counted() {
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
    let store = FileStore::open(directory.path(), StoreOptions::default().with_max_bytes(10_000)).unwrap();
    for n in 0..8 {
        store.put(&[n], &artifact(n, 1000)).unwrap();
    }
    fs::write(directory.path().join("tmp/stray"), vec![0; 50_000]).unwrap();
    for name in ["x.alive", "x.0"] {
        let path = directory.path().join("tmp").join(name);
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }
    assert_eq!(store.put(b"more", &artifact(9, 1000)).unwrap(), 1);
    assert!(open(directory.path()).get(b"more").is_ok());
}

/// The files of a writer go when its process is dead, and those of an unknown one when they are old.
#[test]
fn temp_files_of_dead_writers_and_old_ones_are_removed() {
    type Act = fn(&FileStore, &Path);
    let acts: [Act; 2] = [|_, root| drop(open(root)), |store, _| store.clear().unwrap()];
    for act in acts {
        let directory = tempfile::tempdir().unwrap();
        let (root, temps) = (directory.path(), directory.path().join("tmp"));
        let store = open(root);
        store.put(b"k", &artifact(1, 100)).unwrap();
        let alive = fs::read_dir(&temps).unwrap().next().unwrap().unwrap().file_name();
        let mine = alive.to_str().unwrap().replace(".alive", ".999");
        for name in ["dead.alive", "dead.1", "stray.1", "old.1", "pipe.1", &mine] {
            fs::write(temps.join(name), "x").unwrap();
        }
        // Nothing is known of a writer whose sign of life is none.
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, temps.join("pipe.alive"), kind, mode, 0).unwrap();
        let long_ago = SystemTime::now() - Duration::from_secs(2 * 3600);
        fs::File::options().write(true).open(temps.join("old.1")).unwrap().set_modified(long_ago).unwrap();
        let lock = root.join("locks").join(Key::digest(b"dead").to_string());
        fs::write(&lock, "").unwrap();
        act(&store, root);
        let is_there = |name: &str| temps.join(name).exists();
        assert_eq!(["dead.1", "old.1"].map(is_there), [false; 2]);
        assert_eq!(["stray.1", "pipe.1", &mine].map(is_there), [true; 3]);
        drop(open(root));
        assert!(!lock.exists(), "the lock of a dead process stays");
    }
}

/// Uses that could not be written when the lock was taken are written the next time.
#[test]
fn uses_that_could_not_be_written_are_not_lost() {
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions::default().with_max_bytes(10_000).with_timeout(Duration::from_millis(20));
    let store = FileStore::open(directory.path(), options).unwrap();
    for key in [b"a", b"b", b"c"] {
        store.put(key, &artifact(1, 2500)).unwrap();
    }
    assert!(store.get(b"a").is_ok());
    let other = fs::File::open(directory.path().join("journal")).unwrap();
    other.lock().unwrap();
    assert_eq!(store.flush(), Err(MissReason::Busy));
    other.unlock().unwrap();
    assert_eq!(store.put(b"d", &artifact(1, 2500)), Ok(1));
    let found = [b"a", b"b", b"c", b"d"].map(|key| store.contains(key).unwrap());
    assert_eq!(found, [true, false, true, true]);
}

#[test]
fn neither_hits_nor_many_threads_wait_longer_than_they_must() {
    let directory = tempfile::tempdir().unwrap();
    let timeout = Duration::from_millis(300);
    let store = FileStore::open(directory.path(), StoreOptions::default().with_timeout(timeout)).unwrap();
    for n in 0..1100u32 {
        store.put(&n.to_le_bytes(), &artifact(1, 10)).unwrap();
    }
    let other = fs::File::open(directory.path().join("journal")).unwrap();
    other.lock().unwrap();
    let started = Instant::now();
    std::thread::scope(|scope| {
        for n in 0..8u8 {
            let store = &store;
            scope.spawn(move || assert_eq!(store.put(&[n], &artifact(n, 10)), Err(MissReason::Busy)));
        }
        // More than a batch of uses, while the others wait for the lock.
        let slowest = (0..1100u32).map(|n| {
            let started = Instant::now();
            assert!(store.get(&n.to_le_bytes()).is_ok());
            started.elapsed()
        });
        assert!(slowest.max().unwrap() < timeout / 2, "a hit waited for the lock");
    });
    assert!(started.elapsed() < 6 * timeout, "the threads waited one after the other");
}

#[test]
fn a_lock_that_does_not_come_refuses_the_put_in_bounded_time() {
    let directory = tempfile::tempdir().unwrap();
    let timeout = Duration::from_millis(50);
    let store = FileStore::open(directory.path(), StoreOptions::default().with_timeout(timeout)).unwrap();
    store.put(b"k", &artifact(1, 100)).unwrap();
    let other = fs::File::open(directory.path().join("journal")).unwrap();
    other.lock().unwrap();
    let started = Instant::now();
    assert_eq!(store.put(b"l", &artifact(1, 100)), Err(MissReason::Busy));
    assert!(started.elapsed() >= timeout && started.elapsed() < 20 * timeout);
    assert!(store.get(b"k").is_ok(), "a hit takes no lock");
    drop(other);
    store.put(b"l", &artifact(1, 100)).unwrap();
    assert_eq!(
        fs::read_dir(directory.path().join("tmp")).unwrap().count(),
        1,
        "only the sign of life is left"
    );
}
