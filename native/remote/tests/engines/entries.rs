//! What is stored, found, and refused.

use warmstart::{Artifact, Metadata, MissReason, Seal, Store};
use warmstart_core::{envelope, key::Key};
use warmstart_remote::{RemoteOptions, RemoteStore, engine::Surveyed};

use crate::{Case, PASSWORD, PATIENT, Place, until};

pub(crate) const CASES: &[Case] = &[
    ("stored_artifact_is_found_and_removed", stored_artifact_is_found_and_removed),
    ("many_keys_are_found_in_their_order", many_keys_are_found_in_their_order),
    ("unverified_entry_is_a_miss_and_stays", unverified_entry_is_a_miss_and_stays),
    ("entry_of_a_newer_version_is_not_replaced", entry_of_a_newer_version_is_not_replaced),
    ("secrets_are_exchanged_without_a_cold_start", secrets_are_exchanged_without_a_cold_start),
    ("unsealed_and_sealed_stores_share_nothing", unsealed_and_sealed_stores_share_nothing),
    ("long_entry_is_stored", long_entry_is_stored),
    ("touched_entry_stays", touched_entry_stays),
    ("calls_work_within_an_asynchronous_host", calls_work_within_an_asynchronous_host),
    ("closed_store_answers_closed", closed_store_answers_closed),
    ("credentials_are_shown_nowhere", credentials_are_shown_nowhere),
];

pub(crate) const OF_S3: &[Case] =
    &[("entry_below_an_accepted_prefix_is_surveyed", entry_below_an_accepted_prefix_is_surveyed)];

fn options() -> RemoteOptions {
    RemoteOptions::default().with_deadline(PATIENT)
}

fn open(place: &Place, secret: u8) -> RemoteStore {
    RemoteStore::open(&place.url(), options().with_secret(&[secret; 32])).unwrap()
}

fn artifact(payload: impl Into<Vec<u8>>) -> Artifact {
    Artifact::new(payload.into()).with_metadata(&Metadata::new().with_attribute("name", b"f"))
}

fn stored_artifact_is_found_and_removed(place: &Place) {
    let store = open(place, 7);
    assert_eq!(store.get(b"key").unwrap_err(), MissReason::Absent);
    assert_eq!(store.contains(b"key"), Ok(false));
    assert_eq!(store.put(b"key", &artifact("payload")), Ok(0));
    let found = store.get(b"key").unwrap();
    assert_eq!((found.payload(), found.attribute("name")), (&b"payload"[..], Some(&b"f"[..])));
    assert_eq!(store.contains(b"key"), Ok(true));
    store.put(b"key", &artifact("other")).unwrap();
    assert_eq!(store.get(b"key").unwrap().payload(), b"other");
    let found = store.fetch_many(&[b"key"], until()).unwrap().pop().unwrap().unwrap();
    assert_eq!(found.len, store.encode(b"key", &artifact("other")).unwrap().len() as u64);
    assert_eq!(store.clear(), Err(MissReason::Unavailable));
    assert_eq!((store.remove(b"key"), store.remove(b"key")), (Ok(true), Ok(false)));
    assert_eq!(store.get(b"key").unwrap_err(), MissReason::Absent);
}

fn many_keys_are_found_in_their_order(place: &Place) {
    let store = open(place, 7);
    let keys: Vec<[u8; 2]> = (0..150u16).map(u16::to_le_bytes).collect();
    keys.iter().step_by(2).for_each(|key| _ = store.put(key, &artifact(*key)).unwrap());
    let all: Vec<&[u8]> = keys.iter().map(<[u8; 2]>::as_slice).collect();
    let found = store.get_many(&all);
    assert_eq!(found.len(), all.len());
    for (number, (key, found)) in keys.iter().zip(found).enumerate() {
        match found {
            Ok(found) => assert!(number % 2 == 0 && found.payload() == key),
            Err(reason) => assert!(number % 2 == 1 && reason == MissReason::Absent, "{reason:?}"),
        }
    }
    assert!(store.get_many(&[]).is_empty());
}

fn unverified_entry_is_a_miss_and_stays(place: &Place) {
    let store = open(place, 7);
    let encode =
        |key: &[u8], seal: Option<&Seal>| envelope::encode(key, &artifact("evil"), seal).unwrap().to_vec();
    let ours = encode(b"key", Some(&Seal::new(&[7; 32])));
    let mut flipped = ours.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let planted = [
        (MissReason::Forged, encode(b"key", Some(&Seal::new(&[8; 32])))),
        (MissReason::Unsealed, encode(b"key", None)),
        (MissReason::KeyMismatch, encode(b"another", Some(&Seal::new(&[7; 32])))),
        (MissReason::Truncated, ours[..ours.len() - 1].to_vec()),
        (MissReason::ChecksumMismatch, flipped),
        (MissReason::Foreign, b"<html>not what you asked for</html>".to_vec()),
        (MissReason::Truncated, Vec::new()),
    ];
    let name = Key::digest(b"key");
    for (reason, entry) in planted {
        store.engine().put(&name, &entry, until()).unwrap();
        assert_eq!(store.get(b"key").unwrap_err(), reason);
        assert_eq!(store.engine().get(&name, until()).unwrap().unwrap().bytes, entry, "{reason:?}");
    }
    store.put(b"key", &artifact("ours")).unwrap();
    assert_eq!(store.get(b"key").unwrap().payload(), b"ours");
}

