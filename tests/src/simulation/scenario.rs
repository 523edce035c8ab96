//! The scenarios: what the fleet and its engine are, and what goes wrong.

use super::{
    SECOND,
    engine::{Behaviour, Kind},
};

/// How a machine asks for its kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// All in one call.
    Many,
    /// One after the other, in the same order everywhere.
    Loop,
}

/// A simulation.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its row in the documents.
    pub name: &'static str,
    /// The source of all randomness.
    pub seed: u64,
    /// The number of machines.
    pub machines: usize,
    /// The number of kernels that each machine builds at once.
    pub workers: usize,
    /// The duration of each kernel's build in microseconds.
    pub kernels: Vec<u64>,
    /// The time in which all machines start, in microseconds.
    pub starts_within: u64,
    /// How a machine asks.
    pub way: Way,
    /// The engine.
    pub engine: Behaviour,
    /// Of a thousand builds, the machines of so many die.
    pub deaths: u64,
    /// Of a thousand builds, the machines of so many stand still for 4 to 20 s.
    pub pauses: u64,
    /// Whether each machine's clock has its own offset, and a rate of its own within 1 %.
    pub has_skew: bool,
}

impl Scenario {
    /// Returns a fleet of healthy machines that start within 10 s, with a healthy engine.
    #[must_use]
    pub fn new(name: &'static str, kind: Kind, machines: usize) -> Self {
        Self {
            name,
            seed: 1,
            machines,
            workers: 1,
            kernels: kernels(),
            starts_within: 10 * SECOND,
            way: Way::Many,
            engine: Behaviour {
                kind,
                limit: None,
                partitions: 1,
                ignores_conditions: false,
                mixes_up: false,
                dies: u64::MAX,
                lost: 0,
            },
            deaths: 0,
            pauses: 0,
            has_skew: false,
        }
    }

    /// Returns whether single calls are compared: nothing goes wrong that they would have to survive.
    #[must_use]
    pub fn has_loop(&self) -> bool {
        let is_healthy =
            self.engine.dies == u64::MAX && self.engine.lost == 0 && !self.engine.ignores_conditions;
        is_healthy && self.deaths + self.pauses == 0 && !self.has_skew
    }

    /// Returns the same with a loop of single calls.
    #[must_use]
    pub fn as_loop(&self) -> Self {
        Self { way: Way::Loop, ..self.clone() }
    }
}

/// Returns the durations of 80 builds from 0.1 to 5 s, mostly short, 100 s together.
fn kernels() -> Vec<u64> {
    let duration = |index: u64| {
        let (third, fourth) =
            (index.pow(3) * 1_000_000 / 79_u64.pow(3), index.pow(4) * 1_000_000 / 79_u64.pow(4));
        100_000 + (third * 627 + fourth * 373) * 49 / 10_000
    };
    (0..80).map(duration).collect()
}

/// Returns all scenarios of the documents.
#[must_use]
pub fn all(machines: usize) -> Vec<Scenario> {
    let base = |name, kind| Scenario::new(name, kind, machines);
    let behave = |scenario: Scenario, change: fn(&mut Behaviour)| {
        let mut scenario = scenario;
        change(&mut scenario.engine);
        scenario
    };
    let redis = |name| base(name, Kind::Redis);
    let objects = |name| base(name, Kind::Objects);
    vec![
        redis("Redis"),
        Scenario { starts_within: 0, ..redis("Redis, all at once") },
        behave(redis("Redis, 5,000 requests/s"), |engine| engine.limit = Some((5_000, 5_000))),
        objects("objects"),
        Scenario { starts_within: 0, ..objects("objects, all at once") },
        Scenario {
            starts_within: 0,
            ..behave(objects("objects, all at once, 5,500 reads/s in each of 32 prefixes"), |engine| {
                engine.limit = Some((5_500, 3_500));
                engine.partitions = 32;
            })
        },
        behave(objects("objects, 5,500 reads/s in all"), |engine| engine.limit = Some((5_500, 3_500))),
        Scenario { deaths: 10, ..redis("Redis, 1 % of builders die") },
        Scenario { deaths: 10, ..objects("objects, 1 % of builders die") },
        Scenario { deaths: 200, ..redis("Redis, 20 % of builders die") },
        Scenario { deaths: 200, ..objects("objects, 20 % of builders die") },
        Scenario { pauses: 200, ..redis("Redis, 20 % of builders pause") },
        Scenario { pauses: 200, ..objects("objects, 20 % of builders pause") },
        Scenario { has_skew: true, ..redis("Redis, skewed clocks") },
        Scenario { has_skew: true, ..objects("objects, skewed clocks") },
        behave(redis("Redis, 1 % of answers lost"), |engine| engine.lost = 10),
        behave(objects("objects, 1 % of answers lost"), |engine| engine.lost = 10),
        behave(objects("objects, conditions ignored"), |engine| engine.ignores_conditions = true),
        behave(redis("Redis, dead"), |engine| engine.dies = 0),
        behave(redis("Redis, dead after 5 s"), |engine| engine.dies = 5 * SECOND),
    ]
}
