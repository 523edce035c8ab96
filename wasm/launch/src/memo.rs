//! What results of launches were computed from. The results stay in JavaScript, where they are computed.

use alloc::vec::Vec;

use wasm_bindgen::prelude::wasm_bindgen;

use warmstart_core::memo::{
    AllocationId, ArgumentId, Binding, Dependencies, Dependency, FieldId, Generation, Tracked, Unkept,
};

/// A world of fields and arrays, and for each kernel that has a result what that depends on.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Memo {
    world: Tracked<(), ()>,
    kept: Vec<Option<Dependencies>>,
}

#[wasm_bindgen]
impl Memo {
    /// Of nothing.
    #[wasm_bindgen(constructor)]
    #[must_use]
    #[expect(clippy::new_without_default, reason = "JavaScript has constructors")]
    pub fn new() -> Self {
        Self { world: Tracked::new(), kept: Vec::new() }
    }

    /// A new field.
    pub fn field(&mut self) -> u32 {
        self.world.add_field(()).0
    }

    /// A field was written.
    pub fn write_field(&mut self, field: u32) {
        self.world.field_mut(FieldId(field));
    }

    /// A new array of this shape.
    pub fn allocate(&mut self, shape: &[f64]) -> u64 {
        self.world.allocate(&whole(shape), ()).0
    }

    /// An array was written, and has this shape now. False if it was freed.
    pub fn write_array(&mut self, array: u64, shape: &[f64]) -> bool {
        self.world.reshape(AllocationId(array), &whole(shape)).is_some()
    }

    /// An array is gone.
    pub fn free_array(&mut self, array: u64) {
        self.world.free(AllocationId(array));
    }

    /// Whether the result that is kept for `kernel` is right for a launch with these arrays.
    #[must_use]
    pub fn holds(&self, kernel: u32, arguments: &[u64]) -> bool {
        let arguments = bound(arguments);
        self.of(kernel).is_some_and(|kept| kept.hold(&self.world.with_arguments(&arguments)))
    }

    /// A result was computed for `kernel` at a launch with these arrays, while nothing was written.
    /// `observed` is what was read: three numbers each, as `moved` gives them. Gives 0 if it is kept, 1 if
    /// nothing was read, 2 if something was written so often that the next write could not be told.
    pub fn keep(&mut self, kernel: u32, arguments: &[u64], observed: &[u32]) -> u32 {
        let arguments = bound(arguments);
        let (observed, _) = observed.as_chunks();
        let observed = observed.iter().map(|&[kind, id, axis]| match kind {
            0 => Dependency::Field(FieldId(id), None),
            1 => Dependency::Argument(ArgumentId(id), None),
            _ => Dependency::Extent(ArgumentId(id), axis, None),
        });
        match Dependencies::now(&self.world.with_arguments(&arguments), observed) {
            Ok(dependencies) => {
                let kernel = kernel as usize;
                if self.kept.len() <= kernel {
                    self.kept.resize(kernel + 1, None);
                }
                self.kept[kernel] = Some(dependencies);
                0
            }
            Err(Unkept::NoDependency) => 1,
            Err(_) => 2,
        }
    }

    /// No result is kept for `kernel` any more.
    pub fn forget(&mut self, kernel: u32) {
        if let Some(kept) = self.kept.get_mut(kernel as usize) {
            *kept = None;
        }
    }

    /// The first thing that is not as it was when the result of `kernel` was computed; nothing if all is. A
    /// field is 0, its number, 0; an argument is 1, its place, 0; an extent is 2, the argument's place, the
    /// axis. Then follow how it was and how it is: the count of writes, or the extent, or -1 if there was
    /// none; and 1 if it is another array.
    #[must_use]
    pub fn moved(&self, kernel: u32, arguments: &[u64]) -> Option<Vec<f64>> {
        let arguments = bound(arguments);
        let (was, now) = self.of(kernel)?.moved(&self.world.with_arguments(&arguments))?;
        let ([kind, id, axis], then, old) = described(was);
        let (_, now, new) = described(now);
        let is_other = old.zip(new).is_some_and(|(old, new)| old != new);
        Some([kind.into(), id.into(), axis.into(), then, now, f64::from(u8::from(is_other))].to_vec())
    }
}

impl Memo {
    fn of(&self, kernel: u32) -> Option<&Dependencies> {
        self.kept.get(kernel as usize)?.as_ref()
    }
}

fn described(dependency: Dependency) -> ([u32; 3], f64, Option<AllocationId>) {
    let count = |generation: Option<Generation>| number(generation.map(Generation::as_u64));
    match dependency {
        Dependency::Field(field, generation) => ([0, field.0, 0], count(generation), None),
        Dependency::Argument(argument, binding) => {
            let generation = binding.map(|Binding { generation, .. }| generation);
            ([1, argument.0, 0], count(generation), binding.map(|binding| binding.allocation))
        }
        Dependency::Extent(argument, axis, extent) => ([2, argument.0, axis], number(extent), None),
    }
}

fn number(number: Option<u64>) -> f64 {
    number.map_or(-1.0, |number| number as f64)
}

fn whole(shape: &[f64]) -> Vec<u64> {
    shape.iter().map(|axis| *axis as u64).collect()
}

fn bound(arguments: &[u64]) -> Vec<AllocationId> {
    arguments.iter().copied().map(AllocationId).collect()
}
