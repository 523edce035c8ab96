//! Plays processes that build the same artifacts together, in any interleaving of their steps.

use alloc::{vec, vec::Vec};
use core::iter;

use super::*;

/// How long a process waits for another one's build, in steps of the model. No build that goes on takes as long.
const TIMEOUT: u64 = 400;

const PAUSES: Backoff = Backoff::new(0, 0);

/// What may happen in a run.
#[derive(Clone, Copy, Debug, Default)]
struct Trouble {
    /// How many processes die in the middle.
    deaths: usize,
    /// How many processes stand still for longer than the timeout.
    pauses: usize,
    /// Of 100 builds, so many fail.
    failures: u64,
    /// The store has no claims: each process builds for itself.
    no_claims: bool,
    /// Surveys decide what is tried; one answer in ten is out of date.
    surveys: bool,
}

/// What a worker does next with the artifact in its hands.
#[derive(Clone, Copy, Debug)]
enum Task {
    LookUp,
    Claim,
    LookUpAgain,
    Build { steps_left: u64 },
    Store,
}

#[derive(Debug)]
struct Worker {
    process: usize,
    hand: Option<Hand>,
    is_done: bool,
}

/// An artifact in the hands of a worker.
#[derive(Debug)]
struct Hand {
    index: usize,
    task: Task,
    /// Until when the worker waits for the claim; a worker that only tries does not wait.
    until: Option<u64>,
    holds_claim: bool,
}

#[derive(Debug)]
struct Process {
    batch: Batch,
    /// What came of each artifact: whether it was there in the end.
    results: BTreeMap<usize, bool>,
    is_dead: bool,
    paused_until: u64,
}

/// All processes, and the store that they share.
#[derive(Debug)]
struct World {
    numbers: u64,
    now: u64,
    stored: Vec<bool>,
    /// The worker that holds the claim of each artifact.
    claims: Vec<Option<usize>>,
    builds: Vec<usize>,
    processes: Vec<Process>,
    workers: Vec<Worker>,
    trouble: Trouble,
    /// Whether a worker stopped waiting at the timeout.
    timed_out: bool,
}

impl World {
    fn new(seed: u64, trouble: Trouble) -> Self {
        let mut world = Self {
            numbers: seed,
            now: 0,
            stored: Vec::new(),
            claims: Vec::new(),
            builds: Vec::new(),
            processes: Vec::new(),
            workers: Vec::new(),
            trouble,
            timed_out: false,
        };
        let artifacts = 1 + world.below(12);
        world.stored = vec![false; artifacts];
        world.claims = vec![None; artifacts];
        world.builds = vec![0; artifacts];
        for process in 0..2 + world.below(5) {
            let seed = world.number();
            let batch = Batch::new((0..artifacts).collect(), seed, TIMEOUT);
            world.processes.push(Process {
                batch: if trouble.surveys { batch.with_surveys(PAUSES) } else { batch },
                results: BTreeMap::new(),
                is_dead: false,
                paused_until: 0,
            });
            for _ in 0..1 + world.below(3) {
                world.workers.push(Worker { process, hand: None, is_done: false });
            }
        }
        world
    }

