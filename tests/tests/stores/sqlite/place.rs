//! Where a database may be, and who may read and write what is made there.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use warmstart::{
    Cache, MissReason, OpenError, Store,
    store::{SqliteStore, StoreOptions},
};
use warmstart_tests::whole::Whole;
use warmstart_tests::{
    mount::Mount,
    own_process,
    proof::{artifact, verify},
};

use super::{beside, open};

const STRANGER: u32 = 54_321;

fn refused(path: &Path) -> OpenError {
    SqliteStore::open(path, StoreOptions::default()).expect_err("it was opened")
}

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn what_is_no_file_is_the_callers_mistake_and_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("directory")).unwrap();
    fs::write(at("file"), b"not a database").unwrap();
    symlink(at("elsewhere.db"), at("link")).unwrap();
    drop(open(&at("target.db")));
    symlink(at("target.db"), at("link to a database")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();

    for (name, remedy) in [
        ("directory", "name a file in it"),
        ("link", "name the file that it leads to"),
        ("link to a database", "name the file that it leads to"),
        ("pipe", "name another path"),
        ("file/below", "name another path"),
    ] {
        let error = refused(&at(name));
        assert!(error.is_wrong_kind() && error.to_string().contains(remedy), "{name}: {error}");
    }
    assert!(refused(Path::new("/")).is_wrong_kind());
    assert!(!refused(Path::new("a\0b")).is_wrong_kind());
    assert!(!at("elsewhere.db").exists(), "a link was followed");
    assert_eq!(fs::read(at("file")).unwrap(), b"not a database");
}

#[test]
fn what_others_may_write_is_never_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache.db");
    open(&path).put(b"k", &artifact(b"k", 1, 100)).unwrap();

    for bits in [0o620, 0o602, 0o666] {
        chmod(&path, bits);
        let error = refused(&path);
        assert!(error.is_untrusted() && error.to_string().contains("0600"), "{error}");
    }
    chmod(&path, 0o644);
    assert!(open(&path).get(b"k").is_ok(), "others may read");
    for bits in [0o770, 0o707, 0o777] {
        chmod(directory.path(), bits);
        assert!(refused(&path).is_untrusted(), "{bits:o}");
    }
    chmod(directory.path(), 0o1777);
    assert!(open(&path).get(b"k").is_ok(), "in a sticky directory others cannot replace it");
    chmod(directory.path(), 0o700);

    for suffix in ["-wal", "-shm", "-journal"] {
        fs::write(beside(&path, suffix), b"").unwrap();
        chmod(&beside(&path, suffix), 0o666);
        assert!(refused(&path).is_untrusted(), "{suffix}");
        fs::remove_file(beside(&path, suffix)).unwrap();
        symlink("/dev/null", beside(&path, suffix)).unwrap();
        assert!(refused(&path).is_wrong_kind(), "{suffix}");
        fs::remove_file(beside(&path, suffix)).unwrap();
    }
    assert_eq!(verify(b"k", &open(&path).get(b"k").unwrap()), 1);
}

#[test]
#[cfg_attr(not(is_root), ignore = "needs root, to give files to other users")]
fn what_a_stranger_owns_is_never_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache.db");
    open(&path).put(b"k", &artifact(b"k", 1, 100)).unwrap();
    chown(&path, Some(STRANGER), None).unwrap();
    assert!(refused(&path).is_untrusted());
    chown(&path, Some(0), None).unwrap();
    fs::write(beside(&path, "-wal"), b"forged").unwrap();
    chown(beside(&path, "-wal"), Some(STRANGER), None).unwrap();
    assert!(refused(&path).is_untrusted(), "a stranger's log would be played into the database");
    fs::remove_file(beside(&path, "-wal")).unwrap();
    chown(directory.path(), Some(STRANGER), None).unwrap();
    assert!(refused(&path).is_untrusted());
    chown(directory.path(), Some(0), None).unwrap();
    assert!(open(&path).get(b"k").is_ok());
}

