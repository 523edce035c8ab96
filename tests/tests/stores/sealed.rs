//! A sealed store passes the conformance suite, and takes nothing that its secret has not sealed.

use std::{convert::Infallible, fs, path::PathBuf, sync::Arc};

use warmstart::{
    Artifact, Cache, Clock, Key, Limits, Reason, Seal, Store, SystemClock,
    store::{FileOptions, FileStore, SqliteOptions, SqliteStore},
};
use warmstart_core::envelope;
use warmstart_tests::conformance::Harness;
use xxhash_rust::xxh3::xxh3_64;

/// The secret of the stores that are attacked.
const OURS: Option<u8> = Some(1);
const KEY: &[u8] = b"the key of the entry";

fn seal(secret: u8) -> Seal {
    Seal::new(&[secret; 32])
}

struct Files(tempfile::TempDir);

/// As `Files`, in a directory that a group may write to.
#[cfg(unix)]
struct SharedFiles(Files);

struct Sqlite(tempfile::TempDir);

/// A place for stores with one secret, with another, or with none.
trait Sealable: Harness {
    fn open_with(&self, secret: Option<u8>, limits: Limits, clock: Arc<dyn Clock>) -> Box<dyn Store>;

    fn with_secret(&self, secret: Option<u8>) -> Box<dyn Store> {
        self.open_with(secret, Limits::NONE, Arc::new(SystemClock))
    }
}

impl Harness for Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn open(&self, limits: Limits, clock: Arc<dyn Clock>) -> Box<dyn Store> {
        self.open_with(OURS, limits, clock)
    }

    fn damage(&self, key: &[u8], alter: &mut dyn FnMut(&mut Vec<u8>)) {
        let path: PathBuf = self.0.path().join("entries").join(Key::digest(key).to_string());
        let mut bytes = fs::read(&path).unwrap();
        let before = bytes.clone();
        alter(&mut bytes);
        if bytes != before {
            fs::write(path, bytes).unwrap();
        }
    }
}

impl Sealable for Files {
    fn open_with(&self, secret: Option<u8>, limits: Limits, clock: Arc<dyn Clock>) -> Box<dyn Store> {
        let mut options = FileOptions::default().with_limits(limits).with_clock(clock);
        if let Some(secret) = secret {
            options = options.with_seal(seal(secret));
        }
        Box::new(FileStore::open(self.0.path(), options).unwrap())
    }
}

#[cfg(unix)]
impl Harness for SharedFiles {
    fn new() -> Self {
        let files = Files::new();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o2770);
        fs::set_permissions(files.0.path(), mode).unwrap();
        Self(files)
    }

    fn open(&self, limits: Limits, clock: Arc<dyn Clock>) -> Box<dyn Store> {
        self.0.open(limits, clock)
    }

    fn damage(&self, key: &[u8], alter: &mut dyn FnMut(&mut Vec<u8>)) {
        self.0.damage(key, alter);
    }
}

impl Harness for Sqlite {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn open(&self, limits: Limits, clock: Arc<dyn Clock>) -> Box<dyn Store> {
        self.open_with(OURS, limits, clock)
    }

