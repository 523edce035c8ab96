//! What another process takes over is what it would have computed, whatever happens while it is written down.

use serde::{Deserialize, Serialize};

use super::*;
use crate::Key;

/// A field, and how often it is taken. The second is not written down.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Scaled {
    field: u32,
    #[serde(skip)]
    factor: i64,
}

/// Field 0 as often as field 1 says, and the array. Fails if the array is negative.
struct Product;

impl Reduction for Product {
    type Spec = Scaled;
    type Value = i64;
    type Output = i64;
    type Error = Failure;
}

impl Portable for Product {
    fn fingerprint(&self) -> Key {
        Key::digest(b"product")
    }
}

impl Evaluate<Restless> for Product {
    fn launch(&self, recorder: &mut Recorder<'_, Self, Restless>) -> Result<i64, LaunchError<Failure>> {
        let factor = recorder.field(FieldId(1)).map_or(1, Cell::get);
        let array = recorder.array(ArgumentId(0)).map_or(0, Cell::get);
        let product = recorder.spec(Scaled { field: 0, factor })?;
        if array < 0 { Err(Failure.into()) } else { Ok(product) }
    }

    fn spec(
        &self,
        spec: &Scaled,
        recorder: &mut Recorder<'_, Self, Restless>,
    ) -> Result<i64, LaunchError<Failure>> {
        let field = recorder.field(FieldId(spec.field)).map_or(0, Cell::get);
        Ok(field * spec.factor + recorder.array(ArgumentId(0)).map_or(0, Cell::get))
    }
}

impl Contents for Restless {
    fn field_digest(&self, field: FieldId) -> Option<Key> {
        self.ask(Question::Digest);
        Some(Key::digest(&self.fields.get(field.0 as usize)?.1.get().to_le_bytes()))
    }

    fn array_digest(&self, _: ArgumentId) -> Option<Key> {
        self.ask(Question::Digest);
        Some(Key::digest(&self.arrays.get(self.bound.get())?.1.get().to_le_bytes()))
    }
}

fn process() -> (Rc<SharedMemo<Product>>, Handle) {
    let memo = SharedMemo::new();
    let handle = memo.register(Product);
    (Rc::new(memo), handle)
}

/// What is computed in a process of its own, with these fields and this array.
fn exported(fields: &[i64], array: i64) -> PortableResult {
    let world = Restless::new(fields, &[array]);
    let (memo, handle) = process();
    memo.launch(handle, &*world).unwrap();
    memo.export(handle, "product", &*world).unwrap()
}

#[test]
fn spec_that_does_not_round_trip_is_not_exported() {
    let result = exported(&[3, 7], 0);
    let world = Restless::new(&[3, 0], &[0]);
    let (memo, handle) = process();
    assert_eq!(memo.import(handle, &result, &*world).unwrap().specs, 0);
    assert_eq!(*memo.launch(handle, &*world).unwrap(), 0);
    // One that does is taken along.
    assert_eq!((result.specs(), exported(&[3, 0], 0).specs()), (0, 1));
}

#[test]
fn result_invalidated_during_its_export_is_not_exported() {
    let world = Restless::new(&[3, 0], &[5]);
    let (memo, handle) = process();
    memo.launch(handle, &*world).unwrap();
    let (changed, of) = (Rc::clone(&world), Rc::clone(&memo));
    world.once(Question::Digest, move || {
        // Changed without being counted, as an invalidation says.
        changed.arrays[0].1.set(50);
        of.invalidate(handle).unwrap();
    });
    assert_eq!(memo.export(handle, "product", &*world), Err(PortableError::NotCached));
    world.hook.take();
    assert_eq!(*memo.launch(handle, &*world).unwrap(), 50);
    assert!(memo.export(handle, "product", &*world).is_ok());
}

#[test]
fn a_field_written_while_its_digest_is_asked_for_stays_at_home() {
    let world = Restless::new(&[3, 0], &[5]);
    let (memo, handle) = process();
    memo.launch(handle, &*world).unwrap();
    let written = Rc::clone(&world);
    // The first digest is that of field 0, from which the result and its spec were computed.
    world.once(Question::Digest, move || written.write(0, 30));
    assert_eq!(memo.export(handle, "product", &*world), Err(PortableError::NoDigest));
}

#[test]
fn array_bound_during_an_export_is_not_taken_for_the_old_one() {
    let world = Restless::new(&[3, 0], &[5, -9]);
    let (memo, handle) = process();
    memo.launch(handle, &*world).unwrap();
    // The spec is kept with the second array, the result with the first.
    world.bound.set(1);
    memo.launch(handle, &*world).unwrap_err();
    world.bound.set(0);
    let (asked, of) = (Cell::new(0), Rc::downgrade(&world));
    *world.hook.borrow_mut() = Some(Rc::new(move |question| {
        if question == Question::Binding {
            asked.set(asked.get() + 1);
        }
        // The first question is whether the result holds, the second whether the spec does.
        of.upgrade().unwrap().bound.set(usize::from(question == Question::Binding && asked.get() == 2));
    }));
    let result = memo.export(handle, "product", &*world).unwrap();
    assert!(result.has_output());
    assert_eq!(result.specs(), 0);
    let other = Restless::new(&[3, 0], &[5]);
    let (memo, handle) = process();
    memo.import(handle, &result, &*other).unwrap();
    other.write(1, 0);
    assert_eq!(*memo.launch(handle, &*other).unwrap(), 5);
}
