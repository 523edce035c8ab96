//! A simulated machine: the steps of a start, as `get_or_build_many` takes them over a remote.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use warmstart_core::{
    batch::{Batch, Next, Surveyed},
    breaker::{Breaker, Mode},
    lease::{Backoff, Lease, Watch},
};

use super::{
    SECOND, Scenario,
    engine::{Answer, Ask, Entry, Kind, Seen},
    numbers::Numbers,
    scenario::Way,
};

/// How long a machine waits for an artifact, in microseconds.
pub(super) const TIMEOUT: u64 = 60 * SECOND;

/// The pauses between two surveys, as of `get_or_build_many`.
const PAUSES: Backoff = Backoff::new(SECOND / 4, 4 * SECOND);

/// The pauses after a request that was refused because there were too many.
const BUSY: Backoff = Backoff::new(SECOND, 8 * SECOND);

/// How often a request is sent again.
const RETRIES: u32 = 4;

/// Which part of a machine waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// The first look-up.
    Start,
    /// A worker of the batch.
    Worker(usize),
    Upload,
    Renewal,
    Release,
    /// The probe of an open breaker.
    Background,
}

#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) task: Task,
    pub(super) ask: Ask,
    /// Whether an earlier answer was lost.
    pub(super) is_retry: bool,
    /// The kernels to fetch after these.
    rest: Vec<usize>,
    tries: u32,
    pauses: Backoff,
    sent: u64,
}

#[derive(Clone, Debug)]
pub(super) enum Event {
    Start,
    Answered(Message, Answer),
    Resend(Message),
    /// A pause is over.
    Wake,
    Built(usize),
    Renewal(usize),
}

/// What a machine does to the world.
#[derive(Debug)]
pub(super) enum Action {
    Send(Message),
    After(u64, Event),
    /// A worker begins to build a kernel.
    Build(usize, usize),
    /// It has all kernels.
    End,
}

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

/// A lease of this machine.
#[derive(Debug)]
struct Holding {
    lease: Lease,
    version: u64,
    /// The answer to a renewal was lost.
    is_unsure: bool,
}

#[derive(Debug)]
pub(super) struct Machine {
    pub(super) actions: Vec<Action>,
    pub(super) has: Vec<Option<Entry>>,
    /// How often a caller waited for an engine that does not answer.
    pub(super) timeouts: u64,
    pub(super) numbers: Numbers,
    kind: Kind,
    way: Way,
    /// The clock shows this much when the simulation begins, and gains so many parts of a million.
    clock: (u64, i64),
    now: u64,
    plan: Plan,
    workers: Vec<Worker>,
    is_asking: bool,
    surveyed: Vec<(usize, Surveyed)>,
    /// Whether the engine honours conditions.
    has_claims: bool,
    is_alone: bool,
    is_probing: bool,
    breaker: Breaker,
    held: BTreeMap<usize, Holding>,
    watches: BTreeMap<usize, Watch<u64>>,
    /// The leases that stood still, and their versions.
    over: BTreeMap<usize, u64>,
    /// The kernels that were claimed and are looked up once more.
    checked: BTreeSet<usize>,
}

impl Machine {
    pub(super) fn new(scenario: &Scenario, mut numbers: Numbers) -> Self {
        let clock = if scenario.has_skew {
            (numbers.between(0, 1 << 50), i64::try_from(numbers.between(0, 20_000)).unwrap_or(0) - 10_000)
        } else {
            (1 << 50, 0)
        };
        Self {
            actions: Vec::new(),
            has: vec![None; scenario.kernels.len()],
            timeouts: 0,
            numbers,
            kind: scenario.engine.kind,
            way: scenario.way,
            clock,
            now: 0,
            plan: Plan::None,
            workers: (0..scenario.workers).map(|_| Worker::default()).collect(),
            is_asking: false,
            surveyed: Vec::new(),
            has_claims: true,
            is_alone: false,
            is_probing: false,
            breaker: Breaker::default(),
            held: BTreeMap::new(),
            watches: BTreeMap::new(),
            over: BTreeMap::new(),
            checked: BTreeSet::new(),
        }
    }

    /// Takes the steps that an event at this time of the world makes possible.
    pub(super) fn handle(&mut self, world: u64, event: Event) {
        let gained = i128::from(world) * i128::from(self.clock.1) / 1_000_000;
        self.now = u64::try_from(i128::from(self.clock.0) + i128::from(world) + gained).unwrap_or(0);
        match event {
            Event::Start if self.way == Way::Loop => {
                self.plan = Plan::Loop(0, PAUSES);
                self.next(0);
            }
            Event::Start => {
                let all = (0..self.has.len()).collect();
                self.send(
                    Task::Start,
                    if self.kind == Kind::Redis { Ask::Fetch(all) } else { Ask::Survey(all) },
                );
            }
            Event::Answered(message, answer) => self.answered(message, answer),
            Event::Resend(message) => self.send_again(message),
            Event::Wake => self.unpark(),
            Event::Built(worker) => self.built(worker),
            Event::Renewal(kernel) => self.renew(kernel),
        }
    }

