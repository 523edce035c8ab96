//! Timing two operations against each other.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

/// The number of samples, and their size.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Batches of each side.
    rounds: usize,
    /// The least duration of a batch: far more than reading the clock takes.
    batch: Duration,
    /// The duration of the warm-up of each side.
    warm_up: Duration,
}

/// The costs of two operations. Times are of one operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The median of the subject's batches, in nanoseconds.
    pub subject_ns: f64,
    /// The median of the floor's batches, in nanoseconds.
    pub floor_ns: f64,
    /// The median of the ratios of two batches that ran one after the other.
    pub pairwise: f64,
}

impl Plan {
    /// For numbers that are kept.
    pub const FULL: Self =
        Self { rounds: 61, batch: Duration::from_millis(2), warm_up: Duration::from_millis(300) };

    /// For trying a benchmark out.
    pub const QUICK: Self =
        Self { rounds: 15, batch: Duration::from_millis(1), warm_up: Duration::from_millis(20) };

    /// Whether fewer samples are taken than for numbers that are kept.
    #[must_use]
    pub const fn is_quick(&self) -> bool {
        self.rounds < Self::FULL.rounds
    }

    /// The same with so many batches of each side, for operations that take long.
    #[must_use]
    pub const fn with_rounds(mut self, rounds: usize) -> Self {
        self.rounds = rounds;
        self
    }

    /// The same with a warm-up so long, for operations that leave something behind.
    #[must_use]
    pub const fn with_warm_up(mut self, warm_up: Duration) -> Self {
        self.warm_up = warm_up;
        self
    }

    /// The same in more and shorter batches, for operations of nanoseconds on a machine that others use: what lets them in now
    /// and then falls into few of the batches, and the median does not see it.
    #[must_use]
    pub const fn in_short_batches(mut self) -> Self {
        self.rounds *= 10;
        self.batch = Duration::from_micros(100);
        self
    }

    /// Times `subject` and `floor` in turns. Each is called with the number of its call, from 0 on; what it returns is
    /// dropped within the time measured.
    pub fn compare<A, B>(&self, subject: impl FnMut(u64) -> A, floor: impl FnMut(u64) -> B) -> Comparison {
        self.compare_with(subject, floor, |_| {})
    }

    /// As [`compare`](Self::compare), with `between` called after every batch, outside the time measured, with the
    /// number of calls in it: to undo what piles up.
    pub fn compare_with<A, B>(
        &self,
        subject: impl FnMut(u64) -> A,
        floor: impl FnMut(u64) -> B,
        between: impl FnMut(u64),
    ) -> Comparison {
        let start = Instant::now();
        self.compare_by(|| start.elapsed(), subject, floor, between)
    }

    /// Runs `subject` and `floor` in turns, one call a batch, where each says how long what counts of it took.
    pub fn compare_timed(
        &self,
        mut subject: impl FnMut(u64) -> Duration,
        mut floor: impl FnMut(u64) -> Duration,
    ) -> Comparison {
        let nanos = |took: Duration| took.as_secs_f64() * 1e9;
        let (mut subjects, mut floors) = (Vec::new(), Vec::new());
        subject(0);
        floor(0);
        for round in 1..=self.rounds as u64 {
            if round % 2 == 1 {
                subjects.push(nanos(subject(round)));
                floors.push(nanos(floor(round)));
            } else {
                floors.push(nanos(floor(round)));
                subjects.push(nanos(subject(round)));
            }
        }
        Comparison::of(subjects, floors)
    }

    fn compare_by<A, B>(
        &self,
        clock: impl Fn() -> Duration,
        subject: impl FnMut(u64) -> A,
        floor: impl FnMut(u64) -> B,
        mut between: impl FnMut(u64),
    ) -> Comparison {
        let (mut subject, mut floor) = (Side::new(subject), Side::new(floor));
        subject.warm_up(self, &clock, &mut between);
        floor.warm_up(self, &clock, &mut between);
        for round in 0..self.rounds {
            // The side that goes first finds the processor's caches as the other left them; the sides take turns.
            if round % 2 == 0 {
                subject.sample(&clock, &mut between);
                floor.sample(&clock, &mut between);
            } else {
                floor.sample(&clock, &mut between);
                subject.sample(&clock, &mut between);
            }
        }
        Comparison::of(subject.samples, floor.samples)
    }
}

impl Comparison {
    /// Compares the times of batches, in the order in which they ran.
    fn of(subject: Vec<f64>, floor: Vec<f64>) -> Self {
        let ratios = subject.iter().zip(&floor).map(|(subject, floor)| subject / floor);
        Self { pairwise: median(ratios.collect()), subject_ns: median(subject), floor_ns: median(floor) }
    }

    /// The cost of the subject as a multiple of the floor: of two batches that ran one after the other, because a busy disk or
    /// machine changes from one moment to the next.
    #[must_use]
    pub const fn ratio(&self) -> f64 {
        self.pairwise
    }
}

/// One of the two operations.
struct Side<F> {
    operation: F,
    /// The number of calls that are timed at once.
    batch: u64,
    /// The number of the next call.
    next: u64,
    /// Nanoseconds of one operation, a batch each.
    samples: Vec<f64>,
}

