//! The world of a simulation: its time, its network, and the machines' deaths and pauses.

use std::{cmp::Reverse, collections::BinaryHeap, fmt::Write as _, io};

use xxhash_rust::xxh3::Xxh3;

use super::{
    SECOND, Scenario,
    engine::{Answer, Engine, Kind},
    link::{Action, Event, Message},
    machine::Machine,
    numbers::Numbers,
    scenario::Way,
};

/// A machine that is not done after so long, in microseconds, never ends.
const LONGEST: u64 = 3_600 * SECOND;

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The builds that began.
    pub builds: u64,
    /// The machines that died during a build.
    pub deaths: u64,
    /// The machines that stood still during a build, for longer than a lease lasts.
    pub pauses: u64,
    /// All requests, each GET of an object too.
    pub requests: u64,
    /// The GETs that returned an object. An engine for objects needs one an entry and machine.
    pub downloads: u64,
    /// The requests that were refused with 503 or 429.
    pub busy: u64,
    /// How often any one machine waited for an engine that does not answer.
    pub timeouts: u64,
    /// The times to warm of the machines that lived, in microseconds, sorted.
    pub times: Vec<u64>,
    /// The entries of another kernel that machines ended with, and the kernels that they lacked.
    pub wrong: u64,
    /// The number of events in the trace.
    pub events: u64,
    /// XXH3-128 of the trace.
    pub digest: u128,
}

impl Outcome {
    /// Returns the requests a machine, less the downloads of objects.
    #[must_use]
    pub fn requests_each(&self, scenario: &Scenario) -> f64 {
        (self.requests - self.downloads) as f64 / scenario.machines as f64
    }

    /// Returns a row of the table in docs/fleet.md.
    #[must_use]
    pub fn row(&self, scenario: &Scenario) -> String {
        let Self { builds, deaths, pauses, .. } = self;
        let lost = if deaths + pauses > 0 { format!(" ({deaths} + {pauses})") } else { String::new() };
        let name = if scenario.way == Way::Loop { "the same, a loop of single calls" } else { scenario.name };
        let each = |count: u64| count as f64 / scenario.machines as f64;
        format!(
            "| {name} | {builds}{lost} | {:.1} | {:.1} | {:.1} | {:.1} / {:.1} s |",
            self.requests_each(scenario),
            each(self.downloads),
            each(self.busy),
            self.percentile(50),
            self.percentile(99)
        )
    }

    /// Returns the time to warm that so many percent of the machines do not exceed, in seconds.
    #[must_use]
    pub fn percentile(&self, percent: usize) -> f64 {
        let at = (self.times.len() * percent / 100).min(self.times.len().saturating_sub(1));
        self.times.get(at).map_or(f64::NAN, |micros| *micros as f64 / 1e6)
    }
}

/// What happens at a time.
enum What {
    /// A request arrives, and its answer takes so long.
    Arrival(Message, u64),
    Event(Event),
    Death,
    Pause(u64),
}

struct World<'a> {
    scenario: &'a Scenario,
    engine: Engine,
    machines: Vec<Machine>,
    /// When each machine started, whether it is done or dead, and until when it stands still.
    fates: Vec<Fate>,
    /// What happens next: the time, the order among equal times, and where it lies in `slots`.
    queue: BinaryHeap<Reverse<(u64, u64, usize)>>,
    slots: Vec<Option<(usize, What)>>,
    free: Vec<usize>,
    queued: u64,
    now: u64,
    numbers: Numbers,
    outcome: Outcome,
    trace: Trace<'a>,
}

#[derive(Clone, Copy, Default)]
struct Fate {
    started: u64,
    is_dead: bool,
    has_ended: bool,
    paused_until: u64,
}

struct Trace<'a> {
    hash: Xxh3,
    line: String,
    out: &'a mut dyn io::Write,
}

/// Plays a scenario to its end. Writes each event to `out`, one a line.
///
/// # Errors
/// Those of `out`.
pub fn run(scenario: &Scenario, out: &mut dyn io::Write) -> io::Result<Outcome> {
    let mut numbers = Numbers(scenario.seed);
    let machine = |_| Machine::new(scenario, Numbers(numbers.number()));
    let mut world = World {
        engine: Engine::new(scenario.engine, scenario.kernels.len()),
        machines: (0..scenario.machines).map(machine).collect(),
        fates: vec![Fate::default(); scenario.machines],
        queue: BinaryHeap::new(),
        slots: Vec::new(),
        free: Vec::new(),
        queued: 0,
        now: 0,
        numbers,
        outcome: Outcome {
            builds: 0,
            deaths: 0,
            pauses: 0,
            requests: 0,
            downloads: 0,
            busy: 0,
            timeouts: 0,
            times: Vec::new(),
            wrong: 0,
            events: 0,
            digest: 0,
        },
        trace: Trace { hash: Xxh3::new(), line: String::new(), out },
        scenario,
    };
    world.play()?;
    Ok(world.outcome)
}

