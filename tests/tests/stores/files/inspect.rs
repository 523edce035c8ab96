//! The file store's listing and totals, and the reports of caches that it persists.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use warmstart::{
    Artifact, Cache, Key, KeyFields, Limits, Metadata, MissReason, Recipe, Store,
    store::{Entry, FileStore, StoreOptions},
};
use warmstart_core::statistics::SLOT_LEN;
use warmstart_tests::proof::SetClock;
use warmstart_tests::whole::Whole;

fn open(path: &Path) -> FileStore {
    FileStore::open(path, StoreOptions::default()).unwrap()
}

fn open_read_only(path: &Path) -> FileStore {
    FileStore::open(path, StoreOptions::default().with_read_only(true)).unwrap()
}

fn fields(name: &str, flags: &str) -> KeyFields<'static> {
    KeyFields::new("example", 1).text("name", name.to_owned()).text("flags", flags.to_owned())
}

fn put(store: &FileStore, fields: &KeyFields<'_>) {
    let artifact = Artifact::new(vec![7; 100]).with_metadata(&Metadata::new().with_recipe(fields.recipe()));
    store.put(fields.key().as_bytes(), &artifact).unwrap();
}

fn entries(store: &impl Store) -> Vec<Entry> {
    let mut entries = Vec::new();
    store
        .inspect()
        .unwrap()
        .entries(&mut |entry| {
            entries.push(entry);
            ControlFlow::Continue(())
        })
        .unwrap();
    entries
}

fn nearest(store: &impl Store, recipe: &Recipe) -> Option<Recipe> {
    let entry = store.inspect().unwrap().nearest(recipe).unwrap()?;
    entry.head.unwrap().metadata.recipe().cloned()
}

/// Makes the journal so long that it is rewritten.
fn churn(store: &FileStore) {
    for n in 0..2000u64 {
        store.put(&n.to_le_bytes(), &Artifact::new(vec![])).unwrap();
        store.remove(&n.to_le_bytes()).unwrap();
    }
}

/// Every file below `root` with its bytes and the time of its last change.
fn image(root: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let mut image = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for file in fs::read_dir(folder).unwrap().map(|file| file.unwrap()) {
            let facts = file.metadata().unwrap();
            if facts.is_dir() {
                folders.push(file.path());
                image.insert(file.path(), (Vec::new(), facts.modified().unwrap()));
            } else {
                image.insert(file.path(), (fs::read(file.path()).unwrap(), facts.modified().unwrap()));
            }
        }
    }
    image
}

#[test]
fn entries_come_in_eviction_order_with_their_time_of_use() {
    let directory = tempfile::tempdir().unwrap();
    let clock = SetClock::default();
    let options = StoreOptions::default().with_clock(Arc::new(clock.clone()));
    let store = FileStore::open(directory.path(), options).unwrap();
    for (ms, name) in [(10, "a"), (20, "b"), (30, "c")] {
        clock.set(ms);
        put(&store, &fields(name, ""));
    }
    clock.set(40);
    assert!(store.get(fields("a", "").key().as_bytes()).is_ok());

    let told: Vec<_> = entries(&store)
        .into_iter()
        .map(|entry| {
            let content = entry.head.unwrap();
            assert_eq!(entry.digest, Key::digest(&content.key));
            assert_eq!((entry.size, content.payload_len), (256 + 100, 100));
            (content.metadata.recipe().unwrap().fields()[0].value().unwrap().to_owned(), entry.used_unix_ms)
        })
        .collect();
    let expected = [("b", 20), ("c", 30), ("a", 40)].map(|(name, ms)| (name.to_owned(), ms));
    assert_eq!(told, expected);

    // A rewritten journal keeps both.
    churn(&store);
    store.put(b"other", &Artifact::new(vec![])).unwrap();
    assert!(fs::metadata(directory.path().join("journal")).unwrap().len() < 64 * 4000);
    let times: Vec<_> = entries(&store).iter().map(|entry| entry.used_unix_ms).collect();
    assert_eq!(times, [20, 30, 40, 40]);
}

