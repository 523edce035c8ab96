//! Whatever is launched, written, swapped, reshaped, freed and invalidated, and whatever launches within a launch: a result is what a plain
//! recomputation gives, it is there exactly if nothing of what that looked at has moved, and who holds it keeps it.
#![no_main]

mod run;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
};

use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};
use warmstart::memo::{
    AllocationId, ArgumentId, Arguments, Binding, Dependency, Evaluate, FieldId, Generation, Handle,
    HandleError, LaunchError, Launched, MemoStatistics, MissCause, NotCached, Recorder, Reduction,
    SharedMemo, Tracked, World, WorldId,
};

const MOST_FIELDS: usize = 24;
const MOST_SPECS: usize = 5;
const MOST_STEPS: usize = 4;
const MOST_KERNELS: usize = 8;
const MOST_OPERATIONS: usize = 64;
const ARGUMENTS: usize = 3;

/// The value read for a missing field, array or axis.
const NOTHING: i64 = -1;

/// The value that replaces a spec that failed.
const FAILED: i64 = -2;

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Step {
    Field(u8),
    /// Reads this many fields from the given one on, more than a linear search compares.
    Fields(u8, u8),
    Array(u8),
    Extent(u8, u8),
    Spec(u8),
    /// Like `Spec`, but continues with [`FAILED`] if the spec fails.
    Try(u8),
    Constant,
    /// Fails if what was added up so far is odd.
    FailIfOdd,
    /// Ends here if it is: what is read depends on what was read.
    EndIfOdd,
}

