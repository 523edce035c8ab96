//! Every sub-command on what is no store, is damaged, is of a newer version, or is large.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::json;
use warmstart::{
    Artifact, Statistics, Store,
    store::{FileStore, SqliteStore, StoreOptions},
};

use xxhash_rust::xxh3::xxh3_64;

use crate::support::{COMMANDS, NEITHER, Still, command, contents, filled, is_unchanged, ran, run};

/// Checks that every sub-command refuses a path with this code and message, and changes no file.
fn is_refused(path: &Path, code: &str, part: &str) {
    let around = path.parent().unwrap();
    let before = contents(around);
    for arguments in COMMANDS {
        let text = run(arguments, path);
        assert_eq!((text.code, text.out.as_str()), (Some(1), ""), "{arguments:?}");
        assert!(text.errors.contains(part), "{arguments:?}: {}", text.errors);
        assert_eq!(text.errors.lines().count(), 1, "{}", text.errors);
        let json = run(&[arguments, &["--json"]].concat(), path);
        assert_eq!((json.code, &json.json()["error"]["code"]), (Some(1), &json!(code)), "{arguments:?}");
        is_unchanged(&before, around, arguments);
    }
}

#[test]
fn what_is_no_store_is_named_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| {
        fs::create_dir(directory.path().join(name)).unwrap();
        directory.path().join(name).join("it")
    };
    is_refused(&at("missing"), "missing", "there is nothing at");

    let empty = at("empty");
    fs::create_dir(&empty).unwrap();
    is_refused(&empty, "not_a_store", NEITHER);

    let foreign = at("foreign");
    fs::create_dir_all(foreign.join("entries/sub")).unwrap();
    fs::write(foreign.join("CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55\n").unwrap();
    fs::write(foreign.join("journal"), "dear diary").unwrap();
    fs::write(foreign.join("entries/0000"), "").unwrap();
    is_refused(&foreign, "not_a_store", NEITHER);

    let file = at("file");
    fs::write(&file, "int main(void);").unwrap();
    is_refused(&file, "not_a_store", NEITHER);
    fs::write(&file, "").unwrap();
    is_refused(&file, "not_a_store", NEITHER);
    fs::write(&file, b"SQLite format 3\0 and no more").unwrap();
    is_refused(&file, "not_a_store", "another application's SQLite database");

    let below = file.join("below");
    for arguments in COMMANDS {
        assert_eq!(run(arguments, &below).code, Some(1), "{arguments:?}");
    }
}

#[test]
fn directory_of_stores_is_no_store() {
    let (directory, _paths) = filled();
    let ran = run(&["stats"], directory.path());
    assert_eq!(ran.code, Some(1));
    assert!(ran.errors.contains(NEITHER), "{}", ran.errors);
}

#[cfg(unix)]
#[test]
fn directory_that_may_not_be_read_is_unreadable() {
    use std::os::unix::fs::PermissionsExt;

    let (_directory, paths) = filled();
    fs::set_permissions(&paths[0], fs::Permissions::from_mode(0o000)).unwrap();
    // Root may read any.
    if fs::read_dir(&paths[0]).is_err() {
        for arguments in COMMANDS {
            let ran = run(&[arguments, &["--json"]].concat(), &paths[0]);
            assert_eq!((ran.code, &ran.json()["error"]["code"]), (Some(1), &json!("unreadable")), "{ran:?}");
        }
    }
    fs::set_permissions(&paths[0], fs::Permissions::from_mode(0o700)).unwrap();
}

#[cfg(unix)]
#[test]
fn what_would_block_is_never_opened() {
    use std::os::unix::net::UnixListener;

    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    is_refused(&fifo, "not_a_store", NEITHER);

    let socket = directory.path().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    is_refused(&socket, "not_a_store", NEITHER);
    let device = directory.path().join("device");
    std::os::unix::fs::symlink("/dev/null", &device).unwrap();
    is_refused(&device, "not_a_store", NEITHER);
}

