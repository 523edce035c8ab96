//! The kernels that are launched, their world and the memo.

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
    AllocationId, ArgumentId, Evaluate, FieldId, Handle, LaunchError, Launched, Recorder, Reduction,
    SharedMemo, Tracked, World,
};

/// The results of a launch: as many as a map of the launches that this was made for. A hit that copied them would be noticed.
pub(super) type Results = Vec<u64>;

/// The number of results.
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

    /// The kernel that is launched.
    pub(super) fn kernel(&self) -> Kernel {
        self.kernel.clone()
    }
}

/// The memo under measurement.
pub(super) type Memo = SharedMemo<Kernel>;

/// Launches in `scene` and describes the arguments, as each launch does.
#[inline]
pub(super) fn launch(memo: &Memo, handle: Handle, scene: &Scene) -> Launched<Kernel> {
    let seen = scene.world.with_arguments(&scene.arguments);
    memo.launch(handle, &seen).expect("the handle was given by this memo, and the reduction does not fail")
}

/// Holds an evaluation up, once it is closed.
#[derive(Debug)]
pub(super) struct Gate {
    closed: AtomicBool,
    reached: Barrier,
}

impl Gate {
    /// The timeout after which a hit that wrongly waits for the evaluation ends the benchmark with a miss.
    const TIMEOUT: Duration = Duration::from_secs(60);

    /// An open gate.
    pub(super) fn new() -> Self {
        Self { closed: AtomicBool::new(false), reached: Barrier::new(2) }
    }

    /// Threads that arrive from now on wait.
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
        while self.closed.load(Ordering::Acquire) && start.elapsed() < Self::TIMEOUT {
            thread::sleep(Duration::from_millis(1));
        }
    }
}