    fn number(&mut self) -> u64 {
        self.numbers =
            self.numbers.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.numbers >> 33
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.number()).unwrap() % end
    }

    /// Plays to the end. Panics if it does not end, or if two build an artifact at once with claims of it.
    fn play(&mut self) {
        for _ in 0..1_000_000 {
            self.now += 1;
            self.disturb();
            let ready: Vec<usize> = (0..self.workers.len()).filter(|&worker| self.is_ready(worker)).collect();
            if ready.is_empty() {
                let is_over = |worker: &Worker| worker.is_done || self.processes[worker.process].is_dead;
                if self.workers.iter().all(is_over) {
                    return;
                }
                continue;
            }
            let worker = ready[self.below(ready.len())];
            self.step(worker);
        }
        panic!("it does not end: {self:?}");
    }

    fn disturb(&mut self) {
        let process = self.below(self.processes.len());
        if self.trouble.deaths > 0 && self.below(40) == 0 {
            // One lives, so that everything is built.
            let living = self.processes.iter().filter(|process| !process.is_dead).count();
            if living > 1 && !self.processes[process].is_dead {
                self.trouble.deaths -= 1;
                self.processes[process].is_dead = true;
                self.workers.iter_mut().filter(|worker| worker.process == process).for_each(|worker| {
                    worker.hand = None;
                });
                let workers = &self.workers;
                for claim in &mut self.claims {
                    *claim = claim.filter(|&worker| workers[worker].process != process);
                }
            }
        }
        if self.trouble.pauses > 0 && self.below(40) == 0 {
            self.trouble.pauses -= 1;
            self.processes[process].paused_until = self.now + 2 * TIMEOUT;
        }
    }

    fn is_ready(&self, worker: usize) -> bool {
        let process = &self.processes[self.workers[worker].process];
        !self.workers[worker].is_done && !process.is_dead && process.paused_until <= self.now
    }

    fn step(&mut self, at: usize) {
        let process = self.workers[at].process;
        let Some(Hand { index, task, until, holds_claim }) = self.workers[at].hand.take() else {
            return self.take(at);
        };
        let keep = |task, holds_claim| Some(Hand { index, task, until, holds_claim });
        let next = match task {
            Task::LookUp if self.stored[index] => return self.resolve(at, index, true),
            Task::LookUp => keep(Task::Claim, false),
            Task::Claim if self.trouble.no_claims => keep(self.start_build(index), false),
            Task::Claim => match (self.claims[index], until) {
                (None, _) => {
                    self.claims[index] = Some(at);
                    keep(Task::LookUpAgain, true)
                }
                (Some(_), Some(until)) if self.now < until => keep(Task::Claim, false),
                (Some(_), Some(_)) => {
                    self.timed_out = true;
                    keep(self.start_build(index), false)
                }
                (Some(_), None) => {
                    let now = self.now;
                    self.processes[process].batch.postpone(index, now);
                    None
                }
            },
            Task::LookUpAgain if self.stored[index] => return self.resolve(at, index, true),
            Task::LookUpAgain => keep(self.start_build(index), true),
            Task::Build { steps_left: 0 } => {
                if u64::try_from(self.below(100)).unwrap() < self.trouble.failures {
                    return self.resolve(at, index, false);
                }
                keep(Task::Store, holds_claim)
            }
            Task::Build { steps_left } => {
                let holders = self.workers.iter().filter_map(|worker| worker.hand.as_ref());
                let is_second = |hand: &Hand| {
                    hand.index == index && hand.holds_claim && matches!(hand.task, Task::Build { .. })
                };
                assert!(!holds_claim || !holders.into_iter().any(is_second), "two build {index} at once");
                keep(Task::Build { steps_left: steps_left - 1 }, holds_claim)
            }
            Task::Store => {
                self.stored[index] = true;
                return self.resolve(at, index, true);
            }
        };
        self.workers[at].hand = next;
    }

    fn start_build(&mut self, index: usize) -> Task {
        self.builds[index] += 1;
        Task::Build { steps_left: self.number() % 8 }
    }

    /// Takes what the batch says is next. Only the first worker of a process waits, when the others have nothing in hand.
    fn take(&mut self, at: usize) {
        let process = self.workers[at].process;
        let batch = &mut self.processes[process].batch;
        if let Some(index) = batch.try_next() {
            self.workers[at].hand = Some(Hand { index, task: Task::LookUp, until: None, holds_claim: false });
            return;
        }
        let to_survey = batch.to_survey();
        if self.trouble.surveys && !to_survey.is_empty() {
            let surveyed: Vec<_> = to_survey.into_iter().map(|index| (index, self.survey(index))).collect();
            self.processes[process].batch.begin_pass(surveyed, self.now);
            return;
        }
        let first = self.workers.iter().position(|worker| worker.process == process);
        if first != Some(at) {
            // It has nothing more to try, unless the first one waits in vain and finds more.
            self.workers[at].is_done = self.processes[process].results.len() == self.stored.len();
            return;
        }
        let is_busy = |worker: &Worker| worker.process == process && worker.hand.is_some();
        if self.workers.iter().any(is_busy) {
            return;
        }
        let task = Task::LookUp;
        match self.processes[process].batch.wait_next(self.now, 0) {
            Next::WaitFor(index, until) => {
                self.workers[at].hand = Some(Hand { index, task, until: Some(until), holds_claim: false });
            }
            Next::Pause(_) => {}
            Next::End => self.workers[at].is_done = true,
        }
    }

    fn survey(&mut self, index: usize) -> Surveyed {
        match (self.below(10), self.stored[index], self.claims[index]) {
            (0, ..) => [Surveyed::Stored, Surveyed::Claimed, Surveyed::Free][self.below(3)],
            (_, true, _) => Surveyed::Stored,
            (_, false, Some(_)) => Surveyed::Claimed,
            (_, false, None) => Surveyed::Free,
        }
    }

    fn resolve(&mut self, at: usize, index: usize, is_there: bool) {
        for claim in &mut self.claims {
            *claim = claim.filter(|&worker| worker != at);
        }
        let process = &mut self.processes[self.workers[at].process];
        process.batch.resolve();
        let before = process.results.insert(index, is_there);
        assert_eq!(before, None, "resolved twice");
    }
}

