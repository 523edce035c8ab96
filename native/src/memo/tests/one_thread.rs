//! The promises of the launch memo, in worlds and with kernels that one thread has.

mod exported;
mod handles;
mod keeping;
mod moved;
mod reentrant;
mod said;
mod specs;
mod sweep;

use std::{
    cell::{Cell, RefCell},
    fmt, mem, panic,
    rc::Rc,
};

use super::super::*;

/// What a kernel or a spec does, one thing after the other.
#[derive(Clone, Copy, Debug)]
enum Step {
    Field(u32),
    Array(u32),
    Extent(u32, u32),
    /// Needs another spec, and fails if that fails.
    Spec(usize),
    /// Needs another spec, and makes do without if that fails.
    Try(usize),
    /// As `Try`, but if it panics.
    Catch(usize),
    Constant,
    Fail,
    Panic,
}

use Step::{Array, Catch, Constant, Extent, Fail, Field, Panic, Spec, Try};

/// What there is not reads as this.
const NOTHING: i64 = -1;

/// Of a spec that failed, where it is made do without.
const FAILED: i64 = -2;

/// A kernel whose launch gets the value of each of its steps. Those of a spec are added up.
struct Kernel {
    launch: Vec<Step>,
    specs: Vec<Vec<Step>>,
    counts: Rc<Counts>,
    bell: Bell,
    rung_by: Option<Part>,
}

/// How often a kernel was evaluated. Nothing is computed from it.
#[derive(Debug, Default)]
struct Counts {
    launches: Cell<u32>,
    specs: RefCell<Vec<u32>>,
}

/// Rings when it is dropped.
#[derive(Clone, Default)]
struct Bell(Option<Rc<dyn Fn()>>);

/// Whose destructor rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Kernel,
    Output,
    Value,
}

#[derive(Debug)]
struct Answer {
    values: Vec<i64>,
    _bell: Bell,
}

#[derive(Clone)]
struct Number {
    number: i64,
    _bell: Bell,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Failure;

impl Kernel {
    fn new(launch: &[Step]) -> Self {
        let (counts, bell) = (Rc::default(), Bell::default());
        Self { launch: launch.to_vec(), specs: Vec::new(), counts, bell, rung_by: None }
    }

    /// The next spec.
    fn spec(mut self, steps: &[Step]) -> Self {
        self.specs.push(steps.to_vec());
        self.counts.specs.borrow_mut().push(0);
        self
    }

    fn ring(mut self, part: Part, ring: impl Fn() + 'static) -> Self {
        (self.bell, self.rung_by) = (Bell(Some(Rc::new(ring))), Some(part));
        self
    }

    fn counts(&self) -> Rc<Counts> {
        Rc::clone(&self.counts)
    }

    fn bell(&self, part: Part) -> Bell {
        if self.rung_by == Some(part) { self.bell.clone() } else { Bell::default() }
    }

    fn take<W>(&self, step: Step, recorder: &mut Recorder<'_, Self, W>) -> Result<i64, LaunchError<Failure>>
    where
        W: World<Field: Read, Array: Read> + ?Sized,
    {
        Ok(match step {
            Field(field) => recorder.field(FieldId(field)).map_or(NOTHING, Read::read),
            Array(argument) => recorder.array(ArgumentId(argument)).map_or(NOTHING, Read::read),
            Extent(argument, axis) => {
                recorder.extent(ArgumentId(argument), axis).map_or(NOTHING, |extent| extent as i64)
            }
            Spec(spec) => recorder.spec(spec)?.number,
            Try(spec) => recorder.spec(spec).map_or(FAILED, |value| value.number),
            Catch(spec) => {
                let caught = panic::catch_unwind(panic::AssertUnwindSafe(|| recorder.spec(spec)));
                caught.map_or(Ok(FAILED), |value| value.map(|value| value.number))?
            }
            Constant => {
                recorder.constant();
                7
            }
            Fail => return Err(Failure.into()),
            Panic => panic::resume_unwind(Box::new(())),
        })
    }
}

impl Reduction for Kernel {
    type Spec = usize;
    type Value = Number;
    type Output = Answer;
    type Error = Failure;
}

impl<W: World<Field: Read, Array: Read> + ?Sized> Evaluate<W> for Kernel {
    fn launch(&self, recorder: &mut Recorder<'_, Self, W>) -> Result<Answer, LaunchError<Failure>> {
        self.counts.launches.set(self.counts.launches.get() + 1);
        let values = self.launch.iter().map(|&step| self.take(step, recorder)).collect::<Result<_, _>>()?;
        Ok(Answer { values, _bell: self.bell(Part::Output) })
    }

