//! Who builds: claims, renewals, takeovers and releases.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Mutex,
    thread,
    time::Duration,
};

use warmstart_core::key::Key;
use warmstart_remote::{
    RemoteOptions, RemoteStore,
    engine::{Answer, Engine, Surveyed, Token, Trouble, Version},
};

use crate::{Case, Place, until};

pub(crate) const CASES: &[Case] = &[
    ("one_of_12_threads_wins_each_of_20_claims", one_of_12_threads_wins_each_of_20_claims),
    ("lease_that_stood_still_is_taken_by_one", lease_that_stood_still_is_taken_by_one),
    ("renewed_lease_is_not_taken_over", renewed_lease_is_not_taken_over),
    ("renewals_at_once_fail_each_by_itself", renewals_at_once_fail_each_by_itself),
    ("released_lease_is_free", released_lease_is_free),
    ("version_never_recurs", version_never_recurs),
    ("release_by_another_does_nothing", release_by_another_does_nothing),
    ("lost_acknowledgements_lose_no_lease", lost_acknowledgements_lose_no_lease),
    ("stored_entry_is_found_despite_a_lease", stored_entry_is_found_despite_a_lease),
    ("survey_tells_stored_held_and_free_apart", survey_tells_stored_held_and_free_apart),
];

/// Opens a store whose leases do not end while a slow machine plays a case.
fn open(place: &Place) -> RemoteStore {
    let options = RemoteOptions::default().with_secret(&[7; 32]).with_lease_ttl(Duration::from_secs(60));
    RemoteStore::open(&place.url(), options).unwrap()
}

fn name(number: u32) -> Key {
    Key::digest(&number.to_le_bytes())
}

fn claimed(engine: &dyn Engine, name: &Key, token: &Token) -> Version {
    match engine.get_or_claim(name, token, until()).unwrap() {
        Answer::Claimed(version) => version,
        other => panic!("{other:?}"),
    }
}

fn version_of(engine: &dyn Engine, name: &Key, token: &Token) -> Version {
    match engine.get_or_claim(name, token, until()).unwrap() {
        Answer::Held(version) => version,
        other => panic!("{other:?}"),
    }
}

fn renew(engine: &dyn Engine, name: &Key, token: &Token, held: &Version) -> Result<Option<Version>, Trouble> {
    engine.renew(&[(*name, held.clone())], token, until()).remove(0)
}

fn one_of_12_threads_wins_each_of_20_claims(place: &Place) {
    let (store, wins) = (open(place), Mutex::new(BTreeMap::<Key, u32>::new()));
    thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                let token = Token::random().unwrap();
                for number in 0..20 {
                    let answer = store.engine().get_or_claim(&name(number), &token, until()).unwrap();
                    if let Answer::Claimed(_) = answer {
                        *wins.lock().unwrap().entry(name(number)).or_default() += 1;
                    }
                }
            });
        }
    });
    let wins = wins.into_inner().unwrap();
    assert_eq!((wins.len(), wins.values().max()), (20, Some(&1)), "{wins:?}");
}

fn lease_that_stood_still_is_taken_by_one(place: &Place) {
    let (store, name, dead) = (open(place), name(0), Token::random().unwrap());
    let first = claimed(store.engine(), &name, &dead);
    let seen = version_of(store.engine(), &name, &Token::random().unwrap());
    let wins = Mutex::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let token = Token::random().unwrap();
                let taken = store.engine().claim(&name, &token, Some(&seen), until()).unwrap();
                *wins.lock().unwrap() += u32::from(taken.is_some());
            });
        }
    });
    assert_eq!(wins.into_inner().unwrap(), 1);
    assert_eq!(renew(store.engine(), &name, &dead, &first), Ok(None), "the dead holder comes back");
}

fn renewed_lease_is_not_taken_over(place: &Place) {
    let (store, name, holder) = (open(place), name(0), Token::random().unwrap());
    let (engine, other) = (store.engine(), Token::random().unwrap());
    let first = claimed(engine, &name, &holder);
    let seen = version_of(engine, &name, &other);
    let second = renew(engine, &name, &holder, &first).unwrap().expect("it is held");
    assert_ne!(first, second);
    assert_ne!(version_of(engine, &name, &other), seen);
    assert_eq!(engine.claim(&name, &other, Some(&seen), until()), Ok(None));
    assert_eq!(engine.claim(&name, &other, None, until()), Ok(None));
    assert!(renew(engine, &name, &holder, &second).unwrap().is_some());
}

