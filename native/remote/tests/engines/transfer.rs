//! Copies between stores and remotes, the check of a remote, and the counts of a machine.

use std::{
    panic::{self, AssertUnwindSafe},
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    time::Duration,
};

use tempfile::TempDir;
use warmstart::{
    Artifact, Limits, MissReason, Store,
    store::{FileStore, MemoryStore, StoreOptions},
};
use warmstart_core::key::Key;
use warmstart_remote::{
    Check, Fleet, FleetOptions, FleetStatistics, RemoteOptions, RemoteStore, TransferError, Trouble,
    has_entries, pull, push,
};

use crate::{
    Case, PATIENT, Place, fork, patient,
    servers::{Engine, free_port},
    until,
};

pub(crate) const CASES: &[Case] = &[
    ("pushed_entries_are_pulled_elsewhere", pushed_entries_are_pulled_elsewhere),
    ("push_that_panics_is_no_success", push_that_panics_is_no_success),
    ("callback_of_a_push_may_fork", callback_of_a_push_may_fork),
    ("push_leaves_what_readers_cannot_get", push_leaves_what_readers_cannot_get),
    ("pull_leaves_unverified_entries", pull_leaves_unverified_entries),
    ("check_tells_what_is_permitted", check_tells_what_is_permitted),
    ("machine_counts_what_its_processes_did", machine_counts_what_its_processes_did),
];

pub(crate) const OF_NGINX: &[Case] = &[("check_finds_missing_conditions", check_finds_missing_conditions)];

const ENTRIES: u64 = 150;

fn key(number: u64) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

fn payload(number: u64) -> Vec<u8> {
    number.to_string().repeat(100).into_bytes()
}

fn memory() -> MemoryStore {
    MemoryStore::new(Limits::NONE)
}

fn pushed_entries_are_pulled_elsewhere(place: &Place) {
    let remote = patient(&place.url());
    assert_eq!(has_entries(&remote), Ok(false));
    let one = memory();
    for number in 0..ENTRIES {
        one.put(&key(number), &Artifact::new(payload(number))).unwrap();
    }
    let steps = AtomicU64::new(0);
    let count = |_: &_| _ = steps.fetch_add(1, SeqCst);
    let pushed = push(&remote, &one, &count).unwrap();
    assert_eq!((pushed.entries, pushed.present, pushed.refused), (ENTRIES, 0, 0));
    assert_eq!(steps.load(SeqCst), ENTRIES);
    let again = push(&remote, &one, &count).unwrap();
    assert_eq!((again.entries, again.bytes, again.present), (0, 0, ENTRIES));

    let with_seal = |secret| {
        let options = RemoteOptions::default().with_deadline(PATIENT).with_secret(secret);
        RemoteStore::open(&place.url(), options).unwrap()
    };
    assert_eq!([&[7; 32], &[8; 32]].map(|secret| has_entries(&with_seal(secret))), [Ok(true), Ok(false)]);

    // A lease is no entry.
    let token = warmstart_remote::engine::Token::random().unwrap();
    remote.engine().claim(&Key::digest(b"other"), &token, None, until()).unwrap();
    let two = memory();
    two.put(&key(3), &Artifact::new(payload(3))).unwrap();
    let pulled = pull(&remote, &two, &count).unwrap();
    assert_eq!((pulled.entries, pulled.present, pulled.refused), (ENTRIES - 1, 1, 0));
    assert!(pulled.bytes > 0 && pulled.bytes < pushed.bytes);
    for number in 0..ENTRIES {
        assert_eq!(two.get(&key(number)).unwrap().payload(), payload(number));
    }
}

fn push_that_panics_is_no_success(place: &Place) {
    let (remote, one) = (patient(&place.url()), memory());
    one.put(&key(1), &Artifact::new(payload(1))).unwrap();
    let panics = |_: &_| panic!("a callback of this test");
    let pushed = panic::catch_unwind(AssertUnwindSafe(|| push(&remote, &one, &panics)));
    assert!(pushed.is_err(), "{pushed:?}");
}

fn callback_of_a_push_may_fork(place: &Place) {
    let (remote, one) = (patient(&place.url()), memory());
    one.put(&key(1), &Artifact::new(payload(1))).unwrap();
    let callback = |_: &_| assert!(fork() < Duration::from_secs(5), "the fork waited for the copy");
    assert_eq!(push(&remote, &one, &callback).unwrap().entries, 1);
}

/// Its own deadline is longer than theirs, which are 200 ms on Redis and 2 s on object stores.
fn push_leaves_what_readers_cannot_get(place: &Place) {
    let (remote, one) = (patient(&place.url()), memory());
    one.put(&key(1), &Artifact::new(vec![1; 19_000_000])).unwrap();
    one.put(&key(2), &Artifact::new(vec![2; 21_000_000])).unwrap();
    let pushed = push(&remote, &one, &|_| {}).unwrap();
    let expected = if place.engine == Engine::Redis { (1, 1) } else { (2, 0) };
    assert_eq!((pushed.entries, pushed.refused), expected);
    assert_eq!(remote.contains(&key(2)), Ok(place.engine != Engine::Redis));
}