/// In a process of its own, because a umask is a whole process's. It dies, so that the log is still there.
#[test]
fn what_is_made_is_for_its_owner_alone_whatever_the_umask() {
    for umask in ["000", "777"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cache.db");
        Command::new("sh")
            .args(["-c", &format!("umask {umask}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_worker")])
            .args(["--store", "sqlite", "--path"])
            .arg(&path)
            .args(["put", "--abort", "--count", "1"])
            .output()
            .unwrap();
        assert_eq!(["", "-wal", "-shm"].map(|suffix| mode(beside(&path, suffix))), [0o600; 3], "{umask}");
        assert_eq!(mode(beside(&path, ".locks")) & 0o077, 0, "{umask}");
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/b/cache.db");
    let store = open(&path);
    let scope = store.claims().map(|claims| String::from_utf8(claims.scope()).unwrap());
    assert_eq!(scope.map(PathBuf::from), Some(beside(&path, ".locks")));
    for made in [beside(&path, ".locks"), directory.path().join("a/b"), directory.path().join("a")] {
        assert_eq!(mode(made), 0o700);
    }
}

#[test]
fn a_lock_directory_that_others_may_write_is_not_used() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache.db");
    fs::create_dir(beside(&path, ".locks")).unwrap();
    chmod(&beside(&path, ".locks"), 0o777);
    let store = open(&path);
    assert!(store.claims().is_none());
    store.put(b"k", &artifact(b"k", 1, 100)).unwrap();
}

#[test]
fn where_nothing_can_be_made_everything_is_a_miss() {
    let store = open(Path::new("/proc/warmstart/cache.db"));
    assert_eq!(store.get(b"k").err(), Some(MissReason::Unavailable));
    let refusal = store.put(b"k", &artifact(b"k", 1, 100)).unwrap_err();
    assert!(matches!(refusal, MissReason::Unavailable | MissReason::ReadOnly), "{refusal:?}");
    assert!(store.claims().is_none());
    let built = Cache::new(store).get_or_build(b"k", || Ok::<_, ()>(vec![1])).unwrap();
    assert_eq!((built.artifact().payload(), built.refusal()), (&[1][..], Some(refusal)));
}

#[test]
#[cfg_attr(not(can_mount), ignore = "needs root on Linux, to mount a file system")]
fn a_read_only_medium_serves_hits_without_a_trace() {
    own_process!(|| {
        for with_log in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let (source, target) =
                (directory.path().join("source ?#%20"), directory.path().join("target %?#"));
            let path = source.join("cache.db");
            let writer = open(&path);
            writer.put(b"k", &artifact(b"k", 1, 100_000)).unwrap();
            if with_log {
                // As a process that died leaves it: the entry is in the log alone.
                let copies =
                    ["", "-wal", "-shm"].map(|suffix| (suffix, fs::read(beside(&path, suffix)).unwrap()));
                drop(writer);
                copies.iter().for_each(|(suffix, bytes)| fs::write(beside(&path, suffix), bytes).unwrap());
            } else {
                drop(writer);
            }
            let _mount = Mount::read_only(&source, &target).unwrap();
            let files = || fs::read_dir(&target).unwrap().count();
            let before = files();
            let store = open(&target.join("cache.db"));
            assert_eq!(verify(b"k", &store.get(b"k").unwrap()), 1, "with a log: {with_log}");
            assert_eq!((store.contains(b"k"), store.whole()), (Ok(true), Ok(1)));
            assert_eq!(store.get(b"other").err(), Some(MissReason::Absent));
            assert_eq!(store.put(b"other", &artifact(b"other", 1, 100)), Err(MissReason::ReadOnly));
            assert_eq!(
                (store.remove(b"k"), store.clear()),
                (Err(MissReason::ReadOnly), Err(MissReason::ReadOnly))
            );
            assert!(store.claims().is_none());
            assert_eq!(store.close(), Ok(()));
            assert_eq!(files(), before);

            let missing = open(&target.join("none.db"));
            assert_eq!(missing.get(b"k").err(), Some(MissReason::Unavailable));
            assert_eq!(missing.put(b"k", &artifact(b"k", 1, 100)), Err(MissReason::ReadOnly));
            assert_eq!(
                open(&target.join("sub/none.db")).put(b"k", &Vec::new().into()),
                Err(MissReason::ReadOnly)
            );
        }
    });
}

#[test]
#[cfg_attr(not(can_mount), ignore = "needs root on Linux, to mount a file system")]
fn a_full_disk_costs_no_artifact_and_is_counted() {
    own_process!(|| {
        let directory = tempfile::tempdir().unwrap();
        let _mount = Mount::memory(&directory.path().join("small"), 1 << 20).unwrap();
        let path = directory.path().join("small/cache.db");
        let cache = Cache::new(open(&path));
        let mut refusals = 0;
        for n in 0..40u64 {
            let key = n.to_le_bytes();
            let built = cache.get_or_build(key, || Ok::<_, ()>(artifact(&key, n, 60_000))).unwrap();
            assert_eq!(verify(&key, built.artifact()), n);
            if let Some(reason) = built.refusal() {
                assert_eq!(reason, MissReason::NoSpace);
                refusals += 1;
            }
        }
        assert!(refusals > 10, "the disk was not full");
        let statistics = cache.statistics();
        assert_eq!(
            (statistics.refusals.of(MissReason::NoSpace), statistics.refusals.total()),
            (refusals, refusals)
        );
        let stored = (0..40u64).filter(|n| cache.get(n.to_le_bytes()).is_ok()).count() as u64;
        assert_eq!(stored, 40 - refusals, "what was stored before is still there");
        assert_eq!(cache.store().whole(), Ok(stored));
    });
}

