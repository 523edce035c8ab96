//! Databases that are damaged, of another version or application, locked or gone.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rusqlite::Connection;
use warmstart::{
    Artifact, Cache, MissReason, Store,
    store::{SqliteStore, StoreOptions},
};
use warmstart_tests::proof::{artifact, numbered_key, numbered_len, verify};
use warmstart_tests::whole::Whole;

use super::{beside, open, place};

const APPLICATION_ID: i32 = 0x5753_4341;
const COMPANIONS: [&str; 3] = ["", "-wal", "-shm"];

/// Every file of the directory with its bytes.
fn image(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| (path.clone(), fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

/// The directory's files without the index of the log, which every reader rebuilds.
fn image_without_index(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    image(path).into_iter().filter(|(path, _)| !path.to_str().unwrap().ends_with("-shm")).collect()
}

fn expect_working(store: &dyn Store) {
    store.put(b"fresh", &artifact(b"fresh", 9, 5000)).unwrap();
    assert_eq!(verify(b"fresh", &store.get(b"fresh").unwrap()), 9);
}

/// A database of `entries`, closed, all of it in one file.
fn filled(path: &Path, entries: u64) {
    let store = open(path);
    for n in 0..entries {
        let key = numbered_key(n);
        store.put(&key, &artifact(&key, n, numbered_len(n))).unwrap();
    }
    store.close().unwrap();
    assert!(!beside(path, "-wal").exists(), "the last to close empties the log");
}

#[test]
fn what_is_no_database_is_quarantined_with_its_log() {
    // Not one byte: SQLite takes that for an empty file.
    for garbage in [&b"xy"[..], &[7; 100], &[0; 4096], &[0xa5; 100_000], b"SQLite format 3\0 or so it says"] {
        let (_directory, path) = place();
        fs::write(&path, garbage).unwrap();
        fs::write(beside(&path, "-wal"), b"log").unwrap();
        fs::write(beside(&path, "-shm"), b"index").unwrap();
        let store = open(&path);
        assert_eq!(store.get(b"k").err(), Some(MissReason::Absent));
        expect_working(&store);
        assert_eq!(fs::read(beside(&path, ".damaged-1")).unwrap(), garbage);
        assert_eq!(
            fs::read(beside(&path, ".damaged-1-wal")).ok().as_deref(),
            Some(&b"log"[..]),
            "{garbage:?}"
        );
    }
}

/// A file that is no database belongs to the user, who named it by mistake.
#[test]
fn one_quarantined_database_is_kept_and_all_other_files() {
    let (_directory, path) = place();
    let database = |n: u8| [&b"SQLite format 3\0"[..], &[n; 1000]].concat();
    let text = |n: u8| vec![b'0' + n; 10];
    let quarantine = |bytes: &[u8], suffix: &str| {
        for suffix in COMPANIONS {
            let _ = fs::remove_file(beside(&path, suffix));
        }
        fs::write(&path, bytes).unwrap();
        if suffix == "-wal" {
            fs::write(beside(&path, suffix), bytes).unwrap();
        }
        expect_working(&open(&path));
    };
    let check = |expected: &[(Vec<u8>, &str)]| {
        for (n, (bytes, kept)) in (1..).zip(expected) {
            let log = fs::read(beside(&path, &format!(".damaged-{n}-wal"))).unwrap_or_default();
            assert_eq!(log, if *kept == "-wal" { &bytes[..] } else { &[] }, "{n}");
            assert_eq!(&fs::read(beside(&path, &format!(".damaged-{n}"))).unwrap(), bytes, "{n}");
        }
        for suffix in ["", "-wal"] {
            assert!(!beside(&path, &format!(".damaged-{}{suffix}", expected.len() + 1)).exists());
        }
    };
    quarantine(&database(1), "-wal");
    check(&[(database(1), "-wal")]);
    quarantine(&database(2), "");
    check(&[(database(2), "")]);
    (1..=3).for_each(|n| quarantine(&text(n), "-wal"));
    let texts = [1, 2, 3].map(|n| (text(n), "-wal"));
    check(&texts);
    (3..=5).for_each(|n| quarantine(&database(n), "-wal"));
    check(&[&texts[..], &[(database(5), "-wal")]].concat());
}

/// Each page in turn, filled with zeros and with ones. Whatever SQLite makes of it: no wrong bytes, no error, and the
/// store works again after at most one call.
#[test]
fn no_damaged_page_does_harm() {
    const ENTRIES: u64 = 12;
    let (_directory, path) = place();
    filled(&path, ENTRIES);
    let whole = fs::read(&path).unwrap();
    let pages = whole.len() / 4096;
    assert!(pages > 20);
    let (mut reasons, mut hits) = (Vec::new(), 0);
    for page in (0..pages).filter(|page| *page < 16 || page % 7 == 0) {
        for fill in [0x00, 0xff, 0x5a] {
            let (_directory, path) = place();
            let mut damaged = whole.clone();
            damaged[page * 4096..(page + 1) * 4096].fill(fill);
            fs::write(&path, damaged).unwrap();
            let store = open(&path);
            for n in 0..ENTRIES {
                let key = numbered_key(n);
                match store.get(&key) {
                    Ok(found) => {
                        assert_eq!(verify(&key, &found), n);
                        hits += 1;
                    }
                    Err(reason) => {
                        assert!(
                            reason.is_damage() || reason == MissReason::Absent,
                            "page {page}: {reason:?}"
                        );
                        reasons.push(reason);
                    }
                }
            }
            let _ = (store.contains(b"k"), store.whole(), store.remove(&numbered_key(3)));
            if let Err(reason) = store.put(b"fresh", &artifact(b"fresh", 9, 5000)) {
                assert!(reason.is_damage(), "page {page}: {reason:?}");
            }
            expect_working(&store);
        }
    }
    assert!(
        hits > 0
            && reasons.contains(&MissReason::ChecksumMismatch)
            && reasons.contains(&MissReason::Malformed)
    );
}

#[test]
fn a_truncated_database_does_no_harm() {
    let (_directory, path) = place();
    filled(&path, 12);
    let whole = fs::read(&path).unwrap();
    for len in [1, 99, 512, 4095, 4096, 8192, 20_000, whole.len() / 2, whole.len() - 4096, whole.len() - 1] {
        let (_directory, path) = place();
        fs::write(&path, &whole[..len]).unwrap();
        let store = open(&path);
        for n in 0..12 {
            let key = numbered_key(n);
            if let Ok(found) = store.get(&key) {
                assert_eq!(verify(&key, &found), n);
            }
        }
        let _ = store.put(b"fresh", &artifact(b"fresh", 1, 5000));
        expect_working(&store);
    }
}

#[test]
fn damage_found_in_use_is_a_miss_and_the_next_call_works() {
    let (_directory, path) = place();
    filled(&path, 200);
    let store = open(&path);
    // In place, so that the path leads to the same file; the first page, which was read already, is kept.
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let len = file.metadata().unwrap().len();
    std::os::unix::fs::FileExt::write_all_at(&file, &vec![0xee; len as usize - 4096], 4096).unwrap();
    let reason = store.get(&numbered_key(3)).err().unwrap();
    assert!(reason.is_damage(), "{reason:?}");
    assert_eq!(store.get(&numbered_key(3)).err(), Some(MissReason::Absent));
    expect_working(&store);
    assert!(beside(&path, ".damaged-1").exists());
}

#[test]
fn handle_finds_the_database_that_another_has_replaced() {
    let (_directory, path) = place();
    let (first, second) = (open(&path), open(&path));
    first.put(b"old", &artifact(b"old", 1, 100)).unwrap();
    assert_eq!(verify(b"old", &second.get(b"old").unwrap()), 1);
    for suffix in COMPANIONS {
        fs::remove_file(beside(&path, suffix)).unwrap();
    }
    first.put(b"new", &artifact(b"new", 2, 100)).unwrap();
    second.put(b"newer", &artifact(b"newer", 3, 100)).unwrap();
    // Closing what had been opened on the old file must not remove the new one's log.
    let idle = open(&path);
    drop((first, second));
    assert_eq!(verify(b"new", &idle.get(b"new").unwrap()), 2);
    drop(idle);
    let store = open(&path);
    assert_eq!(
        (store.contains(b"new"), store.contains(b"newer"), store.whole()),
        (Ok(true), Ok(true), Ok(2))
    );
}

#[test]
fn closing_a_handle_on_a_removed_file_leaves_the_new_ones_log() {
    let (_directory, path) = place();
    let old = open(&path);
    old.put(b"old", &artifact(b"old", 1, 100)).unwrap();
    for suffix in COMPANIONS {
        fs::remove_file(beside(&path, suffix)).unwrap();
    }
    let new = open(&path);
    new.put(b"new", &artifact(b"new", 2, 100)).unwrap();
    let log = fs::read(beside(&path, "-wal")).unwrap();
    assert!(!log.is_empty());
    old.close().unwrap();
    assert_eq!(fs::read(beside(&path, "-wal")).unwrap(), log);
}

/// Of versions that were never published.
#[test]
fn a_database_of_an_older_schema_is_quarantined() {
    for version in [0, 1, -1] {
        let (_directory, path) = place();
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("CREATE TABLE entry (k TEXT PRIMARY KEY, v BLOB)").unwrap();
        connection.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
        connection.pragma_update(None, "user_version", version).unwrap();
        drop(connection);
        let store = open(&path);
        assert_eq!(store.whole(), Ok(0));
        expect_working(&store);
        drop(store);
        let number = |path: &Path, sql: &str| {
            Connection::open(path).unwrap().query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap()
        };
        assert_eq!(number(&beside(&path, ".damaged-1"), "PRAGMA user_version"), version);
        assert_eq!(number(&path, "PRAGMA user_version"), 3);
        assert_eq!(open(&path).whole(), Ok(1));
    }
}

/// The fixtures have a whole one: its entries are kept.
#[test]
fn what_only_looks_like_the_version_before_is_quarantined() {
    for harm in
        ["DROP TABLE sketch", "CREATE TABLE more (a)", "DROP TRIGGER entry_removed", "DROP TABLE note"]
    {
        let (_directory, path) = place();
        filled(&path, 3);
        let connection = Connection::open(&path).unwrap();
        connection
            .execute_batch("CREATE TABLE sketch (id INTEGER PRIMARY KEY, slots BLOB NOT NULL) STRICT")
            .unwrap();
        connection.execute_batch(&format!("{harm}; PRAGMA user_version = 2;")).unwrap();
        drop(connection);
        let store = open(&path);
        assert_eq!(store.whole(), Ok(0), "{harm}");
        expect_working(&store);
        assert!(beside(&path, ".damaged-1").exists(), "{harm}");
    }
}

/// Everything is tried on the store at `path`, after which nothing may have changed.
fn try_everything(store: &dyn Store, reason: MissReason) {
    assert_eq!(store.get(b"k").err(), Some(reason));
    assert_eq!(store.put(b"k", &artifact(b"k", 1, 100)), Err(reason));
    assert_eq!(store.contains(b"k"), Err(reason));
    assert_eq!(store.remove(b"k"), Err(reason));
    assert_eq!(store.whole(), Err(reason));
    assert_eq!(store.clear(), Err(reason));
}

#[test]
fn a_newer_schema_is_left_alone_to_the_byte() {
    let (_directory, path) = place();
    filled(&path, 5);
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch("ALTER TABLE entry ADD COLUMN novelty INTEGER; PRAGMA user_version = 4;")
        .unwrap();
    // Once with a log that was not moved into the database, once without.
    let with_log: Vec<_> = COMPANIONS.map(|suffix| fs::read(beside(&path, suffix)).unwrap()).into();
    drop(connection);
    assert!(!beside(&path, "-wal").exists());
    for with_a_log in [false, true] {
        if with_a_log {
            for (suffix, bytes) in COMPANIONS.iter().zip(&with_log) {
                fs::write(beside(&path, suffix), bytes).unwrap();
            }
        }
        let before = image_without_index(&path);
        let store = open(&path);
        try_everything(&store, MissReason::NewerVersion);
        let cache = Cache::new(store);
        let built = cache.get_or_build(b"k", || Ok::<_, ()>(vec![1])).unwrap();
        assert_eq!(
            (built.miss(), built.refusal()),
            (Some(MissReason::NewerVersion), Some(MissReason::NewerVersion))
        );
        drop(cache);
        let after: Vec<_> =
            image_without_index(&path).into_iter().filter(|(_, bytes)| !bytes.is_empty()).collect();
        assert!(before == after, "with a log: {with_a_log}");
    }
}

#[test]
fn another_applications_database_is_left_alone_to_the_byte() {
    for setup in [
        "CREATE TABLE mail (id INTEGER PRIMARY KEY, body TEXT); INSERT INTO mail (body) VALUES ('dear');",
        "PRAGMA application_id = 77; CREATE TABLE entry (id); INSERT INTO entry VALUES (1);",
        "PRAGMA application_id = 77;",
        "PRAGMA user_version = 4;",
        "PRAGMA journal_mode = WAL; CREATE TABLE mail (id); INSERT INTO mail VALUES (1);",
    ] {
        let (_directory, path) = place();
        Connection::open(&path).unwrap().execute_batch(setup).unwrap();
        let before = image(&path);
        let error = SqliteStore::open(&path, StoreOptions::default()).unwrap_err();
        assert!(error.is_wrong_kind() && error.to_string().contains("name another file"), "{error}");
        let after: Vec<_> =
            image_without_index(&path).into_iter().filter(|(_, bytes)| !bytes.is_empty()).collect();
        assert!(before == after, "{setup}");
    }
}

#[test]
fn a_schema_that_was_tampered_with_is_quarantined() {
    for tampering in [
        "CREATE TRIGGER evil AFTER INSERT ON entry BEGIN DELETE FROM content; END;",
        // A name that SQLite keeps to itself.
        "PRAGMA writable_schema = ON; INSERT INTO sqlite_schema VALUES ('trigger', 'sqlite_evil', 'content', 0, \
         'CREATE TRIGGER sqlite_evil AFTER INSERT ON content BEGIN DELETE FROM entry; END');",
        "PRAGMA writable_schema = ON; INSERT INTO sqlite_schema VALUES ('trigger', 'sqlite_stat1', 'content', 0, \
         'CREATE TRIGGER sqlite_stat1 AFTER INSERT ON content BEGIN DELETE FROM entry; END');",
        "PRAGMA writable_schema = ON; INSERT INTO sqlite_schema VALUES ('view', 'sqlite_stat1', 'sqlite_stat1', 0, \
         'CREATE VIEW sqlite_stat1 AS SELECT 1');",
        // Rows that SQLite would take for another object than their text says.
        "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET name = 'content2', tbl_name = 'content2' WHERE name = 'content';",
        "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET type = 'view' WHERE name = 'note';",
        "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET tbl_name = 'content' WHERE name = 'entry_removed';",
    ] {
        let (_directory, path) = place();
        filled(&path, 5);
        Connection::open(&path).unwrap().execute_batch(tampering).unwrap();
        let store = open(&path);
        assert_eq!(store.whole(), Ok(0), "{tampering}");
        expect_working(&store);
        assert!(beside(&path, ".damaged-1").exists());
    }
}

#[test]
fn a_schema_that_is_no_text_any_more_is_quarantined() {
    let (_directory, path) = place();
    filled(&path, 2);
    let whole = fs::read(&path).unwrap();
    let text = whole.windows(6).position(|bytes| bytes == b"CREATE").unwrap();
    for at in (text..4096).step_by(29) {
        let (_directory, path) = place();
        let mut damaged = whole.clone();
        damaged[at] ^= 0x80;
        fs::write(&path, damaged).unwrap();
        expect_working(&open(&path));
    }
}

#[test]
fn a_database_that_was_analysed_is_still_ours() {
    let (_directory, path) = place();
    filled(&path, 5);
    Connection::open(&path).unwrap().execute_batch("ANALYZE").unwrap();
    let store = open(&path);
    assert_eq!(store.whole(), Ok(5));
    expect_working(&store);
}

/// It takes the place of entries until nothing else is left.
#[test]
fn an_envelope_without_an_entry_is_removed_under_a_cap() {
    let (_directory, path) = place();
    let options = StoreOptions::default().with_max_bytes(1 << 20);
    let store = SqliteStore::open(&path, options).unwrap();
    for n in 0..10 {
        store.put(&numbered_key(n), &artifact(&numbered_key(n), n, 10_000)).unwrap();
    }
    Connection::open(&path)
        .unwrap()
        .execute("INSERT INTO content VALUES (1 << 40, zeroblob(2 << 20))", [])
        .unwrap();
    assert_eq!(store.put(b"fresh", &artifact(b"fresh", 9, 5000)).unwrap(), 10);
    for n in 0..10 {
        let put = store.put(&numbered_key(n), &artifact(&numbered_key(n), n, 10_000));
        assert_eq!(put.unwrap(), 0);
    }
    assert_eq!(store.whole(), Ok(11));
    store.close().unwrap();
    assert!(fs::metadata(&path).unwrap().len() <= (1 << 20) + (64 << 10));
    let count = "SELECT count(*) FROM content";
    assert_eq!(Connection::open(&path).unwrap().query_row(count, [], |row| row.get(0)), Ok(11));
}

#[test]
fn wrong_total_and_missing_envelope_are_repaired() {
    let (_directory, path) = place();
    let store = SqliteStore::open(&path, StoreOptions::default().with_max_bytes(1 << 20)).unwrap();
    for total in [i64::MAX, -1_000_000, 1 << 40] {
        Connection::open(&path).unwrap().execute("UPDATE total SET bytes = ?1", [total]).unwrap();
        store.put(b"a", &artifact(b"a", 1, 5000)).unwrap();
        store.put(b"b", &artifact(b"b", 1, 5000)).unwrap();
        assert_eq!(store.whole(), Ok(2));
        assert!(
            (10_000..12_000).contains(&store.inspect().unwrap().totals().map(|totals| totals.bytes).unwrap())
        );
    }
    Connection::open(&path).unwrap().execute("DELETE FROM content", []).unwrap();
    assert_eq!((store.contains(b"a"), store.get(b"a").err()), (Ok(false), Some(MissReason::Truncated)));
    assert_eq!(store.get(b"a").err(), Some(MissReason::Absent));
    store.put(b"a", &artifact(b"a", 2, 5000)).unwrap();
    assert_eq!(verify(b"a", &store.get(b"a").unwrap()), 2);
    assert_eq!(store.whole(), Ok(1));
}

#[test]
fn a_lock_is_busy_and_the_database_is_left_alone() {
    let (_directory, path) = place();
    filled(&path, 3);
    let key = numbered_key(1);
    let open = |path: &Path| {
        SqliteStore::open(path, StoreOptions::default().with_timeout(Duration::from_millis(20))).unwrap()
    };
    let open_before = open(&path);
    assert!(open_before.get(&key).is_ok());

    // A writer elsewhere: reads go on.
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let before = image_without_index(&path);
    assert!(open_before.get(&key).is_ok());
    let started = Instant::now();
    assert_eq!(open_before.put(b"k", &artifact(b"k", 1, 100)), Err(MissReason::Busy));
    assert_eq!(
        (open_before.remove(&key), open_before.clear()),
        (Err(MissReason::Busy), Err(MissReason::Busy))
    );
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    let cache = Cache::new(&open_before);
    let built = cache.get_or_build(b"k", || Ok::<_, ()>(Artifact::new(vec![1]))).unwrap();
    assert_eq!((built.artifact().payload(), built.refusal()), (&[1][..], Some(MissReason::Busy)));
    assert!(before == image_without_index(&path));
    other.execute_batch("ROLLBACK").unwrap();
    drop(cache);
    drop((other, open_before));

    // Another connection that wants it exclusively.
    let other = Connection::open(&path).unwrap();
    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; PRAGMA user_version;").unwrap();
    let before = image_without_index(&path);
    let store = open(&path);
    try_everything(&store, MissReason::Busy);
    let cache = Cache::new(&store);
    let built = cache.get_or_build(b"k", || Ok::<_, ()>(vec![1])).unwrap();
    assert_eq!((built.miss(), built.refusal()), (Some(MissReason::Busy), Some(MissReason::Busy)));
    assert!(before == image_without_index(&path));
    drop(other);
    assert_eq!(verify(&key, &store.get(&key).unwrap()), 1);
    expect_working(&store);
    assert!(!beside(&path, ".damaged-1").exists());
}

/// A put waits for another writer, and meanwhile other threads look up.
#[test]
fn a_hit_does_not_wait_for_a_put_that_waits() {
    const TIMEOUT: Duration = Duration::from_secs(30);
    let (_directory, path) = place();
    filled(&path, 1);
    let store = SqliteStore::open(&path, StoreOptions::default().with_timeout(TIMEOUT)).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    std::thread::scope(|scope| {
        let put = scope.spawn(|| store.put(b"k", &artifact(b"k", 1, 100)));
        let started = Instant::now();
        // Long enough for the put to be waiting.
        while started.elapsed() < Duration::from_millis(200) {
            assert_eq!(verify(&numbered_key(0), &store.get(&numbered_key(0)).unwrap()), 0);
        }
        assert!(started.elapsed() < TIMEOUT / 2, "a hit waited {:?}", started.elapsed());
        assert!(!put.is_finished());
        other.execute_batch("ROLLBACK").unwrap();
        put.join().unwrap().unwrap();
    });
    assert_eq!(verify(b"k", &store.get(b"k").unwrap()), 1);
}

/// A connection that wants the whole database exclusively costs a look-up 50 ms, whatever the timeout.
#[test]
fn look_up_timeout_is_short() {
    let (_directory, path) = place();
    filled(&path, 1);
    let other = Connection::open(&path).unwrap();
    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; PRAGMA user_version;").unwrap();
    let store =
        SqliteStore::open(&path, StoreOptions::default().with_timeout(Duration::from_secs(1))).unwrap();
    let started = Instant::now();
    assert_eq!(store.get(b"k").err(), Some(MissReason::Busy));
    assert_eq!(store.contains(b"k"), Err(MissReason::Busy));
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
}