impl<T, F: FnMut(u64) -> T> Side<F> {
    fn new(operation: F) -> Self {
        Self { operation, batch: 1, next: 0, samples: Vec::new() }
    }

    /// Runs until caches and clock speeds have settled, and finds the size of a batch.
    fn warm_up(&mut self, plan: &Plan, clock: impl Fn() -> Duration, between: &mut impl FnMut(u64)) {
        let start = clock();
        loop {
            let long_enough = self.run_batch(&clock) >= plan.batch;
            between(self.batch);
            if !long_enough {
                self.batch *= 2;
            } else if clock() - start >= plan.warm_up {
                return;
            }
        }
    }

    fn sample(&mut self, clock: impl Fn() -> Duration, between: &mut impl FnMut(u64)) {
        let took = self.run_batch(clock);
        between(self.batch);
        self.samples.push(took.as_secs_f64() * 1e9 / self.batch as f64);
    }

    fn run_batch(&mut self, clock: impl Fn() -> Duration) -> Duration {
        let end = self.next + self.batch;
        let start = clock();
        for call in self.next..end {
            black_box((self.operation)(black_box(call)));
        }
        self.next = end;
        clock() - start
    }
}

/// The middle value; of an even number the mean of the two in the middle; no number of none.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.get(middle) {
        None => f64::NAN,
        Some(&upper) if values.len() % 2 == 1 => upper,
        Some(&upper) => f64::midpoint(values[middle - 1], upper),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    const PLAN: Plan =
        Plan { rounds: 15, batch: Duration::from_micros(10), warm_up: Duration::from_micros(100) };

    /// Calls move the clock, and nothing else does.
    #[test]
    fn each_side_is_charged_for_its_own_calls() {
        let now = Cell::new(Duration::ZERO);
        let costs = |nanos| now.set(now.get() + Duration::from_nanos(nanos));
        let found = PLAN.compare_by(|| now.get(), |_| costs(300), |_| costs(2000), |_| {});
        let near = |value: f64, expected: f64| (value - expected).abs() < 1e-6;
        assert!(near(found.subject_ns, 300.0) && near(found.floor_ns, 2000.0), "{found:?}");
        assert!(near(found.ratio(), 0.15), "{found:?}");
    }

    #[test]
    fn a_drift_of_the_machine_moves_both_sides() {
        let now = Cell::new(Duration::ZERO);
        // Everything becomes ten times as slow in the course of the run.
        let slowness = || 1.0 + 9.0 * (now.get().as_secs_f64() / 1e-3).min(1.0);
        let costs = |nanos: f64| now.set(now.get() + Duration::from_secs_f64(nanos * 1e-9 * slowness()));
        let found = PLAN.compare_by(|| now.get(), |_| costs(300.0), |_| costs(200.0), |_| {});
        assert!((found.ratio() / 1.5 - 1.0).abs() < 0.1, "{found:?}");
    }

    #[test]
    fn batches_are_long_enough_and_the_sides_take_turns() {
        let now = Cell::new(Duration::ZERO);
        let turns = RefCell::new(Vec::new());
        let call = |side: char, nanos| {
            now.set(now.get() + Duration::from_nanos(nanos));
            let mut turns = turns.borrow_mut();
            match turns.last_mut() {
                Some((last, calls)) if *last == side => *calls += 1,
                _ => turns.push((side, 1u64)),
            }
        };
        PLAN.compare_by(|| now.get(), |_| call('s', 100), |_| call('f', 1000), |_| {});
        // After the warm-up of both: s, ff, ss, ff, .. in batches of 128 and 16.
        let turns = turns.into_inner();
        let order: String = turns.iter().map(|(side, _)| *side).collect();
        assert_eq!(order, "sf".repeat(9), "{turns:?}");
        assert!(
            turns[2..].iter().all(|(side, calls)| calls % if *side == 's' { 128 } else { 16 } == 0),
            "{turns:?}"
        );
    }

    #[test]
    fn calls_are_numbered_without_a_gap() {
        let now = Cell::new(Duration::ZERO);
        let seen = RefCell::new(Vec::new());
        PLAN.compare_by(
            || now.get(),
            |call| {
                now.set(now.get() + Duration::from_nanos(500));
                seen.borrow_mut().push(call);
            },
            |_| now.set(now.get() + Duration::from_nanos(500)),
            |_| now.set(now.get() + Duration::from_millis(5)),
        );
        let seen = seen.into_inner();
        assert!(!seen.is_empty() && seen.iter().copied().eq(0..seen.len() as u64));
    }

    #[test]
    fn what_is_not_said_to_count_does_not() {
        let mut calls = Vec::new();
        let found = PLAN.with_rounds(4).compare_timed(
            |call| {
                calls.push(call);
                std::thread::sleep(Duration::from_millis(1));
                Duration::from_nanos(300)
            },
            |_| Duration::from_nanos(100),
        );
        assert!((found.ratio() - 3.0).abs() < 1e-6, "{found:?}");
        assert_eq!(calls, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(Vec::new()).is_nan());
    }
}
