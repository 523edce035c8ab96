//! Runs and times the loop of one design.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use crate::{
    afresh, allocations,
    designs::{Design, Results},
    scene::{LAUNCHES, Scene},
};

/// The expected results of every launch of the loop.
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

    /// The same for all tests: unoptimised, running all reducers afresh takes seconds.
    #[cfg(test)]
    pub(crate) fn shared() -> &'static Self {
        static SHARED: std::sync::LazyLock<Expected> = std::sync::LazyLock::new(Expected::new);
        &SHARED
    }

    /// Returns the largest result of all launches.
    pub(crate) fn largest(&self) -> i64 {
        self.0.iter().flatten().map(|&(_, value)| value).max().unwrap_or(0)
    }

    /// Visits every result of every launch, with its [key](crate::kernels::Task::key).
    pub(crate) fn each(&self, mut look: impl FnMut(u64, i64)) {
        self.0.iter().flatten().for_each(|&(key, value)| look(key, value));
    }

    fn is(&self, launch: usize, maps: &[Results]) -> bool {
        let expected = &self.0[launch];
        maps.iter().all(|map| {
            map.len() == expected.len() && expected.iter().all(|(key, value)| map.get(key) == Some(value))
        })
    }
}

/// The measurement of a loop: of all its launches, also the first ones.
#[derive(Clone, Default)]
pub(crate) struct Loop {
    pub(crate) launches: usize,
    pub(crate) hits: usize,
    /// The time of all answers, and that of the hits among them.
    pub(crate) time: Duration,
    pub(crate) hit_time: Duration,
    /// The number of reducers that were run.
    pub(crate) evaluated: u64,
    /// The number of answers that were compared with the reducers run without a memo, and how many differed.
    pub(crate) checked: usize,
    pub(crate) wrong: usize,
    /// The number of allocations by hits.
    pub(crate) allocations_on_hit: u64,
    /// The number of results and of dependencies of all launches.
    pub(crate) results: usize,
    pub(crate) dependencies: usize,
}

impl Loop {
    /// Returns the time of one reducer, in milliseconds, if this is the loop without a memo, which does little else.
    pub(crate) fn a_reducer(&self) -> f64 {
        millis(self.time) / self.evaluated.max(1) as f64
    }

    /// Returns the time of the reducers that were run, in milliseconds, where one takes `a_reducer`.
    pub(crate) fn reducers(&self, a_reducer: f64) -> f64 {
        (a_reducer * self.evaluated as f64).min(millis(self.time))
    }

    /// Returns the rest of the time, in milliseconds: the cost of knowing the results.
    pub(crate) fn rest(&self, a_reducer: f64) -> f64 {
        millis(self.time) - self.reducers(a_reducer)
    }

