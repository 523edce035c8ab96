//! The launch records that `inspect` shows.

use std::{convert::Infallible, num::NonZeroU32};

use serde_json::{Value, json};
use warmstart::{Artifact, Key, Metadata, launch_record::LaunchRecord};
use warmstart_core::{
    memo::{
        Entry, Evaluate, FieldId, Handle, LaunchError, MemoId, MissCause, Portable, PortableResult, Recorder,
        Reduction, SpecTable, Tracked, World,
    },
    registry::RegistryId,
};

use crate::support::{run, stores};

/// The first of its fields, and the second as a spec.
struct Sum;

impl Reduction for Sum {
    type Spec = u32;
    type Value = u64;
    type Output = u64;
    type Error = Infallible;
}

impl Portable for Sum {
    fn fingerprint(&self) -> Key {
        Key::digest(b"sum")
    }
}

impl<W: World<Field = u64>> Evaluate<W> for Sum {
    fn launch(&self, recorder: &mut Recorder<'_, Self, W>) -> Result<u64, LaunchError<Infallible>> {
        Ok(recorder.field(FieldId(0)).copied().unwrap_or(0) + recorder.spec(1)?)
    }

    fn spec(
        &self,
        field: &u32,
        recorder: &mut Recorder<'_, Self, W>,
    ) -> Result<u64, LaunchError<Infallible>> {
        Ok(recorder.field(FieldId(*field)).copied().unwrap_or(0))
    }
}

fn record() -> LaunchRecord {
    let mut world = Tracked::<u64, ()>::new();
    world.add_field(3);
    world.add_field(4);
    let world = world.with_arguments(&[]);
    let handle = Handle::new(MemoId::unused(), 0, NonZeroU32::MIN);
    let mut specs = SpecTable::default();
    let (entry, ..) = Entry::evaluate(handle, &Sum, &world, MissCause::First, &mut specs).unwrap();
    let result = PortableResult::export("compute_grad", &Sum, Some(&entry), &specs, &world).unwrap();
    let id = RegistryId::home("compute_grad", 3);
    LaunchRecord::new().with_row(id, "compute_grad", 3).unwrap().with_result(result)
}

#[test]
fn the_ids_and_results_of_an_artifact_are_shown() {
    let directory = tempfile::tempdir().unwrap();
    for (store, path) in stores(directory.path()) {
        store.put(b"with", &record().attach(&Artifact::new(vec![1])).unwrap()).unwrap();
        store.put(b"without", &Artifact::new(vec![1])).unwrap();
        store.close().unwrap();
        let name = |key: &[u8]| Key::digest(key).to_string();

        let ran = run(&["inspect", "STORE", &name(b"with")], &path);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let row = |with: &str| {
            let line =
                ran.out.lines().find(|line| line.starts_with(with)).unwrap_or_else(|| panic!("{ran:?}"));
            line.split_whitespace().skip(1).map(String::from).collect::<Vec<_>>()
        };
        assert_eq!(row("0xd5619350"), ["compute_grad", "3"]);
        assert_eq!(row("compute_grad"), ["whole", "1", "2"]);

        let answer = run(&["inspect", "--json", "STORE", &name(b"with")], &path).json();
        let expected = json!({
            "ids": [{ "id": "0xd5619350", "kernel": "compute_grad", "task": 3 }],
            "results": [{ "kernel": "compute_grad", "output": true, "specs": 1, "dependencies": 2 }],
            "refused": null,
        });
        assert_eq!(answer["launch"], expected);
        let without = run(&["inspect", "--json", "STORE", &name(b"without")], &path).json();
        assert_eq!(without["launch"], Value::Null);
    }
}

#[test]
fn refused_record_says_why_and_the_entry_is_shown() {
    let directory = tempfile::tempdir().unwrap();
    for (store, path) in stores(directory.path()) {
        let metadata = Metadata::new().with_attribute(LaunchRecord::ATTRIBUTE, [9]);
        store.put(b"newer", &Artifact::new(vec![1]).with_metadata(&metadata)).unwrap();
        store.close().unwrap();
        let name = Key::digest(b"newer").to_string();
        let ran = run(&["inspect", "STORE", &name], &path);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.out.contains("version 9") && ran.out.contains("whole"), "{ran:?}");
        let answer = run(&["inspect", "--json", "STORE", &name], &path).json();
        assert!(answer["launch"]["refused"].as_str().unwrap().contains("version 9"), "{answer}");
        assert_eq!(answer["is_whole"], true);
    }
}
