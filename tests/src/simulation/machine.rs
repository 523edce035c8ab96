//! A simulated machine: the steps of a start, as `get_or_build_many` takes them over a remote.

use std::{collections::BTreeSet, mem};

use warmstart_core::{
    batch::{Batch, Next, Surveyed},
    lease::Backoff,
};

use super::{
    SECOND, Scenario,
    engine::{Answer, Ask, Entry, Kind, Seen},
    leases::Leases,
    link::{Action, Event, Link, Message, Task},
    numbers::Numbers,
    scenario::Way,
};

/// How long a machine waits for an artifact, in microseconds.
const TIMEOUT: u64 = 60 * SECOND;

/// The pauses between two surveys, as of `get_or_build_many`.
const PAUSES: Backoff = Backoff::new(SECOND / 4, 4 * SECOND);

#[derive(Debug)]
enum Plan {
    None,
    Many(Batch),
    /// A loop of single calls, at this kernel.
    Loop(usize, Backoff),
}

#[derive(Debug, Default)]
struct Worker {
    hand: Option<usize>,
    is_parked: bool,
}

#[derive(Debug)]
pub(super) struct Machine {
    pub(super) has: Vec<Option<Entry>>,
    pub(super) link: Link,
    leases: Leases,
    kind: Kind,
    way: Way,
    plan: Plan,
    workers: Vec<Worker>,
    /// Whether a worker surveys.
    is_asking: bool,
    surveyed: Vec<(usize, Surveyed)>,
    /// Whether the engine honours conditions.
    has_claims: bool,
    is_alone: bool,
    /// The kernels that are looked up once more before they are built.
    checked: BTreeSet<usize>,
}

impl Machine {
    pub(super) fn new(scenario: &Scenario, numbers: Numbers) -> Self {
        Self {
            has: vec![None; scenario.kernels.len()],
            link: Link::new(scenario.engine.kind, scenario.has_skew, numbers),
            leases: Leases::default(),
            kind: scenario.engine.kind,
            way: scenario.way,
            plan: Plan::None,
            workers: (0..scenario.workers).map(|_| Worker::default()).collect(),
            is_asking: false,
            surveyed: Vec::new(),
            has_claims: true,
            is_alone: false,
            checked: BTreeSet::new(),
        }
    }

    /// Takes the steps that an event at this time of the world makes possible.
    pub(super) fn handle(&mut self, world: u64, event: Event) {
        self.link.set_clock(world);
        match event {
            Event::Start if self.way == Way::Loop => {
                self.plan = Plan::Loop(0, PAUSES);
                self.next(0);
            }
            Event::Start => {
                let all = (0..self.has.len()).collect();
                let ask = if self.kind == Kind::Redis { Ask::Fetch(all) } else { Ask::Survey(all) };
                self.link.send(Task::Start, ask, false);
            }
            Event::Answered(message, answer) => {
                if let Some((message, answer)) = self.link.receive(message, answer) {
                    self.answered(&message, answer);
                }
            }
            Event::Resend(message) => self.link.resend(message),
            Event::Wake => self.unpark(),
            Event::Built(worker) => self.built(worker),
            Event::Renewal(kernel) => self.leases.renew(kernel, &mut self.link),
        }
    }

    fn answered(&mut self, message: &Message, answer: Answer) {
        if let Answer::Fetched(entries, _) = &answer {
            entries.iter().for_each(|(kernel, entry)| self.has[*kernel] = Some(*entry));
        }
        match (message.task, &message.ask) {
            (Task::Start, ask) => self.started(ask, &answer),
            (Task::Worker(worker), _) => self.work(worker, message, answer),
            (Task::Upload, Ask::Put(kernel, _)) => match answer {
                Answer::Done(_) => self.leases.release(*kernel, &mut self.link),
                _ => self.leases.drop(*kernel),
            },
            (Task::Renewal, _) => self.leases.renewed(message, &answer, &mut self.link),
            (Task::Upload | Task::Background | Task::Release, _) => {}
        }
    }

