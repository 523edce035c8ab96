//! The interface of all designs, and the two designs that ours is compared with.

use std::{collections::HashMap, convert::Infallible};

use foldhash::fast::FixedState;
use warmstart::memo::{ArgumentId, Arguments, Binding, FieldId, Generation, World};

use crate::{
    expression::{Reader, Spec, reduce},
    kernels::{SPECS, Task},
    scene::{Scene, Values},
};

/// The results of a launch: the value of each reducer under its [key](Task::key).
pub(crate) type Results = HashMap<u64, i64, FixedState>;

pub(crate) fn empty() -> Results {
    Results::with_capacity_and_hasher(SPECS, FixedState::with_seed(0))
}

/// A way to answer a launch with its results.
pub(crate) trait Design {
    type Answer;

    /// Whether an answer allocates no memory of its own.
    const IS_SHARED: bool = false;

    /// Answers a launch; this is timed.
    fn launch(&mut self, kernel: usize, scene: &Scene) -> Self::Answer;

    /// Returns the number of reducers that were run so far.
    fn evaluated(&self) -> u64;

    /// Returns the maps of the answer. Each has all results.
    fn maps(answer: &Self::Answer) -> &[Results];

    /// Returns whether the answer was stored already.
    fn is_hit(_answer: &Self::Answer) -> bool {
        false
    }

    /// Returns the number of distinct dependencies of the answer, if it is known.
    fn dependencies(_answer: &Self::Answer) -> usize {
        0
    }
}

/// Runs every reducer at every launch.
#[derive(Default)]
pub(crate) struct NoMemo {
    evaluated: u64,
}

impl Design for NoMemo {
    type Answer = Results;

    fn launch(&mut self, kernel: usize, scene: &Scene) -> Results {
        let world = scene.arguments(kernel);
        let mut results = empty();
        for task in &scene.kernels[kernel].tasks {
            for spec in &task.specs {
                let reader = &mut Plain { world: &world, task, results: &results };
                let Ok(value) = reduce(spec, task.expression(spec), reader);
                results.insert(task.key(spec.stack, spec.node), value);
                self.evaluated += 1;
            }
        }
        results
    }

    fn evaluated(&self) -> u64 {
        self.evaluated
    }

    fn maps(answer: &Results) -> &[Results] {
        std::slice::from_ref(answer)
    }
}

/// Reads the world, and takes reducers that others need from the results so far.
struct Plain<'r, 'w> {
    world: &'r Arguments<'w, Values, Values>,
    task: &'r Task,
    results: &'r Results,
}

impl<'r> Reader<'r> for Plain<'r, '_> {
    type Error = Infallible;

    fn field(&mut self, field: FieldId) -> &'r [i32] {
        self.world.field(field).map_or(&[], |values| values)
    }

    fn array(&mut self, argument: ArgumentId) -> &'r [i32] {
        self.world.array(argument).map_or(&[], |values| values)
    }

    fn extent(&mut self, argument: ArgumentId, axis: u32) -> i64 {
        self.world.extent(argument, axis).map_or(0, |extent| extent as i64)
    }

    fn reduced(&mut self, stack: u16, node: u16) -> Result<i64, Infallible> {
        Ok(self.results[&self.task.key(stack, node)])
    }
}

/// A memo for each reducer: a launch looks all of them up, checks what each has read, and builds the map of the results, which is
/// copied for each task. Quadrants did this before #671, and copied the descriptions of the tasks as well.
///
/// This is faster than the original: copying a map copies one block of memory instead of a node for each entry, maps are allocated
/// at their final size, and an observation is a few words without lists.
pub(crate) struct PerSpec {
    copies_tasks: bool,
    kept: HashMap<u64, CachedValue, FixedState>,
    evaluated: u64,
}

/// The value of a spec, and the reads that it depends on.
struct CachedValue {
    value: i64,
    reads: Vec<Read>,
}

/// A value that was read, and its state at that time.
#[derive(Clone, Copy)]
enum Read {
    Field(FieldId, Option<Generation>),
    Array(ArgumentId, Option<Binding>),
    Extent(ArgumentId, u32, Option<u64>),
}

impl Read {
    fn holds<W: World>(&self, world: &W) -> bool {
        match *self {
            Self::Field(field, generation) => world.field_generation(field) == generation,
            Self::Array(argument, binding) => world.binding(argument) == binding,
            Self::Extent(argument, axis, extent) => world.extent(argument, axis) == extent,
        }
    }
}

impl PerSpec {
    pub(crate) fn new(copies_tasks: bool) -> Self {
        Self { copies_tasks, kept: HashMap::default(), evaluated: 0 }
    }

    fn results(&mut self, tasks: &[Task], world: &Arguments<'_, Values, Values>) -> Results {
        let mut results = empty();
        for task in tasks {
            for spec in &task.specs {
                let key = task.key(spec.stack, spec.node);
                let value = match self.kept.get(&key) {
                    Some(kept) if kept.reads.iter().all(|read| read.holds(world)) => kept.value,
                    _ => self.evaluate(key, task, spec, world, &results),
                };
                results.insert(key, value);
            }
        }
        results
    }

    fn evaluate(
        &mut self,
        key: u64,
        task: &Task,
        spec: &Spec,
        world: &Arguments<'_, Values, Values>,
        results: &Results,
    ) -> i64 {
        self.evaluated += 1;
        let plain = Plain { world, task, results };
        let mut observing = Observing { plain, kept: &self.kept, reads: Vec::new() };
        let Ok(value) = reduce(spec, task.expression(spec), &mut observing);
        let reads = observing.reads;
        self.kept.insert(key, CachedValue { value, reads });
        value
    }
}

impl Design for PerSpec {
    type Answer = Vec<Results>;

    fn launch(&mut self, kernel: usize, scene: &Scene) -> Vec<Results> {
        let (tasks, world) = (&scene.kernels[kernel].tasks, scene.arguments(kernel));
        let results = if self.copies_tasks {
            self.results(&tasks.clone(), &world)
        } else {
            self.results(tasks, &world)
        };
        tasks.iter().map(|_| results.clone()).collect()
    }

    fn evaluated(&self) -> u64 {
        self.evaluated
    }

    fn maps(answer: &Vec<Results>) -> &[Results] {
        answer
    }
}

/// Reads the world, and records each value.
struct Observing<'r, 'w> {
    plain: Plain<'r, 'w>,
    kept: &'r HashMap<u64, CachedValue, FixedState>,
    reads: Vec<Read>,
}

impl<'r> Reader<'r> for Observing<'r, '_> {
    type Error = Infallible;

    fn field(&mut self, field: FieldId) -> &'r [i32] {
        self.reads.push(Read::Field(field, self.plain.world.field_generation(field)));
        self.plain.field(field)
    }

    fn array(&mut self, argument: ArgumentId) -> &'r [i32] {
        self.reads.push(Read::Array(argument, self.plain.world.binding(argument)));
        self.plain.array(argument)
    }

    fn extent(&mut self, argument: ArgumentId, axis: u32) -> i64 {
        self.reads.push(Read::Extent(argument, axis, self.plain.world.extent(argument, axis)));
        self.plain.extent(argument, axis)
    }

    fn reduced(&mut self, stack: u16, node: u16) -> Result<i64, Infallible> {
        // Its reducer came before this one, so what is kept of it is of this launch.
        self.reads.extend(&self.kept[&self.plain.task.key(stack, node)].reads);
        self.plain.reduced(stack, node)
    }
}