#[test]
fn what_is_no_entry_is_passed_over_and_left_where_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    put(&store, &fields("a", ""));
    let folder = directory.path().join("entries");
    let whole = folder.join(entries(&store)[0].digest.to_string());
    fs::copy(whole, folder.join(Key::digest(b"c").to_string())).unwrap();
    fs::write(folder.join("not a name"), b"").unwrap();
    let before = image(&folder);

    let reasons: BTreeMap<_, _> =
        entries(&store).into_iter().map(|entry| (entry.digest, entry.head.err())).collect();
    assert_eq!(reasons[&Key::digest(b"c")], Some(MissReason::KeyMismatch));
    assert_eq!(reasons.len(), 2);
    assert!(before == image(&folder));
    assert_eq!(store.whole_and_damaged(), Ok((1, 1)));
    assert_eq!((entries(&store).len(), folder.join("not a name").exists()), (1, true));
}

#[test]
fn nearest_after_replacement_is_not_what_an_entry_once_was() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let wanted = fields("a", "-O2").recipe();
    put(&store, &fields("a", "-O3"));
    let put_as = |recipe: Recipe| {
        let artifact = Artifact::new(vec![]).with_metadata(&Metadata::new().with_recipe(recipe));
        store.put(b"changing", &artifact).unwrap();
    };
    (0..100).for_each(|_| put_as(wanted.clone()));
    put_as(fields("b", "-O1").recipe());
    assert_eq!(nearest(&store, &wanted), Some(fields("a", "-O3").recipe()));
}

#[test]
fn nearest_recipe_is_found_after_removals_and_compaction() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    for n in 0..200 {
        put(&store, &fields(&format!("kernel {n}"), "-O2"));
    }
    let wanted = fields("kernel 7", "-O3").recipe();
    let near = fields("kernel 7", "-O2");
    assert_eq!(nearest(&store, &wanted), Some(near.recipe()));
    assert_eq!(nearest(&open(directory.path()), &wanted), Some(near.recipe()));
    assert_eq!(nearest(&open_read_only(directory.path()), &wanted), Some(near.recipe()));

    // Itself does not explain anything.
    put(&store, &fields("kernel 7", "-O3"));
    assert_eq!(nearest(&store, &wanted), Some(near.recipe()));

    churn(&store);
    assert_eq!(nearest(&store, &wanted), Some(near.recipe()), "a compacted journal");

    store.remove(near.key().as_bytes()).unwrap();
    let next = nearest(&store, &wanted).unwrap();
    assert_eq!(next.distance_to(&wanted), 4, "name and flags");
    assert_eq!(nearest(&store, &KeyFields::new("another domain", 1).recipe()), None);
}

#[test]
fn nearest_without_a_journal_is_found_all_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    for name in ["a", "b", "c"] {
        put(&store, &fields(name, "-O2"));
    }
    drop(store);
    fs::remove_file(directory.path().join("journal")).unwrap();
    let store = open(directory.path());
    assert_eq!(nearest(&store, &fields("b", "-O3").recipe()), Some(fields("b", "-O2").recipe()));
}

#[test]
fn pruning_takes_the_oldest_and_leaves_the_cap_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    for n in 0..10 {
        put(&store, &fields(&n.to_string(), ""));
    }
    assert!(store.get(fields("0", "").key().as_bytes()).is_ok());
    let pruned = store.inspect().unwrap().prune(Limits::bytes(3 * 356)).unwrap();
    assert_eq!((pruned.entries, pruned.bytes), (7, 7 * 356));
    let left = ["8", "9", "0"].map(|name| store.contains(fields(name, "").key().as_bytes()));
    assert_eq!((left, store.whole()), ([Ok(true); 3], Ok(3)));
    put(&store, &fields("more", ""));
    assert_eq!((store.whole(), store.total_bytes()), (Ok(4), Ok(4 * 356)));
}

