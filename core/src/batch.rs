//! Shared cold starts: the choice of the artifact that a process builds next while other processes build the same ones.
//!
//! A process that asks for its artifacts one after the other waits for whatever another process is building. A batch
//! never waits while an unclaimed artifact is left: it tries the artifacts in an order of its own, skips those that
//! are claimed elsewhere, and comes back to them. Only when all that are left are claimed elsewhere does it wait, for one of them.
//! Processes with different orders share the builds, so that they take the sum of all builds divided by the processes.
//!
//! This module only decides; the native crate looks up, claims, builds and waits.

use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};

/// The artifacts of one call that are not there yet, each named by its index.
///
/// Each step is for one artifact, which the caller holds until [`resolve`](Self::resolve) or
/// [`postpone`](Self::postpone) says how it ended.
///
/// ```
/// use warmstart_core::batch::Batch;
///
/// // Two artifacts are missing, and somewhere else 1 is being built. Waiting for it ends 60 s after it was first met.
/// let mut batch = Batch::new(vec![0, 1], 7, 60_000);
/// while let Some(index) = batch.try_next() {
///     match index {
///         0 => batch.resolve(),
///         _ => batch.postpone(index, 1_000),
///     }
/// }
/// assert_eq!(batch.wait_next(), Some((1, 61_000)));
/// batch.resolve();
/// assert_eq!((batch.try_next(), batch.wait_next()), (None, None));
/// ```
#[derive(Debug)]
pub struct Batch {
    /// The artifacts to try in this pass, the next one last.
    untried: Vec<usize>,
    /// The artifacts claimed elsewhere when last tried, in the order of trying.
    postponed: VecDeque<usize>,
    /// When waiting ends for each artifact that was ever claimed elsewhere.
    deadlines: BTreeMap<usize, u64>,
    /// Whether an artifact was resolved since the pass began: another pass may then find more.
    has_progressed: bool,
    timeout: u64,
}

impl Batch {
    /// Starts with all of `missing`, in an order drawn from `seed`. Processes that start together need different seeds.
    /// `timeout` is how long to wait for an artifact that is claimed elsewhere, in the caller's unit of time.
    #[must_use]
    pub fn new(mut missing: Vec<usize>, seed: u64, timeout: u64) -> Self {
        shuffle(&mut missing, seed);
        Self {
            untried: missing,
            postponed: VecDeque::new(),
            deadlines: BTreeMap::new(),
            has_progressed: false,
            timeout,
        }
    }

    /// Returns an artifact to look up, claim and build without waiting. Returns nothing when each one left is in the hands of a
    /// worker or claimed elsewhere.
    pub fn try_next(&mut self) -> Option<usize> {
        if self.untried.is_empty() && self.has_progressed {
            self.has_progressed = false;
            self.untried.extend(self.postponed.drain(..).rev());
        }
        self.untried.pop()
    }

    /// Returns an artifact to wait for, with the time at which waiting ends and the caller builds without a claim. Call it when
    /// no worker has anything in its hands and [`try_next`](Self::try_next) returned nothing. Returns nothing when all are resolved.
    pub fn wait_next(&mut self) -> Option<(usize, u64)> {
        let index = self.postponed.pop_front()?;
        Some((index, self.deadlines.get(&index).copied().unwrap_or(0)))
    }

    /// Records that the artifact in hand is there, or cannot be built.
    pub fn resolve(&mut self) {
        self.has_progressed = true;
    }

    /// Records that an artifact is claimed elsewhere. The time to wait for it counts from the first time.
    pub fn postpone(&mut self, index: usize, now: u64) {
        self.deadlines.entry(index).or_insert_with(|| now.saturating_add(self.timeout));
        self.postponed.push_back(index);
    }

    /// Returns how many artifacts are to be tried or waited for, without those in hand.
    #[must_use]
    pub fn left(&self) -> usize {
        self.untried.len() + self.postponed.len()
    }
}

/// Fisher and Yates' shuffle, with the numbers of SplitMix64 (Steele, Lea and Flood, 2014).
fn shuffle(indexes: &mut [usize], mut seed: u64) {
    for last in (1..indexes.len()).rev() {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the remainder is at most `last`, which is a usize"
        )]
        indexes.swap(last, (mixed % (last as u64 + 1)) as usize);
    }
}

#[cfg(test)]
mod tests;
