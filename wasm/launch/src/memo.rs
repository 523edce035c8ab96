//! The dependencies of results of launches. The results stay in JavaScript, where they are computed.

use alloc::vec::Vec;

use wasm_bindgen::prelude::wasm_bindgen;

use warmstart_core::memo::{
    AllocationId, ArgumentId, Binding, Dependencies, Dependency, FieldId, Generation, NotCached, Tracked,
};

/// A world of fields and arrays, and the dependencies of each kernel's result.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Memo {
    world: Tracked<(), ()>,
    kept: Vec<Option<Dependencies>>,
}

#[wasm_bindgen]
impl Memo {
    /// Creates an empty world.
    #[wasm_bindgen(constructor)]
    #[must_use]
    #[expect(clippy::new_without_default, reason = "JavaScript has constructors")]
    pub fn new() -> Self {
        Self { world: Tracked::new(), kept: Vec::new() }
    }

    /// Creates a field.
    pub fn field(&mut self) -> u32 {
        self.world.add_field(()).0
    }

    /// Records a write to a field.
    pub fn write_field(&mut self, field: u32) {
        self.world.field_mut(FieldId(field));
    }

    /// Creates an array of this shape.
    pub fn allocate(&mut self, shape: &[f64]) -> u64 {
        self.world.allocate(&whole(shape), ()).0
    }

    /// Records a write to an array, which now has this shape. Returns false if the array was freed.
    pub fn write_array(&mut self, array: u64, shape: &[f64]) -> bool {
        self.world.reshape(AllocationId(array), &whole(shape)).is_some()
    }

    /// Frees an array.
    pub fn free_array(&mut self, array: u64) {
        self.world.free(AllocationId(array));
    }

    /// Returns whether the kept result of `kernel` is valid for a launch with these arrays.
    #[must_use]
    pub fn holds(&self, kernel: u32, arguments: &[u64]) -> bool {
        let arguments = bound(arguments);
        self.of(kernel).is_some_and(|kept| kept.hold(&self.world.with_arguments(&arguments)))
    }

    /// Keeps the dependencies of a result of `kernel`, computed for these arrays without a concurrent write.
    /// `observed` lists what was read: three numbers each, as in `moved`. Returns 0 if the result is kept, 1 if
    /// nothing was read, 2 if the write counter of a dependency is exhausted.
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
            Err(NotCached::NoDependency) => 1,
            Err(_) => 2,
        }
    }

    /// Forgets the result of `kernel`.
    pub fn forget(&mut self, kernel: u32) {
        if let Some(kept) = self.kept.get_mut(kernel as usize) {
            *kept = None;
        }
    }

    /// Returns the first dependency that changed since the result of `kernel` was computed, or nothing. A field
    /// is 0, its number, 0; an argument is 1, its index, 0; an extent is 2, the argument's index, the axis. The
    /// old and the new state follow: the count of writes, or the extent, or -1 if absent; and 1 if it is another
    /// array.
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