/// Makes a file that takes all the room there is.
fn fill(ballast: &Path) {
    while fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(ballast)
        .and_then(|mut file| std::io::Write::write_all(&mut file, &[0; 4096]))
        .is_ok()
    {}
}

/// There is not even room for the index of the log: a database that is not open cannot be opened, and one that is open can
/// only be read.
#[test]
#[cfg_attr(not(can_mount), ignore = "needs root on Linux, to mount a file system")]
fn a_database_on_a_full_disk_is_unharmed() {
    own_process!(|| {
        for (with_log, is_open) in [(false, false), (true, false), (false, true)] {
            let directory = tempfile::tempdir().unwrap();
            let _mount = Mount::memory(&directory.path().join("small"), 1 << 20).unwrap();
            let path = directory.path().join("small/cache.db");
            let writer = open(&path);
            writer.put(b"k", &artifact(b"k", 1, 100_000)).unwrap();
            let copies = ["", "-wal"].map(|suffix| (suffix, fs::read(beside(&path, suffix)).unwrap()));
            let writer = is_open.then_some(writer);
            if with_log {
                // As a process that died leaves it: the entry is in the log alone.
                copies.iter().for_each(|(suffix, bytes)| fs::write(beside(&path, suffix), bytes).unwrap());
            }
            let ballast = directory.path().join("small/ballast");
            fill(&ballast);
            let (first, second) = (open(&path), open(&path));
            for store in [&first, &second, &first] {
                assert_eq!(store.put(b"other", &artifact(b"other", 1, 1000)), Err(MissReason::NoSpace));
                match store.get(b"k") {
                    Ok(found) => assert!(is_open && verify(b"k", &found) == 1),
                    Err(reason) => assert!(!is_open && reason == MissReason::Unavailable),
                }
                let built = Cache::new(store).get_or_build(b"other", || Ok::<_, ()>(vec![7])).unwrap();
                assert_eq!(
                    (built.artifact().payload(), built.refusal()),
                    (&[7][..], Some(MissReason::NoSpace))
                );
            }
            fs::remove_file(&ballast).unwrap();
            first.put(b"other", &artifact(b"other", 2, 1000)).unwrap();
            assert_eq!(verify(b"other", &second.get(b"other").unwrap()), 2);
            assert_eq!(verify(b"k", &second.get(b"k").unwrap()), 1);
            drop(writer);
        }
    });
}

#[test]
#[cfg_attr(not(can_mount), ignore = "needs root on Linux, to mount a file system")]
fn a_disk_that_was_full_is_used_once_there_is_room() {
    own_process!(|| {
        let directory = tempfile::tempdir().unwrap();
        let _mount = Mount::memory(&directory.path().join("small"), 1 << 20).unwrap();
        let path = directory.path().join("small/cache.db");
        let ballast = directory.path().join("small/ballast");
        fill(&ballast);
        let cache = Cache::new(open(&path));
        let built = cache.get_or_build(b"k", || Ok::<_, ()>(artifact(b"k", 1, 1000))).unwrap();
        assert_eq!(verify(b"k", built.artifact()), 1);
        assert_eq!(
            (built.miss(), built.refusal()),
            (Some(MissReason::Unavailable), Some(MissReason::NoSpace))
        );
        fs::remove_file(&ballast).unwrap();
        assert_eq!(
            cache.get_or_build(b"k", || Ok::<_, ()>(artifact(b"k", 2, 1000))).unwrap().refusal(),
            None
        );
        assert_eq!(verify(b"k", &cache.get(b"k").unwrap()), 2);
    });
}