#[cfg(unix)]
#[test]
fn a_link_to_a_store_is_no_store_and_what_to_name_is_told() {
    use std::os::unix::fs::symlink;

    let (directory, paths) = filled();
    for (n, path) in paths.iter().enumerate() {
        let place = directory.path().join(format!("place {n}"));
        fs::create_dir(&place).unwrap();
        symlink(path, place.join("it")).unwrap();
        is_refused(&place.join("it"), "not_a_store", "that it leads to");
        // What is in it is followed nowhere.
        let foreign = place.join("foreign");
        fs::create_dir(&foreign).unwrap();
        symlink(paths[0].join("journal"), foreign.join("journal")).unwrap();
        is_refused(&foreign, "not_a_store", NEITHER);
    }
}

#[test]
fn database_in_use_with_its_number_only_in_the_log_is_detected() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("it");
    let ours = SqliteStore::open(&path, StoreOptions::default()).unwrap();
    ours.put(b"k", &Artifact::new(vec![1])).unwrap();
    assert_eq!(run(&["ls", "--json"], &path).json()["count"], json!(1));
    assert_eq!(run(&["clear", "--json"], &path).json()["removed"]["entries"], json!(1));

    // Others leave it there likewise.
    let path = directory.path().join("other");
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("PRAGMA journal_mode = wal; CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
    for arguments in COMMANDS {
        let ran = run(arguments, &path);
        assert!(ran.errors.contains("another application's SQLite database"), "{arguments:?}: {ran:?}");
    }
    assert_eq!(other.query_row("SELECT x FROM t", [], |row| row.get::<_, i32>(0)), Ok(1));
}

#[cfg(unix)]
#[test]
fn a_directory_that_others_may_write_to_is_not_read() {
    use std::os::unix::fs::PermissionsExt;

    let (_directory, paths) = filled();
    fs::set_permissions(&paths[0], fs::Permissions::from_mode(0o777)).unwrap();
    is_refused(&paths[0], "untrusted", "writable by group or others");
}

#[test]
fn a_newer_version_is_named_and_left_alone() {
    let (_directory, paths) = filled();
    let journal = paths[0].join("journal");
    let mut bytes = fs::read(&journal).unwrap();
    bytes[8] = 200;
    let sum = xxh3_64(&bytes[..60]).to_le_bytes();
    bytes[60..64].copy_from_slice(&sum[..4]);
    fs::write(&journal, bytes).unwrap();
    is_refused(&paths[0], "newer_version", "newer version of warmstart");

    {
        // The number of the version is at byte 60.
        let mut bytes = fs::read(&paths[1]).unwrap();
        bytes[63] = 200;
        fs::write(&paths[1], bytes).unwrap();
        is_refused(&paths[1], "newer_version", "newer version of warmstart");
    }
}

/// The file of the entry whose name begins so.
fn entry(store: &Path, prefix: &str) -> PathBuf {
    let mut files = fs::read_dir(store.join("entries")).unwrap().map(|file| file.unwrap().path());
    files.find(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix)).unwrap()
}