impl World<'_> {
    fn play(&mut self) -> io::Result<()> {
        for machine in 0..self.machines.len() {
            let started = self.numbers.between(0, self.scenario.starts_within);
            self.fates[machine].started = started;
            self.at(started, machine, What::Event(Event::Start));
        }
        while let Some(Reverse((now, _, slot))) = self.queue.pop() {
            let next = self.slots[slot].take();
            self.free.push(slot);
            let Some((machine, what)) = next.filter(|_| now <= LONGEST) else { break };
            self.now = now;
            self.happen(machine, what)?;
        }
        for (machine, fate) in self.machines.iter().zip(&self.fates).filter(|(_, fate)| !fate.is_dead) {
            let is_right = |kernel: usize| machine.has[kernel].is_some_and(|entry| entry.kernel == kernel);
            self.outcome.wrong += (0..machine.has.len()).filter(|&kernel| !is_right(kernel)).count() as u64;
            self.outcome.wrong += u64::from(!fate.has_ended);
            self.outcome.timeouts = self.outcome.timeouts.max(machine.link.timeouts);
        }
        self.outcome.times.sort_unstable();
        self.outcome.digest = self.trace.hash.digest128();
        Ok(())
    }

    fn at(&mut self, at: u64, machine: usize, what: What) {
        self.queued += 1;
        let slot = self.free.pop().unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[slot] = Some((machine, what));
        self.queue.push(Reverse((at, self.queued, slot)));
    }

    fn happen(&mut self, machine: usize, what: What) -> io::Result<()> {
        let fate = self.fates[machine];
        match what {
            What::Arrival(message, back) => return self.arrive(machine, message, back),
            // An event waits for a machine that stands still, and is lost with a dead one.
            _ if fate.is_dead => {}
            what if fate.paused_until > self.now => self.at(fate.paused_until, machine, what),
            What::Death if fate.has_ended => {}
            What::Death => {
                self.fates[machine].is_dead = true;
                self.outcome.deaths += 1;
                self.record(machine, "dies", None, "")?;
            }
            What::Pause(micros) => {
                self.fates[machine].paused_until = self.now + micros;
                self.outcome.pauses += 1;
                self.record(machine, "pauses", None, "")?;
            }
            What::Event(event) => {
                self.machines[machine].handle(self.now, event);
                for action in std::mem::take(&mut self.machines[machine].link.actions) {
                    self.act(machine, action)?;
                }
            }
        }
        Ok(())
    }

    fn act(&mut self, machine: usize, action: Action) -> io::Result<()> {
        match action {
            Action::Send(message) => {
                let (shortest, longest) = match self.scenario.engine.kind {
                    Kind::Redis => (300, 1_000),
                    Kind::Objects => (30_000, 100_000),
                };
                let travel = self.numbers.between(shortest, longest);
                self.at(self.now + travel / 2, machine, What::Arrival(message, travel - travel / 2));
            }
            Action::After(micros, event) => self.at(self.now + micros, machine, What::Event(event)),
            Action::Build(worker, kernel) => {
                self.outcome.builds += 1;
                self.record(machine, "builds", Some(kernel), "")?;
                let micros = self.scenario.kernels[kernel];
                let (dies, pauses) =
                    (self.numbers.happens(self.scenario.deaths), self.numbers.happens(self.scenario.pauses));
                let middle = self.now + self.numbers.between(0, micros);
                if dies {
                    self.at(middle, machine, What::Death);
                } else if pauses {
                    let micros = self.numbers.between(4_000_000, 20_000_000);
                    self.at(middle, machine, What::Pause(micros));
                }
                self.at(self.now + micros, machine, What::Event(Event::Built(worker)));
            }
            Action::End => {
                let fate = &mut self.fates[machine];
                fate.has_ended = true;
                self.outcome.times.push(self.now - fate.started);
                self.record(machine, "ends", None, "")?;
            }
        }
        Ok(())
    }

    fn arrive(&mut self, machine: usize, message: Message, back: u64) -> io::Result<()> {
        let is_dead = self.now >= self.scenario.engine.dies;
        let (mut answer, count) = if is_dead {
            (Answer::TimedOut, 1)
        } else {
            self.engine.act(self.now, machine, &message.ask, message.is_retry)
        };
        let (name, kernel) = message.ask.name();
        self.record(machine, name, kernel, answer.name())?;
        self.outcome.requests += count;
        match &answer {
            Answer::Busy => self.outcome.busy += 1,
            Answer::Fetched(entries, refused) if self.scenario.engine.kind == Kind::Objects => {
                self.outcome.downloads += entries.len() as u64;
                self.outcome.busy += refused.len() as u64;
            }
            _ => {}
        }
        if !is_dead && self.numbers.happens(self.scenario.engine.lost) {
            answer = Answer::Cut;
        }
        let deadline = match self.scenario.engine.kind {
            Kind::Redis => 200_000,
            Kind::Objects => 2_000_000,
        };
        let back = if is_dead { deadline - back.min(deadline) } else { back };
        // A start that has ended may leave an upload behind, but waits for none.
        let event = Event::Answered(message, answer);
        self.at(self.now + back, machine, What::Event(event));
        Ok(())
    }

    fn record(&mut self, machine: usize, verb: &str, kernel: Option<usize>, end: &str) -> io::Result<()> {
        self.outcome.events += 1;
        let Trace { hash, line, out } = &mut self.trace;
        line.clear();
        let kernel = kernel.map_or(-1, |kernel| i64::try_from(kernel).unwrap_or(-1));
        let _ = writeln!(line, "{} {machine} {verb} {kernel} {end}", self.now);
        hash.update(line.as_bytes());
        out.write_all(line.as_bytes())
    }
}
