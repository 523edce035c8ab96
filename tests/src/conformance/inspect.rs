//! What a store tells about itself, and what it keeps of reports.

use std::ops::ControlFlow;

use warmstart::{
    Artifact, Key, KeyFields, Limits, Metadata, Provenance, Reason, Recipe, Statistics, Store,
    store::{Entry, Report, Totals, Verified},
};
use warmstart_core::miss::Miss;

use super::{Harness, store};

fn fields(domain: &'static str, values: &[u64]) -> KeyFields<'static> {
    let key = KeyFields::new(domain, 1);
    (0..).zip(values).fold(key, |key, (at, value)| key.number(format!("field {at}"), *value))
}

fn put(store: &dyn Store, fields: &KeyFields<'_>) {
    let metadata = Metadata::new().with_recipe(fields.recipe());
    store.put(fields.key().as_bytes(), &Artifact::new(vec![7; 100]).with_metadata(&metadata)).unwrap();
}

fn entries(store: &dyn Store) -> Vec<Entry> {
    let mut entries = Vec::new();
    let collect = &mut |entry| {
        entries.push(entry);
        ControlFlow::Continue(())
    };
    store.entries(collect).unwrap();
    let bytes = entries.iter().map(|entry: &Entry| entry.size).sum();
    assert_eq!(store.totals(), Ok(Totals { entries: entries.len() as u64, bytes }));
    entries
}

fn keys(store: &dyn Store) -> Vec<Vec<u8>> {
    entries(store).into_iter().map(|entry| entry.head.unwrap().key).collect()
}

fn nearest(store: &dyn Store, recipe: &Recipe) -> Option<Recipe> {
    let entry = store.nearest(recipe).unwrap()?;
    entry.head.unwrap().metadata.recipe().cloned()
}

/// With what their heads say. To look is no use.
pub fn entries_come_in_the_order_of_their_eviction(harness: &dyn Harness) {
    let store = store(harness);
    assert!(entries(&store).is_empty());
    let metadata = Metadata::new().with_attribute("long", vec![7; 10_000]);
    let provenance = Provenance { created_unix_ms: 1_700_000_000_123, build_nanos: 9 };
    for (len, key) in [(10_000, b"a"), (20_000, b"b"), (0, b"c"), (300_000, b"d")] {
        let artifact = Artifact::new(vec![7; len]).with_metadata(&metadata).with_provenance(provenance);
        store.put(key, &artifact).unwrap();
    }
    assert!(store.get(b"b").hit().is_some());
    store.touch(&[b"a", b"none"]);
    for _ in 0..2 {
        assert_eq!(keys(&store), [b"c", b"d", b"b", b"a"]);
    }
    for (entry, payload_len) in entries(&store).into_iter().zip([0, 300_000, 20_000, 10_000]) {
        let head = entry.head.unwrap();
        assert_eq!(entry.name, Key::digest(&head.key));
        assert_eq!((head.payload_len, head.provenance), (payload_len, provenance));
        assert!(head.metadata == metadata, "{:?}", head.key);
        assert!((payload_len + 10_000..payload_len + 13_000).contains(&entry.size), "{}", entry.size);
    }
}

/// It holds no lock, and is not asked for more than it wants.
pub fn whoever_looks_at_entries_may_call_the_store(harness: &dyn Harness) {
    let store = store(harness);
    for n in 0..10 {
        put(&store, &fields("d", &[n]));
    }
    let mut seen = 0;
    let visit = &mut |entry: Entry| {
        seen += 1;
        let key = entry.head.unwrap().key;
        assert!(store.get(&key).hit().is_some());
        store.put(b"another", &Artifact::new(vec![seen])).unwrap();
        assert_eq!(store.remove(&key), Ok(true));
        if seen == 4 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    store.entries(visit).unwrap();
    assert_eq!((seen, store.len()), (4, Ok(7)));
}

/// Compared with a look at all of them, over recipes of several domains.
pub fn the_nearest_recipe_is_one_that_differs_least(harness: &dyn Harness) {
    let store = store(harness);
    let mut state = 7u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut some = || {
        let domain = ["one", "two", "three"][random(3) as usize];
        let values: Vec<u64> = (0..4 + random(3)).map(|_| random(4)).collect();
        fields(domain, &values)
    };
    let stored: Vec<_> = (0..400).map(|_| some()).collect();
    for (n, fields) in (0u64..).zip(&stored) {
        put(&store, fields);
        store.put(&n.to_le_bytes(), &Artifact::new(vec![])).unwrap();
    }
    for _ in 0..100 {
        let wanted = some().recipe();
        let others = stored.iter().map(KeyFields::recipe).filter(|other| other.domain() == wanted.domain());
        let least =
            others.map(|other| wanted.remoteness_of(&other)).filter(|remoteness| remoteness.0 > 0).min();
        let found = nearest(&store, &wanted).unwrap();
        assert_eq!(found.domain(), wanted.domain());
        assert_eq!(Some(wanted.remoteness_of(&found)), least, "{wanted:?}: {found:?}");
    }
    assert_eq!(nearest(&store, &fields("another", &[1, 2, 3]).recipe()), None);
}

/// Removed, replaced or cleared. Of those that differ equally the one stored last is the nearest.
pub fn what_went_is_nearest_no_more(harness: &dyn Harness) {
    let store = store(harness);
    let of = |n| fields("d", &[1, 2, n]);
    let wanted = of(100).recipe();
    assert_eq!(nearest(&store, &wanted), None);
    for n in 0..20 {
        put(&store, &of(n));
    }
    put(&store, &of(5));
    put(&store, &fields("d", &[1, 3, 20]));
    for n in [5, 19, 18] {
        assert_eq!(nearest(&store, &wanted), Some(of(n).recipe()));
        store.remove(of(n).key().as_bytes()).unwrap();
    }
    // A recipe does not explain itself, and what has none explains nothing.
    put(&store, &of(100));
    store.put(of(17).key().as_bytes(), &Artifact::new(vec![])).unwrap();
    assert_eq!(nearest(&store, &wanted), Some(of(16).recipe()));
    store.clear().unwrap();
    assert_eq!(nearest(&store, &wanted), None);
    store.put(b"k", &Artifact::new(vec![])).unwrap();
    assert_eq!(nearest(&store, &wanted), None);
}

/// And says how many, and how much they counted.
pub fn pruning_takes_the_oldest(harness: &dyn Harness) {
    let store = store(harness);
    for n in 0..10 {
        put(&store, &fields("d", &[n]));
    }
    let key = |n| fields("d", &[n]).key();
    assert!(store.get(key(0).as_bytes()).hit().is_some());
    let size = entries(&store)[0].size;
    assert_eq!(store.prune(Limits::NONE).unwrap().entries, 0);
    assert_eq!(store.prune(Limits::bytes(10 * size)).unwrap().entries, 0);

    let pruned = store.prune(Limits::bytes(7 * size + size / 2)).unwrap();
    assert_eq!((pruned.entries, pruned.bytes), (3, 3 * size));
    let pruned = store.prune(Limits { max_entries: Some(2), max_bytes: None }).unwrap();
    assert_eq!((pruned.entries, pruned.bytes), (5, 5 * size));
    assert_eq!(keys(&store), [key(9), key(0)].map(|key| key.as_bytes().to_vec()));
    for n in 1..9 {
        assert_eq!(store.get(key(n).as_bytes()).miss(), Some(Reason::Absent), "{n}");
    }

    // What it was opened with stays as it was.
    put(&store, &fields("d", &[20]));
    assert_eq!(store.len(), Ok(3));
    assert_eq!(store.prune(Limits::bytes(0)).unwrap().entries, 3);
    assert_eq!((store.len(), store.prune(Limits::bytes(0)).unwrap().entries), (Ok(0), 0));
}

/// The last miss is kept until there is another.
pub fn reports_add_up_and_outlive_what_is_cleared(harness: &dyn Harness) {
    let store = store(harness);
    let kept = store.kept().unwrap();
    assert_eq!((*kept.tally.statistics(), kept.last_miss), (Statistics::default(), None));

    let mut counted = Statistics::default();
    counted.hits = 3;
    counted.misses.add(Reason::Busy, 2);
    let miss = |name: &str| Miss {
        key: name.as_bytes().to_vec(),
        reason: Reason::Absent,
        refusal: Some(Reason::NoSpace),
        recipe: Some(fields("d", &[1, 2]).recipe()),
        unix_ms: 12,
    };
    for last_miss in [None, Some(miss("one")), Some(miss("two")), None] {
        store.report(&Report { counted, last_miss }).unwrap();
    }
    put(&store, &fields("d", &[1]));
    store.clear().unwrap();
    let check = |store: &dyn Store, reports: u64| {
        let kept = store.kept().unwrap();
        let statistics = kept.tally.statistics();
        assert_eq!((statistics.hits, statistics.misses.of(Reason::Busy)), (3 * reports, 2 * reports));
        assert_eq!((kept.tally.resets(), kept.last_miss), (0, Some(miss("two"))));
    };
    check(&store, 4);
    if harness.is_persistent() {
        let beside = super::store(harness);
        beside.report(&Report { counted, last_miss: None }).unwrap();
        check(&store, 5);
        drop((store, beside));
        check(&super::store(harness), 5);
    }
}

/// What is whole and what is not, by the same names as `entries` has.
pub fn verifying_tells_of_each_entry(harness: &dyn Harness) {
    if !harness.is_checked() {
        return;
    }
    let store = store(harness);
    for key in [b"a", b"b", b"c"] {
        store.put(key, &Artifact::new(vec![7; 5000])).unwrap();
    }
    harness.damage(b"b", &mut |bytes| *bytes.last_mut().unwrap() ^= 1);
    let verify = || {
        let mut proofs = Vec::new();
        let verified = store.verify_each(&mut |proof| proofs.push((proof.name, proof.size, proof.result)));
        proofs.sort();
        (verified.unwrap(), proofs)
    };
    let expected = |keys: &[(&[u8], Result<(), Reason>)]| {
        let mut proofs: Vec<_> =
            keys.iter().map(|(key, result)| (Key::digest(key), 128 + 5000, *result)).collect();
        proofs.sort();
        proofs
    };
    let damaged = Err(Reason::ChecksumMismatch);
    let all = expected(&[(b"a", Ok(())), (b"b", damaged), (b"c", Ok(()))]);
    assert_eq!(verify(), (Verified { whole: 2, damaged: 1 }, all));
    let left = expected(&[(b"a", Ok(())), (b"c", Ok(()))]);
    assert_eq!(verify(), (Verified { whole: 2, damaged: 0 }, left));
}

/// As it does anything else.
pub fn a_closed_store_tells_nothing(harness: &dyn Harness) {
    let store = store(harness);
    put(&store, &fields("d", &[1]));
    store.flush().unwrap();
    store.close().unwrap();
    let told = store.entries(&mut |_| panic!("it told of an entry"));
    assert_eq!(told, Err(Reason::Closed));
    assert_eq!(store.nearest(&fields("d", &[2]).recipe()), Err(Reason::Closed));
    assert_eq!(store.prune(Limits::bytes(0)), Err(Reason::Closed));
    assert_eq!(store.report(&Report::default()), Err(Reason::Closed));
    assert_eq!(store.kept(), Err(Reason::Closed));
}
