//! The throughput of two threads that hit at once.

use std::{
    hint,
    sync::{
        Barrier, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    floor::Floor,
    scene::{Memo, Scene, launch},
};
use crate::{
    Rows,
    measure::{Plan, median},
    row::{Row, Sense},
};

/// The numbers of dependencies that are measured. The fewer, the more weighs what threads might share.
const DEPENDENCIES: [usize; 3] = [1, 10, 100];

/// The time that a thread hits in a row: far longer than it takes to see that the other one is awake, and shorter than a turn on a
/// processor that others use too.
const TURN: Duration = Duration::from_micros(500);

/// The rows of two threads, each with a handle of its own, in one world.
///
/// The floor is two threads that replay lists of their own and clone `Arc`s of their own: what the machine gives at this time. Where
/// others use both processors the two seldom run at once, so there are also rows of the quickest turns of all.
pub(super) fn rows(plan: &Plan) -> Rows {
    let mut rows = Vec::new();
    for dependencies in DEPENDENCIES {
        // All that both read, down to the closure, lies apart from what this thread writes on its stack: else the other one waits for
        // that, and it looks as if the memo were to blame.
        let Apart(scene) = &Apart(Scene::new(dependencies));
        let Apart(memo) = &Apart(Memo::default());
        // Neighbours: whatever lies side by side in the memo is theirs.
        let Apart(handles) = &Apart([0, 1].map(|_| memo.register(scene.kernel())));
        let floors = handles.map(|handle| {
            let results = launch(memo, handle, scene).to_vec();
            Apart(Floor::new(dependencies, results))
        });
        let ours = speed_up(plan, |thread| launch(memo, handles[thread], scene));
        let floor = speed_up(plan, |thread| floors[thread].0.hit());
        let name = format!("two_threads/{dependencies}");
        let note = |what, value| Row::note(format!("{name}/{what}"), (value, "ratio"), "one thread");
        rows.extend([
            Row::bounded(&name, (ours.median, "ratio"), "one thread", Sense::AtLeast, 1.7),
            note("floor", floor.median),
            note("quickest", ours.quickest),
            note("floor/quickest", floor.quickest),
        ]);
    }
    Ok(rows)
}

/// A value in its own cache lines.
#[repr(align(128))]
struct Apart<T>(T);

/// The throughput of two threads, as a multiple of the throughput of one.
#[derive(Clone, Copy, Debug)]
struct SpeedUp {
    /// The median over pairs of consecutive turns.
    median: f64,
    /// The speed-up of the fastest turn of two threads over the fastest turn of one.
    quickest: f64,
}

/// Measures the speed-up of two threads that call `hit`, one with 0 and the other with 1.
fn speed_up<T>(plan: &Plan, hit: impl Fn(usize) -> T + Sync) -> SpeedUp {
    let Apart(hit) = &Apart(hit);
    let calls = calls_in(TURN, || hit(0));
    let turn = |thread| {
        let start = Instant::now();
        for _ in 0..calls {
            hint::black_box(hit(hint::black_box(thread)));
        }
        (start, Instant::now())
    };
    let start = Barrier::new(2);
    let end = Barrier::new(2);
    let awake = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let other = Mutex::new(None);
    // The thread that is woken first waits for the other, so that both begin at once.
    let together = |round: u64, thread| {
        start.wait();
        awake.fetch_add(1, Ordering::AcqRel);
        while awake.load(Ordering::Acquire) < 2 * round {
            hint::spin_loop();
        }
        turn(thread)
    };
    let processors = Processors::of_this_thread();
    let _back = processors.pin(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _back = processors.pin(1);
            for round in 1.. {
                let took = together(round, 1);
                *other.lock().unwrap_or_else(PoisonError::into_inner) = Some(took);
                end.wait();
                if stop.load(Ordering::Acquire) {
                    return;
                }
            }
        });
        let rounds = if plan.is_quick() { 61 } else { 401 };
        let mut ratios = Vec::new();
        let mut quickest = [Duration::MAX; 2];
        for round in 1..=rounds {
            let (begun, ended) = turn(0);
            let alone = ended - begun;
            let (begun, ended) = together(round, 0);
            if round == rounds {
                stop.store(true, Ordering::Release);
            }
            end.wait();
            let other = other.lock().unwrap_or_else(PoisonError::into_inner).take();
            let (other_begun, other_ended) = other.unwrap_or((begun, ended));
            let both = ended.max(other_ended) - begun.min(other_begun);
            ratios.push(rate(alone, both));
            quickest = [quickest[0].min(alone), quickest[1].min(both)];
        }
        SpeedUp { median: median(ratios), quickest: rate(quickest[0], quickest[1]) }
    })
}

fn rate(alone: Duration, both: Duration) -> f64 {
    2.0 * alone.as_secs_f64() / both.as_secs_f64()
}

/// Returns the number of calls that take so long.
fn calls_in<T>(time: Duration, mut call: impl FnMut() -> T) -> u64 {
    let mut calls = 1;
    loop {
        let start = Instant::now();
        for _ in 0..calls {
            hint::black_box(call());
        }
        if start.elapsed() >= time {
            return calls;
        }
        calls *= 2;
    }
}

/// The processors that a thread may use. Two threads that are pinned to two of them do not share one on a busy machine.
#[derive(Clone, Copy, Debug)]
struct Processors {
    #[cfg(target_os = "linux")]
    all: Option<rustix::thread::CpuSet>,
}

impl Processors {
    fn of_this_thread() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            all: rustix::thread::sched_getaffinity(None).ok(),
        }
    }

    /// Pins the calling thread to one of them until the result is dropped. If that is not possible, the system chooses.
    fn pin(self, which: usize) -> Pinned {
        #[cfg(target_os = "linux")]
        if let Some(all) = self.all {
            use rustix::thread::{CpuSet, sched_setaffinity};

            if let Some(processor) = (0..CpuSet::MAX_CPU).filter(|at| all.is_set(*at)).nth(which) {
                let mut one = CpuSet::new();
                one.set(processor);
                let _ = sched_setaffinity(None, &one);
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = which;
        Pinned(self)
    }
}

/// Pins a thread to a processor until it is dropped.
struct Pinned(Processors);

impl Drop for Pinned {
    fn drop(&mut self) {
        #[cfg(target_os = "linux")]
        if let Some(all) = &self.0.all {
            let _ = rustix::thread::sched_setaffinity(None, all);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = self.0;
    }
}