#[test]
fn damage_is_listed_and_goes_only_when_it_is_asked_to() {
    let (_directory, paths) = filled();
    let store = &paths[0];
    let flipped = entry(store, "cc4d");
    let mut bytes = fs::read(&flipped).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&flipped, bytes).unwrap();
    fs::write(entry(store, "9b43"), "short").unwrap();

    let before = contents(store);
    let text = run(&["verify"], store);
    assert_eq!(text.code, Some(1));
    assert!(text.out.contains("cc4d960c85be  49.1 KiB  checksum_mismatch"), "{}", text.out);
    assert!(text.out.contains("1 entry whole, 2 damaged"), "{}", text.out);
    let json = run(&["verify", "--json"], store).json();
    assert_eq!((&json["whole"], &json["damaged"], &json["removed"]), (&json!(1), &json!(2), &json!(0)));

    let listed = run(&["ls"], store);
    assert_eq!(listed.code, Some(0));
    assert!(listed.out.contains("1 head could not be read"), "{}", listed.out);
    let shown = run(&["inspect", "STORE", "cc4d"], store);
    assert_eq!(shown.code, Some(1));
    assert!(shown.out.contains("checksum_mismatch"), "{}", shown.out);
    let payload = run(&["inspect", "STORE", "cc4d", "--payload", "-"], store);
    assert_eq!((payload.code, payload.out.as_str()), (Some(1), ""));
    assert_eq!(run(&["inspect", "STORE", "9b43"], store).code, Some(1));
    assert_eq!(
        run(&["stats", "--json"], store).json()["entries"],
        json!(3),
        "it is quick, and looks into no entry"
    );
    is_unchanged(&before, store, "looking");

    assert!(
        text.out.ends_with("a damaged entry is a miss; the next look-up or `verify --remove` removes it\n")
    );
    let removed = run(&["verify", "--remove"], store);
    assert_eq!(removed.code, Some(1));
    assert!(removed.out.contains("1 entry whole, 2 damaged, 2 removed; "), "{}", removed.out);
    assert_eq!(run(&["verify"], store).code, Some(0));
    assert_eq!(run(&["ls", "--json"], store).json()["count"], json!(1));
}

#[test]
fn what_could_not_be_removed_is_told() {
    let (_directory, paths) = filled();
    let other = rusqlite::Connection::open(&paths[1]).unwrap();
    let damage = "UPDATE content SET envelope = zeroblob(length(envelope)) WHERE id = 1";
    assert_eq!(other.execute(damage, []), Ok(1));
    // No other connection can write meanwhile.
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let text = run(&["verify", "--remove"], &paths[1]);
    assert_eq!(text.code, Some(1));
    assert!(text.out.contains("2 entries whole, 1 damaged, 1 could not be removed; "), "{text:?}");
    let json = run(&["verify", "--remove", "--json"], &paths[1]).json();
    assert_eq!((&json["damaged"], &json["removed"]), (&json!(1), &json!(0)));

    other.execute_batch("ROLLBACK").unwrap();
    let json = run(&["verify", "--remove", "--json"], &paths[1]).json();
    assert_eq!((&json["damaged"], &json["removed"]), (&json!(1), &json!(1)));
}

#[test]
fn damaged_statistics_start_from_zero_and_count_a_reset() {
    let (_directory, paths) = filled();
    let store = &paths[0];
    let file = store.join("statistics");
    let mut bytes = fs::read(&file).unwrap();
    bytes.iter_mut().for_each(|byte| *byte ^= 1);
    fs::write(&file, bytes).unwrap();
    let json = run(&["stats", "--json"], store).json();
    assert_eq!((&json["resets"], &json["hits"], &json["entries"]), (&json!(1), &json!(0), &json!(3)));

    let mut counted = Statistics::default();
    counted.hits = 5;
    let options = StoreOptions::default().with_clock(Arc::new(Still));
    FileStore::open(store, options).unwrap().inspect().unwrap().report(&counted, None).unwrap();
    let json = run(&["stats", "--json"], store).json();
    assert_eq!((&json["resets"], &json["hits"]), (&json!(1), &json!(5)));
    let text = run(&["stats"], store).out;
    assert!(text.contains("the statistics were damaged 1 time"), "{text}");
}

