//! What is launched, in which world, through which memo.

use std::{
    convert::Infallible,
    ops::Range,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use warmstart::memo::{
    AllocationId, ArgumentId, Arguments, Evaluate, FieldId, Handle, LaunchError, LaunchMemo, Launched,
    Recorder, Reduction, SharedMemo, Tracked, World,
};

/// What a launch gets: as many results as a map of the launches that this was made for. A hit that copied it would be seen.
pub(super) type Results = Vec<u64>;

/// How many results there are.
const RESULTS: usize = 600;

/// Reads so many distinct things: half of them fields, a quarter arrays, and of another quarter only an extent.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    fields: Vec<FieldId>,
    arrays: Vec<ArgumentId>,
    extents: Vec<ArgumentId>,
    gate: Option<Arc<Gate>>,
}

impl Kernel {
    /// The same, whose evaluations pass a gate.
    pub(super) fn with_gate(self, gate: &Arc<Gate>) -> Self {
        Self { gate: Some(Arc::clone(gate)), ..self }
    }
}

impl Reduction for Kernel {
    type Spec = Infallible;
    type Value = Infallible;
    type Output = Results;
    type Error = Infallible;
}

impl<W: World<Field = Vec<u64>, Array = Vec<u64>>> Evaluate<W> for Kernel {
    fn launch(&self, recorder: &mut Recorder<'_, Self, W>) -> Result<Results, LaunchError<Infallible>> {
        if let Some(gate) = &self.gate {
            gate.pass();
        }
        let longest = |values: &Vec<u64>| values.iter().copied().max();
        let mut most = 0;
        for &field in &self.fields {
            most = most.max(recorder.field(field).and_then(longest).unwrap_or(0));
        }
        for &array in &self.arrays {
            most = most.max(recorder.array(array).and_then(longest).unwrap_or(0));
        }
        for &argument in &self.extents {
            most = most.max(recorder.extent(argument, 1).unwrap_or(0));
        }
        Ok(vec![most; RESULTS])
    }

    fn spec(
        &self,
        spec: &Infallible,
        _: &mut Recorder<'_, Self, W>,
    ) -> Result<Infallible, LaunchError<Infallible>> {
        match *spec {}
    }
}

/// A world with as many fields and arrays as a kernel reads.
#[derive(Debug)]
pub(super) struct Scene {
    world: Tracked<Vec<u64>, Vec<u64>>,
    arguments: Vec<AllocationId>,
    kernel: Kernel,
}

impl Scene {
    /// In which a launch depends on so many distinct things.
    pub(super) fn new(dependencies: usize) -> Self {
        let quarter = dependencies / 4;
        let mut world = Tracked::new();
        let fields = (0..dependencies - 2 * quarter).map(|n| world.add_field(vec![n as u64; 8])).collect();
        let arguments = (0..2 * quarter).map(|n| world.allocate(&[2, 4], vec![n as u64; 8])).collect();
        let ids = |range: Range<usize>| range.map(|n| ArgumentId(n as u32)).collect();
        let kernel =
            Kernel { fields, arrays: ids(0..quarter), extents: ids(quarter..2 * quarter), gate: None };
        Self { world, arguments, kernel }
    }

    /// What is launched.
    pub(super) fn kernel(&self) -> Kernel {
        self.kernel.clone()
    }

    /// What the next launch sees.
    #[inline]
    pub(super) fn launch(&self) -> Seen<'_> {
        self.world.with_arguments(&self.arguments)
    }
}

/// What a launch sees.
pub(super) type Seen<'a> = Arguments<'a, Vec<u64>, Vec<u64>>;

/// A memo under measurement.
pub(super) trait Memo: Default {
    /// What its rows are called.
    const NAME: &'static str;

    fn register(&self, kernel: Kernel) -> Handle;

    fn launch(&self, handle: Handle, seen: &Seen<'_>) -> Launched<Kernel>;
}

impl Memo for LaunchMemo<Kernel> {
    const NAME: &'static str = "LaunchMemo";

    fn register(&self, kernel: Kernel) -> Handle {
        self.register(kernel)
    }

    #[inline]
    fn launch(&self, handle: Handle, seen: &Seen<'_>) -> Launched<Kernel> {
        self.launch(handle, seen).expect(LAUNCHED)
    }
}

impl Memo for SharedMemo<Kernel> {
    const NAME: &'static str = "SharedMemo";

    fn register(&self, kernel: Kernel) -> Handle {
        self.register(kernel)
    }

    #[inline]
    fn launch(&self, handle: Handle, seen: &Seen<'_>) -> Launched<Kernel> {
        self.launch(handle, seen).expect(LAUNCHED)
    }
}

/// Holds an evaluation up, once it is closed.
#[derive(Debug)]
pub(super) struct Gate {
    closed: AtomicBool,
    reached: Barrier,
}

impl Gate {
    /// So that a hit which waits for the evaluation ends the benchmark late, with a miss, and not never.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// An open gate.
    pub(super) fn new() -> Self {
        Self { closed: AtomicBool::new(false), reached: Barrier::new(2) }
    }

    /// Whoever comes now waits.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Returns when an evaluation has reached the closed gate.
    pub(super) fn reached(&self) {
        self.reached.wait();
    }

    /// Lets it through.
    pub(super) fn open(&self) {
        self.closed.store(false, Ordering::Release);
    }

    fn pass(&self) {
        if !self.closed.load(Ordering::Acquire) {
            return;
        }
        self.reached();
        let start = Instant::now();
        while self.closed.load(Ordering::Acquire) && start.elapsed() < Self::PATIENCE {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Why a launch here does not fail.
const LAUNCHED: &str = "the handle was given by this memo, and the reduction does not fail";
