//! Where the file store may be, and who may have written there.

use std::{
    convert::Infallible,
    fs,
    ops::ControlFlow,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use warmstart::{
    Artifact, Cache, Key, MissReason, Store,
    store::{FileStore, StoreOptions},
};
use warmstart_tests::own_process;
use warmstart_tests::whole::Whole;

fn open(path: &Path) -> FileStore {
    FileStore::open(path, StoreOptions::default()).unwrap()
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

#[test]
fn directory_that_cannot_be_made_is_a_cache_that_always_misses() {
    let cache = Cache::new(open(Path::new("/proc/warmstart/cache")));
    let refusal = builds_anyway(&cache, "k");
    assert!(refusal.is_some());
    assert_eq!(cache.get("k").err(), Some(MissReason::Unavailable));
    assert_eq!(cache.store().contains(b"k"), Err(MissReason::Unavailable));
}

#[test]
fn a_path_that_is_not_a_directory_is_refused_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "precious").unwrap();
    let link = directory.path().join("link");
    symlink(directory.path(), &link).unwrap();
    for path in [&file, &link, &file.join("below")] {
        let error = FileStore::open(path, StoreOptions::default()).unwrap_err();
        assert!(error.is_wrong_kind(), "{error}");
        assert!(
            error.to_string().contains("name a directory") || error.to_string().contains("that it leads to")
        );
    }
    assert_eq!(fs::read(&file).unwrap(), b"precious");
}

fn is_untrusted(path: &Path) {
    let error = FileStore::open(path, StoreOptions::default()).unwrap_err();
    assert!(error.is_untrusted(), "{error}");
    assert!(error.to_string().contains("chmod go-w"), "{error}");
}

#[test]
#[cfg_attr(not(is_root), ignore = "needs root, to give files to other users")]
fn directory_that_others_own_is_refused_with_a_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let foreign = directory.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    std::os::unix::fs::chown(&foreign, Some(12345), None).unwrap();
    is_untrusted(&foreign);
}

#[test]
fn directory_that_others_may_write_to_is_refused_with_a_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let writable = directory.path().join("writable");
    fs::create_dir(&writable).unwrap();
    fs::set_permissions(&writable, fs::Permissions::from_mode(0o777)).unwrap();
    // A directory of the store's own that others may write to is as bad.
    let inner = directory.path().join("inner");
    drop(open(&inner));
    fs::set_permissions(inner.join("entries"), fs::Permissions::from_mode(0o770)).unwrap();
    for path in [writable, inner] {
        is_untrusted(&path);
    }
}

#[test]
fn read_only_store_where_others_may_write_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    for writable in ["", "entries"] {
        let root = directory.path().join(format!("cache{writable}"));
        drop(open(&root));
        fs::set_permissions(root.join(writable), fs::Permissions::from_mode(0o770)).unwrap();
        let error = FileStore::open(&root, StoreOptions::default().with_read_only(true)).unwrap_err();
        assert!(error.is_untrusted(), "{error}");
    }
}

#[test]
fn directories_and_files_are_their_owners_alone() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("a/b/cache");
    open(&root).put(b"k", &artifact(1, 10)).unwrap();
    for path in [root.parent().unwrap(), &root, &root.join("entries"), &root.join("tmp"), &root.join("locks")]
    {
        assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, 0o700, "{}", path.display());
    }
    for path in [entry_path(&root, b"k"), root.join("journal")] {
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600, "{}", path.display());
    }
}

#[test]
fn an_entry_that_others_may_have_written_is_never_read() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("cache");
    let store = open(&root);
    let path = entry_path(&root, b"k");
    let spoil: [&dyn Fn(); 4] = [
        &|| fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap(),
        &|| {
            fs::rename(&path, root.join("elsewhere")).unwrap();
            symlink(root.join("elsewhere"), &path).unwrap();
        },
        &|| {
            fs::remove_file(&path).unwrap();
            rustix::fs::mknodat(
                rustix::fs::CWD,
                &path,
                rustix::fs::FileType::Fifo,
                rustix::fs::Mode::from_raw_mode(0o600),
                0,
            )
            .unwrap();
        },
        &|| {
            if std::os::unix::fs::chown(&path, Some(12345), None).is_err() {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
            }
        },
    ];
    for spoil in spoil {
        store.put(b"k", &artifact(1, 100)).unwrap();
        assert!(store.get(b"k").is_ok());
        spoil();
        assert_eq!(store.get(b"k").err(), Some(MissReason::Untrusted));
        assert_eq!(store.contains(b"k"), Ok(false));
    }
    store.put(b"k", &artifact(2, 100)).unwrap();
    assert_eq!(store.get(b"k").unwrap().payload(), [2; 100], "a put replaces it");
}