#[derive(Arbitrary, Clone, Debug)]
struct Plan {
    launch: Vec<Step>,
    specs: Vec<Vec<Step>>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Shape {
    None,
    One(u8),
    Two(u8, u8),
    Longest,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct Launch {
    kernel: u8,
    world: u8,
    arguments: [u8; ARGUMENTS],
    /// After so many questions of the memo to the world, the world does something.
    within: Option<(u8, Within)>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Within {
    Launch { kernel: u8, arguments: [u8; ARGUMENTS] },
    Peek(u8),
    Invalidate(u8),
    InvalidateAll,
    Remove(u8),
}

#[derive(Arbitrary, Debug)]
enum Operation {
    Register(Plan),
    Launch(Launch),
    /// The same again, from the last one on.
    Again(u8),
    AddField(u8, i8),
    Write(u8, u8, i8),
    Allocate(u8, Shape, i8),
    WriteArray(u8, u8, i8),
    Reshape(u8, u8, Shape),
    Free(u8, u8),
    Within(Within),
    /// A process that ended, and one that begins with what that had.
    Reload,
}

fuzz_target!(|operations: Vec<Operation>| {
    let mut run = Run::new();
    let mut launches = Vec::new();
    for operation in operations.into_iter().take(MOST_OPERATIONS) {
        run.step(operation, &mut launches);
    }
    run.end();
});

// The launched kernels.

struct Kernel {
    plan: Plan,
    marks: Rc<Marks>,
}

/// The model's view of a kernel. Nothing is computed from it.
#[derive(Debug, Default)]
struct Marks {
    /// The number of invalidations and removals.
    invalidations: Cell<u64>,
    /// The same when its evaluation began; nothing if it did not begin.
    begun: Cell<Option<u64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Odd;

impl Plan {
    /// Cuts the kernel to a length that the model can recompute in time.
    fn cut(mut self) -> Self {
        self.launch.truncate(MOST_STEPS);
        self.specs.truncate(MOST_SPECS);
        self.specs.iter_mut().for_each(|steps| steps.truncate(MOST_STEPS));
        self
    }

    fn spec(&self, spec: u8) -> u8 {
        if self.specs.is_empty() { 0 } else { spec % self.specs.len() as u8 }
    }

    fn steps(&self, spec: u8) -> &[Step] {
        self.specs.get(usize::from(spec)).map_or(&[], |steps| steps)
    }

    /// Takes these steps through `door`, and adds up what they give so that their order counts.
    fn take<D: Door>(&self, steps: &[Step], door: &mut D) -> Result<i64, D::Error> {
        let mut sum: i64 = 0;
        for &step in steps {
            let value = match step {
                Step::Field(field) => door.field(field.into()),
                Step::Fields(first, count) => {
                    let fields = u32::from(first)..u32::from(first) + u32::from(count) % 20;
                    fields.fold(0, |sum, field| more(sum, door.field(field % MOST_FIELDS as u32)))
                }
                Step::Array(argument) => door.array(u32::from(argument) % (ARGUMENTS as u32 + 1)),
                Step::Extent(argument, axis) => {
                    door.extent(u32::from(argument) % (ARGUMENTS as u32 + 1), u32::from(axis) % 3)
                }
                Step::Spec(spec) => door.spec(self.spec(spec))?,
                Step::Try(spec) => door.spec(self.spec(spec)).unwrap_or(FAILED),
                Step::Constant => {
                    door.constant();
                    1
                }
                Step::FailIfOdd if sum % 2 != 0 => return Err(D::odd()),
                Step::EndIfOdd if sum % 2 != 0 => break,
                Step::FailIfOdd | Step::EndIfOdd => 0,
            };
            sum = more(sum, value);
        }
        Ok(sum)
    }
}

fn more(sum: i64, value: i64) -> i64 {
    sum.wrapping_mul(31).wrapping_add(value)
}

/// Through which the steps are taken: of the memo, or of the model.
trait Door {
    type Error;
    fn field(&mut self, field: u32) -> i64;
    fn array(&mut self, argument: u32) -> i64;
    fn extent(&mut self, argument: u32, axis: u32) -> i64;
    fn spec(&mut self, spec: u8) -> Result<i64, Self::Error>;
    fn constant(&mut self);
    fn odd() -> Self::Error;
}

impl Door for Recorder<'_, Kernel, Watched<'_>> {
    type Error = LaunchError<Odd>;

    fn field(&mut self, field: u32) -> i64 {
        self.field(FieldId(field)).copied().unwrap_or(NOTHING)
    }

    fn array(&mut self, argument: u32) -> i64 {
        self.array(ArgumentId(argument)).copied().unwrap_or(NOTHING)
    }

    fn extent(&mut self, argument: u32, axis: u32) -> i64 {
        self.extent(ArgumentId(argument), axis).map_or(NOTHING, u64::cast_signed)
    }

    fn spec(&mut self, spec: u8) -> Result<i64, Self::Error> {
        self.spec(spec)
    }

    fn constant(&mut self) {
        self.constant();
    }

    fn odd() -> Self::Error {
        Odd.into()
    }
}

impl Reduction for Kernel {
    type Spec = u8;
    type Value = i64;
    type Output = i64;
    type Error = Odd;
}

impl Evaluate<Watched<'_>> for Kernel {
    fn launch(&self, recorder: &mut Recorder<'_, Self, Watched<'_>>) -> Result<i64, LaunchError<Odd>> {
        self.marks.begun.set(Some(self.marks.invalidations.get()));
        self.plan.take(&self.plan.launch, recorder)
    }

    fn spec(
        &self,
        spec: &u8,
        recorder: &mut Recorder<'_, Self, Watched<'_>>,
    ) -> Result<i64, LaunchError<Odd>> {
        self.plan.take(self.plan.steps(*spec), recorder)
    }
}

// The world of a launch, and the same world without counters.

struct Place {
    tracked: Tracked<i64, i64>,
    /// No other place has it.
    number: usize,
    /// The number of writes of each, and its contents.
    fields: Vec<(u64, i64)>,
    /// All arrays ever allocated; `None` for the freed ones.
    arrays: Vec<(AllocationId, Option<Plain>)>,
}

#[derive(Clone)]
struct Plain {
    writes: u64,
    shape: Vec<u64>,
    value: i64,
}

/// A place as a launch sees it, which may do something when it is asked.
struct Watched<'a> {
    arguments: Arguments<'a, i64, i64>,
    run: &'a Run,
    launch: Launch,
    within: Cell<Option<(u8, Within)>>,
    /// Whether what is launched was invalidated when the world was asked which one it is: an evaluation asks that before it comes to
    /// the kernel.
    is_disturbed: Cell<bool>,
}

impl Watched<'_> {
    fn asked(&self) {
        match self.within.take() {
            Some((0, within)) => self.run.within(within, self.launch.world),
            Some((questions, within)) => self.within.set(Some((questions - 1, within))),
            None => {}
        }
    }
}

impl World for Watched<'_> {
    type Field = i64;
    type Array = i64;

