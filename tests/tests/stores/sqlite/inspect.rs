//! The SQLite store's listing, totals and verification.

use std::{
    fs,
    ops::ControlFlow,
    path::Path,
    time::{Duration, Instant},
};

use rusqlite::Connection;
use warmstart::{
    Artifact, KeyFields, Limits, Metadata, MissReason, Recipe, Store,
    store::{Entry, SqliteStore, StoreOptions},
};
use warmstart_tests::proof::{artifact, numbered_key, numbered_len};
use warmstart_tests::whole::Whole;

use super::{open, place};

const CAP: u64 = 2 << 20;
const FILE_OVERHEAD: u64 = 64 << 10;

fn fields(name: u64, flags: &'static str) -> KeyFields<'static> {
    KeyFields::new("example", 1).number("name", name).text("flags", flags)
}

fn with_recipe(fields: &KeyFields<'_>, len: usize) -> Artifact {
    Artifact::new(vec![7; len]).with_metadata(&Metadata::new().with_recipe(fields.recipe()))
}

fn put(store: &SqliteStore, fields: &KeyFields<'_>) {
    store.put(fields.key().as_bytes(), &with_recipe(fields, 100)).unwrap();
}

fn entries(store: &SqliteStore) -> Vec<Entry> {
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

fn nearest(store: &SqliteStore, recipe: &Recipe) -> Option<Recipe> {
    let entry = store.inspect().unwrap().nearest(recipe).unwrap()?;
    entry.head.unwrap().metadata.recipe().cloned()
}

fn number(path: &Path, sql: &str) -> i64 {
    Connection::open(path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

fn file_len(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

/// Most pages of its payload are overwritten, so that reading it finds damage.
#[test]
fn a_head_is_read_without_its_payload_however_long_it_is() {
    for metadata_len in [10, 50_000] {
        let (_directory, path) = place();
        let store = open(&path);
        let metadata = Metadata::new().with_attribute("name", vec![7; metadata_len]);
        let key = vec![b'k'; metadata_len];
        store.put(&key, &Artifact::new(vec![7; 4 << 20]).with_metadata(&metadata)).unwrap();
        store.close().unwrap();
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        let at = file_len(&path) / 4096 / 2 * 4096;
        std::os::unix::fs::FileExt::write_all_at(&file, &[0x5a; 256 << 10], at).unwrap();
        drop(file);
        let store = open(&path);
        let [entry] = &entries(&store)[..] else { panic!("there is one entry") };
        let content = entry.head.as_ref().unwrap();
        assert_eq!((&content.metadata, content.payload_len), (&metadata, 4 << 20));
        assert!(content.key == key);
        assert!(store.get(&key).err().unwrap().is_damage(), "the payload was not damaged");
    }
}

#[test]
fn an_entry_without_content_is_told_and_left_where_it_is() {
    let (_directory, path) = place();
    let store = open(&path);
    put(&store, &fields(0, ""));
    put(&store, &fields(1, ""));
    Connection::open(&path).unwrap().execute("DELETE FROM content WHERE id = 2", []).unwrap();
    let reasons = || entries(&store).into_iter().map(|entry| entry.head.err()).collect::<Vec<_>>();
    assert_eq!(reasons(), [None, Some(MissReason::Truncated)]);
    assert_eq!(reasons(), [None, Some(MissReason::Truncated)], "to look is not to remove");
    assert_eq!(nearest(&store, &fields(9, "").recipe()), Some(fields(0, "").recipe()));
}

#[test]
fn nearest_after_removals_is_none_that_went() {
    let (_directory, path) = place();
    let options = StoreOptions::default().with_limits(Limits { max_entries: Some(40), max_bytes: None });
    let store = SqliteStore::open(&path, options).unwrap();
    // The largest id is given again, here to an entry without a recipe.
    put(&store, &fields(0, "-O2"));
    let envelope = number(&path, "SELECT length(envelope) FROM content") as u64;
    // Its key twice, and 1/256 of all that.
    assert_eq!(store.inspect().unwrap().totals().map(|totals| totals.bytes), Ok((envelope + 64) * 257 / 256));
    assert_eq!(store.remove(fields(0, "-O2").key().as_bytes()), Ok(true));
    put(&store, &fields(1, "-O2"));
    put(&store, &fields(2, "-O2"));
    assert_eq!(store.remove(fields(2, "-O2").key().as_bytes()), Ok(true));
    store.put(b"none", &Artifact::new(vec![])).unwrap();
    assert_eq!(number(&path, "SELECT max(id) FROM entry"), 2);
    assert_eq!(nearest(&store, &fields(2, "-O3").recipe()), Some(fields(1, "-O2").recipe()));

    // Evicted, replaced, pruned.
    for n in 0..400 {
        put(&store, &fields(n, "-O2"));
    }
    for wanted in [390, 380, 399] {
        assert_eq!(nearest(&store, &fields(wanted, "-O3").recipe()), Some(fields(wanted, "-O2").recipe()));
    }
    assert_eq!(
        nearest(&store, &fields(100, "-O3").recipe()).unwrap().distance_to(&fields(100, "-O3").recipe()),
        4
    );
    store.inspect().unwrap().prune(Limits { max_entries: Some(3), max_bytes: None }).unwrap();
    drop(store);
    let store = open(&path);
    assert_eq!(nearest(&store, &fields(398, "-O3").recipe()), Some(fields(398, "-O2").recipe()));
}

/// Small entries with recipes, of which every third is used.
#[test]
fn with_recipes_the_files_are_within_the_cap_too() {
    for size in [16, 400, 3000] {
        let (_directory, path) = place();
        let store = SqliteStore::open(&path, StoreOptions::default().with_max_bytes(CAP)).unwrap();
        for n in 0..4000 {
            let fields = fields(n, "-O2");
            let len = if size == 400 { numbered_len(n) / 50 } else { size };
            store.put(fields.key().as_bytes(), &with_recipe(&fields, len)).unwrap();
            for used in 0..4 {
                let _ = store.get(self::fields(n / 2 / 16 * 16 + used * 160, "-O2").key().as_bytes());
            }
            assert!(file_len(&path) <= CAP + FILE_OVERHEAD, "{size}: {} bytes", file_len(&path));
        }
        let kept = store.inspect().unwrap().totals().map(|totals| totals.bytes).unwrap();
        println!(
            "{size}: {} entries, {kept} bytes counted, {} on disk",
            store.whole().unwrap(),
            file_len(&path)
        );
        assert!((CAP * 4 / 10..=CAP).contains(&kept), "{size}: {kept} of {CAP} bytes are used");
    }
}

/// In a handle that has read nothing yet. How long it takes is printed; what is required of it is far above that, because
/// machines are busy.
#[test]
fn the_nearest_of_fifty_thousand_is_found_at_once() {
    const ENTRIES: u64 = 50_000;
    let (_directory, path) = place();
    put(&open(&path), &fields(0, "-O2"));
    let mut connection = Connection::open(&path).unwrap();
    let transaction = connection.transaction().unwrap();
    {
        let mut entry = transaction.prepare("INSERT INTO entry VALUES (?1, ?2, 500, ?1)").unwrap();
        let mut content = transaction.prepare("INSERT INTO content VALUES (?1, ?2)").unwrap();
        for id in 2..=ENTRIES {
            let fields = fields(id, "-O2");
            let artifact = with_recipe(&fields, 100);
            let envelope =
                warmstart_core::envelope::encode(fields.key().as_bytes(), &artifact, None).unwrap();
            entry.execute((id as i64, fields.key().as_bytes())).unwrap();
            content.execute((id as i64, envelope.to_vec())).unwrap();
        }
    }
    transaction.commit().unwrap();
    drop(connection);
    let mut times = Vec::new();
    for id in [4999, 49_990] {
        for options in [StoreOptions::default(), StoreOptions::default().with_read_only(true)] {
            let store = SqliteStore::open(&path, options).unwrap();
            let begun = Instant::now();
            let found = nearest(&store, &fields(id, "-O3").recipe());
            times.push(begun.elapsed());
            assert_eq!(found, Some(fields(id, "-O2").recipe()));
        }
    }
    times.sort();
    println!(
        "nearest of {ENTRIES}: {:?} at best, {:?} in the middle, {:?} at worst",
        times[0], times[2], times[3]
    );
    assert!(times[0] < Duration::from_secs(10), "{times:?}");
    let store = open(&path);
    let begun = Instant::now();
    assert_eq!(
        store.inspect().unwrap().nearest(&KeyFields::new("another domain", 1).number("name", 1).recipe()),
        Ok(None)
    );
    println!("of none of them: {:?}", begun.elapsed());
    let begun = Instant::now();
    assert_eq!(entries(&store).len() as u64, ENTRIES);
    println!("entries: {:?}", begun.elapsed());
}

#[test]
fn what_is_pruned_is_given_back_to_the_file_system() {
    let (_directory, path) = place();
    let store = open(&path);
    for n in 0..1500 {
        store.put(fields(n, "").key().as_bytes(), &with_recipe(&fields(n, ""), 20_000)).unwrap();
    }
    let before = store.inspect().unwrap().totals().map(|totals| totals.bytes).unwrap();
    let pruned = store.inspect().unwrap().prune(Limits::bytes(1_000_000)).unwrap();
    let (left, bytes) =
        (store.whole().unwrap(), store.inspect().unwrap().totals().map(|totals| totals.bytes).unwrap());
    assert_eq!((pruned.entries + left, pruned.bytes + bytes), (1500, before));
    assert!((900_000..=1_000_000).contains(&bytes), "{bytes}");
    let on_disk = file_len(&path) + fs::metadata(path.with_extension("db-wal")).unwrap().len();
    assert!(on_disk <= bytes * 12 / 10 + FILE_OVERHEAD, "{on_disk} bytes are left");
    assert_eq!(number(&path, "SELECT count(*) FROM total WHERE entries = (SELECT count(*) FROM entry)"), 1);
    assert!(store.contains(fields(1499, "").key().as_bytes()).unwrap());
}

#[test]
fn flushing_writes_the_uses_down_and_the_store_stays_open() {
    let (_directory, path) = place();
    let store = open(&path);
    put(&store, &fields(0, ""));
    put(&store, &fields(1, ""));
    assert!(store.get(fields(0, "").key().as_bytes()).is_ok());
    assert_eq!(number(&path, "SELECT id FROM entry ORDER BY accessed_at LIMIT 1"), 1);
    store.flush().unwrap();
    assert_eq!(number(&path, "SELECT id FROM entry ORDER BY accessed_at LIMIT 1"), 2);
    assert!(store.get(fields(1, "").key().as_bytes()).is_ok());
}

#[test]
fn verify_reports_a_missing_envelope_and_a_damaged_page() {
    let (_directory, path) = place();
    let store = SqliteStore::open(&path, StoreOptions::default()).unwrap();
    for n in 0..200u64 {
        store.put(&n.to_le_bytes(), &Artifact::new(vec![7; 3000])).unwrap();
    }
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute("DELETE FROM content WHERE id = 7", []).unwrap();
    drop(other);
    let mut damaged = Vec::new();
    let whole = store
        .inspect()
        .unwrap()
        .verify(&mut |proof| damaged.extend(proof.result.err().map(|_| *proof)))
        .unwrap();
    assert_eq!((whole, damaged.len()), (199, 1));
    assert_eq!((damaged[0].result, damaged[0].is_removed), (Err(MissReason::Truncated), true));
    assert_eq!(store.whole(), Ok(199));
    drop(store);

    // A page in the middle: whatever was on it, and what is behind it, is lost with the database.
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2 / 4096 * 4096;
    bytes[middle..middle + 4096].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    for read_only in [true, false] {
        let options = StoreOptions::default().with_read_only(read_only);
        let store = SqliteStore::open(&path, options).unwrap();
        let (whole, damaged) = store.whole_and_damaged().unwrap();
        assert!(damaged > 0, "read-only {read_only}: {whole} are whole");
    }
}

/// Whatever page it is: what cannot be read is told, and nothing is removed by who only looks.
#[test]
fn verifying_a_database_with_a_damaged_page_finds_damage() {
    let (_directory, path) = place();
    let store = open(&path);
    for n in 0..60 {
        store.put(&numbered_key(n), &artifact(&numbered_key(n), n, 20_000)).unwrap();
    }
    store.close().unwrap();
    let whole = fs::read(&path).unwrap();
    let mut damaged = 0;
    for page in 1..whole.len() / 4096 {
        let mut bytes = whole.clone();
        bytes[page * 4096..][..4096].fill(0x5a);
        fs::write(&path, &bytes).unwrap();
        let store = SqliteStore::open(&path, StoreOptions::default().with_read_only(true)).unwrap();
        let mut problems = 0;
        let verified = store.inspect().unwrap().verify(&mut |proof| {
            assert!(!proof.is_removed, "page {page}");
            problems += u64::from(proof.result.is_err());
        });
        match verified {
            Ok(whole) => {
                assert_eq!(whole + problems, 60, "page {page}");
                damaged += u64::from(problems > 0);
            }
            Err(reason) => assert!(reason.is_damage(), "page {page}: {reason:?}"),
        }
    }
    assert!(damaged > 200, "{damaged} of {} pages", whole.len() / 4096);
}

/// A page that SQLite cannot read costs the whole database, and verifying says so.
#[test]
fn verifying_a_writable_database_with_a_damaged_page_says_so() {
    let (_directory, path) = place();
    let store = open(&path);
    for n in 0..60 {
        store.put(&numbered_key(n), &artifact(&numbered_key(n), n, 20_000)).unwrap();
    }
    store.close().unwrap();
    let whole = fs::read(&path).unwrap();
    let mut lost = 0;
    // The tables begin on the first pages; on most others is content.
    for page in (1..20).chain((20..whole.len() / 4096).step_by(7)) {
        let (_directory, path) = place();
        let mut bytes = whole.clone();
        bytes[page * 4096..][..4096].fill(0x5a);
        fs::write(&path, &bytes).unwrap();
        let store = open(&path);
        let found = store.whole_and_damaged();
        let left = store.whole().unwrap();
        match found {
            Ok((whole, damaged)) => {
                assert_eq!((whole, whole + damaged), (left, 60), "page {page}");
                assert_eq!(entries(&store).len() as u64, left, "page {page}");
                lost += u64::from(left == 0);
            }
            Err(reason) => {
                assert!(reason.is_damage() && left == 0, "page {page}: {reason:?}, {left} are left");
            }
        }
    }
    assert!(lost > 0);
}

/// Another process quarantined the database, and the same entries were stored again.
#[test]
fn verify_of_a_database_replaced_meanwhile_is_not_whole() {
    let (_directory, path) = place();
    let store = open(&path);
    for n in 0..10 {
        store.put(&numbered_key(n), &artifact(&numbered_key(n), n, 100)).unwrap();
    }
    let mut seen = 0;
    let found = store.inspect().unwrap().verify(&mut |_| {
        seen += 1;
        if seen == 5 {
            for suffix in ["", "-wal", "-shm"] {
                let _ = fs::rename(
                    format!("{}{suffix}", path.display()),
                    format!("{}-gone{suffix}", path.display()),
                );
            }
            for n in 0..10 {
                store.put(&numbered_key(n), &artifact(&numbered_key(n), n, 100)).unwrap();
            }
        }
    });
    assert_eq!((found, seen), (Err(MissReason::Unavailable), 5));
}

/// A look-up does not wait: recipes are compared without the lock.
#[test]
fn a_look_up_does_not_wait_for_an_explanation() {
    let (_directory, path) = place();
    let store = open(&path);
    let fields = |n: u64| {
        (0..2000).fold(KeyFields::new("d", 1), |fields, at| {
            fields.text(format!("header /a/rather/long/prefix/{n}/{at}"), "x")
        })
    };
    for n in 0..64 {
        put(&store, &fields(n));
    }
    store.put(b"k", &Artifact::new(vec![1])).unwrap();
    let recipe = fields(1000).recipe();
    std::thread::scope(|scope| {
        let explaining = scope.spawn(|| {
            let begun = Instant::now();
            assert!(store.inspect().unwrap().nearest(&recipe).unwrap().is_some());
            begun.elapsed()
        });
        let (mut longest, mut found) = (Duration::ZERO, 0);
        while !explaining.is_finished() {
            let begun = Instant::now();
            assert!(store.get(b"k").is_ok());
            longest = longest.max(begun.elapsed());
            found += 1;
        }
        let explained = explaining.join().unwrap();
        println!("explained in {explained:?}; of {found} look-ups meanwhile the longest took {longest:?}");
        assert!(longest < explained / 3, "{longest:?} of {explained:?}");
    });
}