#[test]
fn looking_sweeps_nothing_and_makes_no_directory() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("cache");
    put(&open(&root), &fields("a", ""));
    fs::write(root.join("tmp").join("1-0123456789abcdef.0"), b"left behind").unwrap();
    let before = image(&root);
    let store = open_read_only(&root);
    assert_eq!(entries(&store).len(), 1);
    drop(store);
    assert!(before == image(&root));

    let missing = open_read_only(&directory.path().join("missing"));
    assert_eq!(missing.get(b"k").err(), Some(MissReason::Unavailable));
    assert!(!directory.path().join("missing").exists());
}

#[test]
fn what_is_reported_adds_up_over_handles_and_outlives_them() {
    let directory = tempfile::tempdir().unwrap();
    const THREADS: u64 = 4;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let path = directory.path();
            scope.spawn(move || {
                for round in 0..10 {
                    let cache = Cache::new(open(path));
                    let key = format!("{thread} {round}");
                    for _ in 0..2 {
                        let Ok(_) = cache.get_or_build(&key, || Ok::<_, Infallible>(vec![1; 10]));
                    }
                    // On a busy machine the others may hold the lock for longer than a report waits.
                    while cache.flush() == Err(MissReason::Busy) {}
                }
            });
        }
    });
    let kept = open_read_only(directory.path()).inspect().unwrap().stats().unwrap();
    let counted = kept.counted;
    assert_eq!((counted.hits, counted.builds), (10 * THREADS, 10 * THREADS));
    assert_eq!(counted.misses.of(MissReason::Absent), 10 * THREADS);
    assert_eq!((counted.bytes_written, kept.resets), (100 * THREADS, 0));
    open(directory.path()).clear().unwrap();
    assert_eq!(open(directory.path()).inspect().unwrap().stats(), Ok(kept), "clearing is not forgetting");
}

#[test]
fn damaged_statistics_are_reset_and_that_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("statistics");
    let count = || {
        let cache = Cache::new(open(directory.path()));
        let Ok(_) = cache.get_or_build("k", || Ok::<_, Infallible>(vec![1]));
    };
    let kept = || open_read_only(directory.path()).inspect().unwrap().stats().unwrap();
    count();
    let damages: [fn(&Path); 5] = [
        |path| fs::write(path, b"").unwrap(),
        |path| fs::write(path, b"something else").unwrap(),
        |path| {
            let mut bytes = fs::read(path).unwrap();
            bytes[SLOT_LEN + 50] ^= 1;
            fs::write(path, bytes).unwrap();
        },
        |path| fs::File::create(path).unwrap().set_len(1 << 40).unwrap(),
        |path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        },
    ];
    for damage in damages {
        damage(&path);
        assert_eq!((kept().resets, kept().counted.hits), (1, 0));
        count();
        assert_eq!((kept().resets, kept().counted.hits), (1, 1));
        fs::remove_file(&path).unwrap();
        count();
        assert_eq!((kept().resets, kept().counted.hits), (0, 1), "lost is not damaged");
    }
    fs::write(directory.path().join("last-miss"), b"something else").unwrap();
    assert_eq!(kept().last_miss, None);
}

#[cfg(unix)]
#[test]
fn statistics_are_written_to_no_file_that_is_not_the_stores_own() {
    use std::os::unix::fs::symlink;

    let directory = tempfile::tempdir().unwrap();
    let (root, precious) = (directory.path().join("cache"), directory.path().join("precious"));
    let count = || {
        let cache = Cache::new(open(&root));
        let Ok(_) = cache.get_or_build("k", || Ok::<_, Infallible>(vec![1]));
    };
    count();
    let path = root.join("statistics");
    let plant: [&dyn Fn(); 3] =
        [&|| symlink(&precious, &path).unwrap(), &|| fs::hard_link(&precious, &path).unwrap(), &|| {
            let mode = rustix::fs::Mode::RUSR;
            rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        }];
    for plant in plant {
        // Statistics too, so that nothing but the file itself says that it is not the store's.
        let _ = fs::remove_file(&precious);
        fs::copy(&path, &precious).unwrap();
        let before = fs::read(&precious).unwrap();
        fs::remove_file(&path).unwrap();
        plant();
        count();
        assert!(fs::read(&precious).unwrap() == before);
        assert!(open_read_only(&root).inspect().unwrap().stats().unwrap().counted.hits > 0);
    }
}