    fn identity(&self) -> WorldId {
        let invalidations = || {
            let number = self.run.number(self.launch.kernel)?;
            Some(self.run.kernels.borrow()[number].marks.invalidations.get())
        };
        let before = invalidations();
        self.asked();
        if invalidations() != before {
            self.is_disturbed.set(true);
        }
        self.arguments.identity()
    }

    fn field_generation(&self, field: FieldId) -> Option<Generation> {
        self.asked();
        self.arguments.field_generation(field)
    }

    fn field(&self, field: FieldId) -> Option<&i64> {
        self.asked();
        self.arguments.field(field)
    }

    fn binding(&self, argument: ArgumentId) -> Option<Binding> {
        self.asked();
        self.arguments.binding(argument)
    }

    fn array(&self, argument: ArgumentId) -> Option<&i64> {
        self.asked();
        self.arguments.array(argument)
    }

    fn extent(&self, argument: ArgumentId, axis: u32) -> Option<u64> {
        self.asked();
        self.arguments.extent(argument, axis)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Thing {
    Field(u32),
    Array(u32),
    Extent(u32, u32),
}

/// The state of a thing: its writes and its array, or its length. Nothing if it does not exist.
type State = Option<(u64, usize)>;

impl Place {
    fn new(number: usize) -> Self {
        Self { tracked: Tracked::new(), number, fields: Vec::new(), arrays: Vec::new() }
    }

    /// Creates a world with fields and arrays, so that most launches find the ones they read.
    fn furnished(number: usize) -> Self {
        let mut place = Self::new(number);
        (0..4).for_each(|value| place.add_field(value));
        [vec![], vec![2], vec![2, 3]]
            .into_iter()
            .zip(0..)
            .for_each(|(shape, value)| place.allocate(shape, value));
        place
    }

    /// The same content in another process.
    fn reload(&self, number: usize) -> Self {
        let mut place = Self::new(number);
        self.fields.iter().for_each(|&(_, value)| place.add_field(value));
        for array in self.arrays.iter().filter_map(|(_, array)| array.as_ref()) {
            place.allocate(array.shape.clone(), array.value);
        }
        place
    }

    fn add_field(&mut self, value: i64) {
        assert_eq!(self.tracked.add_field(value).0 as usize, self.fields.len());
        self.fields.push((0, value));
    }

    fn allocate(&mut self, shape: Vec<u64>, value: i64) {
        let allocation = self.tracked.allocate(&shape, value);
        assert!(self.arrays.iter().all(|(other, _)| *other != allocation), "it is another array");
        self.arrays.push((allocation, Some(Plain { writes: 0, shape, value })));
    }

    fn bound(&self, launch: &Launch, argument: u32) -> Option<(usize, &Plain)> {
        let number = usize::from(*launch.arguments.get(argument as usize)?).checked_rem(self.arrays.len())?;
        self.arrays[number].1.as_ref().map(|array| (number, array))
    }

    fn state(&self, launch: &Launch, thing: Thing) -> State {
        match thing {
            Thing::Field(field) => self.fields.get(field as usize).map(|&(writes, _)| (writes, 0)),
            Thing::Array(argument) => {
                self.bound(launch, argument).map(|(number, array)| (array.writes, number))
            }
            Thing::Extent(argument, axis) => {
                let (_, array) = self.bound(launch, argument)?;
                array.shape.get(axis as usize).map(|&extent| (extent, 0))
            }
        }
    }

    fn allocations(&self, launch: &Launch) -> Vec<AllocationId> {
        if self.arrays.is_empty() {
            return Vec::new();
        }
        launch.arguments.map(|number| self.arrays[usize::from(number) % self.arrays.len()].0).to_vec()
    }
}

fn thing(dependency: Dependency) -> Thing {
    match dependency {
        Dependency::Field(field, _) => Thing::Field(field.0),
        Dependency::Argument(argument, _) => Thing::Array(argument.0),
        Dependency::Extent(argument, axis, _) => Thing::Extent(argument.0, axis),
    }
}

// The recomputation.

#[derive(Debug, PartialEq, Eq)]
enum Failed {
    Circle,
    Odd,
}

struct Afresh<'a> {
    plan: &'a Plan,
    place: &'a Place,
    launch: &'a Launch,
    levels: Vec<Level>,
}

#[derive(Default)]
struct Level {
    spec: Option<u8>,
    observed: BTreeMap<Thing, State>,
    constant: bool,
    /// Whether the result must not be kept, whatever it observed.
    spoilt: bool,
}

impl Level {
    fn is_kept(&self) -> bool {
        !self.spoilt && (self.constant || !self.observed.is_empty())
    }
}

impl Afresh<'_> {
    fn observe(&mut self, thing: Thing) {
        let state = self.place.state(self.launch, thing);
        let level = self.level();
        level.observed.insert(thing, state);
        level.spoilt |= matches!(thing, Thing::Extent(..)) && state == Some((u64::MAX, 0));
    }

