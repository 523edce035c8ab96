//! Entries that a fleet must not believe, and what becomes of them here and in the remote.

use std::{
    convert::Infallible,
    thread,
    time::{Duration, Instant},
};

use warmstart::{
    Artifact, Cache, MissReason, Seal, Store,
    cache::{ManyOptions, Origin},
    store::FileStore,
};
use warmstart_core::{envelope, key::Key};
use warmstart_remote::{Fleet, FleetOptions, RemoteOptions, RemoteStore};

use crate::{
    Case, PATIENT, Place,
    entries::of_newer_version,
    fleet::{Machine, fleet_at},
    open_with, patient,
    servers::free_port,
    until,
};

pub(crate) const CASES: &[Case] = &[
    ("entry_not_believed_is_counted_and_kept_out", entry_not_believed_is_counted_and_kept_out),
    ("entry_not_believed_is_replaced_by_a_build", entry_not_believed_is_replaced_by_a_build),
    ("newer_entry_outlives_builds_of_older_programs", newer_entry_outlives_builds_of_older_programs),
    ("old_secret_serves_until_all_machines_have_the_new", old_secret_serves_until_all_machines_have_the_new),
    ("late_upload_is_not_done_by_an_old_secret", late_upload_is_not_done_by_an_old_secret),
];

fn artifact(payload: &[u8]) -> Artifact {
    Artifact::new(payload.to_vec())
}

fn key_of(reason: MissReason) -> String {
    format!("kernel that is {}", reason.as_str())
}

/// Stores an entry for each reason not to believe it, as someone may who can write to the remote.
fn plant(remote: &RemoteStore) -> Vec<(MissReason, Vec<u8>)> {
    let reasons = [
        MissReason::Forged,
        MissReason::Unsealed,
        MissReason::KeyMismatch,
        MissReason::Truncated,
        MissReason::ChecksumMismatch,
        MissReason::Foreign,
        MissReason::NewerVersion,
    ];
    let encode = |key: &[u8], seal| envelope::encode(key, &artifact(b"evil"), seal).unwrap().to_vec();
    let (ours, other) = (Seal::new(&[7; 32]), Seal::new(&[8; 32]));
    let plant = |reason| {
        let key = key_of(reason).into_bytes();
        let sealed = encode(&key, Some(&ours));
        let entry = match reason {
            MissReason::Forged => encode(&key, Some(&other)),
            MissReason::Unsealed => encode(&key, None),
            MissReason::KeyMismatch => encode(b"another key", Some(&ours)),
            MissReason::Truncated => sealed[..sealed.len() / 2].to_vec(),
            MissReason::ChecksumMismatch => [&sealed[..sealed.len() - 1], b"?"].concat(),
            MissReason::Foreign => b"<html>Log in first</html>".repeat(10),
            _ => of_newer_version(sealed),
        };
        remote.engine().put(&Key::digest(&key), &entry, until()).unwrap();
        (reason, entry)
    };
    reasons.into_iter().map(plant).collect()
}

fn stored(remote: &RemoteStore, reason: MissReason) -> Option<Vec<u8>> {
    remote.engine().get(&Key::digest(key_of(reason).as_bytes()), until()).unwrap().map(|entry| entry.bytes)
}

fn entry_not_believed_is_counted_and_kept_out(place: &Place) {
    let (remote, machine) = (patient(&place.url()), Machine::new());
    let planted = plant(&remote);
    let fleet = machine.fleet(&place.url());
    for (number, (reason, entry)) in (1..).zip(planted) {
        let key = key_of(reason).into_bytes();
        assert_eq!(fleet.get(&key).unwrap_err(), reason);
        assert_eq!(fleet.get_many(&[&key]).remove(0).unwrap_err(), reason);
        assert_eq!(fleet.get_to_build(&key).unwrap_err(), reason);
        assert_eq!(fleet.get_into(&key, &mut Vec::new()), Err(reason));
        let statistics = fleet.statistics();
        assert_eq!((statistics.refused, statistics.misses), (4 * number, 4 * number), "{reason:?}");
        assert_eq!(machine.local().contains(&key), Ok(false), "{reason:?}");
        assert!(stored(&remote, reason) == Some(entry), "{reason:?}");
    }
    assert!(fleet.wait_for_uploads(PATIENT));
    let statistics = fleet.statistics();
    assert_eq!((statistics.remote_hits, statistics.bytes_used), (0, 0));
    assert!(statistics.bytes_received > 0, "what was refused was moved all the same");
}

fn entry_not_believed_is_replaced_by_a_build(place: &Place) {
    let remote = patient(&place.url());
    let planted = plant(&remote);
    let machines = [Machine::new(), Machine::new()];
    let keys: Vec<String> = planted.iter().map(|(reason, _)| key_of(*reason)).collect();
    let build = |_| Ok::<_, Infallible>(b"ours".to_vec());
    for machine in &machines {
        let cache = Cache::new(machine.fleet(&place.url()));
        let options = ManyOptions::default();
        for built in cache.get_or_build_many(keys.iter().map(String::as_str), options, build) {
            assert_eq!(built.unwrap().artifact().payload(), b"ours");
        }
        assert!(cache.store().wait_for_uploads(PATIENT));
        let is_second = std::ptr::eq(machine, &machines[1]);
        assert_eq!(cache.statistics().builds, if is_second { 1 } else { planted.len() as u64 });
    }
    for (reason, entry) in planted {
        if reason == MissReason::NewerVersion {
            assert!(stored(&remote, reason) == Some(entry), "two versions do not replace each other's");
        } else {
            assert_eq!(remote.get(key_of(reason).as_bytes()).unwrap().payload(), b"ours", "{reason:?}");
        }
    }
}