    fn send(&mut self, task: Task, ask: Ask) {
        let (is_retry, rest, tries) = (false, Vec::new(), 0);
        self.send_again(Message { task, ask, is_retry, rest, tries, pauses: BUSY, sent: 0 });
    }

    /// Schedules an event after so long on this machine's clock.
    fn after(&mut self, local: u64, event: Event) {
        let rate = 1_000_000 + self.clock.1;
        let world = u64::try_from(i128::from(local) * 1_000_000 / i128::from(rate)).unwrap_or(0);
        self.actions.push(Action::After(world, event));
    }

    /// Returns whether requests are sent. Probes the engine in the background when that is due.
    fn is_online(&mut self) -> bool {
        let mode = self.breaker.mode(self.now / 1_000);
        if mode == Mode::Due && !mem::replace(&mut self.is_probing, true) {
            self.send(Task::Background, Ask::Probe);
        }
        mode == Mode::Closed
    }

    fn answered(&mut self, mut message: Message, answer: Answer) {
        if message.task == Task::Renewal {
            return self.renewed(&message, &answer);
        }
        let may_retry = message.tries < RETRIES;
        match answer {
            // The queue of uploads is patient.
            Answer::Busy if may_retry || message.task == Task::Upload => return self.send_later(message),
            Answer::Cut if may_retry => {
                message.tries += 1;
                message.is_retry = true;
                return self.send_again(message);
            }
            Answer::Cut | Answer::TimedOut => self.fail(message.task),
            Answer::Fetched(ref entries, ref refused) => {
                entries.iter().for_each(|(kernel, entry)| self.has[*kernel] = Some(*entry));
                if !refused.is_empty() || !message.rest.is_empty() {
                    let Ask::Fetch(asked) = &message.ask else { return };
                    let admitted = asked.len() - refused.len();
                    if self.fetch_rest(message.clone(), refused, admitted) {
                        return;
                    }
                }
            }
            _ => {}
        }
        match message.task {
            Task::Start => self.started(&message.ask, answer),
            Task::Worker(worker) => self.work(worker, &message, answer),
            Task::Upload => self.uploaded(&message.ask, &answer),
            Task::Background => {
                self.is_probing = false;
                if matches!(answer, Answer::Probed(_)) {
                    self.breaker.succeed();
                }
            }
            Task::Release | Task::Renewal => {}
        }
    }

    fn send_again(&mut self, mut message: Message) {
        message.sent = self.now;
        self.actions.push(Action::Send(message));
    }

    fn send_later(&mut self, mut message: Message) {
        message.tries += 1;
        let pause = message.pauses.pause(self.numbers.number());
        self.after(pause, Event::Resend(message));
    }

    /// Fetches what is left with fewer requests at once, as many as were admitted, and with more when none is refused. Returns
    /// false after too many tries.
    fn fetch_rest(&mut self, mut message: Message, refused: &[usize], admitted: usize) -> bool {
        let mut left = [refused, &message.rest[..]].concat();
        let at_once = if refused.is_empty() { 2 * admitted } else { admitted.max(1) };
        message.rest = left.split_off(at_once.min(left.len()));
        message.ask = Ask::Fetch(left);
        if refused.is_empty() {
            self.send_again(message);
            return true;
        }
        if admitted > 0 {
            message.tries = 0;
            message.pauses.reset();
        }
        let may_retry = message.tries < RETRIES;
        if may_retry {
            self.send_later(message);
        }
        may_retry
    }

    fn fail(&mut self, task: Task) {
        let now = self.now / 1_000;
        if self.breaker.mode(now) == Mode::Closed && task != Task::Background {
            self.timeouts += 1;
        }
        self.breaker.fail(now, self.numbers.number());
    }

