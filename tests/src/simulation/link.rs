//! A machine's link to the engine: its clock, its requests with their retries, and the breaker.

use std::mem;

use warmstart_core::{
    breaker::{Breaker, Mode},
    lease::Backoff,
};

use super::{
    SECOND,
    engine::{Answer, Ask, Entry, Kind},
    numbers::Numbers,
};

/// The pauses after a request that was refused because there were too many.
const BUSY: Backoff = Backoff::new(SECOND, 8 * SECOND);

/// The number of objects that are fetched at once to begin with. It doubles while none is refused.
const GETS: usize = 4;

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

#[derive(Debug)]
pub(super) struct Message {
    pub(super) task: Task,
    pub(super) ask: Ask,
    /// Whether an earlier answer was lost.
    pub(super) is_retry: bool,
    /// When it was sent, on the machine's clock.
    pub(super) sent: u64,
    /// The entries that earlier tries fetched, and the kernels to fetch after these.
    fetched: Vec<(usize, Entry)>,
    rest: Vec<usize>,
    tries: u32,
    pauses: Backoff,
}

#[derive(Debug)]
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
pub(super) struct Link {
    pub(super) actions: Vec<Action>,
    /// How often a caller waited for an engine that does not answer.
    pub(super) timeouts: u64,
    pub(super) numbers: Numbers,
    /// The machine's clock, in microseconds.
    pub(super) now: u64,
    /// The clock shows this much when the simulation begins, and gains so many parts of a million.
    clock: (u64, i64),
    /// The number of GETs at once to begin with.
    gets: usize,
    is_probing: bool,
    breaker: Breaker,
}

impl Link {
    pub(super) fn new(kind: Kind, has_skew: bool, mut numbers: Numbers) -> Self {
        let skewed = |numbers: &mut Numbers| {
            (numbers.between(0, 1 << 50), numbers.between(0, 20_000).cast_signed() - 10_000)
        };
        let clock = if has_skew { skewed(&mut numbers) } else { (1 << 50, 0) };
        Self {
            actions: Vec::new(),
            timeouts: 0,
            numbers,
            now: 0,
            clock,
            gets: if kind == Kind::Redis { usize::MAX } else { GETS },
            is_probing: false,
            breaker: Breaker::default(),
        }
    }

    /// Sets the machine's clock to this time of the world.
    pub(super) fn set_clock(&mut self, world: u64) {
        let (offset, gain) = self.clock;
        let gained = i128::from(world) * i128::from(gain) / 1_000_000;
        self.now = u64::try_from(i128::from(offset) + i128::from(world) + gained).unwrap_or(0);
    }

    pub(super) fn millis(&self) -> u64 {
        self.now / 1_000
    }

    /// Schedules an event after so long on the machine's clock.
    pub(super) fn after(&mut self, local: u64, event: Event) {
        let rate = i128::from(1_000_000 + self.clock.1);
        let world = u64::try_from(i128::from(local) * 1_000_000 / rate).unwrap_or(0);
        self.actions.push(Action::After(world, event));
    }

    pub(super) fn send(&mut self, task: Task, mut ask: Ask, is_retry: bool) {
        let (fetched, mut rest) = (Vec::new(), Vec::new());
        if let Ask::Fetch(kernels) = &mut ask {
            rest = kernels.split_off(self.gets.min(kernels.len()));
        }
        self.resend(Message { task, ask, is_retry, sent: 0, fetched, rest, tries: 0, pauses: BUSY });
    }

    pub(super) fn resend(&mut self, mut message: Message) {
        message.sent = self.now;
        self.actions.push(Action::Send(message));
    }

    fn send_later(&mut self, mut message: Message) {
        message.tries += 1;
        let pause = message.pauses.pause(self.numbers.number());
        self.after(pause, Event::Resend(message));
    }

    /// Returns whether requests are sent. Probes the engine in the background when that is due.
    pub(super) fn is_online(&mut self) -> bool {
        let mode = self.breaker.mode(self.millis());
        if mode == Mode::Due && !mem::replace(&mut self.is_probing, true) {
            self.send(Task::Background, Ask::Probe, false);
        }
        mode == Mode::Closed
    }

    /// Receives an answer. Returns nothing if the request is sent again.
    pub(super) fn receive(&mut self, mut message: Message, answer: Answer) -> Option<(Message, Answer)> {
        let may_retry = message.tries < RETRIES;
        match &answer {
            // A renewal has retries of its own.
            Answer::Busy | Answer::Cut if message.task == Task::Renewal => {}
            // The queue of uploads is patient.
            Answer::Busy if may_retry || message.task == Task::Upload => {
                self.send_later(message);
                return None;
            }
            Answer::Cut if may_retry => {
                message.tries += 1;
                message.is_retry = true;
                self.resend(message);
                return None;
            }
            Answer::Cut | Answer::TimedOut => self.fail(message.task),
            Answer::Fetched(entries, refused) => {
                message.fetched.extend(entries);
                let mut message = self.fetch_rest(message, refused)?;
                let fetched = mem::take(&mut message.fetched);
                return Some((message, Answer::Fetched(fetched, Vec::new())));
            }
            _ => {}
        }
        if message.task == Task::Background {
            self.is_probing = false;
            if matches!(answer, Answer::Probed(_)) {
                self.breaker.succeed();
            }
        }
        Some((message, answer))
    }

    /// Fetches what is left with fewer requests at once, as many as were admitted, and with more when none is refused. Returns
    /// the message when nothing is left, or after too many tries.
    fn fetch_rest(&mut self, mut message: Message, refused: &[usize]) -> Option<Message> {
        let Ask::Fetch(asked) = &message.ask else { return Some(message) };
        let admitted = asked.len() - refused.len();
        let mut left = [refused, &message.rest[..]].concat();
        if left.is_empty() {
            return Some(message);
        }
        let at_once = if refused.is_empty() { 2 * admitted } else { admitted.max(1) };
        message.rest = left.split_off(at_once.min(left.len()));
        message.ask = Ask::Fetch(left);
        if refused.is_empty() {
            self.resend(message);
            return None;
        }
        if admitted > 0 {
            message.tries = 0;
            message.pauses.reset();
        }
        if message.tries >= RETRIES {
            return Some(message);
        }
        self.send_later(message);
        None
    }

    fn fail(&mut self, task: Task) {
        let now = self.millis();
        if self.breaker.mode(now) == Mode::Closed && task != Task::Background {
            self.timeouts += 1;
        }
        self.breaker.fail(now, self.numbers.number());
    }
}
