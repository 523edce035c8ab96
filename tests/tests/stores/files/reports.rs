//! The persisted reports of the file store, under faults and changes by others.

use std::{
    convert::Infallible,
    fs,
    os::unix::{fs::PermissionsExt, net::UnixListener},
    path::Path,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use warmstart::{
    Artifact, Cache, Key, KeyFields, Limits, Metadata, MissReason, Provenance, Seal, Statistics, Store,
    store::{FileStore, MemoryStore, StoreOptions},
};
use warmstart_tests::faulty::FaultyBackend;
use warmstart_tests::whole::Whole;
use xxhash_rust::xxh3::xxh3_64;

const CODES: [i32; 4] = [122, 5, 28, 13];

fn open(path: &Path) -> FileStore {
    FileStore::open(path, StoreOptions::default()).unwrap()
}

fn build(cache: &Cache<FileStore>, key: &[u8]) {
    let Ok(_) = cache.get_or_build(key, || Ok::<_, Infallible>(vec![1]));
    cache.flush().unwrap();
}

#[test]
fn a_report_that_fails_and_is_made_again_counts_once() {
    let one = || {
        let mut counted = Statistics::default();
        counted.hits = 1;
        counted
    };
    for code in CODES {
        let directory = tempfile::tempdir().unwrap();
        let disk = Arc::new(FaultyBackend::new());
        let options = StoreOptions::default().with_backend(disk.clone());
        let store = FileStore::open(directory.path(), options).unwrap();
        for n in 0..20 {
            disk.fail(n, 1, code);
            let failed = store.inspect().unwrap().report(&one(), None).is_err();
            disk.fail(0, 0, code);
            if failed {
                store.inspect().unwrap().report(&one(), None).unwrap();
            }
            let stats = store.inspect().unwrap().stats().unwrap();
            assert_eq!((stats.counted.hits, stats.resets), (n + 1, 0), "call {n}, code {code}");
        }
    }
}

/// A report waits for another thread of the process, and then for other processes, within one timeout.
#[test]
fn report_after_another_thread_waits_for_the_rest_only() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyBackend::new());
    // Shorter than a report waits anyway.
    let timeout = Duration::from_millis(40);
    let options = StoreOptions::default().with_backend(disk.clone()).with_timeout(timeout);
    let store = FileStore::open(directory.path(), options).unwrap();
    store.put(b"k", &Artifact::new(vec![1])).unwrap();
    let report_during_put = || {
        let ((renames, is_renaming), (reports, is_reporting)) = (mpsc::channel(), mpsc::channel());
        // Runs in the thread that puts, while it has the accounting locked.
        disk.before_rename(move || {
            renames.send(()).unwrap();
            is_reporting.recv().unwrap();
            thread::sleep(Duration::from_millis(5));
        });
        thread::scope(|scope| {
            scope.spawn(|| store.put(b"k", &Artifact::new(vec![2])).unwrap());
            is_renaming.recv().unwrap();
            assert_eq!(disk.lock_timeout(), timeout);
            reports.send(()).unwrap();
            store.inspect().unwrap().report(&Statistics::default(), None)
        })
    };
    // On a slow machine, the put may take longer than the timeout.
    while report_during_put() == Err(MissReason::Busy) {}
    assert!(disk.lock_timeout() < timeout, "{:?}", disk.lock_timeout());
}

#[test]
fn pruning_keeps_its_books_whichever_call_fails() {
    let five = Limits { max_bytes: None, max_entries: Some(5) };
    for count in [1, 3, 1000] {
        for n in 0..70 {
            let directory = tempfile::tempdir().unwrap();
            let disk = Arc::new(FaultyBackend::new());
            let options = StoreOptions::default().with_backend(disk.clone());
            let store = FileStore::open(directory.path(), options).unwrap();
            for n in 0..20u8 {
                store.put(&[n], &Artifact::new(vec![1; 10])).unwrap();
            }
            disk.fail(n, count, CODES[0]);
            let pruned = store.inspect().unwrap().prune(five);
            disk.fail(0, 0, CODES[0]);
            let entries = fs::read_dir(directory.path().join("entries")).unwrap();
            let there: u64 = entries.map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
            assert!(there >= 5 * 138, "too many went: {n} {count}");
            assert_eq!(store.total_bytes(), Ok(there), "{n} {count} {pruned:?}");
            store.inspect().unwrap().prune(five).unwrap();
            assert_eq!(store.whole(), Ok(5));
        }
    }
}