fn renewals_at_once_fail_each_by_itself(place: &Place) {
    let (store, [holder, other]) = (open(place), [(); 2].map(|()| Token::random().unwrap()));
    let engine = store.engine();
    assert_eq!(engine.renew(&[], &holder, until()), []);
    let holder_of = |number| if number % 3 == 0 { &other } else { &holder };
    let held: Vec<(Key, Version)> =
        (0..100).map(|number| (name(number), claimed(engine, &name(number), holder_of(number)))).collect();
    // What this holder knows of the other's leases is out of date.
    let others: Vec<(Key, Version)> = held.iter().step_by(3).cloned().collect();
    assert!(engine.renew(&others, &other, until()).iter().all(|renewed| matches!(renewed, Ok(Some(_)))));
    let renewed = engine.renew(&held, &holder, until());
    assert_eq!(renewed.len(), held.len());
    for (number, ((name, first), renewed)) in (0..).zip(held.iter().zip(renewed)) {
        match renewed.unwrap() {
            Some(second) => {
                assert!(number % 3 != 0 && second != *first, "{number}");
                assert_eq!(version_of(engine, name, &other), second, "{number}");
            }
            None => assert_eq!(number % 3, 0),
        }
    }
    let names: Vec<Key> = held.iter().map(|(name, _)| *name).collect();
    engine.release(&names, &holder, until()).unwrap();
    for (number, state) in (0..).zip(engine.survey(&names, until()).unwrap()) {
        assert_eq!(state == Surveyed::Free, number % 3 != 0, "{number}: {state:?}");
    }
}

fn released_lease_is_free(place: &Place) {
    let (store, name, token) = (open(place), name(0), Token::random().unwrap());
    let engine = store.engine();
    let version = claimed(engine, &name, &token);
    engine.release(&[name], &token, until()).unwrap();
    assert_eq!(engine.survey(&[name], until()), Ok(vec![Surveyed::Free]));
    assert_eq!(renew(engine, &name, &token, &version), Ok(None));
    let other = Token::random().unwrap();
    assert!(engine.claim(&name, &other, None, until()).unwrap().is_some());
}

/// One that did would look as if it had stood still since it was last seen.
fn version_never_recurs(place: &Place) {
    let (store, name, token) = (open(place), name(0), Token::random().unwrap());
    let engine = store.engine();
    let mut seen = HashSet::new();
    for claim in 0..4 {
        let first = match claim % 2 {
            0 => claimed(engine, &name, &token),
            _ => engine.claim(&name, &token, None, until()).unwrap().expect("it is free"),
        };
        let second = renew(engine, &name, &token, &first).unwrap().expect("it is held");
        engine.release(&[name], &token, until()).unwrap();
        assert!(seen.insert(first) && seen.insert(second), "{seen:?}");
    }
}

fn release_by_another_does_nothing(place: &Place) {
    let (store, name, token) = (open(place), name(0), Token::random().unwrap());
    let engine = store.engine();
    let version = claimed(engine, &name, &token);
    engine.release(&[name], &Token::random().unwrap(), until()).unwrap();
    assert!(renew(engine, &name, &token, &version).unwrap().is_some());
}

fn lost_acknowledgements_lose_no_lease(place: &Place) {
    let (store, name, token) = (open(place), name(0), Token::random().unwrap());
    let engine = store.engine();
    claimed(engine, &name, &token);
    let first = claimed(engine, &name, &token);
    assert!(engine.claim(&name, &token, None, until()).unwrap().is_some());
    let second = renew(engine, &name, &token, &first).unwrap().expect("it is held");
    // As if the answer of the renewal was lost.
    let third = renew(engine, &name, &token, &first).unwrap().expect("it is still held");
    assert!(first != second && second != third && first != third);
}

fn stored_entry_is_found_despite_a_lease(place: &Place) {
    let (store, name, token) = (open(place), name(0), Token::random().unwrap());
    let engine = store.engine();
    claimed(engine, &name, &token);
    engine.put(&name, b"entry", until()).unwrap();
    let found = engine.get_or_claim(&name, &Token::random().unwrap(), until());
    assert!(matches!(found, Ok(Answer::Stored(stored)) if stored.bytes == b"entry"));
    assert_eq!(engine.survey(&[name], until()), Ok(vec![Surveyed::Stored]));
}

fn survey_tells_stored_held_and_free_apart(place: &Place) {
    let (store, token) = (open(place), Token::random().unwrap());
    let engine = store.engine();
    for number in (0..60).step_by(3) {
        engine.put(&name(number), b"entry", until()).unwrap();
        claimed(engine, &name(number + 1), &token);
    }
    assert_eq!(engine.survey(&[], until()), Ok(Vec::new()));
    for count in [3, 60] {
        let names: Vec<Key> = (0..count).map(name).collect();
        let states = engine.survey(&names, until()).unwrap();
        assert_eq!(states.len(), names.len());
        for (number, state) in (0..).zip(&states) {
            let is_right = match number % 3 {
                0 => *state == Surveyed::Stored,
                1 => {
                    matches!(state, Surveyed::Held(version) if *version == version_of(engine, &name(number), &Token::random().unwrap()))
                }
                _ => *state == Surveyed::Free,
            };
            assert!(is_right, "{number} of {count}: {state:?}");
        }
    }
}
