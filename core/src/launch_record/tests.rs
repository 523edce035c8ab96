use alloc::{boxed::Box, vec, vec::Vec};
use core::{cell::Cell, convert::Infallible, fmt, num::NonZeroU32};

use super::*;

mod bytes;

use crate::{
    envelope,
    key::{Key, KeyFields},
    memo::{
        AllocationId, ArgumentId, Arguments, Contents, Entry, Evaluate, FieldId, Handle, Imported,
        LaunchError, MemoId, MissCause, Portable, PortableError, Recorder, Reduction, SpecTable, Tracked,
        World,
    },
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
    /// Each spec of a field adds up all of them.
    sums: bool,
}

impl Kernel {
    fn new(fields: &[FieldId], version: u32) -> Self {
        Self { fields: fields.to_vec(), version, evaluated: Cell::new(0), sums: false }
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
        let mut most = |field| {
            let values = recorder.field(field);
            values.and_then(|values| values.iter().copied().max()).unwrap_or(0)
        };
        match self.fields.get(*spec as usize) {
            Some(_) if self.sums => Ok(self.fields.iter().map(|&field| most(field)).sum()),
            Some(&field) => Ok(most(field)),
            None => Ok(recorder.extent(ArgumentId(0), 0).unwrap_or(0)),
        }
    }
}

/// A process: its world, and what it keeps of a kernel.
struct Process {
    world: Tracked<Vec<u64>, u8>,
    fields: Vec<FieldId>,
    array: [AllocationId; 1],
    kept: KernelMemo<Kernel>,
}

/// What a memo keeps of a kernel.
struct KernelMemo<K: Reduction> {
    kernel: K,
    handle: Handle,
    entry: Option<Entry<K>>,
    specs: SpecTable<K>,
}

impl<K: Portable<Output: Clone>> KernelMemo<K> {
    fn new(kernel: K) -> Self {
        let handle = Handle::new(MemoId::unused(), 0, NonZeroU32::MIN);
        Self { kernel, handle, entry: None, specs: SpecTable::default() }
    }

    /// The result, and whether it was there.
    fn launch<W: World>(&mut self, world: &W) -> (K::Output, bool)
    where
        K: Evaluate<W, Error: fmt::Debug>,
    {
        if let Some(entry) = self.entry.as_ref().filter(|entry| entry.holds(self.handle, world)) {
            return (entry.output().clone(), true);
        }
        let evaluated = Entry::evaluate(self.handle, &self.kernel, world, MissCause::First, &mut self.specs);
        let (entry, not_cached, _) = evaluated.unwrap();
        assert_eq!(not_cached, None);
        (self.entry.insert(entry).output().clone(), false)
    }

    fn export<W: Contents>(&self, world: &W) -> Result<PortableResult, PortableError> {
        PortableResult::export("kernel", &self.kernel, self.entry.as_ref(), &self.specs, world)
    }

    fn import<W: Contents>(&mut self, result: &PortableResult, world: &W) -> Result<Imported, PortableError> {
        let (entry, imported) = result.import(self.handle, &self.kernel, &mut self.specs, world)?;
        self.entry = entry;
        Ok(imported)
    }
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
        let array = [world.allocate(&[rows], 7)];
        let kept = KernelMemo::new(Kernel::new(&fields, 1));
        Self { world, fields, array, kept }
    }

    fn world(&self) -> Arguments<'_, Vec<u64>, u8> {
        self.world.with_arguments(&self.array)
    }

    fn launch(&mut self) -> (Vec<u64>, bool) {
        self.kept.launch(&self.world.with_arguments(&self.array))
    }

    fn export(&self) -> Result<PortableResult, PortableError> {
        self.kept.export(&self.world())
    }

    fn import(&mut self, result: &PortableResult) -> Result<Imported, PortableError> {
        self.kept.import(result, &self.world.with_arguments(&self.array))
    }
}

fn compiled() -> PortableResult {
    let mut process = Process::start(3, &[&[1, 9], &[4]], 5);
    assert_eq!(process.launch(), (vec![9, 4, 5], false));
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
fn record_round_trips_and_equal_records_have_equal_bytes() {
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
fn a_part_that_names_no_content_is_refused() {
    let mut result = compiled();
    let beyond = result.contents.len() as u32;
    result.output.as_mut().unwrap().from.push(beyond);
    let bytes = LaunchRecord::new().with_result(result).encode().unwrap();
    assert_eq!(LaunchRecord::decode(&bytes), Err(RecordError::Malformed));
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
    let stored = envelope::encode(b"key", &artifact, None).unwrap().to_vec();
    let loaded = envelope::decode(stored, b"key", None).unwrap();
    assert_eq!(LaunchRecord::of(&loaded), Ok(Some(record())));
    assert_eq!(loaded.metadata().unwrap().attribute("entry_point"), Some(&b"f"[..]));
    assert_eq!(loaded.payload(), [1, 2, 3]);
}

/// The defect: both processes gave the first id, because neither knew of the other's kernel.
#[test]
fn colliding_kernels_of_two_processes_resolve_in_any_order() {
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
        records[order[0]].adopt_into(&mut registry).unwrap();
        assert_eq!(registry.resolve(id).one().unwrap().kernel(), COLLIDING[order[0]]);
        records[order[1]].adopt_into(&mut registry).unwrap();
        // The id alone names both, and never one of them by chance.
        assert!(registry.resolve(id).one().is_none());
        for kernel in COLLIDING {
            let found = registry.resolve(id).among(|row| row.kernel() == kernel);
            assert_eq!(found.one().unwrap().kernel(), kernel);
        }
        // Steady state.
        records[order[0]].adopt_into(&mut registry).unwrap();
        assert_eq!(registry.len(), 2);
    }
}

#[test]
fn another_process_with_the_same_contents_evaluates_nothing() {
    let result = compiled();
    let mut process = Process::start(0, &[&[1, 9], &[4]], 5);
    let imported = process.import(&result).unwrap();
    assert_eq!((imported.output, imported.specs, imported.moved), (true, 3, 0));
    assert_eq!(process.launch(), (vec![9, 4, 5], true));
}

#[test]
fn result_from_other_contents_is_not_imported() {
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
        let mut process = Process::start(3, contents, rows);
        let imported = process.import(&result).unwrap();
        assert_eq!((imported.output, imported.specs, imported.moved), (false, kept, 4 - kept));
        assert_eq!(process.launch(), (answer.to_vec(), false));
    }
}

