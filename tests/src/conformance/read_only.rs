//! Inspecting a store on disk changes nothing.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::SystemTime,
};

use warmstart::{
    Artifact, Cache, KeyFields, Limits, Metadata, MissReason, Recipe, Statistics, Store, store::Entry,
};

use super::{OnDisk, Opening};
use crate::whole::Whole;

fn look(harness: &dyn OnDisk) -> Box<dyn Store> {
    harness.open_as(Opening { is_read_only: true, ..Opening::of(harness) })
}

fn fields(name: &str, flags: &'static str) -> KeyFields<'static> {
    KeyFields::new("example", 1).text("name", name.to_owned()).text("flags", flags)
}

fn put(store: &dyn Store, fields: &KeyFields<'_>) {
    let artifact = Artifact::new(vec![7; 300]).with_metadata(&Metadata::new().with_recipe(fields.recipe()));
    store.put(fields.key().as_bytes(), &artifact).unwrap();
}

fn entries(store: &dyn Store) -> Vec<Entry> {
    let mut entries = Vec::new();
    let visit = &mut |entry| {
        entries.push(entry);
        ControlFlow::Continue(())
    };
    store.inspect().unwrap().entries(visit).unwrap();
    entries
}

fn nearest(store: &dyn Store, recipe: &Recipe) -> Option<Recipe> {
    let entry = store.inspect().unwrap().nearest(recipe).unwrap()?;
    entry.head.unwrap().metadata.recipe().cloned()
}

/// Returns every file below `root` with its bytes and the time of its last change.
fn image(root: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let mut image = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for file in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let metadata = file.metadata().unwrap();
            let bytes = if metadata.is_dir() { Vec::new() } else { fs::read(file.path()).unwrap() };
            image.insert(file.path(), (bytes, metadata.modified().unwrap()));
            if metadata.is_dir() {
                folders.push(file.path());
            }
        }
    }
    image
}

/// Every read and every refused change leaves the files as they were.
pub fn looking_changes_nothing(harness: &dyn OnDisk) {
    let cache = Cache::new(harness.open_default());
    for name in ["a", "b", "c"] {
        let Ok(_) = cache.get_or_build(&fields(name, ""), || Ok::<_, Infallible>(vec![1; 1000]));
    }
    let key = |name| fields(name, "").key();
    drop(cache);
    harness.damage(key("a").as_bytes(), &mut |bytes| *bytes.last_mut().unwrap() ^= 1);

    let before = image(harness.folder());
    let store = look(harness);
    for _ in 0..2 {
        assert_eq!((entries(&*store).len(), store.inspect().unwrap().totals().unwrap().entries), (3, 3));
        assert_eq!(store.whole_and_damaged(), Ok((2, 1)));
        assert_eq!(store.get(key("a").as_bytes()).err(), Some(MissReason::ChecksumMismatch));
        assert!(store.get(key("b").as_bytes()).is_ok());
        assert_eq!(store.get(b"none").err(), Some(MissReason::Absent));
        assert_eq!((store.contains(key("b").as_bytes()), store.contains(b"none")), (Ok(true), Ok(false)));
    }
    assert!(nearest(&*store, &fields("b", "-O2").recipe()).is_some());
    assert_eq!(store.inspect().unwrap().nearest(&KeyFields::new("another", 1).recipe()), Ok(None));
    assert_eq!(store.inspect().unwrap().stats().unwrap().counted.builds, 3);
    assert_eq!(store.put(b"k", &Artifact::new(vec![])), Err(MissReason::ReadOnly));
    assert_eq!((store.clear(), store.remove(b"k")), (Err(MissReason::ReadOnly), Err(MissReason::ReadOnly)));
    assert_eq!(store.remove(key("b").as_bytes()), Err(MissReason::ReadOnly));
    assert_eq!(store.inspect().unwrap().prune(Limits::bytes(0)), Err(MissReason::ReadOnly));
    assert_eq!(store.inspect().unwrap().report(&Statistics::default(), None), Err(MissReason::ReadOnly));
    assert_eq!((store.flush(), store.claims().is_some()), (Ok(()), false));
    let cache = Cache::new(&*store);
    let Ok(built) = cache.get_or_build(b"k", || Ok::<_, Infallible>(vec![1]));
    assert_eq!(built.refusal(), Some(MissReason::ReadOnly));
    drop(cache);
    assert!(before == image(harness.folder()), "while it was looked at");
    store.close().unwrap();
    assert_eq!(store.get(key("b").as_bytes()).err(), Some(MissReason::Closed));
    drop(store);
    assert!(before == image(harness.folder()), "after it was looked at");
}

/// Entries say what is wrong with them; only verifying removes them.
pub fn a_head_that_is_not_whole_is_told_and_left_where_it_is(harness: &dyn OnDisk) {
    type Alter = fn(&mut Vec<u8>);
    let damages: [(&str, MissReason, Alter); 4] = [
        ("cut", MissReason::Truncated, |bytes| bytes.truncate(200)),
        ("almost nothing", MissReason::Truncated, |bytes| *bytes = b"\x89WSA".to_vec()),
        ("zeros", MissReason::Foreign, |bytes| bytes.fill(0)),
        ("another's", MissReason::KeyMismatch, |_| ()),
    ];
    let store = harness.open_default();
    put(&*store, &fields("whole", ""));
    let mut another = Vec::new();
    harness.damage(fields("whole", "").key().as_bytes(), &mut |bytes| another.clone_from(bytes));
    for (name, _, alter) in &damages {
        put(&*store, &fields(name, ""));
        harness.damage(fields(name, "").key().as_bytes(), &mut |bytes| match *name {
            "another's" => bytes.clone_from(&another),
            _ => alter(bytes),
        });
    }
    let told = || entries(&*store).into_iter().map(|entry| entry.head.err()).collect::<Vec<_>>();
    let expected: Vec<_> =
        [None].into_iter().chain(damages.iter().map(|(_, reason, _)| Some(*reason))).collect();
    assert_eq!(told(), expected);
    assert_eq!(told(), expected, "to look is not to remove");
    assert_eq!(nearest(&*store, &fields("zeros", "-O2").recipe()), Some(fields("whole", "").recipe()));

    assert_eq!(store.whole_and_damaged(), Ok((1, 4)));
    assert_eq!(told(), [None], "what was damaged is gone");
}

/// The last miss is kept with its recipe, over a hit, and another handle explains it.
pub fn the_last_miss_is_explained_to_who_only_looks(harness: &dyn OnDisk) {
    let cache = Cache::new(harness.open_default());
    for flags in ["-O2", "-O3"] {
        let Ok(_) = cache.get_or_build(&fields("softmax", flags), || Ok::<_, Infallible>(vec![1]));
    }
    assert!(cache.get(&fields("softmax", "-O2")).is_ok());
    drop(cache);
    let cache = Cache::new(look(harness));
    let miss = cache.store().inspect().unwrap().stats().unwrap().last_miss.unwrap();
    assert_eq!((miss.reason, miss.refusal), (MissReason::Absent, None));
    assert_eq!(miss.key, fields("softmax", "-O3").key().as_bytes());
    let explanation = cache.explain(&miss.recipe.unwrap()).unwrap().unwrap();
    let [change] = &explanation.changes[..] else { panic!("one field differs: {explanation}") };
    assert_eq!(
        (&*change.label, change.old.as_deref(), change.new.as_deref()),
        ("flags", Some("-O2"), Some("-O3"))
    );
}
