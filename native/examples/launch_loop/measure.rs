//! The loop, as each design does it.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use crate::{
    afresh, allocations,
    designs::{Design, Results},
    scene::{FIRST, LAUNCHES, Scene},
};

/// What every launch of the loop has to get.
pub(crate) struct Expected(Vec<Vec<(u64, i64)>>);

impl Expected {
    /// Runs all reducers afresh at every launch.
    pub(crate) fn new() -> Self {
        let mut scene = Scene::new();
        let results = (0..FIRST + LAUNCHES).map(|launch| {
            scene.before(launch);
            let results = afresh::results(&scene, Scene::kernel(launch));
            scene.after(launch);
            results
        });
        Self(results.collect())
    }

    /// The largest result of all launches.
    pub(crate) fn largest(&self) -> i64 {
        self.0.iter().flatten().map(|&(_, value)| value).max().unwrap_or(0)
    }

    /// Looks at every result of every launch, with its [key](crate::kernels::Task::key).
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

/// What came of a loop.
#[derive(Clone, Default)]
pub(crate) struct Loop {
    /// The first launch of every kernel, and all that followed.
    pub(crate) first: Part,
    pub(crate) rest: Part,
    /// How many answers were compared with the reducers run afresh, but for the first ones, and how many were not the same.
    pub(crate) checked: usize,
    pub(crate) wrong: usize,
    /// How often hits asked for memory.
    pub(crate) allocations_on_hit: u64,
    /// How many results and dependencies all launches have together, but for the first ones.
    pub(crate) results: usize,
    pub(crate) dependencies: usize,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Part {
    pub(crate) launches: usize,
    pub(crate) hits: usize,
    /// How long the answers took, and of that those that were there already.
    pub(crate) time: Duration,
    pub(crate) hit_time: Duration,
    /// How many reducers were run for them.
    pub(crate) evaluated: u64,
}

impl Loop {
    fn check<D: Design>(&mut self, launch: usize, answer: &D::Answer, expected: &Expected) {
        let maps = D::maps(answer);
        self.wrong += usize::from(!expected.is(launch, maps));
        if launch >= FIRST {
            self.checked += 1;
            self.results += maps[0].len();
            self.dependencies += D::dependencies(answer);
        }
    }
}

/// Runs the whole loop. Answers that are shared are all held to its end, and checked then, after all that happened.
pub(crate) fn run<D: Design>(make: impl FnOnce(&Scene) -> D, expected: &Expected) -> Loop {
    let mut scene = Scene::new();
    let mut design = make(&scene);
    let mut held = Vec::with_capacity(if D::IS_SHARED { FIRST + LAUNCHES } else { 0 });
    let mut done = Loop::default();
    for launch in 0..FIRST + LAUNCHES {
        scene.before(launch);
        let kernel = Scene::kernel(launch);
        let (evaluated, requests) = (design.evaluated(), allocations::requests());
        let start = Instant::now();
        let answer = black_box(design.launch(kernel, &scene));
        let time = start.elapsed();
        let requests = allocations::requests() - requests;
        let part = if launch < FIRST { &mut done.first } else { &mut done.rest };
        part.launches += 1;
        part.time += time;
        part.evaluated += design.evaluated() - evaluated;
        if D::is_hit(&answer) {
            part.hit_time += time;
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

/// Runs the loop of a design as often as there are rounds, and gives the one that took the median time.
pub(crate) fn median(mut loops: Vec<Loop>) -> Loop {
    let wrong = loops.iter().map(|done| done.wrong).max();
    let allocations = loops.iter().map(|done| done.allocations_on_hit).max();
    loops.sort_by_key(|done| done.rest.time);
    let mut median = loops.swap_remove(loops.len() / 2);
    // Of these the worst counts.
    median.wrong = wrong.unwrap_or(0);
    median.allocations_on_hit = allocations.unwrap_or(0);
    median
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        designs::{NoMemo, PerSpec},
        memo::{AllocationId, ArgumentId, Arguments, Binding, FieldId, Generation, World, WorldId},
        ours::{AsItIs, Ours, Sight},
        scene::Values,
    };

    /// A world in which something is not to be seen.
    struct Blind<'w, const FIELDS: bool, const WRITES: bool, const SWAPS: bool>(
        Arguments<'w, Values, Values>,
    );

    impl<const FIELDS: bool, const WRITES: bool, const SWAPS: bool> World for Blind<'_, FIELDS, WRITES, SWAPS> {
        type Field = Values;
        type Array = Values;

        fn identity(&self) -> WorldId {
            self.0.identity()
        }

        fn field_generation(&self, field: FieldId) -> Option<Generation> {
            let generation = self.0.field_generation(field)?;
            Some(if FIELDS { Generation::FIRST } else { generation })
        }

        fn field(&self, field: FieldId) -> Option<&Values> {
            self.0.field(field)
        }

        fn binding(&self, argument: ArgumentId) -> Option<Binding> {
            let Binding { allocation, generation } = self.0.binding(argument)?;
            Some(Binding {
                allocation: if SWAPS { AllocationId(0) } else { allocation },
                generation: if WRITES { Generation::FIRST } else { generation },
            })
        }

        fn array(&self, argument: ArgumentId) -> Option<&Values> {
            self.0.array(argument)
        }

        fn extent(&self, argument: ArgumentId, axis: u32) -> Option<u64> {
            self.0.extent(argument, axis)
        }
    }

    impl<const FIELDS: bool, const WRITES: bool, const SWAPS: bool> Sight for Blind<'_, FIELDS, WRITES, SWAPS> {
        type World<'w> = Blind<'w, FIELDS, WRITES, SWAPS>;

        fn see<'w>(arguments: Arguments<'w, Values, Values>) -> Self::World<'w> {
            Blind(arguments)
        }
    }

    fn ours<S: Sight>(expected: &Expected) -> Loop {
        run(Ours::<S>::new, expected)
    }

    #[test]
    fn every_design_gives_what_the_reducers_give_afresh() {
        let expected = Expected::new();
        for done in [
            run(|_| NoMemo::default(), &expected),
            run(|_| PerSpec::new(true), &expected),
            run(|_| PerSpec::new(false), &expected),
            ours::<AsItIs>(&expected),
        ] {
            assert_eq!((done.checked, done.wrong), (LAUNCHES, 0));
            assert_eq!(done.results, LAUNCHES * 600);
        }
    }

    #[test]
    fn the_memos_run_only_the_reducers_that_something_moved_for() {
        let expected = Expected::new();
        let (theirs, ours) = (run(|_| PerSpec::new(false), &expected), ours::<AsItIs>(&expected));
        assert_eq!(theirs.rest.evaluated, ours.rest.evaluated);
        assert_eq!(
            ours.rest.launches - ours.rest.hits,
            5,
            "two see the write, one each the field, swap and shape"
        );
        assert_eq!(ours.allocations_on_hit, 0);
    }

    #[test]
    fn the_check_finds_what_a_world_that_does_not_count_makes_wrong() {
        let expected = Expected::new();
        assert_eq!(ours::<Blind<'_, false, false, false>>(&expected).wrong, 0);
        assert!(ours::<Blind<'_, true, false, false>>(&expected).wrong > 0, "a field was written");
        assert!(ours::<Blind<'_, false, true, false>>(&expected).wrong > 0, "an array was written");
        assert!(ours::<Blind<'_, false, false, true>>(&expected).wrong > 0, "two arrays were swapped");
    }
}