/// As the file store does: what is removed makes room at once.
#[test]
#[cfg_attr(not(can_mount), ignore = "needs root on Linux, to mount a file system")]
fn a_full_medium_is_emptied_by_remove_and_by_clear() {
    own_process!(|| {
        for (size, len) in [(1 << 20, 60_000), (2 << 20, 700_000), (1 << 20, 2000)] {
            let directory = tempfile::tempdir().unwrap();
            let _mount = Mount::memory(&directory.path().join("small"), size).unwrap();
            let path = directory.path().join("small/cache.db");
            let fill = |store: &SqliteStore| {
                let full = (0u64..).find(|n| {
                    let stored = store.put(&n.to_le_bytes(), &artifact(&n.to_le_bytes(), *n, len));
                    assert!(matches!(stored, Ok(_) | Err(MissReason::NoSpace)), "{stored:?}");
                    stored.is_err()
                });
                full.unwrap()
            };
            let store = open(&path);
            let stored = fill(&store);
            assert!(stored > 0 && stored * len as u64 > size / 5, "{stored} of {len} bytes");
            assert_eq!(store.close(), Ok(()));

            let store = open(&path);
            assert_eq!(verify(&[0; 8], &store.get(&[0; 8]).unwrap()), 0);
            let free = || rustix::fs::statvfs(path.parent().unwrap()).unwrap().f_bavail * 4096;
            let before = free();
            assert_eq!(store.remove(&[0; 8]), Ok(true), "{len}");
            assert!(free() + 4096 >= before + len as u64 / 4096 * 4096, "{len}: {before}, {}", free());
            store.put(&[0; 8], &artifact(&[0; 8], 0, len)).unwrap();
            for n in 0..stored {
                assert_eq!(store.remove(&n.to_le_bytes()), Ok(true), "{n}");
            }
            assert!(fill(&store) >= stored);
            assert_eq!(store.clear(), Ok(()));
            assert!(fill(&store) >= stored);
            assert_eq!(store.close(), Ok(()));
        }
    });
}

/// Others have taken all there was: nothing can be written, and so nothing removed.
#[test]
#[cfg_attr(not(can_mount), ignore = "needs root on Linux, to mount a file system")]
fn clear_is_refused_where_nothing_can_be_written() {
    own_process!(|| {
        for reopened in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let _mount = Mount::memory(&directory.path().join("small"), 1 << 20).unwrap();
            let path = directory.path().join("small/cache.db");
            let mut store = open(&path);
            store.put(b"k", &artifact(b"k", 1, 300_000)).unwrap();
            if reopened {
                store.close().unwrap();
            }
            let ballast = directory.path().join("small/ballast");
            fill(&ballast);
            if reopened {
                store = open(&path);
            }
            assert_eq!(
                (store.clear(), store.remove(b"k")),
                (Err(MissReason::NoSpace), Err(MissReason::NoSpace))
            );
            fs::remove_file(&ballast).unwrap();
            assert_eq!(verify(b"k", &store.get(b"k").unwrap()), 1);
            assert_eq!(store.clear(), Ok(()));
            assert_eq!((store.whole(), store.contains(b"k")), (Ok(0), Ok(false)));
        }
    });
}

/// To cut the file, what lies behind the removed entry would move, by way of the log.
#[test]
#[cfg_attr(not(can_mount), ignore = "needs root on Linux, to mount a file system")]
fn what_cannot_be_given_back_on_a_full_disk_is_used_again() {
    own_process!(|| {
        let directory = tempfile::tempdir().unwrap();
        let _mount = Mount::memory(&directory.path().join("small"), 1 << 20).unwrap();
        let path = directory.path().join("small/cache.db");
        let store = open(&path);
        store.put(b"large", &artifact(b"large", 0, 400_000)).unwrap();
        let mut n = 0u64;
        let mut fill = || {
            let before = n;
            while store.put(&n.to_le_bytes(), &artifact(&n.to_le_bytes(), n, 20_000)).is_ok() {
                n += 1;
            }
            n - before
        };
        let small = fill();
        assert!(small > 8, "{small}");
        let len = || fs::metadata(&path).unwrap().len();
        let full = len();
        assert_eq!(store.remove(b"large"), Ok(true));
        let again = fill();
        assert!(again >= 400_000 / 21_000, "{again} of 20 KB in the place of one of 400 KB");
        assert!(len() <= full + 20_000, "{full} bytes, then {}", len());
        for n in 0..small + again {
            assert_eq!(verify(&n.to_le_bytes(), &store.get(&n.to_le_bytes()).unwrap()), n);
        }
        // Piece by piece, as each leaves more room for the log.
        for n in 0..small + again {
            assert_eq!(store.remove(&n.to_le_bytes()), Ok(true));
        }
        assert_eq!(store.whole(), Ok(0));
        store.close().unwrap();
        assert!(len() < 64 << 10, "{} bytes are left", len());
    });
}

#[test]
fn an_empty_file_is_taken_over_for_its_owner_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache.db");
    fs::write(&path, b"").unwrap();
    chmod(&path, 0o644);
    let store = open(&path);
    store.put(b"k", &artifact(b"k", 1, 100)).unwrap();
    assert_eq!(["", "-wal", "-shm"].map(|suffix| mode(beside(&path, suffix))), [0o600; 3]);
}