    fn spec(
        &self,
        spec: &usize,
        recorder: &mut Recorder<'_, Self, W>,
    ) -> Result<Number, LaunchError<Failure>> {
        self.counts.specs.borrow_mut()[*spec] += 1;
        let mut number = 0;
        for &step in &self.specs[*spec] {
            number += self.take(step, recorder)?;
        }
        Ok(Number { number, _bell: self.bell(Part::Value) })
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        if self.rung_by != Some(Part::Kernel) {
            self.bell.0 = None;
        }
    }
}

impl fmt::Debug for Bell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "rings" } else { "silent" })
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        if let Some(ring) = &self.0 {
            ring();
        }
    }
}

impl Counts {
    /// How often each spec was evaluated since it was asked last.
    fn specs(&self) -> Vec<u32> {
        self.specs.borrow_mut().iter_mut().map(mem::take).collect()
    }
}

/// What is in a field or an array.
trait Read {
    fn read(&self) -> i64;
}

impl Read for i64 {
    fn read(&self) -> i64 {
        *self
    }
}

impl Read for Cell<i64> {
    fn read(&self) -> i64 {
        self.get()
    }
}

type Plain = Tracked<i64, i64>;

/// A world with `fields` at these values.
fn plain(fields: &[i64]) -> Plain {
    let mut world = Plain::new();
    for &field in fields {
        world.add_field(field);
    }
    world
}

/// A world that code of others can change while it is looked at, because it does so itself: each question calls its hook first.
#[derive(Default)]
struct Restless {
    fields: Vec<(Cell<u64>, Cell<i64>)>,
    /// Which of the arrays is bound to argument 0.
    bound: Cell<usize>,
    arrays: Vec<(Cell<u64>, Cell<i64>)>,
    extent: Cell<Option<u64>>,
    hook: RefCell<Option<Hook>>,
}

type Hook = Rc<dyn Fn(Question)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Generation,
    Field,
    Binding,
    Array,
    Extent,
    Digest,
}

impl Restless {
    fn new(fields: &[i64], arrays: &[i64]) -> Rc<Self> {
        let counted = |values: &[i64]| values.iter().map(|&value| (Cell::new(0), Cell::new(value))).collect();
        Rc::new(Self { fields: counted(fields), arrays: counted(arrays), ..Self::default() })
    }

    fn write(&self, field: usize, value: i64) {
        let (generation, field) = &self.fields[field];
        field.set(value);
        generation.set(generation.get() + 1);
    }

    /// Calls `hook` at the next question of this kind, once.
    fn once(self: &Rc<Self>, question: Question, hook: impl Fn() + 'static) {
        let world = Rc::downgrade(self);
        *self.hook.borrow_mut() = Some(Rc::new(move |asked| {
            if asked == question {
                // Not dropped before it was called.
                let _this = world.upgrade().and_then(|world| world.hook.take());
                hook();
            }
        }));
    }

    fn ask(&self, question: Question) {
        let hook = self.hook.borrow().clone();
        if let Some(hook) = hook {
            hook(question);
        }
    }
}

impl World for Restless {
    type Field = Cell<i64>;
    type Array = Cell<i64>;

    fn identity(&self) -> WorldId {
        WorldId(0)
    }

    fn field_generation(&self, field: FieldId) -> Option<Generation> {
        self.ask(Question::Generation);
        self.fields.get(field.0 as usize).map(|(generation, _)| Generation::new(generation.get()))
    }

    fn field(&self, field: FieldId) -> Option<&Cell<i64>> {
        self.ask(Question::Field);
        self.fields.get(field.0 as usize).map(|(_, value)| value)
    }

    fn binding(&self, _: ArgumentId) -> Option<Binding> {
        self.ask(Question::Binding);
        let allocation = AllocationId(self.bound.get() as u64);
        let (generation, _) = self.arrays.get(self.bound.get())?;
        Some(Binding { allocation, generation: Generation::new(generation.get()) })
    }

    fn array(&self, _: ArgumentId) -> Option<&Cell<i64>> {
        self.ask(Question::Array);
        self.arrays.get(self.bound.get()).map(|(_, value)| value)
    }

    fn extent(&self, _: ArgumentId, _: u32) -> Option<u64> {
        self.ask(Question::Extent);
        self.extent.get()
    }
}

/// A launch that must end well: its answer, and whether it was there.
fn launch<W>(memo: &SharedMemo<Kernel>, handle: Handle, world: &W) -> (Vec<i64>, bool)
where
    W: World<Field: Read, Array: Read> + ?Sized,
{
    let launched = memo.launch(handle, world).unwrap();
    (launched.values.clone(), launched.is_hit())
}

/// As [`launch`], in a world without arguments.
fn launch_plain(memo: &SharedMemo<Kernel>, handle: Handle, world: &Plain) -> (Vec<i64>, bool) {
    launch(memo, handle, &world.with_arguments(&[]))
}
