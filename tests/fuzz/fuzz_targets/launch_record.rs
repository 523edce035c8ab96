//! Decodes arbitrary bytes as a launch record, which is refused, or can be encoded, adopted and imported.
#![no_main]

use std::convert::Infallible;

use libfuzzer_sys::fuzz_target;
use warmstart::memo::SharedMemo;
use warmstart_core::{
    key::Key,
    launch_record::LaunchRecord,
    memo::{ArgumentId, Evaluate, FieldId, LaunchError, Portable, Recorder, Reduction, Tracked, World},
    registry::Registry,
};

/// Its specs are the fields.
struct Kernel(Key);

impl Reduction for Kernel {
    type Spec = u32;
    type Value = u64;
    type Output = Vec<u64>;
    type Error = Infallible;
}

impl Portable for Kernel {
    fn fingerprint(&self) -> Key {
        self.0
    }
}

impl<W: World<Field = u64>> Evaluate<W> for Kernel {
    fn launch(&self, recorder: &mut Recorder<'_, Self, W>) -> Result<Vec<u64>, LaunchError<Infallible>> {
        let rows = recorder.extent(ArgumentId(0), 0).unwrap_or(0);
        Ok(vec![recorder.spec(0)?, recorder.spec(1)?, rows])
    }

    fn spec(&self, spec: &u32, recorder: &mut Recorder<'_, Self, W>) -> Result<u64, LaunchError<Infallible>> {
        Ok(recorder.field(FieldId(*spec)).copied().unwrap_or(0))
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(record) = LaunchRecord::decode(bytes) else { return };
    let written = record.encode().expect("what was read has no more items than may be written");
    assert_eq!(LaunchRecord::decode(&written).as_ref(), Ok(&record));

    let mut registry = Registry::new();
    record.adopt_into(&mut registry).expect("a row that was read can be adopted");
    for row in record.rows() {
        assert!(registry.verify(row.id(), row.kernel(), row.task()).is_some());
        let found = registry
            .resolve(row.id())
            .among(|other| (other.kernel(), other.task()) == (row.kernel(), row.task()));
        assert!(found.one().is_some());
    }

    let mut world = Tracked::<u64, u64>::new();
    let field = world.add_field(5);
    world.add_field(6);
    let arguments = [world.allocate(&[3], 7)];
    let memo = SharedMemo::new();
    for result in record.results() {
        let handle = memo.register(Kernel(result.fingerprint()));
        let imported = memo.import(handle, result, &world.with_arguments(&arguments));
        let launched = memo.launch(handle, &world.with_arguments(&arguments)).expect("it does not fail");
        assert_eq!(launched.is_hit(), imported.is_ok_and(|imported| imported.output));
    }
    // Of what was forged, nothing outlives a write to what it says that it was computed from.
    if let Some(value) = world.field_mut(field) {
        *value = 50;
    }
    for result in record.results() {
        let handle = memo.register(Kernel(result.fingerprint()));
        let world = world.with_arguments(&arguments);
        let fresh = memo.launch(handle, &world).expect("it does not fail");
        assert_eq!(*fresh, [50, 6, 3]);
        let result = memo.export(handle, "kernel", &world).expect("it is kept");
        let other = memo.register(Kernel(result.fingerprint()));
        assert!(
            memo.import(other, &result, &world).is_ok_and(|imported| imported.output && imported.specs == 2)
        );
        assert_eq!(*memo.launch(other, &world).expect("it does not fail"), *fresh);
    }
});