fn play(runs: u64, trouble: Trouble, check: impl Fn(&World)) {
    for seed in 0..runs {
        let mut world = World::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), trouble);
        world.play();
        for process in world.processes.iter().filter(|process| !process.is_dead) {
            assert_eq!(process.results.len(), world.stored.len(), "seed {seed}: something has no result");
        }
        check(&world);
    }
}

/// How many interleavings each test plays.
const RUNS: u64 = if cfg!(miri) { 5 } else { 5_000 };

#[test]
fn every_artifact_is_built_exactly_once() {
    for surveys in [false, true] {
        play(RUNS, Trouble { surveys, ..Trouble::default() }, |world| {
            assert!(world.builds.iter().all(|&builds| builds == 1), "{:?}", world.builds);
            assert!(!world.timed_out && world.stored.iter().all(|&stored| stored));
        });
    }
}

#[test]
fn deaths_leave_nothing_unbuilt() {
    for surveys in [false, true] {
        play(RUNS, Trouble { deaths: 3, surveys, ..Trouble::default() }, check_deaths);
    }
}

/// Checks a run in which processes died.
fn check_deaths(world: &World) {
    let dead = world.processes.iter().filter(|process| process.is_dead).count();
    let workers = world.workers.iter().filter(|worker| world.processes[worker.process].is_dead).count();
    assert!(dead == 0 || !world.timed_out, "a claim ends with its holder: waiting never takes the timeout");
    let extra: usize = world.builds.iter().map(|builds| builds - 1).sum();
    assert!(extra <= workers, "at most one build more for each one that a dead process had");
    assert!(world.stored.iter().all(|&stored| stored));
}

#[test]
fn pauses_end_at_the_timeout_and_all_is_stored() {
    for surveys in [false, true] {
        play(RUNS, Trouble { pauses: 2, deaths: 1, surveys, ..Trouble::default() }, |world| {
            assert!(world.stored.iter().all(|&stored| stored));
        });
    }
}

#[test]
fn failed_builds_are_tried_by_every_process() {
    play(RUNS, Trouble { failures: 30, deaths: 1, ..Trouble::default() }, |world| {
        for (index, &stored) in world.stored.iter().enumerate() {
            let lacks_it = |process: &Process| process.results.get(&index) == Some(&false);
            let living = world.processes.iter().filter(|process| !process.is_dead).count();
            let failed =
                world.processes.iter().filter(|process| !process.is_dead && lacks_it(process)).count();
            assert!(stored || failed == living, "what was not stored was tried by all");
        }
    });
}

#[test]
fn a_store_without_claims_builds_in_each_process() {
    play(RUNS, Trouble { no_claims: true, ..Trouble::default() }, |world| {
        assert!(world.stored.iter().all(|&stored| stored) && !world.timed_out);
    });
}