/// Returns an entry as a newer version of the format would begin it.
pub(crate) fn of_newer_version(mut entry: Vec<u8>) -> Vec<u8> {
    entry[16..18].copy_from_slice(&2u16.to_le_bytes());
    let sum = xxhash_rust::xxh3::xxh3_64(&entry[16..]);
    entry[8..16].copy_from_slice(&sum.to_le_bytes());
    entry
}

/// Two versions of the format share one place.
fn entry_of_a_newer_version_is_not_replaced(place: &Place) {
    let store = open(place, 7);
    let newer = of_newer_version(store.encode(b"key", &artifact("newer")).unwrap());
    let name = Key::digest(b"key");
    store.engine().put(&name, &newer, until()).unwrap();
    assert_eq!(store.get(b"key").unwrap_err(), MissReason::NewerVersion);
    assert_eq!(store.put(b"key", &artifact("older")), Err(MissReason::NewerVersion));
    assert_eq!(store.engine().get(&name, until()).unwrap().unwrap().bytes, newer);
    store.put(b"other", &artifact("ours")).unwrap();
    assert_eq!(store.get(b"other").unwrap().payload(), b"ours");
}

fn secrets_are_exchanged_without_a_cold_start(place: &Place) {
    open(place, 1).put(b"old", &artifact("old")).unwrap();
    let both = options().with_secret(&[2; 32]).with_secret(&[1; 32]);
    let both = RemoteStore::open(&place.url(), both).unwrap();
    both.put(b"new", &artifact("new")).unwrap();
    let found: Vec<_> =
        both.get_many(&[b"old", b"new", b"none"]).into_iter().map(|found| found.is_ok()).collect();
    assert_eq!(found, [true, true, false]);
    assert_eq!((both.contains(b"old"), both.contains(b"new")), (Ok(true), Ok(true)));
    let new = open(place, 2);
    assert_eq!(new.get(b"old").unwrap_err(), MissReason::Absent);
    assert_eq!(new.get(b"new").unwrap().payload(), b"new");
    assert_eq!(both.remove(b"old"), Ok(true));
}

fn unsealed_and_sealed_stores_share_nothing(place: &Place) {
    let unsealed = RemoteStore::open(&place.url(), options().unsealed()).unwrap();
    unsealed.put(b"key", &artifact("anyone")).unwrap();
    assert_eq!(unsealed.get(b"key").unwrap().payload(), b"anyone");
    assert_eq!(open(place, 7).get(b"key").unwrap_err(), MissReason::Absent);
    let untrusted = RemoteStore::open(&place.url(), options()).unwrap_err();
    assert!(untrusted.is_untrusted() && untrusted.to_string().contains("with_secret"), "{untrusted}");
    let both = RemoteStore::open(&place.url(), options().unsealed().with_secret(&[7; 32])).unwrap_err();
    assert!(both.is_untrusted());
}

fn long_entry_is_stored(place: &Place) {
    let store = open(place, 7);
    let long: Vec<u8> = (0..5_000_000u32).map(|at| at.to_le_bytes()[1]).collect();
    store.put(b"long", &artifact(long.clone())).unwrap();
    assert!(store.get(b"long").unwrap().payload() == long);
}

fn touched_entry_stays(place: &Place) {
    let store = open(place, 7);
    store.put(b"key", &artifact("payload")).unwrap();
    store.engine().touch(&Key::digest(b"key"), until());
    assert_eq!(store.get(b"key").unwrap().payload(), b"payload");
}

fn calls_work_within_an_asynchronous_host(place: &Place) {
    let store = open(place, 7);
    let host = tokio::runtime::Builder::new_current_thread().build().unwrap();
    host.block_on(async {
        store.put(b"key", &artifact("payload")).unwrap();
        assert_eq!(store.get(b"key").unwrap().payload(), b"payload");
    });
}

fn closed_store_answers_closed(place: &Place) {
    let store = open(place, 7);
    store.close().unwrap();
    assert_eq!(store.get(b"key").unwrap_err(), MissReason::Closed);
    assert_eq!(store.put(b"key", &artifact("payload")), Err(MissReason::Closed));
}

fn credentials_are_shown_nowhere(place: &Place) {
    let store = open(place, 7);
    store.put(b"key", &artifact("payload")).unwrap();
    let shown = format!("{store:?} {} {:?}", store.location(), options().with_secret(&[7; 32]));
    assert!(!shown.contains(PASSWORD) && !shown.contains("AKIA") && !shown.contains("7, 7"), "{shown}");
}

/// What cannot be listed under the name that it is stored under is refused when the remote is opened.
fn entry_below_an_accepted_prefix_is_surveyed(place: &Place) {
    let keys: Vec<[u8; 1]> = (0..12u8).map(|number| [number]).collect();
    let names: Vec<Key> = keys.iter().map(|key| Key::digest(key)).collect();
    let mut accepted = 0;
    for tail in ["a.b_c-d=1+2@3", "a&b,c", "A b", "team~one", "a%20b", "a//b", "café", "x*y", "a[b", "a%2Fb"]
    {
        let url = place.url().replace('?', &format!("/{tail}?"));
        let Ok(store) = RemoteStore::open(&url, options().with_secret(&[7; 32])) else { continue };
        keys.iter().for_each(|key| _ = store.put(key, &artifact(*key)).unwrap());
        let found = store.engine().survey(&names, until()).unwrap();
        assert_eq!(found, vec![Surveyed::Stored; names.len()], "{tail}");
        accepted += 1;
    }
    assert_eq!(accepted, 2);
}