fn pull_leaves_unverified_entries(place: &Place) {
    let (remote, store) = (patient(&place.url()), memory());
    let artifact = Artifact::new(payload(1));
    let entry = remote.encode(&key(1), &artifact).unwrap();
    let damaged = [&entry[..entry.len() - 1], b"x"].concat();
    let put = |number, entry: &[u8]| remote.engine().put(&Key::digest(&key(number)), entry, until()).unwrap();
    put(1, &entry);
    put(2, &damaged);
    // Right for another key.
    put(3, &entry);
    put(4, b"short");
    let pulled = pull(&remote, &store, &|_| {}).unwrap();
    assert_eq!((pulled.entries, pulled.refused), (1, 3));
    assert_eq!(store.get(&key(1)).unwrap().payload(), payload(1));
    assert_eq!(store.get(&key(3)).unwrap_err(), MissReason::Absent);
    let left = remote.engine().get(&Key::digest(&key(2)), until()).unwrap();
    assert_eq!(left.unwrap().bytes, damaged);

    // Whole under the next secret.
    let options = RemoteOptions::default().with_deadline(PATIENT);
    let old = RemoteStore::open(&place.url(), options.clone().with_secret(&[8; 32])).unwrap();
    old.put(&key(2), &Artifact::new(payload(2))).unwrap();
    let both = RemoteStore::open(&place.url(), options.with_secret(&[7; 32]).with_secret(&[8; 32])).unwrap();
    let pulled = pull(&both, &store, &|_| {}).unwrap();
    assert_eq!((pulled.entries, pulled.present, pulled.refused), (1, 1, 3));
    assert_eq!(store.get(&key(2)).unwrap().payload(), payload(2));
}

fn check_tells_what_is_permitted(place: &Place) {
    let checked = Check::of(&patient(&place.url()));
    assert!(checked.read.is_ok() && checked.write.is_ok() && checked.leases.is_ok(), "{checked:?}");
    assert_eq!(pull(&patient(&place.url()), &memory(), &|_| {}).unwrap().entries, 0, "nothing is left of it");

    let port = free_port();
    let dead = patient(&place.engine.url(port, place.case));
    let checked = Check::of(&dead);
    let Err(Trouble::Unreachable(why)) = &checked.read else { panic!("{checked:?}") };
    assert!(place.engine != Engine::Redis || why.contains(&format!("127.0.0.1, port {port}")), "{why}");
    assert!(checked.write.is_err() && checked.leases.is_err());
    let failed = pull(&dead, &memory(), &|_| {});
    assert!(matches!(failed, Err(TransferError::Remote(Trouble::Unreachable(_)))), "{failed:?}");
}

fn check_finds_missing_conditions(place: &Place) {
    let checked = Check::of(&patient(&place.url()));
    assert!(checked.read.is_ok() && checked.write.is_ok(), "{checked:?}");
    assert!(matches!(checked.leases, Err(Trouble::Unsupported(_))), "{checked:?}");
    let web = place.url().replace("s3://bucket/", "http://").replace("?endpoint=", "");
    let (case, host) = web.trim_start_matches("http://").split_once("http://").unwrap();
    let checked = Check::of(&patient(&format!("http://{host}/bucket/{case}")));
    assert!(checked.read.is_ok() && matches!(checked.write, Err(Trouble::ReadOnly(_))), "{checked:?}");
}

fn machine_counts_what_its_processes_did(place: &Place) {
    let machine = TempDir::new().unwrap();
    let directory = machine.path().join("fleet");
    let fleet = |local: &str| {
        let local = FileStore::open(machine.path().join(local), StoreOptions::default()).unwrap();
        let options = FleetOptions::default().with_directory(&directory);
        Fleet::new(local, patient(&place.url()), options)
    };
    let one = fleet("one");
    one.put(&key(1), &Artifact::new(payload(1))).unwrap();
    assert!(one.get(&key(1)).is_ok() && one.get(&key(2)).is_err());
    assert!(one.wait_for_uploads(PATIENT));
    one.flush().unwrap();
    drop(one);
    let two = fleet("two");
    assert!(two.get(&key(1)).is_ok() && two.get(&key(1)).is_ok());
    let here = two.statistics();
    assert!(here.bytes_used > 0 && here.bytes_used == here.bytes_received);
    drop(two);
    let sum = FleetStatistics::of_machine(&directory).unwrap();
    assert_eq!((sum.local_hits, sum.remote_hits, sum.misses, sum.uploads), (2, 1, 1, 1));
    assert_eq!(
        (sum.bytes_used, sum.bytes_received, sum.uploads_waiting),
        (here.bytes_used, here.bytes_used, 0)
    );
    assert!(sum.bytes_sent > 0 && !sum.is_breaker_open);

    // The next process finds a dead remote.
    let local = FileStore::open(machine.path().join("two"), StoreOptions::default()).unwrap();
    let options = RemoteOptions::default().with_secret(&[7; 32]);
    let dead = RemoteStore::open(&place.engine.url(free_port(), place.case), options).unwrap();
    let three = Fleet::new(local, dead, FleetOptions::default().with_directory(&directory));
    assert!(three.get(&key(5)).is_err());
    three.put(&key(6), &Artifact::new(payload(6))).unwrap();
    drop(three);
    let sum = FleetStatistics::of_machine(&directory).unwrap();
    assert_eq!((sum.misses, sum.uploads_waiting, sum.is_breaker_open), (2, 1, true));
}