#[test]
fn a_directory_that_became_a_newer_versions_gets_no_statistics() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::new(open(directory.path()));
    build(&cache, b"k");
    let path = directory.path().join("journal");
    let mut journal = fs::read(&path).unwrap();
    journal[8] = 200;
    let sum = xxh3_64(&journal[..60]).to_le_bytes();
    journal[60..64].copy_from_slice(&sum[..4]);
    // As a newer version does it: in a file of its own.
    fs::remove_file(&path).unwrap();
    fs::write(&path, &journal).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let before = fs::read(directory.path().join("statistics")).unwrap();
    assert!(cache.get(b"k").is_ok());
    assert_eq!(cache.flush(), Err(MissReason::NewerVersion));
    drop(cache);
    assert_eq!(fs::read(&path).unwrap(), journal);
    assert_eq!(fs::read(directory.path().join("statistics")).unwrap(), before);
}

#[test]
fn what_cannot_be_statistics_is_mended() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("statistics");
    let plant: [&dyn Fn(); 2] = [&|| drop(UnixListener::bind(&path).unwrap()), &|| {
        fs::File::create(&path).unwrap().set_len(20 << 30).unwrap();
    }];
    for plant in plant {
        let cache = Cache::new(open(directory.path()));
        let _ = fs::remove_file(&path);
        plant();
        build(&cache, b"k");
        let stats = open(directory.path()).inspect().unwrap().stats().unwrap();
        assert_eq!((stats.resets, stats.counted.hits + stats.counted.builds), (1, 1));
    }
}

#[test]
fn overlong_miss_keeps_the_one_before_or_loses_its_recipe() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::new(open(directory.path()));
    let last = || open(directory.path()).inspect().unwrap().stats().unwrap().last_miss.unwrap();
    build(&cache, b"k");
    build(&cache, &vec![7; 1 << 20]);
    assert_eq!(last().key, b"k");
    let fields = (0..4000)
        .fold(KeyFields::new("d", 1), |fields, n| fields.text(format!("header {n}"), "x".repeat(300)));
    let Ok(_) = cache.get_or_build(&fields, || Ok::<_, Infallible>(vec![1]));
    cache.flush().unwrap();
    assert_eq!((last().key, last().recipe), (fields.key().as_bytes().to_vec(), None));
}

/// A record that a store keeps for itself under the same secret is no artifact of a put.
#[test]
fn the_last_miss_does_not_pass_for_an_entry() {
    let directory = tempfile::tempdir().unwrap();
    let options = || StoreOptions::default().with_seal(Seal::new(&[7; 32]));
    let cache = Cache::new(FileStore::open(directory.path(), options()).unwrap());
    build(&cache, b"k");
    drop(cache);
    const KEY: &[u8] = b"warmstart last miss";
    let entry = directory.path().join("entries").join(Key::digest(KEY).to_string());
    fs::copy(directory.path().join("last-miss"), entry).unwrap();
    let store = FileStore::open(directory.path(), options()).unwrap();
    assert!(matches!(store.get(KEY), Err(MissReason::Forged)));
    assert!(store.inspect().unwrap().stats().unwrap().last_miss.is_some());
}

#[test]
fn recipes_of_thousands_of_fields_compare_below_quadratic_time() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let fields = |n: usize| {
        (0..5000).fold(KeyFields::new("d", 1), |fields, at| fields.text(format!("header {n}/{at}"), "x"))
    };
    for n in 0..16 {
        let metadata = Metadata::new().with_recipe(fields(n).recipe());
        store.put(fields(n).key().as_bytes(), &Artifact::new(vec![]).with_metadata(&metadata)).unwrap();
    }
    let wanted = fields(1000).recipe();
    let begun = Instant::now();
    assert!(store.inspect().unwrap().nearest(&wanted).unwrap().is_some());
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}

#[test]
fn saved_time_does_not_wrap() {
    let cache = Cache::new(MemoryStore::new(Limits::NONE));
    let provenance = Provenance { created_unix_ms: 0, build_nanos: u64::MAX };
    cache.put(b"k", &Artifact::new(vec![1]).with_provenance(provenance)).unwrap();
    for _ in 0..3 {
        assert!(cache.get(b"k").is_ok());
    }
    assert_eq!(cache.statistics().saved_nanos, u64::MAX);
}

#[test]
fn fields_in_another_order_are_explained() {
    let cache = Cache::new(MemoryStore::new(Limits::NONE));
    let stored = KeyFields::new("d", 1).text("a", "1").text("b", "2");
    let wanted = KeyFields::new("d", 1).text("b", "2").text("a", "1");
    cache.put(&stored, &Artifact::new(vec![1])).unwrap();
    assert!(cache.get(&wanted).is_err());
    let explanation = cache.explain(&wanted.recipe()).unwrap().unwrap();
    assert_eq!(explanation.changes[0].label, "order of the fields");
}
