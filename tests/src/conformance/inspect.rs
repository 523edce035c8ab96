//! Listing, totals and statistics of a store, and the reports that it persists.

use std::ops::ControlFlow;

use warmstart::{Artifact, KeyFields, Metadata, MissReason, Recipe, Statistics, Store, store::Entry};
use warmstart_core::miss::Miss;

use super::{Harness, store};
use crate::whole::Whole;

fn fields(domain: &'static str, values: &[u64]) -> KeyFields<'static> {
    let key = KeyFields::new(domain, 1);
    (0..).zip(values).fold(key, |key, (at, value)| key.number(format!("field {at}"), *value))
}

fn put(store: &dyn Store, fields: &KeyFields<'_>) {
    let metadata = Metadata::new().with_recipe(fields.recipe());
    store.put(fields.key().as_bytes(), &Artifact::new(vec![7; 100]).with_metadata(&metadata)).unwrap();
}

fn nearest(store: &dyn Store, recipe: &Recipe) -> Option<Recipe> {
    let entry = store.inspect().unwrap().nearest(recipe).unwrap()?;
    entry.head.unwrap().metadata.recipe().cloned()
}

/// It holds no lock, and is not asked for more than it wants.
pub fn a_visitor_of_entries_may_call_the_store(harness: &dyn Harness) {
    let store = store(harness);
    for n in 0..10 {
        put(&store, &fields("d", &[n]));
    }
    let mut seen = 0;
    let visit = &mut |entry: Entry| {
        seen += 1;
        let key = entry.head.unwrap().key;
        assert!(store.get(&key).is_ok());
        store.put(b"another", &Artifact::new(vec![seen])).unwrap();
        assert_eq!(store.remove(&key), Ok(true));
        if seen == 4 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    store.inspect().unwrap().entries(visit).unwrap();
    assert_eq!((seen, store.whole()), (4, Ok(7)));
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
        let least = others.map(|other| wanted.rank_of(&other)).filter(|rank| rank.0 > 0).min();
        let found = nearest(&store, &wanted).unwrap();
        assert_eq!(found.domain(), wanted.domain());
        assert_eq!(Some(wanted.rank_of(&found)), least, "{wanted:?}: {found:?}");
    }
    assert_eq!(nearest(&store, &fields("another", &[1, 2, 3]).recipe()), None);
}

/// The last miss is kept until there is another.
pub fn reports_add_up_and_outlive_what_is_cleared(harness: &dyn Harness) {
    let store = store(harness);
    let kept = store.inspect().unwrap().stats().unwrap();
    assert_eq!((kept.counted, kept.last_miss), (Statistics::default(), None));

    let mut counted = Statistics::default();
    counted.hits = 3;
    counted.misses.add(MissReason::Busy, 2);
    let miss = |name: &str| Miss {
        key: name.as_bytes().to_vec(),
        reason: MissReason::Absent,
        refusal: Some(MissReason::NoSpace),
        recipe: Some(fields("d", &[1, 2]).recipe()),
        unix_ms: 12,
    };
    for last_miss in [None, Some(miss("one")), Some(miss("two")), None] {
        store.inspect().unwrap().report(&counted, last_miss.as_ref()).unwrap();
    }
    put(&store, &fields("d", &[1]));
    store.clear().unwrap();
    let check = |store: &dyn Store, reports: u64| {
        let kept = store.inspect().unwrap().stats().unwrap();
        let statistics = kept.counted;
        assert_eq!((statistics.hits, statistics.misses.of(MissReason::Busy)), (3 * reports, 2 * reports));
        assert_eq!((kept.resets, kept.last_miss), (0, Some(miss("two"))));
    };
    check(&store, 4);
    if harness.is_persistent() {
        let beside = super::store(harness);
        beside.inspect().unwrap().report(&counted, None).unwrap();
        check(&store, 5);
        drop((store, beside));
        check(&super::store(harness), 5);
    }
}