    fn damage(&self, key: &[u8], alter: &mut dyn FnMut(&mut Vec<u8>)) {
        let connection = rusqlite::Connection::open(self.0.path().join("cache.db")).unwrap();
        connection.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
        let select = "SELECT id, envelope FROM entry JOIN content USING (id) WHERE key = ?1";
        let (id, mut bytes): (i64, Vec<u8>) =
            connection.query_row(select, [key], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let before = bytes.clone();
        alter(&mut bytes);
        if bytes != before {
            connection.execute("UPDATE content SET envelope = ?2 WHERE id = ?1", (id, bytes)).unwrap();
        }
    }
}

impl Sealable for Sqlite {
    fn open_with(&self, secret: Option<u8>, limits: Limits, clock: Arc<dyn Clock>) -> Box<dyn Store> {
        let mut options = SqliteOptions::default().with_limits(limits).with_clock(clock);
        if let Some(secret) = secret {
            options = options.with_seal(seal(secret));
        }
        Box::new(SqliteStore::open(self.0.path().join("cache.db"), options).unwrap())
    }
}

mod files {
    use super::*;
    warmstart_tests::conformance!(Files);
}

#[cfg(unix)]
mod shared_files {
    use super::*;
    warmstart_tests::conformance!(SharedFiles);
}

mod sqlite {
    use super::*;
    warmstart_tests::conformance!(Sqlite);
}

fn places() -> [Box<dyn Sealable>; 2] {
    [Box::new(Files::new()), Box::new(Sqlite::new())]
}

/// An entry of `KEY` that anybody can write: what it says it is, with a checksum that holds.
fn entry_of(key: &[u8], payload: &[u8], secret: Option<u8>) -> Vec<u8> {
    let seal = secret.map(seal);
    envelope::encode_with(key, &Artifact::new(payload.to_vec()), seal.as_ref()).unwrap().to_vec()
}

fn make_checksum_right(bytes: &mut [u8]) {
    let sum = xxh3_64(&bytes[16..]);
    bytes[8..16].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn what_our_secret_has_not_sealed_is_a_counted_miss_that_the_next_build_replaces() {
    type Alter = fn(&mut Vec<u8>);
    let attacks: [(&str, Reason, Alter); 7] = [
        ("a payload with a new checksum", Reason::Forged, |bytes| {
            *bytes.last_mut().unwrap() ^= 1;
            make_checksum_right(bytes);
        }),
        ("a tag with a new checksum", Reason::Forged, |bytes| {
            bytes[64] ^= 1;
            make_checksum_right(bytes);
        }),
        ("a tag of zeros", Reason::Forged, |bytes| {
            bytes[64..96].fill(0);
            make_checksum_right(bytes);
        }),
        ("a time with a new checksum", Reason::Forged, |bytes| {
            bytes[40] ^= 1;
            make_checksum_right(bytes);
        }),
        ("another secret's", Reason::Forged, |bytes| *bytes = entry_of(KEY, b"evil", Some(2))),
        ("without a seal", Reason::Unsealed, |bytes| *bytes = entry_of(KEY, b"evil", None)),
        ("another key's", Reason::KeyMismatch, |bytes| *bytes = entry_of(b"other", b"evil", OURS)),
    ];
    for place in places() {
        for (what, reason, alter) in attacks {
            let cache = Cache::new(place.with_secret(OURS));
            cache.put(KEY, &Artifact::new(b"good".to_vec())).unwrap();
            place.damage(KEY, &mut |bytes| alter(bytes));
            let Ok(fetched) = cache.get_or_build(KEY, || Ok::<_, Infallible>(b"built".to_vec()));
            assert_eq!(fetched.artifact().payload(), b"built", "{what}");
            assert_eq!(fetched.refusal(), None, "{what}");
            let misses = cache.statistics().misses;
            assert_eq!((misses.of(reason), misses.total()), (1, 1), "{what}: {misses:?}");
            assert_eq!(cache.get(KEY).hit().unwrap().payload(), b"built", "{what} was not replaced");
        }
    }
}

/// What is found behind the store's back, under the name of another key, as a copy of its file would be.
#[test]
fn an_entry_that_is_replayed_under_another_name_is_a_miss() {
    for place in places() {
        let store = place.with_secret(OURS);
        store.put(b"other", &Artifact::new(b"other".to_vec())).unwrap();
        store.put(KEY, &Artifact::new(b"good".to_vec())).unwrap();
        let mut others = Vec::new();
        place.damage(b"other", &mut |bytes| others.clone_from(bytes));
        place.damage(KEY, &mut |bytes| bytes.clone_from(&others));
        assert_eq!(store.get(KEY).miss(), Some(Reason::KeyMismatch));
        assert_eq!(store.get(b"other").hit().unwrap().payload(), b"other");
    }
}

#[test]
fn stores_of_other_secrets_and_of_none_leave_what_they_cannot_prove_alone() {
    for place in places() {
        let ours = place.with_secret(OURS);
        ours.put(KEY, &Artifact::new(b"good".to_vec())).unwrap();
        for (secret, reason, len) in [(Some(2), Reason::Forged, 1), (None, Reason::Sealed, 0)] {
            let theirs = place.with_secret(secret);
            assert_eq!(theirs.get(KEY).miss(), Some(reason));
            assert_eq!(theirs.len(), Ok(len), "it is by the header alone");
            assert_eq!(theirs.contains(KEY), Ok(len == 1));
            let found = theirs.verify().unwrap();
            assert_eq!((found.whole, found.damaged), (0, 0));
        }
        assert_eq!(ours.get(KEY).hit().unwrap().payload(), b"good");
        let found = ours.verify().unwrap();
        assert_eq!((found.whole, found.damaged), (1, 0));
    }
}

#[test]
fn an_entry_without_a_seal_is_no_member_of_a_sealed_store_and_stays() {
    for place in places() {
        let plain = place.with_secret(None);
        plain.put(KEY, &Artifact::new(b"plain".to_vec())).unwrap();
        let sealed = place.with_secret(OURS);
        assert_eq!((sealed.contains(KEY), sealed.len()), (Ok(false), Ok(0)));
        assert_eq!(sealed.get(KEY).miss(), Some(Reason::Unsealed));
        assert_eq!(plain.get(KEY).hit().unwrap().payload(), b"plain");
        sealed.put(KEY, &Artifact::new(b"sealed".to_vec())).unwrap();
        assert_eq!((plain.contains(KEY), plain.len()), (Ok(false), Ok(0)));
        assert_eq!(plain.get(KEY).miss(), Some(Reason::Sealed));
    }
}

/// Whoever has no secret must be able to tell damage too, and remove it.
#[test]
fn damage_is_told_from_forgery_without_the_secret() {
    for place in places() {
        for secret in [OURS, Some(2), None] {
            place.with_secret(OURS).put(KEY, &Artifact::new(b"good".to_vec())).unwrap();
            place.damage(KEY, &mut |bytes| *bytes.last_mut().unwrap() ^= 1);
            let store = place.with_secret(secret);
            assert_eq!(store.get(KEY).miss(), Some(Reason::ChecksumMismatch));
            assert_eq!(store.get(KEY).miss(), Some(Reason::Absent));
        }
    }
}
