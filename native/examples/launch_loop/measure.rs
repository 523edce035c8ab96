//! The loop, as each design does it.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use crate::{
    afresh, allocations,
    designs::{Design, Results},
    kernels::KERNELS,
    scene::{LAUNCHES, Scene},
};

/// What every launch of the loop has to get.
pub(crate) struct Expected(Vec<Vec<(u64, i64)>>);

impl Expected {
    /// Runs all reducers afresh at every launch.
    pub(crate) fn new() -> Self {
        let mut scene = Scene::new();
        let results = (0..LAUNCHES).map(|launch| {
            scene.before(launch);
            let results = afresh::results(&scene, Scene::kernel(launch));
            scene.after(launch);
            results
        });
        Self(results.collect())
    }

    fn is(&self, launch: usize, maps: &[Results]) -> bool {
        let expected = &self.0[launch];
        maps.iter().all(|map| {
            map.len() == expected.len() && expected.iter().all(|(key, value)| map.get(key) == Some(value))
        })
    }
}

/// What came of a loop.
#[derive(Clone, Default)]
pub(crate) struct Loop {
    /// The first launch of every kernel, and all that followed.
    pub(crate) first: Part,
    pub(crate) rest: Part,
    pub(crate) checked: usize,
    pub(crate) wrong: usize,
    /// How often hits asked for memory.
    pub(crate) allocations_on_hit: u64,
    /// Of all launches together.
    pub(crate) results: usize,
    pub(crate) dependencies: usize,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Part {
    pub(crate) launches: usize,
    pub(crate) hits: usize,
    /// How long the answers took.
    pub(crate) time: Duration,
    /// How many reducers were run for them.
    pub(crate) evaluated: u64,
}

impl Loop {
    fn check<D: Design>(&mut self, launch: usize, answer: &D::Answer, expected: &Expected) {
        let maps = D::maps(answer);
        self.checked += 1;
        self.wrong += usize::from(!expected.is(launch, maps));
        self.results += maps[0].len();
        self.dependencies += D::dependencies(answer);
    }
}

/// Runs the whole loop. Answers that are shared are all held to its end, and checked then, after all that happened.
pub(crate) fn run<D: Design>(make: impl FnOnce(&Scene) -> D, expected: &Expected) -> Loop {
    let mut scene = Scene::new();
    let mut design = make(&scene);
    let mut held = Vec::with_capacity(if D::IS_SHARED { LAUNCHES } else { 0 });
    let mut done = Loop::default();
    for launch in 0..LAUNCHES {
        scene.before(launch);
        let kernel = Scene::kernel(launch);
        let (evaluated, requests) = (design.evaluated(), allocations::requests());
        let start = Instant::now();
        let answer = black_box(design.launch(kernel, &scene));
        let time = start.elapsed();
        let requests = allocations::requests() - requests;
        let part = if launch < KERNELS.len() { &mut done.first } else { &mut done.rest };
        part.launches += 1;
        part.time += time;
        part.evaluated += design.evaluated() - evaluated;
        if D::is_hit(&answer) {
            part.hits += 1;
            done.allocations_on_hit += requests;
        }
        if D::IS_SHARED {
            held.push(answer);
        } else {
            done.check::<D>(launch, &answer, expected);
        }
        scene.after(launch);
    }
    for (launch, answer) in held.iter().enumerate() {
        done.check::<D>(launch, answer, expected);
    }
    done
}