/// Neither their builds replace it, nor the uploads that a later process continues.
fn newer_entry_outlives_builds_of_older_programs(place: &Place) {
    let (remote, machine) = (patient(&place.url()), Machine::new());
    let planted = plant(&remote).pop().unwrap();
    let (reason, key) = (planted.0, key_of(planted.0).into_bytes());
    assert_eq!(reason, MissReason::NewerVersion);
    let cache = Cache::new(machine.fleet(&place.url()));
    let built = cache.get_or_build(&key[..], || Ok::<_, Infallible>(b"older".to_vec())).unwrap();
    assert!(matches!(built.origin(), Origin::Built { .. }));
    assert!(cache.store().wait_for_uploads(PATIENT));
    assert_eq!(cache.get(&key[..]).unwrap().payload(), b"older", "an older program finds its own");
    assert!(stored(&remote, reason) == Some(planted.1.clone()));

    // Built while the remote was down, and uploaded by a later process, which has not looked.
    let offline = Machine::new();
    let down = open_with(&place.engine.url(free_port(), place.case), Duration::from_millis(300));
    let fleet = fleet_at(offline.path(), down, FleetOptions::default());
    for key in [&key[..], b"later"] {
        fleet.put(key, &artifact(b"older")).unwrap();
    }
    assert!(!fleet.wait_for_uploads(PATIENT));
    drop(fleet);
    offline.close_breaker();
    let started = Instant::now();
    while remote.get(b"later").is_err() {
        assert!(started.elapsed() < PATIENT);
        // The thread of the first fleet keeps its list until its request ended.
        let _later = offline.fleet(&place.url());
        thread::sleep(Duration::from_millis(200));
    }
    assert!(stored(&remote, reason) == Some(planted.1));
}

fn old_secret_serves_until_all_machines_have_the_new(place: &Place) {
    let open = |machine: &Machine, secrets: &[u8]| -> Cache<Fleet<FileStore>> {
        let options = RemoteOptions::default().with_deadline(PATIENT);
        let options = secrets.iter().fold(options, |options, secret| options.with_secret(&[*secret; 32]));
        let remote = RemoteStore::open(&place.url(), options).unwrap();
        Cache::new(fleet_at(machine.path(), remote, FleetOptions::default()))
    };
    let get = |cache: &Cache<Fleet<FileStore>>, key: &str| {
        let fetched = cache.get_or_build(key, || Ok::<_, Infallible>(key.as_bytes().to_vec())).unwrap();
        assert_eq!(fetched.artifact().payload(), key.as_bytes());
        assert!(cache.store().wait_for_uploads(PATIENT));
        matches!(fetched.origin(), Origin::Built { .. })
    };
    let (old, new) = (1, 2);
    let (ahead, behind) = (Machine::new(), Machine::new());
    let (ahead, behind) = (open(&ahead, &[new, old]), open(&behind, &[old]));
    assert!(get(&behind, "stored first"));
    assert!(!get(&ahead, "stored first"), "found under the old secret");
    assert!(get(&ahead, "stored later"));
    assert!(get(&behind, "stored later"), "what the new secret seals is elsewhere");
    let last = Machine::new();
    let last = open(&last, &[new]);
    assert!(!get(&last, "stored later"));
    assert!(get(&last, "stored first"), "nothing copies it from the old place");
    let refused = [&ahead, &behind, &last].map(|cache| cache.store().statistics().refused);
    assert_eq!(refused, [0; 3]);
}

fn late_upload_is_not_done_by_an_old_secret(place: &Place) {
    let open = |url: &str, secrets: &[&[u8; 32]]| {
        let options = RemoteOptions::default().with_deadline(PATIENT);
        let options = secrets.iter().fold(options, |options, secret| options.with_secret(secret));
        RemoteStore::open(url, options).unwrap()
    };
    let (new, old): (&[u8; 32], &[u8; 32]) = (&[7; 32], &[8; 32]);
    let machine = Machine::new();
    let dead = open_with(&place.engine.url(free_port(), place.case), Duration::from_millis(200));
    let fleet = fleet_at(machine.path(), dead, FleetOptions::default());
    for key in [b"old", b"new"] {
        fleet.put(key, &artifact(key)).unwrap();
    }
    assert!(!fleet.wait_for_uploads(PATIENT));
    drop(fleet);
    machine.close_breaker();
    open(&place.url(), &[old]).put(b"old", &artifact(b"old")).unwrap();
    open(&place.url(), &[new]).put(b"new", &artifact(b"new")).unwrap();
    let fleet = fleet_at(machine.path(), open(&place.url(), &[new, old]), FleetOptions::default());
    assert!(fleet.wait_for_uploads(PATIENT));
    assert_eq!(open(&place.url(), &[new]).get(b"old").unwrap().payload(), b"old");
    assert_eq!(fleet.statistics().uploads, 1, "the other one was there");
}
