//! A store with a secret accepts nothing that its secret has not sealed.

use std::convert::Infallible;

use warmstart::{Artifact, Cache, KeyFields, Metadata, MissReason, Seal, Store};
use warmstart_core::envelope;
use xxhash_rust::xxh3::xxh3_64;

use super::{OnDisk, Opening};
use crate::whole::Whole;

/// The secret of the stores that are attacked.
const OURS: Option<u8> = Some(1);
const KEY: &[u8] = b"the key of the entry";

fn with_secret(harness: &dyn OnDisk, secret: Option<u8>) -> Box<dyn Store> {
    harness.open_as(Opening::sealed(secret))
}

/// Encodes an entry of `key` with a valid checksum, as any user could write it.
fn entry_of(key: &[u8], payload: &[u8], secret: Option<u8>) -> Vec<u8> {
    let seal = secret.map(|secret| Seal::new(&[secret; 32]));
    envelope::encode(key, &Artifact::new(payload.to_vec()), seal.as_ref()).unwrap().to_vec()
}

fn make_checksum_right(bytes: &mut [u8]) {
    let sum = xxh3_64(&bytes[16..]);
    bytes[8..16].copy_from_slice(&sum.to_le_bytes());
}

/// Entries of an attacker, all with valid checksums.
pub fn entry_not_sealed_by_our_secret_is_a_miss_and_replaced(harness: &dyn OnDisk) {
    type Alter = fn(&mut Vec<u8>);
    let attacks: [(&str, MissReason, Alter); 7] = [
        ("a payload with a new checksum", MissReason::Forged, |bytes| {
            *bytes.last_mut().unwrap() ^= 1;
            make_checksum_right(bytes);
        }),
        ("a tag with a new checksum", MissReason::Forged, |bytes| {
            bytes[64] ^= 1;
            make_checksum_right(bytes);
        }),
        ("a tag of zeros", MissReason::Forged, |bytes| {
            bytes[64..96].fill(0);
            make_checksum_right(bytes);
        }),
        ("a time with a new checksum", MissReason::Forged, |bytes| {
            bytes[40] ^= 1;
            make_checksum_right(bytes);
        }),
        ("another secret's", MissReason::Forged, |bytes| *bytes = entry_of(KEY, b"evil", Some(2))),
        ("without a seal", MissReason::Unsealed, |bytes| *bytes = entry_of(KEY, b"evil", None)),
        ("another key's", MissReason::KeyMismatch, |bytes| *bytes = entry_of(b"other", b"evil", OURS)),
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
        assert_eq!(cache.get(KEY).unwrap().payload(), b"built", "{what} was not replaced");
    }
}

/// An entry of another key's name, as a copy of its file would be, is a counted miss.
pub fn an_entry_that_is_replayed_under_another_name_is_a_miss(harness: &dyn OnDisk) {
    let store = with_secret(harness, OURS);
    store.put(b"other", &Artifact::new(b"other".to_vec())).unwrap();
    store.put(KEY, &Artifact::new(b"good".to_vec())).unwrap();
    let mut others = Vec::new();
    harness.damage(b"other", &mut |bytes| others.clone_from(bytes));
    harness.damage(KEY, &mut |bytes| bytes.clone_from(&others));
    assert_eq!(store.get(KEY).err(), Some(MissReason::KeyMismatch));
    assert_eq!(store.get(b"other").unwrap().payload(), b"other");
}

/// Stores of several secrets share a directory and remove no entry of each other.
pub fn stores_of_other_secrets_or_none_leave_unproved_entries_alone(harness: &dyn OnDisk) {
    let ours = with_secret(harness, OURS);
    ours.put(KEY, &Artifact::new(b"good".to_vec())).unwrap();
    for (secret, reason, contains) in [(Some(2), MissReason::Forged, true), (None, MissReason::Sealed, false)]
    {
        let theirs = with_secret(harness, secret);
        assert_eq!(theirs.get(KEY).err(), Some(reason));
        assert_eq!(theirs.contains(KEY), Ok(contains), "it is by the header alone");
        assert_eq!(theirs.whole_and_damaged(), Ok((0, 0)));
    }
    assert_eq!(ours.get(KEY).unwrap().payload(), b"good");
    assert_eq!(ours.whole_and_damaged(), Ok((1, 0)));
}

/// A sealed store leaves entries without a seal, and a plain store leaves sealed ones.
pub fn unsealed_entry_is_no_member_of_a_sealed_store_and_stays(harness: &dyn OnDisk) {
    let plain = with_secret(harness, None);
    plain.put(KEY, &Artifact::new(b"plain".to_vec())).unwrap();
    let sealed = with_secret(harness, OURS);
    assert_eq!((sealed.contains(KEY), sealed.whole()), (Ok(false), Ok(0)));
    assert_eq!(sealed.get(KEY).err(), Some(MissReason::Unsealed));
    assert_eq!(plain.get(KEY).unwrap().payload(), b"plain");
    sealed.put(KEY, &Artifact::new(b"sealed".to_vec())).unwrap();
    assert_eq!((plain.contains(KEY), plain.whole()), (Ok(false), Ok(0)));
    assert_eq!(plain.get(KEY).err(), Some(MissReason::Sealed));
}

/// A process without the secret detects and removes damage too.
pub fn damage_is_told_from_forgery_without_the_secret(harness: &dyn OnDisk) {
    for secret in [OURS, Some(2), None] {
        with_secret(harness, OURS).put(KEY, &Artifact::new(b"good".to_vec())).unwrap();
        harness.damage(KEY, &mut |bytes| *bytes.last_mut().unwrap() ^= 1);
        let store = with_secret(harness, secret);
        assert_eq!(store.get(KEY).err(), Some(MissReason::ChecksumMismatch));
        assert_eq!(store.get(KEY).err(), Some(MissReason::Absent));
    }
}

/// An unsealed entry cannot be a hit of a store with a secret, and so explains nothing there.
pub fn the_nearest_is_none_that_anybody_could_have_put_there(harness: &dyn OnDisk) {
    let fields = |flags: &'static str| KeyFields::new("d", 1).text("name", "softmax").text("flags", flags);
    let put = |store: &dyn Store, flags| {
        let metadata = Metadata::new().with_recipe(fields(flags).recipe());
        let artifact = Artifact::new(vec![1]).with_metadata(&metadata);
        store.put(fields(flags).key().as_bytes(), &artifact).unwrap();
    };
    let nearest = |store: &dyn Store, flags| {
        let entry = store.inspect().unwrap().nearest(&fields(flags).recipe()).unwrap();
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
