//! The changes of a training loop to its world between launches.

use std::collections::BTreeMap;

use warmstart::{
    memo::{AllocationId, Arguments, FieldId, Tracked},
    registry::SharedRegistry,
};

use crate::{
    kernels::{FIELD, KERNELS, Kernel, Signature, generate},
    random::Random,
};

/// The number of launches.
pub(crate) const LAUNCHES: usize = 2008;

/// Fields and arrays hold small integers, as trip counts are.
pub(crate) type Values = Vec<i32>;

/// The world, its kernels, and the arrays that each kernel is bound to.
///
/// Every scene starts the same and changes the same.
pub(crate) struct Scene {
    pub(crate) world: Tracked<Values, Values>,
    pub(crate) kernels: Vec<Kernel>,
    bindings: Vec<Vec<AllocationId>>,
    events: BTreeMap<usize, Event>,
    random: Random,
}

/// A change of something that reducers read.
#[derive(Clone, Copy)]
enum Event {
    /// An element of an array is written.
    Array(AllocationId),
    Field(FieldId),
    /// Two arguments of a kernel are bound to each other's arrays.
    Swap {
        kernel: usize,
        arguments: [usize; 2],
    },
    /// An array gets as many rows as it had columns.
    Turn(AllocationId),
    /// An array of one axis gets longer, with other values.
    Resize(AllocationId),
}

/// The number of arrays of trip counts. Several kernels share one.
const COUNTS: usize = 3;

/// The number of arrays that a kernel writes.
const RESULTS: usize = 3;

impl Scene {
    pub(crate) fn new() -> Self {
        let mut random = Random::new(2008);
        let (mut world, registry) = (Tracked::new(), SharedRegistry::new());
        let counts: [AllocationId; COUNTS] = std::array::from_fn(|_| line(&mut world, 16, &mut random));
        let (mut kernels, mut bindings) = (Vec::new(), Vec::new());
        let mut fields = Vec::new();
        for kernel in 0..KERNELS.len() {
            let mut bound = vec![counts[kernel % COUNTS]];
            let lines = 14 + 2 * kernel;
            for _ in 0..lines {
                let length = random.between(8, 16);
                bound.push(line(&mut world, length, &mut random));
            }
            for _ in 0..PLANES + SHAPES {
                let rows = random.between(3, 6);
                let columns = rows + random.between(1, 3);
                bound.push(plane(&mut world, rows, columns, &mut random));
            }
            for _ in 0..RESULTS {
                bound.push(world.allocate(&[u64::from(FIELD)], vec![0; FIELD as usize]));
            }
            let own: Vec<FieldId> =
                (0..12 + 2 * kernel).map(|_| world.add_field(values(FIELD, &mut random))).collect();
            let first_plane = 1 + lines as u32;
            let first_shape = first_plane + PLANES as u32;
            let signature = Signature {
                counts: 0,
                lines: (1..first_plane).collect(),
                planes: (first_plane..first_shape).collect(),
                shapes: (first_shape..first_shape + SHAPES as u32).collect(),
                fields: own.clone(),
            };
            kernels.push(generate(kernel, &signature, &registry, &mut random));
            bindings.push(bound);
            fields.push(own);
        }
        let shape = |kernel: usize| bindings[kernel][bindings[kernel].len() - RESULTS - 1];
        let happens = [
            Event::Array(counts[0]),
            Event::Swap { kernel: 4, arguments: [1, 2] },
            Event::Turn(shape(2)),
            Event::Array(counts[1]),
            Event::Field(fields[0][0]),
            Event::Swap { kernel: 2, arguments: [3, 4] },
            Event::Resize(bindings[3][1]),
            Event::Array(counts[2]),
            Event::Swap { kernel: 4, arguments: [1, 2] },
        ];
        let between = LAUNCHES / (happens.len() + 1);
        // Not in step with the kernels.
        let events =
            happens.iter().enumerate().map(|(n, &event)| ((n + 1) * between + n * 3, event)).collect();
        Self { world, kernels, bindings, events, random }
    }

    /// Returns the kernel of a launch: one after the other, as the steps of a training loop do.
    pub(crate) const fn kernel(launch: usize) -> usize {
        launch % KERNELS.len()
    }

    /// Returns the arrays that are bound to the arguments of a kernel.
    pub(crate) fn bound(&self, kernel: usize) -> &[AllocationId] {
        &self.bindings[kernel]
    }

    /// Returns what a launch of a kernel sees.
    pub(crate) fn arguments(&self, kernel: usize) -> Arguments<'_, Values, Values> {
        self.world.with_arguments(&self.bindings[kernel])
    }

    /// Makes the changes before a launch.
    pub(crate) fn before(&mut self, launch: usize) {
        let Some(&event) = self.events.get(&launch) else { return };
        match event {
            Event::Array(array) => {
                let array = self.world.array_mut(array).expect("no array is freed");
                let at = self.random.below(array.len() as u32) as usize;
                array[at] += self.random.between(1, 6) as i32;
            }
            Event::Field(field) => {
                let field = self.world.field_mut(field).expect("no field is freed");
                let at = self.random.below(FIELD) as usize;
                // More than all others, so that who has not seen it is wrong.
                field[at] += self.random.between(12, 16) as i32;
            }
            Event::Swap { kernel, arguments: [a, b] } => self.bindings[kernel].swap(a, b),
            Event::Turn(array) => {
                let shape = self.world.shape(array).expect("no array is freed");
                let turned: Vec<u64> = shape.iter().rev().copied().collect();
                self.world.reshape(array, &turned);
            }
            Event::Resize(array) => {
                let length = self.random.between(17, 20);
                let values = values(length, &mut self.random);
                if let Some(array) = self.world.reshape(array, &[u64::from(length)]) {
                    *array = values;
                }
            }
        }
    }

    /// Runs a launch: it writes arrays that it is bound to, and that no reducer reads.
    pub(crate) fn after(&mut self, launch: usize) {
        let bound = &self.bindings[Self::kernel(launch)];
        for &array in &bound[bound.len() - RESULTS..] {
            for value in self.world.array_mut(array).into_iter().flatten() {
                *value = value.wrapping_mul(5).wrapping_add(launch as i32);
            }
        }
    }
}

/// The number of arrays of two axes that a kernel reads, and of those of which it reads only the shape.
const PLANES: usize = 6;
const SHAPES: usize = 4;

fn values(length: u32, random: &mut Random) -> Values {
    (0..length).map(|_| random.below(12) as i32).collect()
}

fn line(world: &mut Tracked<Values, Values>, length: u32, random: &mut Random) -> AllocationId {
    world.allocate(&[u64::from(length)], values(length, random))
}

fn plane(world: &mut Tracked<Values, Values>, rows: u32, columns: u32, random: &mut Random) -> AllocationId {
    world.allocate(&[rows.into(), columns.into()], values(rows * columns, random))
}