    /// Goes on with the start: on objects, a LIST shows what is there to get, and a probe whether there are leases.
    fn started(&mut self, ask: &Ask, answer: &Answer) {
        if let Answer::Surveyed(seen) = answer {
            let stored = seen.iter().filter(|(_, seen)| matches!(seen, Seen::Stored));
            let stored: Vec<usize> = stored.map(|(kernel, _)| *kernel).collect();
            if !stored.is_empty() {
                return self.link.send(Task::Start, Ask::Fetch(stored), false);
            }
        }
        if let Answer::Probed(has_claims) = answer {
            self.has_claims = *has_claims;
        }
        let missing: Vec<usize> = (0..self.has.len()).filter(|&kernel| self.has[kernel].is_none()).collect();
        let is_online = self.link.is_online();
        if self.kind == Kind::Objects && is_online && !missing.is_empty() && !matches!(ask, Ask::Probe) {
            return self.link.send(Task::Start, Ask::Probe, false);
        }
        let batch = Batch::new(missing, self.link.numbers.number(), TIMEOUT);
        self.is_alone = !is_online;
        let has_surveys = self.has_claims && is_online;
        self.plan = Plan::Many(if has_surveys { batch.with_surveys(PAUSES) } else { batch });
        self.workers.iter_mut().for_each(|worker| worker.is_parked = true);
        self.unpark();
    }

    fn unpark(&mut self) {
        // None may seem idle before each has looked.
        let parked: Vec<bool> =
            self.workers.iter_mut().map(|worker| mem::take(&mut worker.is_parked)).collect();
        (0..parked.len()).filter(|&worker| parked[worker]).for_each(|worker| self.next(worker));
    }

    /// Gives a worker the next kernel.
    fn next(&mut self, worker: usize) {
        self.workers[worker].hand = None;
        let is_online = self.link.is_online();
        match &mut self.plan {
            Plan::None => {}
            Plan::Loop(at, _) => match (*at..self.has.len()).find(|&kernel| self.has[kernel].is_none()) {
                Some(kernel) => {
                    *at = kernel;
                    self.attempt(worker, kernel, false);
                }
                None => self.link.actions.push(Action::End),
            },
            Plan::Many(batch) => {
                if !is_online && !mem::replace(&mut self.is_alone, true) {
                    batch.end_surveys();
                }
                if let Some(kernel) = batch.try_next() {
                    return self.attempt(worker, kernel, false);
                }
                let names = batch.to_survey();
                if self.is_asking || names.is_empty() {
                    return self.park(worker);
                }
                self.is_asking = true;
                self.link.send(Task::Worker(worker), Ask::Survey(names), false);
            }
        }
    }

    /// Leaves a worker without work. The last one waits.
    fn park(&mut self, worker: usize) {
        self.workers[worker].is_parked = true;
        let is_idle = self.workers.iter().all(|worker| worker.is_parked);
        let (Plan::Many(batch), true) = (&mut self.plan, is_idle) else { return };
        match batch.wait_next(self.link.now, self.link.numbers.number()) {
            Next::WaitFor(kernel, _) => {
                self.workers[worker].is_parked = false;
                self.attempt(worker, kernel, true);
            }
            Next::Pause(pause) => self.link.after(pause, Event::Wake),
            Next::End => self.link.actions.push(Action::End),
        }
    }

    fn attempt(&mut self, worker: usize, kernel: usize, is_overdue: bool) {
        self.workers[worker].hand = Some(kernel);
        let task = Task::Worker(worker);
        if self.has[kernel].is_some() {
            self.resolve(worker);
        } else if self.is_alone || !self.link.is_online() {
            self.build(worker);
        } else if !self.has_claims || is_overdue {
            self.checked.insert(kernel);
            self.link.send(task, Ask::Fetch(vec![kernel]), false);
        } else if self.way == Way::Loop && self.kind == Kind::Objects {
            self.link.send(task, Ask::Fetch(vec![kernel]), false);
        } else {
            self.link.send(task, self.leases.claim(kernel), false);
        }
    }