    fn check<D: Design>(&mut self, launch: usize, answer: &D::Answer, expected: &Expected) {
        let maps = D::maps(answer);
        self.wrong += usize::from(!expected.is(launch, maps));
        self.checked += 1;
        self.results += maps[0].len();
        self.dependencies += D::dependencies(answer);
    }
}

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Runs the whole loop. Shared answers are held to its end, and checked then, after all changes.
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
        done.launches += 1;
        done.time += time;
        done.evaluated += design.evaluated() - evaluated;
        if D::is_hit(&answer) {
            done.hit_time += time;
            done.hits += 1;
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

/// Returns the loop with the median time. All run the same reducers, so the rest of its time is the median too.
pub(crate) fn median(mut loops: Vec<Loop>) -> Loop {
    let wrong = loops.iter().map(|done| done.wrong).max();
    let allocations = loops.iter().map(|done| done.allocations_on_hit).max();
    loops.sort_by_key(|done| done.time);
    let mut median = loops.swap_remove(loops.len() / 2);
    // Of these the worst counts.
    median.wrong = wrong.unwrap_or(0);
    median.allocations_on_hit = allocations.unwrap_or(0);
    median
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, collections::BTreeMap};

    use warmstart::memo::{
        AllocationId, ArgumentId, Arguments, Binding, FieldId, Generation, World, WorldId,
    };

    use super::*;
    use crate::{
        designs::{NoMemo, PerSpec},
        kernels::{KERNELS, SPECS},
        ours::{AsItIs, Ours, Sight},
        scene::Values,
    };

    const NOTHING: u8 = 0;
    const FIELDS: u8 = 1;
    const WRITES: u8 = 2;
    const SWAPS: u8 = 3;
    const SHAPES: u8 = 4;

    /// Hides one kind of change. Shapes stay as they were first read.
    #[derive(Default)]
    struct Hiding<const WHAT: u8>(RefCell<BTreeMap<(AllocationId, u32), u64>>);

    /// A world that hides one kind of change.
    struct Blind<'w, const WHAT: u8> {
        arguments: Arguments<'w, Values, Values>,
        hiding: &'w Hiding<WHAT>,
    }

    impl<const WHAT: u8> World for Blind<'_, WHAT> {
        type Field = Values;
        type Array = Values;

        fn identity(&self) -> WorldId {
            self.arguments.identity()
        }

        fn field_generation(&self, field: FieldId) -> Option<Generation> {
            let generation = self.arguments.field_generation(field)?;
            Some(if WHAT == FIELDS { Generation::FIRST } else { generation })
        }

        fn field(&self, field: FieldId) -> Option<&Values> {
            self.arguments.field(field)
        }

        fn binding(&self, argument: ArgumentId) -> Option<Binding> {
            let Binding { allocation, generation } = self.arguments.binding(argument)?;
            Some(Binding {
                allocation: if WHAT == SWAPS { AllocationId(0) } else { allocation },
                generation: if WHAT == WRITES { Generation::FIRST } else { generation },
            })
        }

        fn array(&self, argument: ArgumentId) -> Option<&Values> {
            self.arguments.array(argument)
        }

        fn extent(&self, argument: ArgumentId, axis: u32) -> Option<u64> {
            let extent = self.arguments.extent(argument, axis)?;
            if WHAT != SHAPES {
                return Some(extent);
            }
            let array = self.arguments.binding(argument)?.allocation;
            Some(*self.hiding.0.borrow_mut().entry((array, axis)).or_insert(extent))
        }
    }

    impl<const WHAT: u8> Sight for Hiding<WHAT> {
        type World<'w> = Blind<'w, WHAT>;

        fn see<'w>(&'w self, arguments: Arguments<'w, Values, Values>) -> Blind<'w, WHAT> {
            Blind { arguments, hiding: self }
        }
    }

    fn ours<S: Sight>(expected: &Expected) -> Loop {
        run(Ours::<S>::new, expected)
    }

    #[test]
    fn every_design_gives_what_the_reducers_give_afresh() {
        let expected = Expected::shared();
        for done in [
            run(|_| NoMemo::default(), expected),
            run(|_| PerSpec::new(true), expected),
            run(|_| PerSpec::new(false), expected),
            ours::<AsItIs>(expected),
        ] {
            assert_eq!((done.launches, done.checked, done.wrong), (LAUNCHES, LAUNCHES, 0));
            assert_eq!(done.results, LAUNCHES * SPECS);
        }
    }

    #[test]
    fn the_memos_run_only_the_reducers_that_something_moved_for() {
        let expected = Expected::shared();
        let (theirs, ours) = (run(|_| PerSpec::new(false), expected), ours::<AsItIs>(expected));
        assert_eq!(theirs.evaluated, ours.evaluated);
        assert!(ours.evaluated > (KERNELS.len() * SPECS) as u64, "each once, and some again");
        // Two of the three arrays of counts are of two kernels.
        let moved = (2 + 2 + 1) + 3 + 1 + 1 + 1;
        assert_eq!(ours.launches - ours.hits, KERNELS.len() + moved);
        assert_eq!(ours.allocations_on_hit, 0);
    }

    #[test]
    fn the_rest_is_what_is_not_of_the_reducers() {
        let time = Duration::from_millis(3);
        let no_memo = Loop { time, evaluated: 300, ..Loop::default() };
        let some = Loop { time, evaluated: 100, ..Loop::default() };
        let a_reducer = no_memo.a_reducer();
        assert!(no_memo.rest(a_reducer).abs() < 1e-9);
        assert!((some.reducers(a_reducer) - 1.0).abs() < 1e-9 && (some.rest(a_reducer) - 2.0).abs() < 1e-9);
        // Never less than nothing.
        assert!(some.rest(1.0).abs() < 1e-9);
    }

    #[test]
    fn the_check_finds_what_a_world_that_does_not_count_makes_wrong() {
        let expected = Expected::shared();
        assert_eq!(ours::<Hiding<NOTHING>>(expected).wrong, 0);
        assert!(ours::<Hiding<FIELDS>>(expected).wrong > 0, "a field was written");
        assert!(ours::<Hiding<WRITES>>(expected).wrong > 0, "an array was written");
        assert!(ours::<Hiding<SWAPS>>(expected).wrong > 0, "two arrays were swapped");
        assert!(ours::<Hiding<SHAPES>>(expected).wrong > 0, "an array was turned");
    }
}
