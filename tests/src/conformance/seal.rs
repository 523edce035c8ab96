//! That a store with a secret takes nothing that its secret has not sealed.

use std::convert::Infallible;

use warmstart::{Artifact, Cache, KeyFields, Metadata, Reason, Seal, Store};
use warmstart_core::envelope;
use xxhash_rust::xxh3::xxh3_64;

use super::{OnDisk, Opening};

/// The secret of the stores that are attacked.
const OURS: Option<u8> = Some(1);
const KEY: &[u8] = b"the key of the entry";

fn with_secret(harness: &dyn OnDisk, secret: Option<u8>) -> Box<dyn Store> {
    harness.open_as(Opening::sealed(secret))
}

/// Encodes an entry of `key` with a valid checksum, as any user could write it.
fn entry_of(key: &[u8], payload: &[u8], secret: Option<u8>) -> Vec<u8> {
    let seal = secret.map(|secret| Seal::new(&[secret; 32]));
    envelope::encode_with(key, &Artifact::new(payload.to_vec()), seal.as_ref()).unwrap().to_vec()
}

fn make_checksum_right(bytes: &mut [u8]) {
    let sum = xxh3_64(&bytes[16..]);
    bytes[8..16].copy_from_slice(&sum.to_le_bytes());
}

/// Entries of an attacker, all with valid checksums.
pub fn what_our_secret_has_not_sealed_is_a_counted_miss_that_the_next_build_replaces(harness: &dyn OnDisk) {
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
    for (what, reason, alter) in attacks {
        let cache = Cache::new(with_secret(harness, OURS));
        cache.put(KEY, &Artifact::new(b"good".to_vec())).unwrap();
        harness.damage(KEY, &mut |bytes| alter(bytes));
        let Ok(fetched) = cache.get_or_build(KEY, || Ok::<_, Infallible>(b"built".to_vec()));
        assert_eq!(fetched.artifact().payload(), b"built", "{what}");
        assert_eq!(fetched.refusal(), None, "{what}");
        let misses = cache.statistics().misses;
        assert_eq!((misses.of(reason), misses.total()), (1, 1), "{what}: {misses:?}");
        assert_eq!(cache.get(KEY).hit().unwrap().payload(), b"built", "{what} was not replaced");
    }
}

/// What is found behind the store's back, under the name of another key, as a copy of its file would be.
pub fn an_entry_that_is_replayed_under_another_name_is_a_miss(harness: &dyn OnDisk) {
    let store = with_secret(harness, OURS);
    store.put(b"other", &Artifact::new(b"other".to_vec())).unwrap();
    store.put(KEY, &Artifact::new(b"good".to_vec())).unwrap();
    let mut others = Vec::new();
    harness.damage(b"other", &mut |bytes| others.clone_from(bytes));
    harness.damage(KEY, &mut |bytes| bytes.clone_from(&others));
    assert_eq!(store.get(KEY).miss(), Some(Reason::KeyMismatch));
    assert_eq!(store.get(b"other").hit().unwrap().payload(), b"other");
}

/// Stores of several secrets share a directory and remove no entry of each other.
pub fn stores_of_other_secrets_and_of_none_leave_what_they_cannot_prove_alone(harness: &dyn OnDisk) {
    let ours = with_secret(harness, OURS);
    ours.put(KEY, &Artifact::new(b"good".to_vec())).unwrap();
    for (secret, reason, len) in [(Some(2), Reason::Forged, 1), (None, Reason::Sealed, 0)] {
        let theirs = with_secret(harness, secret);
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

/// A sealed store leaves entries without a seal, and a plain store leaves sealed ones.
pub fn an_entry_without_a_seal_is_no_member_of_a_sealed_store_and_stays(harness: &dyn OnDisk) {
    let plain = with_secret(harness, None);
    plain.put(KEY, &Artifact::new(b"plain".to_vec())).unwrap();
    let sealed = with_secret(harness, OURS);
    assert_eq!((sealed.contains(KEY), sealed.len()), (Ok(false), Ok(0)));
    assert_eq!(sealed.get(KEY).miss(), Some(Reason::Unsealed));
    assert_eq!(plain.get(KEY).hit().unwrap().payload(), b"plain");
    sealed.put(KEY, &Artifact::new(b"sealed".to_vec())).unwrap();
    assert_eq!((plain.contains(KEY), plain.len()), (Ok(false), Ok(0)));
    assert_eq!(plain.get(KEY).miss(), Some(Reason::Sealed));
}

/// A process without the secret detects and removes damage too.
pub fn damage_is_told_from_forgery_without_the_secret(harness: &dyn OnDisk) {
    for secret in [OURS, Some(2), None] {
        with_secret(harness, OURS).put(KEY, &Artifact::new(b"good".to_vec())).unwrap();
        harness.damage(KEY, &mut |bytes| *bytes.last_mut().unwrap() ^= 1);
        let store = with_secret(harness, secret);
        assert_eq!(store.get(KEY).miss(), Some(Reason::ChecksumMismatch));
        assert_eq!(store.get(KEY).miss(), Some(Reason::Absent));
    }
}

/// What is not sealed cannot be a hit of a store with a secret, and so explains nothing there.
pub fn the_nearest_is_none_that_anybody_could_have_put_there(harness: &dyn OnDisk) {
    let fields = |flags: &'static str| KeyFields::new("d", 1).text("name", "softmax").text("flags", flags);
    let put = |store: &dyn Store, flags| {
        let metadata = Metadata::new().with_recipe(fields(flags).recipe());
        let artifact = Artifact::new(vec![1]).with_metadata(&metadata);
        store.put(fields(flags).key().as_bytes(), &artifact).unwrap();
    };
    let nearest = |store: &dyn Store, flags| {
        let entry = store.nearest(&fields(flags).recipe()).unwrap();
        entry.map(|entry| entry.recipe().unwrap().clone())
    };
    put(&*with_secret(harness, None), "-O2");
    let sealed = with_secret(harness, OURS);
    assert_eq!(nearest(&*sealed, "-O3"), None);
    put(&*sealed, "-O1");
    assert_eq!(nearest(&*sealed, "-O3"), Some(fields("-O1").recipe()));
    drop(sealed);
    let plain = with_secret(harness, None);
    assert_eq!(nearest(&*plain, "-O1"), Some(fields("-O2").recipe()));
    assert_eq!(nearest(&*plain, "-O2"), Some(fields("-O1").recipe()), "it tells of all");
}