    /// Goes on after the answer to a worker's request.
    fn work(&mut self, worker: usize, message: &Message, answer: Answer) {
        let task = Task::Worker(worker);
        match (&message.ask, answer, self.workers[worker].hand) {
            (Ask::Survey(_), Answer::Surveyed(seen), _) => {
                let (kind, now) = (self.kind, self.link.millis());
                let judge = |(kernel, seen)| (kernel, self.leases.judge(kind, kernel, seen, now));
                self.surveyed = seen.into_iter().map(judge).collect();
                let stored = self.surveyed.iter().filter(|(_, seen)| *seen == Surveyed::Stored);
                let stored: Vec<usize> = stored.map(|(kernel, _)| *kernel).collect();
                if stored.is_empty() {
                    self.begin_pass(worker);
                } else {
                    self.link.send(task, Ask::Fetch(stored), false);
                }
            }
            // What was refused is surveyed again, after a pause.
            (Ask::Survey(_), ..) | (Ask::Fetch(_), _, None) => self.begin_pass(worker),
            (Ask::Fetch(_), _, Some(kernel)) => {
                let is_checked = self.checked.remove(&kernel);
                if self.has[kernel].is_some() {
                    self.leases.release(kernel, &mut self.link);
                    self.resolve(worker);
                } else if is_checked || self.is_alone || !self.link.is_online() {
                    self.build(worker);
                } else {
                    self.link.send(task, Ask::Claim(kernel), false);
                }
            }
            (_, Answer::Stored(entry), Some(kernel)) => {
                self.has[kernel] = Some(entry);
                self.resolve(worker);
            }
            (_, Answer::Claimed(version), Some(kernel)) => {
                self.leases.claimed(kernel, version, message.sent, &mut self.link);
                if self.kind == Kind::Redis {
                    self.build(worker);
                } else {
                    // The holder before may have stored it since.
                    self.checked.insert(kernel);
                    self.link.send(task, Ask::Fetch(vec![kernel]), false);
                }
            }
            (_, Answer::Held | Answer::Busy, Some(kernel)) => self.postpone(worker, kernel),
            _ => self.build(worker),
        }
    }

    fn postpone(&mut self, worker: usize, kernel: usize) {
        self.leases.refused(kernel);
        match &mut self.plan {
            Plan::Many(batch) => {
                batch.postpone(kernel, self.link.now);
                self.next(worker);
            }
            Plan::Loop(_, pauses) => {
                let pause = pauses.pause(self.link.numbers.number());
                self.workers[worker].is_parked = true;
                self.link.after(pause, Event::Wake);
            }
            Plan::None => {}
        }
    }

    fn begin_pass(&mut self, worker: usize) {
        self.is_asking = false;
        // What could not be fetched stays postponed.
        let surveyed = mem::take(&mut self.surveyed).into_iter();
        let usable =
            surveyed.filter(|(kernel, seen)| *seen != Surveyed::Stored || self.has[*kernel].is_some());
        if let Plan::Many(batch) = &mut self.plan {
            batch.begin_pass(usable, self.link.now);
        }
        self.workers[worker].is_parked = true;
        self.unpark();
    }

    fn resolve(&mut self, worker: usize) {
        match &mut self.plan {
            Plan::Many(batch) => batch.resolve(),
            Plan::Loop(_, pauses) => pauses.reset(),
            Plan::None => {}
        }
        self.next(worker);
    }

    fn build(&mut self, worker: usize) {
        self.link.actions.extend(self.workers[worker].hand.map(|kernel| Action::Build(worker, kernel)));
    }

    /// Uploads what was built, while the worker goes on.
    fn built(&mut self, worker: usize) {
        let Some(kernel) = self.workers[worker].hand else { return };
        let entry = Entry { kernel };
        self.has[kernel] = Some(entry);
        if self.link.is_online() {
            self.link.send(Task::Upload, Ask::Put(kernel, entry), false);
        }
        self.resolve(worker);
    }
}
