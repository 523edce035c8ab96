use alloc::{boxed::Box, vec, vec::Vec};
use core::{cell::Cell, convert::Infallible};

use super::*;

mod bytes;

use crate::{
    envelope,
    key::{Key, KeyFields},
    memo::{
        ArgumentId, Evaluate, FieldId, Imported, LaunchError, LaunchMemo, Portable, PortableError, Recorder,
        Reduction, Tracked, Unkept, Why, World,
    },
    wire::put,
};

/// Every so many bits are flipped.
const STEP: usize = if cfg!(miri) { 101 } else { 1 };

/// Two names whose ids are equal.
const COLLIDING: [&str; 2] = ["k10823927", "k21347034"];

/// One spec for each field, and one that uses only a shape.
struct Kernel {
    fields: Vec<FieldId>,
    version: u32,
    evaluated: Cell<u32>,
}

impl Kernel {
    fn new(fields: &[FieldId], version: u32) -> Self {
        Self { fields: fields.to_vec(), version, evaluated: Cell::new(0) }
    }
}

impl Reduction for Kernel {
    type Spec = u32;
    type Value = u64;
    type Output = Vec<u64>;
    type Error = Infallible;
}

impl Portable for Kernel {
    fn fingerprint(&self) -> Key {
        KeyFields::new("test kernel", 1).number("version", self.version.into()).key()
    }
}

impl<W: World<Field = Vec<u64>>> Evaluate<W> for Kernel {
    fn launch(&self, recorder: &mut Recorder<'_, Self, W>) -> Result<Vec<u64>, LaunchError<Infallible>> {
        (0..=self.fields.len() as u32).map(|spec| recorder.spec(spec)).collect()
    }

    fn spec(&self, spec: &u32, recorder: &mut Recorder<'_, Self, W>) -> Result<u64, LaunchError<Infallible>> {
        self.evaluated.set(self.evaluated.get() + 1);
        match self.fields.get(*spec as usize) {
            Some(&field) => {
                Ok(recorder.field(field).and_then(|values| values.iter().copied().max()).unwrap_or(0))
            }
            None => Ok(recorder.extent(ArgumentId(0), 0).unwrap_or(0)),
        }
    }
}

/// A process: its world, its memo, and the kernel in it.
struct Process {
    world: Tracked<Vec<u64>, u8>,
    fields: Vec<FieldId>,
    array: crate::memo::AllocationId,
    memo: LaunchMemo<Kernel>,
    handle: crate::memo::Handle,
}

impl Process {
    /// `writes` were made before: the generations are not those of another process.
    fn start(writes: u32, contents: &[&[u64]], rows: u64) -> Self {
        let mut world = Tracked::new();
        let fields: Vec<_> = contents.iter().map(|values| world.add_field(values.to_vec())).collect();
        for _ in 0..writes {
            fields.iter().for_each(|&field| assert!(world.field_mut(field).is_some()));
            let array = world.allocate(&[1], 0);
            world.free(array);
        }
        let array = world.allocate(&[rows], 7);
        let memo = LaunchMemo::new();
        let handle = memo.register(Kernel::new(&fields, 1));
        Self { world, fields, array, memo, handle }
    }

    fn launch(&self) -> crate::memo::Launched<Kernel> {
        self.memo.launch(self.handle, &self.world.with_arguments(&[self.array])).unwrap()
    }

    fn export(&self) -> Result<PortableResult, PortableError> {
        self.memo.export(self.handle, "kernel", &self.world.with_arguments(&[self.array]))
    }

    fn import(&self, result: &PortableResult) -> Result<Imported, PortableError> {
        self.memo.import(self.handle, result, &self.world.with_arguments(&[self.array]))
    }
}

fn compiled() -> PortableResult {
    let process = Process::start(3, &[&[1, 9], &[4]], 5);
    assert_eq!(*process.launch(), [9, 4, 5]);
    process.export().unwrap()
}

fn record() -> LaunchRecord {
    let id = |kernel| RegistryId::home(kernel, 0);
    LaunchRecord::new()
        .with_row(id("b"), "b", 0)
        .and_then(|record| record.with_row(id("a"), "a", 0))
        .unwrap()
        .with_result(compiled())
}