/// It may be of another user, so it is not removed as a damaged one is.
#[test]
fn entry_that_others_may_have_written_is_listed_and_left() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    store.put(b"k", &artifact(1, 100)).unwrap();
    let path = entry_path(directory.path(), b"k");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
    let (inspect, mut told) = (store.inspect().unwrap(), Vec::new());
    inspect
        .entries(&mut |entry| {
            told.push((entry.digest, entry.size, entry.head.err()));
            ControlFlow::Continue(())
        })
        .unwrap();
    let size = 128 + 100;
    assert_eq!(told, [(Key::digest(b"k"), size, Some(MissReason::Untrusted))]);
    let mut proofs = Vec::new();
    let whole =
        inspect.verify(&mut |proof| proofs.push((proof.size, proof.result, proof.is_removed))).unwrap();
    assert_eq!((whole, proofs), (0, vec![(size, Err(MissReason::Untrusted), false)]));
    assert!(path.exists());
}

/// What the other version stored was replaced since, by a process that could.
#[test]
fn entry_that_is_no_longer_of_a_newer_version_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let (store, other) = (open(directory.path()), open(directory.path()));
    store.put(b"k", &artifact(1, 100)).unwrap();
    let path = entry_path(directory.path(), b"k");
    let mut newer = fs::read(&path).unwrap();
    newer[16] = 2;
    let sum = xxhash_rust::xxh3::xxh3_64(&newer[16..]);
    newer[8..16].copy_from_slice(&sum.to_le_bytes());
    fs::write(&path, &newer).unwrap();
    assert_eq!(store.get(b"k").err(), Some(MissReason::NewerVersion));
    assert_eq!(store.put(b"k", &artifact(2, 100)), Err(MissReason::NewerVersion));
    other.put(b"k", &artifact(3, 100)).unwrap();
    assert_eq!(store.put(b"k", &artifact(4, 100)), Ok(0));
    assert_eq!(store.get(b"k").unwrap().payload(), [4; 100]);
}

#[test]
fn an_empty_path_is_refused() {
    assert!(FileStore::open("", StoreOptions::default()).unwrap_err().is_wrong_kind());
}

#[test]
fn relative_path_is_resolved_when_the_store_is_opened() {
    own_process!(|| {
        let directory = tempfile::tempdir().unwrap();
        std::env::set_current_dir(directory.path()).unwrap();
        let store = open(Path::new("cache"));
        store.put(b"k", &artifact(1, 10)).unwrap();
        fs::create_dir("elsewhere").unwrap();
        std::env::set_current_dir("elsewhere").unwrap();
        assert!(store.get(b"k").is_ok());
        store.put(b"l", &artifact(2, 10)).unwrap();
        assert!(!Path::new("cache").exists());
        assert_eq!(store.whole(), Ok(2));
    });
}

#[test]
fn an_entry_of_a_newer_version_is_not_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::new(open(directory.path()));
    cache.put("k", &artifact(1, 100)).unwrap();
    let path = entry_path(directory.path(), b"k");
    let mut newer = fs::read(&path).unwrap();
    newer[16] = 2;
    let sum = xxhash_rust::xxh3::xxh3_64(&newer[16..]);
    newer[8..16].copy_from_slice(&sum.to_le_bytes());
    fs::write(&path, &newer).unwrap();
    assert_eq!(builds_anyway(&cache, "k"), Some(MissReason::NewerVersion));
    assert_eq!(fs::read(&path).unwrap(), newer);
    fs::remove_file(&path).unwrap();
    assert_eq!(builds_anyway(&cache, "k"), None);
}