    fn level(&mut self) -> &mut Level {
        self.levels.last_mut().expect("that of the launch")
    }
}

impl Door for Afresh<'_> {
    type Error = Failed;

    fn field(&mut self, field: u32) -> i64 {
        self.observe(Thing::Field(field));
        self.place.fields.get(field as usize).map_or(NOTHING, |&(_, value)| value)
    }

    fn array(&mut self, argument: u32) -> i64 {
        self.observe(Thing::Array(argument));
        self.place.bound(self.launch, argument).map_or(NOTHING, |(_, array)| array.value)
    }

    fn extent(&mut self, argument: u32, axis: u32) -> i64 {
        self.observe(Thing::Extent(argument, axis));
        let array = self.place.bound(self.launch, argument);
        let extent = array.and_then(|(_, array)| array.shape.get(axis as usize).copied());
        extent.map_or(NOTHING, u64::cast_signed)
    }

    fn spec(&mut self, spec: u8) -> Result<i64, Failed> {
        if self.levels.iter().any(|level| level.spec == Some(spec)) {
            self.level().spoilt = true;
            return Err(Failed::Circle);
        }
        self.levels.push(Level { spec: Some(spec), ..Level::default() });
        let plan = self.plan;
        let value = plan.take(plan.steps(spec), self);
        let inner = self.levels.pop().expect("it was pushed");
        let spoilt = !inner.is_kept();
        let level = self.level();
        level.observed.extend(inner.observed);
        level.spoilt |= spoilt;
        value
    }

    fn constant(&mut self) {
        self.level().constant = true;
    }

    fn odd() -> Failed {
        Failed::Odd
    }
}

// Both.

struct Run {
    memo: SharedMemo<Kernel>,
    places: Vec<Place>,
    kernels: RefCell<Vec<Model>>,
    statistics: Cell<MemoStatistics>,
    /// Handles of dropped memos.
    foreign: Vec<Handle>,
    held: RefCell<Vec<(Launched<Kernel>, i64)>>,
}

/// The expected state of a kernel.
struct Model {
    handle: Handle,
    plan: Plan,
    marks: Rc<Marks>,
    is_removed: bool,
    kept: Option<CachedResult>,
}

/// The result that the memo must have, and its dependencies.
#[derive(Clone)]
struct CachedResult {
    place: usize,
    observed: BTreeMap<Thing, State>,
}

impl Model {
    fn forget(&mut self) {
        if !self.is_removed {
            self.marks.invalidations.set(self.marks.invalidations.get() + 1);
            self.kept = None;
        }
    }
}

impl Shape {
    fn lengths(self) -> Vec<u64> {
        match self {
            Self::None => Vec::new(),
            Self::One(length) => vec![u64::from(length) % 4],
            Self::Two(one, other) => vec![u64::from(one) % 4, u64::from(other) % 4],
            Self::Longest => vec![0, u64::MAX],
        }
    }
}