#[test]
fn imported_result_is_invalidated_by_a_write() {
    let mut process = Process::start(0, &[&[1, 9], &[4]], 5);
    process.import(&compiled()).unwrap();
    process.world.field_mut(process.fields[1]).unwrap().push(70);
    assert_eq!(process.launch(), (vec![9, 70, 5], false));
    process.array = [process.world.allocate(&[8], 7)];
    assert_eq!(process.launch(), (vec![9, 70, 8], false));
}

#[test]
fn a_result_of_another_version_of_the_reduction_is_refused() {
    let mut process = Process::start(0, &[&[1, 9], &[4]], 5);
    process.kept = KernelMemo::new(Kernel::new(&process.fields, 2));
    assert_eq!(process.import(&compiled()), Err(PortableError::OtherFingerprint));
    assert_eq!(process.launch(), (vec![9, 4, 5], false));
}

#[test]
fn specs_that_are_kept_already_stay() {
    let mut process = Process::start(0, &[&[1, 9], &[4]], 5);
    process.launch();
    assert_eq!(process.import(&compiled()).unwrap().specs, 0);
}

#[test]
fn a_spec_that_reads_backwards_is_written_in_order() {
    let mut process = Process::start(0, &[&[1, 9], &[4]], 5);
    process.fields.reverse();
    process.kept = KernelMemo::new(Kernel::new(&process.fields, 1));
    process.kept.kernel.sums = true;
    assert_eq!(process.launch(), (vec![13, 13, 5], false));
    let record = LaunchRecord::new().with_result(process.export().unwrap());
    assert_eq!(LaunchRecord::decode(&record.encode().unwrap()), Ok(record));
}

#[test]
fn bytes_that_are_left_over_are_of_another_type() {
    let result = compiled();
    let refused = |change: &dyn Fn(&mut PortableResult)| {
        let mut result = result.clone();
        change(&mut result);
        let mut process = Process::start(0, &[&[1, 9], &[4]], 5);
        let imported = process.import(&result);
        assert_eq!(process.launch().0, [9, 4, 5]);
        imported.map_err(|error| error == PortableError::Malformed)
    };
    assert!(refused(&|_| {}).is_ok_and(|imported| (imported.output, imported.specs) == (true, 3)));
    assert_eq!(refused(&|result| result.output.as_mut().unwrap().bytes.push(0)), Err(true));
    assert_eq!(refused(&|result| result.specs[0].0.push(0)), Err(true));
    assert_eq!(refused(&|result| result.specs[0].1.bytes.push(0)), Err(true));
}

#[test]
fn only_what_holds_is_exported() {
    let mut process = Process::start(0, &[&[1, 9], &[4]], 5);
    assert_eq!(process.export(), Err(PortableError::NotCached));
    process.launch();
    process.world.field_mut(process.fields[0]).unwrap().push(100);
    let result = process.export().unwrap();
    assert_eq!((result.has_output(), result.specs(), result.dependencies()), (false, 2, 2));
    let mut other = Process::start(0, &[&[1, 9], &[4]], 5);
    assert_eq!(other.import(&result).unwrap().specs, 2);
    assert_eq!(other.launch(), (vec![9, 4, 5], false));
}

#[test]
fn no_flipped_bit_of_a_result_makes_anything_panic() {
    // Which answers are then right is for the checksum of the envelope: a record has none of its own.
    let bytes = LaunchRecord::new().with_result(compiled()).encode().unwrap();
    for at in (0..bytes.len() * 8).step_by(STEP) {
        let mut flipped = bytes.clone();
        flipped[at / 8] ^= 1 << (at % 8);
        let Ok(record) = LaunchRecord::decode(&flipped) else { continue };
        let mut process = Process::start(0, &[&[1, 9], &[4]], 5);
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
    let mut result = compiled();
    let part = result.output.clone().unwrap();
    result.specs = (0..=MAX_ITEMS).map(|spec| (spec.to_le_bytes().to_vec(), part.clone())).collect();
    assert_eq!(LaunchRecord::new().with_result(result.clone()).encode(), Err(RecordError::TooMany));
    result.specs.pop();
    assert!(LaunchRecord::new().with_result(result).encode().is_ok());
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
    let mut kept = KernelMemo::new(Constant);
    assert_eq!(kept.launch(&world.with_arguments(&[])), (42, false));
    let result = kept.export(&world.with_arguments(&[])).unwrap();
    let (world, mut kept) = (Tracked::<u8, u8>::new(), KernelMemo::new(Constant));
    assert!(kept.import(&result, &world.with_arguments(&[])).unwrap().output);
    assert_eq!(kept.launch(&world.with_arguments(&[])), (42, true));
}
