//! The file store's journal: damaged, of a newer version, and under those who prune and wait.

use std::{
    convert::Infallible,
    fs,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use warmstart::{
    Artifact, Cache, Key, Limits, MissReason, Store,
    store::{FileStore, StoreOptions},
};
use warmstart_tests::faulty::FaultyBackend;
use warmstart_tests::whole::Whole;
use xxhash_rust::xxh3::xxh3_64;

const EACCES: i32 = 13;

fn open(path: &Path) -> FileStore {
    FileStore::open(path, StoreOptions::default()).unwrap()
}

fn artifact(n: u8, len: usize) -> Artifact {
    Artifact::new(vec![n; len])
}

/// Why what was built is not stored.
fn builds_anyway<S: Store>(cache: &Cache<S>) -> Option<MissReason> {
    let Ok(fetched) = cache.get_or_build("k", || Ok::<_, Infallible>(vec![9; 4096]));
    assert_eq!(fetched.artifact().payload(), [9; 4096]);
    fetched.refusal()
}

/// Makes a journal a whole one of a newer version.
fn make_newer(journal: &mut [u8]) {
    journal[8] = 200;
    let sum = xxh3_64(&journal[..60]).to_le_bytes();
    journal[60..64].copy_from_slice(&sum[..4]);
}

/// A version that was damaged is no newer version, which would stop all reading and writing for good.
#[test]
fn journal_with_damaged_version_is_rebuilt() {
    let directory = tempfile::tempdir().unwrap();
    open(directory.path()).put(b"k", &artifact(1, 100)).unwrap();
    let path = directory.path().join("journal");
    for bit in 0..16 {
        let mut journal = fs::read(&path).unwrap();
        journal[8 + bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &journal).unwrap();
        let store = open(directory.path());
        assert!(store.get(b"k").is_ok());
        store.put(b"l", &artifact(1, 100)).unwrap();
        assert_eq!(store.total_bytes(), Ok(2 * (128 + 100)));
    }
}

#[test]
fn pruning_what_cannot_be_removed_ends() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyBackend::new());
    let options = StoreOptions::default().with_backend(disk.clone());
    let store = FileStore::open(directory.path(), options).unwrap();
    for n in 0..1200u64 {
        store.put(&n.to_le_bytes(), &Artifact::new(vec![])).unwrap();
    }
    disk.fail_removals(u64::MAX, EACCES);
    assert_eq!(store.inspect().unwrap().prune(Limits::bytes(0)), Err(MissReason::ReadOnly));
    disk.fail_removals(0, 0);
    assert_eq!(store.inspect().unwrap().prune(Limits::bytes(0)).unwrap().entries, 1200);
}

#[test]
fn endless_timeout_does_not_panic() {
    let directory = tempfile::tempdir().unwrap();
    let options = || StoreOptions::default().with_timeout(Duration::MAX);
    let (one, other) = [(); 2].map(|()| FileStore::open(directory.path(), options()).unwrap()).into();
    thread::scope(|scope| {
        for store in [&one, &other] {
            scope.spawn(move || {
                for n in 0..500u64 {
                    store.put(&n.to_le_bytes(), &Artifact::new(vec![])).unwrap();
                }
            });
        }
    });
    assert_eq!(one.whole(), Ok(500));
}

#[test]
fn a_directory_of_a_newer_version_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("cache");
    open(&root).put(b"k", &artifact(1, 100)).unwrap();
    let mut journal = fs::read(root.join("journal")).unwrap();
    make_newer(&mut journal);
    fs::write(root.join("journal"), &journal).unwrap();
    let cache = Cache::new(open(&root));
    assert_eq!(cache.get("k").err(), Some(MissReason::NewerVersion));
    assert_eq!(builds_anyway(&cache), Some(MissReason::NewerVersion));
    drop(cache);
    assert_eq!(fs::read(root.join("journal")).unwrap(), journal);
}

/// A reader that was opened before the upgrade.
#[test]
fn nothing_is_added_to_what_a_newer_version_keeps() {
    let directory = tempfile::tempdir().unwrap();
    open(directory.path()).put(b"k", &artifact(1, 100)).unwrap();
    let reader = open(directory.path());
    let path = directory.path().join("journal");
    let mut journal = fs::read(&path).unwrap();
    make_newer(&mut journal);
    fs::write(&path, &journal).unwrap();
    assert!(reader.get(b"k").is_ok());
    assert_eq!(reader.put(b"l", &artifact(1, 100)), Err(MissReason::NewerVersion));
    let _ = reader.close();
    assert_eq!(fs::read(&path).unwrap(), journal);
}

#[test]
fn verifying_takes_no_memory_by_what_a_file_claims() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    store.put(b"k", &artifact(1, 100)).unwrap();
    let path = directory.path().join("entries").join(Key::digest(b"k").to_string());
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
    let started = Instant::now();
    assert_eq!(store.whole_and_damaged(), Ok((0, 1)));
    assert!(started.elapsed() < Duration::from_secs(2));
    assert!(!path.exists());
}

#[test]
fn statistics_reader_takes_no_report_in_writing_for_damage() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::new(open(directory.path()));
    let reader = FileStore::open(directory.path(), StoreOptions::default().with_read_only(true)).unwrap();
    let Ok(_) = cache.get_or_build("k", || Ok::<_, Infallible>(vec![1]));
    cache.flush().unwrap();
    thread::scope(|scope| {
        let reporter = scope.spawn(|| {
            for _ in 0..5000 {
                assert!(cache.get("k").is_ok());
                cache.flush().unwrap();
            }
        });
        let mut last = 0;
        while !reporter.is_finished() {
            let kept = reader.inspect().unwrap().stats().unwrap();
            assert_eq!(kept.resets, 0);
            assert!(kept.counted.hits >= last, "counts went back");
            last = kept.counted.hits;
        }
    });
    assert_eq!(reader.inspect().unwrap().stats().unwrap().counted.hits, 5000);
}

#[test]
fn what_is_refused_is_reported_while_the_process_runs() {
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions::default().with_max_bytes(1000);
    let cache = Cache::new(FileStore::open(directory.path(), options).unwrap());
    let Ok(fetched) = cache.get_or_build("k", || Ok::<_, Infallible>(vec![1; 5000]));
    assert_eq!(fetched.refusal(), Some(MissReason::Oversize));
    let kept = open(directory.path()).inspect().unwrap().stats().unwrap();
    assert_eq!(kept.counted.refusals.of(MissReason::Oversize), 1);
    assert_eq!(kept.last_miss.unwrap().refusal, Some(MissReason::Oversize));
}

#[test]
fn cache_over_an_unchanged_store_flushes_and_closes() {
    let directory = tempfile::tempdir().unwrap();
    open(directory.path()).put(b"k", &artifact(1, 100)).unwrap();
    let store = FileStore::open(directory.path(), StoreOptions::default().with_read_only(true)).unwrap();
    let cache = Cache::new(store);
    assert!(cache.get("k").is_ok());
    assert_eq!((cache.flush(), cache.close()), (Ok(()), Ok(())));
}