#[test]
fn a_damaged_database_is_told_and_stays_where_it_is() {
    let (directory, paths) = filled();
    let mut bytes = fs::read(&paths[1]).unwrap();
    bytes[100..].fill(0x55);
    fs::write(&paths[1], bytes).unwrap();
    let before = contents(directory.path());
    for arguments in [
        &["ls"][..],
        &["inspect", "STORE", "0000"],
        &["verify"],
        &["stats"],
        &["explain", "STORE", "--last-miss"],
    ] {
        let ran = run(arguments, &paths[1]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{arguments:?}");
        assert!(!ran.errors.contains("panicked"), "{}", ran.errors);
    }
    is_unchanged(&before, directory.path(), "looking");
}

#[cfg(target_os = "linux")]
#[test]
fn names_that_are_not_utf_8_are_names() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

    let directory = tempfile::tempdir().unwrap();
    let name = directory.path().join(OsStr::from_bytes(b"caf\xe9 \x1b[31m"));
    is_refused(&name, "missing", "there is nothing at");
    let store = FileStore::open(&name, StoreOptions::default()).unwrap();
    store.put(b"\xff\xfe\x1b", &Artifact::new(vec![1])).unwrap();
    drop(store);
    fs::write(name.join(OsStr::from_bytes(b"entries/\xff\xfe")), "").unwrap();
    for arguments in COMMANDS {
        let ran = run(arguments, &name);
        assert!(!ran.out.contains('\u{1b}') && !ran.errors.contains('\u{1b}'), "{ran:?}");
        let wanted = if matches!(arguments[0], "inspect" | "explain") { 1 } else { 0 };
        assert_eq!(ran.code, Some(wanted), "{arguments:?}: {ran:?}");
    }
}

#[test]
fn a_command_line_that_is_wrong_is_told_from_damage() {
    let (_directory, paths) = filled();
    for arguments in [
        &["prune"][..],
        &["prune", "--max-bytes", "much"],
        &["inspect", "STORE", "00"],
        &["inspect", "STORE", "xyz0"],
        &["explain"],
        &["explain", "--last-miss", "--recipe", "x"],
        &["stats", "--json", "--prometheus"],
        &["stats", "--label", "x"],
        &["ls", "--sort", "beauty"],
        &["ls", "--color", "red"],
        &["polish"],
    ] {
        let ran = run(arguments, &paths[0]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{arguments:?}");
    }
    assert_eq!(ran(&command().output().unwrap()).code, Some(2));
    assert_eq!(ran(&command().arg("--help").output().unwrap()).code, Some(0));
}

#[test]
fn several_entries_of_one_beginning_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let store = FileStore::open(directory.path(), StoreOptions::default()).unwrap();
    // Two of these many begin alike in four digits: 65536 are few.
    let mut names: Vec<String> = (0..2000_u64)
        .map(|n| {
            store.put(&n.to_le_bytes(), &Artifact::new(Vec::new())).unwrap();
            warmstart::Key::digest(&n.to_le_bytes()).to_string()
        })
        .collect();
    drop(store);
    names.sort();
    let pair = names.windows(2).find(|pair| pair[0][..4] == pair[1][..4]).unwrap();
    let ran = run(&["inspect", "STORE", &pair[0][..4]], directory.path());
    assert_eq!(ran.code, Some(1));
    assert!(ran.errors.contains(&pair[0]) && ran.errors.contains(&pair[1]), "{}", ran.errors);
}

#[test]
fn fifty_thousand_entries_are_not_too_many() {
    let directory = tempfile::tempdir().unwrap();
    let store = FileStore::open(directory.path(), StoreOptions::default()).unwrap();
    for n in 0..50_000_u64 {
        store.put(&n.to_le_bytes(), &Artifact::new(Vec::new())).unwrap();
    }
    drop(store);
    let listed = run(&["ls"], directory.path());
    assert_eq!((listed.code, listed.out.lines().count()), (Some(0), 50_003));
    assert_eq!(run(&["stats", "--json"], directory.path()).json()["entries"], json!(50_000));
    assert_eq!(run(&["verify", "--json"], directory.path()).json()["whole"], json!(50_000));
    let pruned = run(&["prune", "--max-entries", "100", "--json"], directory.path()).json();
    assert_eq!(pruned["removed"]["entries"], json!(49_900));
    let cleared = run(&["clear", "--json"], directory.path()).json();
    assert_eq!((&cleared["removed"]["entries"], &cleared["left"]["entries"]), (&json!(100), &json!(0)));
    let unknown = run(&["inspect", "STORE", "0000"], directory.path());
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.errors.contains("has no entry"), "{}", unknown.errors);
}