    /// Goes on with the start: on objects, a LIST shows what is there to get, and a probe whether there are leases.
    fn started(&mut self, ask: &Ask, answer: Answer) {
        if let Answer::Surveyed(seen) = &answer {
            let is_stored = |(kernel, seen): &(usize, Seen)| matches!(seen, Seen::Stored).then_some(*kernel);
            let stored: Vec<usize> = seen.iter().filter_map(is_stored).collect();
            if !stored.is_empty() {
                return self.send(Task::Start, Ask::Fetch(stored));
            }
        }
        if let Answer::Probed(has_claims) = answer {
            self.has_claims = has_claims;
        }
        let missing: Vec<usize> = (0..self.has.len()).filter(|&kernel| self.has[kernel].is_none()).collect();
        let is_online = self.is_online();
        if self.kind == Kind::Objects && is_online && !missing.is_empty() && !matches!(ask, Ask::Probe) {
            return self.send(Task::Start, Ask::Probe);
        }
        let batch = Batch::new(missing, self.numbers.number(), TIMEOUT);
        let has_surveys = self.has_claims && is_online;
        self.is_alone = !is_online;
        self.plan = Plan::Many(if has_surveys { batch.with_surveys(PAUSES) } else { batch });
        (0..self.workers.len()).for_each(|worker| self.workers[worker].is_parked = true);
        self.unpark();
    }

    fn unpark(&mut self) {
        // None may seem idle before each has looked.
        let parked =
            self.workers.iter_mut().map(|worker| mem::take(&mut worker.is_parked)).collect::<Vec<_>>();
        parked
            .into_iter()
            .enumerate()
            .filter(|(_, is_parked)| *is_parked)
            .for_each(|(worker, _)| self.next(worker));
    }

    /// Gives a worker the next kernel.
    fn next(&mut self, worker: usize) {
        self.workers[worker].hand = None;
        let is_online = self.is_online();
        match &mut self.plan {
            Plan::None => {}
            Plan::Loop(at, _) => match (*at..self.has.len()).find(|&kernel| self.has[kernel].is_none()) {
                Some(kernel) => {
                    *at = kernel;
                    self.attempt(worker, kernel, false);
                }
                None => self.actions.push(Action::End),
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
                self.send(Task::Worker(worker), Ask::Survey(names));
            }
        }
    }

    /// Leaves a worker without work. The last one waits.
    fn park(&mut self, worker: usize) {
        self.workers[worker].is_parked = true;
        let is_idle = self.workers.iter().all(|worker| worker.is_parked);
        let (Plan::Many(batch), true) = (&mut self.plan, is_idle) else { return };
        match batch.wait_next(self.now, self.numbers.number()) {
            Next::WaitFor(kernel, _) => {
                self.workers[worker].is_parked = false;
                self.attempt(worker, kernel, true);
            }
            Next::Pause(pause) => self.after(pause, Event::Wake),
            Next::End => self.actions.push(Action::End),
        }
    }

    fn attempt(&mut self, worker: usize, kernel: usize, is_overdue: bool) {
        self.workers[worker].hand = Some(kernel);
        let task = Task::Worker(worker);
        if self.has[kernel].is_some() {
            self.resolve(worker);
        } else if self.is_alone || !self.is_online() {
            self.build(worker);
        } else if !self.has_claims || is_overdue {
            self.checked.insert(kernel);
            self.send(task, Ask::Fetch(vec![kernel]));
        } else if let Some(&version) = self.over.get(&kernel) {
            self.send(task, Ask::TakeOver(kernel, version));
        } else if self.way == Way::Loop && self.kind == Kind::Objects {
            self.send(task, Ask::Fetch(vec![kernel]));
        } else {
            self.send(task, Ask::Claim(kernel));
        }
    }

    /// Goes on with what a worker's request has told.
    fn work(&mut self, worker: usize, message: &Message, answer: Answer) {
        let task = Task::Worker(worker);
        match (&message.ask, answer, self.workers[worker].hand) {
            (Ask::Survey(_), Answer::Surveyed(seen), _) => {
                self.surveyed =
                    seen.into_iter().map(|(kernel, seen)| (kernel, self.judge(kernel, seen))).collect();
                let is_stored =
                    |(kernel, seen): &(usize, Surveyed)| (*seen == Surveyed::Stored).then_some(*kernel);
                let stored: Vec<usize> = self.surveyed.iter().filter_map(is_stored).collect();
                if stored.is_empty() { self.begin_pass(worker) } else { self.send(task, Ask::Fetch(stored)) }
            }
            // What was refused is surveyed again, after a pause.
            (Ask::Survey(_), ..) | (Ask::Fetch(_), _, None) => self.begin_pass(worker),
            (Ask::Fetch(_), _, Some(kernel)) if self.has[kernel].is_some() => {
                self.release(kernel);
                self.resolve(worker);
            }
            (Ask::Fetch(_), _, Some(kernel)) => {
                if self.checked.remove(&kernel) || self.is_alone || !self.is_online() {
                    self.build(worker);
                } else {
                    self.send(task, Ask::Claim(kernel));
                }
            }
            (_, Answer::Stored(entry), Some(kernel)) => {
                self.has[kernel] = Some(entry);
                self.resolve(worker);
            }
            (_, Answer::Claimed(version), Some(kernel)) => {
                let lease = Lease::new(message.sent / 1_000);
                self.held.insert(kernel, Holding { lease, version, is_unsure: false });
                self.over.remove(&kernel);
                self.await_renewal(kernel);
                if self.kind == Kind::Redis {
                    self.build(worker);
                } else {
                    // The holder before may have stored it since.
                    self.checked.insert(kernel);
                    self.send(task, Ask::Fetch(vec![kernel]));
                }
            }
            (_, Answer::Held | Answer::Busy, Some(kernel)) => {
                self.over.remove(&kernel);
                match &mut self.plan {
                    Plan::Many(batch) => {
                        batch.postpone(kernel, self.now);
                        self.next(worker);
                    }
                    Plan::Loop(_, pauses) => {
                        let pause = pauses.pause(self.numbers.number());
                        self.workers[worker].is_parked = true;
                        self.after(pause, Event::Wake);
                    }
                    Plan::None => {}
                }
            }
            _ => self.build(worker),
        }
    }