#[test]
fn orders_differ_by_seed_and_lose_nothing() {
    let order = |seed| {
        let mut batch = Batch::new((0..100).collect(), seed, 1);
        iter::from_fn(|| batch.try_next()).collect::<Vec<_>>()
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
    let mut sorted = order(3);
    sorted.sort_unstable();
    assert_eq!(sorted, (0..100).collect::<Vec<_>>());
}

#[test]
fn the_wait_counts_from_the_first_postponement() {
    let mut batch = Batch::new(vec![0, 1], 0, 10);
    let first = batch.try_next().unwrap();
    batch.postpone(first, 100);
    let second = batch.try_next().unwrap();
    batch.resolve();
    assert_eq!(batch.try_next(), Some(first), "what progressed elsewhere may have progressed here");
    batch.postpone(first, 105);
    assert_eq!(batch.try_next(), None);
    assert_eq!(batch.wait_next(0, 0), Next::WaitFor(first, 110));
    assert_ne!(first, second);
}

/// Returns a batch of ten artifacts that a survey found free.
fn surveyed() -> Batch {
    let mut batch = Batch::new((0..10).collect(), 5, 10).with_surveys(Backoff::new(8, 16));
    assert_eq!((batch.try_next(), batch.to_survey().len()), (None, 10), "a survey comes first");
    batch.begin_pass((0..10).map(|index| (index, Surveyed::Free)), 100);
    batch
}

#[test]
fn one_refused_claim_postpones_the_pass_with_surveys() {
    let mut batch = surveyed();
    let first = batch.try_next().unwrap();
    assert_eq!(batch.to_survey(), [0; 0], "there is more to try");
    batch.postpone(first, 100);
    assert_eq!((batch.try_next(), batch.left(), batch.to_survey().len()), (None, 10, 10));
    batch.begin_pass((0..10).map(|index| (index, Surveyed::Claimed)), 105);
    assert_eq!((batch.try_next(), batch.to_survey().len()), (None, 0), "the survey is new");
    assert_eq!(batch.wait_next(109, u64::MAX), Next::Pause(8));
    assert_eq!((batch.to_survey().len(), batch.wait_next(109, u64::MAX)), (10, Next::Pause(16)));
    assert_eq!(batch.wait_next(110, 0), Next::WaitFor(first, 110), "counted from the refusal");
    batch.resolve();
    let some = |index| if index % 2 == 0 { Surveyed::Stored } else { Surveyed::Free };
    batch.begin_pass((0..10).map(|index| (index, some(index))), 111);
    let order: Vec<usize> = iter::from_fn(|| batch.try_next()).collect();
    assert_eq!((order.len(), order.is_sorted_by_key(|index| index % 2)), (9, true), "stored ones first");
    batch.postpone(order[0], 112);
    assert_eq!(batch.wait_next(113, u64::MAX), Next::Pause(8), "something was free meanwhile");
}

#[test]
fn stored_artifacts_neither_shorten_pauses_nor_outdate() {
    let mut batch = surveyed();
    let first = batch.try_next().unwrap();
    batch.postpone(first, 100);
    let claimed = |stored| {
        (0..10).map(move |index| (index, [Surveyed::Claimed, Surveyed::Stored][usize::from(index < stored)]))
    };
    batch.begin_pass(claimed(0), 101);
    assert_eq!(batch.wait_next(102, u64::MAX), Next::Pause(8));
    batch.begin_pass(claimed(3), 103);
    for _ in 0..3 {
        assert!(batch.try_next().is_some());
        batch.resolve();
    }
    assert_eq!((batch.try_next(), batch.to_survey().len()), (None, 0), "the survey is new");
    assert_eq!(batch.wait_next(104, u64::MAX), Next::Pause(16));
}

#[test]
fn a_batch_without_an_answer_goes_on_without_surveys() {
    let mut batch = Batch::new(vec![0, 1], 5, 10).with_surveys(PAUSES);
    assert_eq!((batch.try_next(), batch.to_survey().len()), (None, 2));
    batch.end_surveys();
    let first = batch.try_next().unwrap();
    batch.postpone(first, 0);
    assert!(batch.try_next().is_some_and(|second| second != first));
    batch.resolve();
    assert_eq!(batch.try_next(), Some(first));
}