#[test]
fn what_is_encoded_is_decoded_and_equal_records_are_equal_bytes() {
    let record = record();
    let bytes = record.encode().unwrap();
    assert_eq!(LaunchRecord::decode(&bytes), Ok(record.clone()));
    assert_eq!(self::record().encode().unwrap(), bytes);
    let again = record.clone().with_row(RegistryId::home("a", 0), "a", 0).unwrap().with_result(compiled());
    assert_eq!(again, record, "what is there is not added again");
}

#[test]
fn every_prefix_every_suffix_and_every_other_version_is_refused() {
    let bytes = record().encode().unwrap();
    for end in (0..bytes.len()).step_by(if cfg!(miri) { 7 } else { 1 }) {
        assert_eq!(LaunchRecord::decode(&bytes[..end]), Err(RecordError::Malformed), "prefix of {end}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert_eq!(LaunchRecord::decode(&longer), Err(RecordError::Malformed));
    for version in [0, 2, 100] {
        let mut other = bytes.clone();
        other[0] = version;
        assert_eq!(LaunchRecord::decode(&other), Err(RecordError::OtherVersion(version.into())));
    }
}

#[test]
fn no_flipped_bit_is_taken_for_another_kernel() {
    let bytes = record().encode().unwrap();
    let rows = record().rows().to_vec();
    for at in (0..bytes.len() * 8).step_by(STEP) {
        let mut flipped = bytes.clone();
        flipped[at / 8] ^= 1 << (at % 8);
        if let Ok(record) = LaunchRecord::decode(&flipped) {
            assert!(record.rows().iter().all(|row| row.id().check(row.kernel(), row.task()).is_ok()));
            // An id a few steps from home is one that probing gives; it never belongs to another name.
            assert!(
                record.rows().iter().zip(&rows).all(|(one, other)| one.kernel() == other.kernel()),
                "bit {at}"
            );
        }
    }
}

fn rows(rows: &[(u32, &str, i32)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes, &1u32);
    put(&mut bytes, &(rows.len() as u64));
    rows.iter().for_each(|row| put(&mut bytes, row));
    put(&mut bytes, &0u64);
    bytes
}

#[test]
fn rows_that_contradict_themselves_are_refused() {
    let (a, b) = (RegistryId::home("a", 0).as_u32(), RegistryId::home("b", 0).as_u32());
    let (low, high) = if a < b { ((a, "a", 0), (b, "b", 0)) } else { ((b, "b", 0), (a, "a", 0)) };
    assert!(LaunchRecord::decode(&rows(&[low, high])).is_ok());
    assert_eq!(LaunchRecord::decode(&rows(&[low, low])), Err(RecordError::Disorder), "twice");
    assert_eq!(LaunchRecord::decode(&rows(&[high, low])), Err(RecordError::Disorder));
    assert_eq!(LaunchRecord::decode(&rows(&[(0, "a", 0)])), Err(RecordError::Malformed), "0 is no id");
    let id = RegistryId::home("", 0).as_u32();
    assert_eq!(
        LaunchRecord::decode(&rows(&[(id, "", 0)])),
        Err(RecordError::Row(RegistryError::EmptyKernel))
    );
    assert!(matches!(
        LaunchRecord::decode(&rows(&[(a, "b", 0)])),
        Err(RecordError::Row(RegistryError::IdOfAnotherName { .. }))
    ));
    assert!(matches!(
        LaunchRecord::decode(&rows(&[(a, "a", 1)])),
        Err(RecordError::Row(RegistryError::IdOfAnotherName { .. }))
    ));
}

#[test]
fn a_count_that_lies_takes_no_memory() {
    for count in [MAX_ITEMS, MAX_ITEMS + 1, u64::MAX] {
        let mut bytes = vec![1];
        put(&mut bytes, &count);
        assert_eq!(LaunchRecord::decode(&bytes), Err(RecordError::Malformed));
    }
}

#[test]
fn it_travels_inside_the_artifact_and_other_attributes_stay() {
    let metadata = Metadata::new().with_attribute("entry_point", b"f");
    let artifact = Artifact::new(vec![1, 2, 3]).with_metadata(&metadata);
    assert_eq!(LaunchRecord::of(&artifact), Ok(None));
    let artifact = record().attach(&artifact).unwrap();
    let stored = envelope::encode(b"key", &artifact).unwrap().to_vec();
    let loaded = envelope::decode(stored, b"key").unwrap();
    assert_eq!(LaunchRecord::of(&loaded), Ok(Some(record())));
    assert_eq!(loaded.metadata().unwrap().attribute("entry_point"), Some(&b"f"[..]));
    assert_eq!(loaded.payload(), [1, 2, 3]);
}

/// The defect: both processes gave the first id, because neither knew of the other's kernel.
#[test]
fn artifacts_of_two_processes_with_colliding_kernels_resolve_right_in_any_order() {
    let artifacts = COLLIDING.map(|kernel| {
        let id = Registry::new().register(kernel, 0, ()).unwrap();
        let record = LaunchRecord::new().with_row(id, kernel, 0).unwrap();
        record.attach(&Artifact::new(kernel.as_bytes().to_vec())).unwrap()
    });
    let records: Vec<_> =
        artifacts.iter().map(|artifact| LaunchRecord::of(artifact).unwrap().unwrap()).collect();
    let id = records[0].rows()[0].id();
    assert_eq!(id, records[1].rows()[0].id(), "forced");
    for order in [[0, 1], [1, 0]] {
        let mut registry = Registry::new();
        assert_eq!(records[order[0]].adopt_into(&mut registry).unwrap(), Vec::<&Registered>::new());
        assert_eq!(registry.resolve(id).one().unwrap().kernel(), COLLIDING[order[0]]);
        assert_eq!(records[order[1]].adopt_into(&mut registry).unwrap(), [&records[order[1]].rows()[0]]);
        // The id alone names both, and never one of them by chance.
        assert!(registry.resolve(id).one().is_none());
        for kernel in COLLIDING {
            let found = registry.resolve_among(id, |row| row.kernel() == kernel);
            assert_eq!(found.one().unwrap().kernel(), kernel);
        }
        // Steady state.
        assert_eq!(records[order[0]].adopt_into(&mut registry).unwrap().len(), 1);
        assert_eq!(registry.len(), 2);
    }
}

#[test]
fn another_process_with_the_same_contents_evaluates_nothing() {
    let result = compiled();
    let process = Process::start(0, &[&[1, 9], &[4]], 5);
    let imported = process.import(&result).unwrap();
    assert_eq!((imported.output, imported.specs, imported.moved), (true, 3, 0));
    let launched = process.launch();
    assert!(launched.is_hit());
    assert_eq!((&launched[..], launched.why()), (&[9, 4, 5][..], Why::Imported));
}

#[test]
fn what_was_computed_from_other_contents_is_not_taken_over() {
    let result = compiled();
    /// Fields, the length of the array, the answer, and how many specs are taken over.
    type Case<'a> = (&'a [&'a [u64]], u64, &'a [u64], usize);
    let cases: [Case<'_>; 4] = [
        (&[&[1, 9], &[3]], 5, &[9, 3, 5], 2),
        (&[&[1, 2, 9], &[4]], 5, &[9, 4, 5], 2),
        (&[&[1, 9], &[4]], 6, &[9, 4, 6], 2),
        (&[], 6, &[6], 0),
    ];
    for (contents, rows, answer, kept) in cases {
        let process = Process::start(3, contents, rows);
        let imported = process.import(&result).unwrap();
        assert_eq!((imported.output, imported.specs, imported.moved), (false, kept, 4 - kept));
        let launched = process.launch();
        assert!(!launched.is_hit());
        assert_eq!(*launched, *answer);
    }
}

#[test]
fn what_was_taken_over_moves_like_everything_else() {
    let mut process = Process::start(0, &[&[1, 9], &[4]], 5);
    process.import(&compiled()).unwrap();
    process.world.field_mut(process.fields[1]).unwrap().push(70);
    assert_eq!(*process.launch(), [9, 70, 5]);
    let array = process.world.allocate(&[8], 7);
    process.array = array;
    assert_eq!(*process.launch(), [9, 70, 8]);
}

#[test]
fn a_result_of_another_version_of_the_reduction_is_refused() {
    let process = Process::start(0, &[&[1, 9], &[4]], 5);
    let other = process.memo.register(Kernel::new(&process.fields, 2));
    let arguments = [process.array];
    let world = process.world.with_arguments(&arguments);
    assert_eq!(process.memo.import(other, &compiled(), &world), Err(PortableError::OtherFingerprint));
    assert!(!process.memo.launch(other, &world).unwrap().is_hit());
}

#[test]
fn what_is_kept_already_stays() {
    let process = Process::start(0, &[&[1, 9], &[4]], 5);
    let before = process.launch();
    let imported = process.import(&compiled()).unwrap();
    assert_eq!((imported.output, imported.specs), (false, 0));
    assert!(core::ptr::eq(&*process.launch(), &*before));
}

#[test]
fn only_what_holds_is_exported() {
    let mut process = Process::start(0, &[&[1, 9], &[4]], 5);
    assert_eq!(process.export(), Err(PortableError::NotKept));
    process.launch();
    process.world.field_mut(process.fields[0]).unwrap().push(100);
    let result = process.export().unwrap();
    assert_eq!((result.has_output(), result.specs(), result.dependencies()), (false, 2, 2));
    let other = Process::start(0, &[&[1, 9], &[4]], 5);
    assert_eq!(other.import(&result).unwrap().specs, 2);
    assert_eq!(*other.launch(), [9, 4, 5]);
}

#[test]
fn no_flipped_bit_of_a_result_makes_anything_panic() {
    // Which answers are then right is for the checksum of the envelope: a record has none of its own.
    let bytes = LaunchRecord::new().with_result(compiled()).encode().unwrap();
    for at in (0..bytes.len() * 8).step_by(STEP) {
        let mut flipped = bytes.clone();
        flipped[at / 8] ^= 1 << (at % 8);
        let Ok(record) = LaunchRecord::decode(&flipped) else { continue };
        let process = Process::start(0, &[&[1, 9], &[4]], 5);
        for result in record.results() {
            let _ = process.import(result);
        }
        let _ = process.launch();
    }
}

#[test]
fn a_record_with_too_many_items_is_refused_where_it_is_written() {
    if cfg!(miri) {
        return;
    }
    let mut record = LaunchRecord::new();
    for task in 0..=i32::try_from(MAX_ITEMS).unwrap() {
        record.rows.push(Registered::new(RegistryId::home("k", task), "k", task).unwrap());
    }
    record.rows.sort_by(|one, other| order(one).cmp(&order(other)));
    assert_eq!(record.encode(), Err(RecordError::TooMany));
    record.rows.pop();
    assert_eq!(
        LaunchRecord::decode(&record.encode().unwrap()).map(|record| record.rows.len()),
        Ok(MAX_ITEMS as usize)
    );
}

#[test]
fn a_constant_travels_too() {
    struct Constant;
    impl Reduction for Constant {
        type Spec = ();
        type Value = ();
        type Output = u64;
        type Error = Box<str>;
    }
    impl Portable for Constant {
        fn fingerprint(&self) -> Key {
            Key::digest(b"constant")
        }
    }
    impl<W: World> Evaluate<W> for Constant {
        fn launch(&self, recorder: &mut Recorder<'_, Self, W>) -> Result<u64, LaunchError<Box<str>>> {
            recorder.constant();
            Ok(42)
        }
        fn spec(&self, (): &(), _: &mut Recorder<'_, Self, W>) -> Result<(), LaunchError<Box<str>>> {
            Ok(())
        }
    }
    let world = Tracked::<u8, u8>::new();
    let memo = LaunchMemo::new();
    let handle = memo.register(Constant);
    assert_eq!(memo.launch(handle, &world.with_arguments(&[])).unwrap().unkept(), None::<Unkept>);
    let result = memo.export(handle, "constant", &world.with_arguments(&[])).unwrap();
    let (world, memo) = (Tracked::<u8, u8>::new(), LaunchMemo::new());
    let handle = memo.register(Constant);
    assert!(memo.import(handle, &result, &world.with_arguments(&[])).unwrap().output);
    assert!(memo.launch(handle, &world.with_arguments(&[])).unwrap().is_hit());
}