    /// Returns what a survey means for this machine: on objects, a lease that stood still is as good as none.
    fn judge(&mut self, kernel: usize, seen: Seen) -> Surveyed {
        match seen {
            Seen::Stored => Surveyed::Stored,
            Seen::Free => {
                self.over.remove(&kernel);
                Surveyed::Free
            }
            Seen::Held(_) if self.kind == Kind::Redis => Surveyed::Claimed,
            Seen::Held(version) => {
                let now = self.now / 1_000;
                let watch = self.watches.entry(kernel).or_insert(Watch::new(version, now));
                if watch.is_over(version, now) {
                    self.over.insert(kernel, version);
                    Surveyed::Free
                } else {
                    Surveyed::Claimed
                }
            }
        }
    }

    fn begin_pass(&mut self, worker: usize) {
        self.is_asking = false;
        // What could not be fetched stays postponed.
        let surveyed = mem::take(&mut self.surveyed).into_iter();
        let usable =
            surveyed.filter(|(kernel, seen)| *seen != Surveyed::Stored || self.has[*kernel].is_some());
        if let Plan::Many(batch) = &mut self.plan {
            batch.begin_pass(usable, self.now);
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
        self.actions.extend(self.workers[worker].hand.map(|kernel| Action::Build(worker, kernel)));
    }

    /// Uploads what was built, while the worker goes on.
    fn built(&mut self, worker: usize) {
        let Some(kernel) = self.workers[worker].hand else { return };
        let entry = Entry { kernel };
        self.has[kernel] = Some(entry);
        if self.is_online() {
            self.send(Task::Upload, Ask::Put(kernel, entry));
        }
        self.resolve(worker);
    }

    fn uploaded(&mut self, ask: &Ask, answer: &Answer) {
        let Ask::Put(kernel, _) = ask else { return };
        match answer {
            Answer::Done(_) => self.release(*kernel),
            _ => _ = self.held.remove(kernel),
        }
    }

    fn release(&mut self, kernel: usize) {
        self.checked.remove(&kernel);
        if let Some(holding) = self.held.remove(&kernel)
            && holding.lease.is_held(self.now / 1_000)
        {
            self.send(Task::Release, Ask::Release(kernel, holding.version));
        }
    }

    fn await_renewal(&mut self, kernel: usize) {
        if let Some(holding) = self.held.get(&kernel) {
            let left = (holding.lease.renewal() * 1_000).saturating_sub(self.now);
            self.after(left, Event::Renewal(kernel));
        }
    }

    fn renew(&mut self, kernel: usize) {
        let is_online = self.is_online();
        if let Some(holding) = self.held.get(&kernel).filter(|_| is_online) {
            let message = Message {
                task: Task::Renewal,
                ask: Ask::Renew(kernel, holding.version),
                is_retry: holding.is_unsure,
                rest: Vec::new(),
                tries: 0,
                pauses: BUSY,
                sent: self.now,
            };
            self.actions.push(Action::Send(message));
        }
    }

    fn renewed(&mut self, message: &Message, answer: &Answer) {
        let Ask::Renew(kernel, _) = message.ask else { return };
        let Some(holding) = self.held.get_mut(&kernel) else { return };
        match answer {
            Answer::Done(version) => {
                holding.version = *version;
                holding.is_unsure = false;
                holding.lease.renew(message.sent / 1_000);
            }
            Answer::Lost => {
                self.held.remove(&kernel);
            }
            Answer::TimedOut => self.fail(Task::Renewal),
            _ => {
                holding.is_unsure |= matches!(answer, Answer::Cut);
                holding.lease.retry(self.now / 1_000);
            }
        }
        self.await_renewal(kernel);
    }
}
