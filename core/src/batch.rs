//! Shared cold starts: the choice of the artifact that a process builds next while other processes build the same ones.
//!
//! A process that asks for its artifacts one after the other waits for whatever another process is building. A batch
//! never waits while an unclaimed artifact is left: it tries the artifacts in an order of its own, skips those that
//! are claimed elsewhere, and comes back to them. Only when all that are left are claimed elsewhere does it wait, for one of them.
//! Processes with different orders share the builds, so that they take the sum of all builds divided by the processes.
//!
//! Where many machines share the claims, each attempt is a request. There, a *survey* asks about all artifacts at once, and only those
//! that it found stored or free are tried: see [`Batch::with_surveys`].
//!
//! This module only decides; the native crate looks up, claims, builds and waits.

use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};

use crate::lease::Backoff;

/// The artifacts of one call that are not there yet, each named by its index.
///
/// Each step is for one artifact, which the caller holds until [`resolve`](Self::resolve) or
/// [`postpone`](Self::postpone) says how it ended.
///
/// ```
/// use warmstart_core::batch::{Batch, Next};
///
/// // Two artifacts are missing, and somewhere else 1 is being built. Waiting for it ends 60 s after it was first met.
/// let mut batch = Batch::new(vec![0, 1], 7, 60_000);
/// while let Some(index) = batch.try_next() {
///     match index {
///         0 => batch.resolve(),
///         _ => batch.postpone(index, 1_000),
///     }
/// }
/// assert_eq!(batch.wait_next(2_000, 0), Next::WaitFor(1, 61_000));
/// batch.resolve();
/// assert_eq!((batch.try_next(), batch.wait_next(3_000, 0)), (None, Next::End));
/// ```
#[derive(Debug)]
pub struct Batch {
    /// The artifacts to try in this pass, the next one last.
    untried: Vec<usize>,
    /// The artifacts claimed elsewhere when last tried, in the order of trying.
    postponed: VecDeque<usize>,
    /// When waiting ends for each artifact that was ever claimed elsewhere.
    deadlines: BTreeMap<usize, u64>,
    /// Whether another pass may find more: an artifact was resolved since this one began, or was not as the survey said.
    is_outdated: bool,
    /// How many artifacts that the last survey found stored are not resolved yet. To get them is no reason for another survey.
    stored: usize,
    /// The pauses between surveys, if only a survey begins another pass.
    surveys: Option<Backoff>,
    timeout: u64,
}

/// What a survey found of an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surveyed {
    /// It is stored.
    Stored,
    /// Another process has claimed it.
    Claimed,
    /// It is neither stored nor claimed, as far as is known.
    Free,
}

/// What a process does when it has nothing to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Wait for this artifact until this time, and then build it without a claim.
    WaitFor(usize, u64),
    /// Pause for so long, and then survey again.
    Pause(u64),
    /// Return: all artifacts are resolved.
    End,
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
            is_outdated: false,
            stored: 0,
            surveys: None,
            timeout,
        }
    }

    /// Lets surveys decide what is tried.
    ///
    /// When [`try_next`](Self::try_next) returns nothing, at the start too, survey the artifacts of [`to_survey`](Self::to_survey), and
    /// [begin the next pass](Self::begin_pass). The first artifact that turns out to be claimed elsewhere ends the pass: the next
    /// survey knows of the others too. `pauses` are in the caller's unit of time.
    ///
    /// ```
    /// use warmstart_core::{batch::{Batch, Next, Surveyed}, lease::Backoff};
    ///
    /// let mut batch = Batch::new(vec![0, 1, 2], 7, 60_000).with_surveys(Backoff::new(250, 4_000));
    /// assert_eq!((batch.try_next(), batch.to_survey().len()), (None, 3));
    /// batch.begin_pass([(0, Surveyed::Claimed), (1, Surveyed::Claimed), (2, Surveyed::Free)], 10);
    /// assert_eq!((batch.try_next(), batch.try_next()), (Some(2), None));
    /// batch.resolve();
    /// batch.begin_pass([(0, Surveyed::Claimed), (1, Surveyed::Claimed)], 900);
    /// assert_eq!(batch.wait_next(900, 0), Next::Pause(125));
    /// ```
    #[must_use]
    pub fn with_surveys(mut self, pauses: Backoff) -> Self {
        self.surveys = Some(pauses);
        self.postponed.extend(self.untried.drain(..).rev());
        self.is_outdated = true;
        self
    }

    /// Returns an artifact to look up, claim and build without waiting. Returns nothing when each one left is in the hands of a
    /// worker or claimed elsewhere.
    pub fn try_next(&mut self) -> Option<usize> {
        if self.untried.is_empty() && self.is_outdated && self.surveys.is_none() {
            self.is_outdated = false;
            self.untried.extend(self.postponed.drain(..).rev());
        }
        self.untried.pop()
    }

    /// Returns what to do when no worker has anything in its hands and [`try_next`](Self::try_next) returned nothing. `random` is any
    /// number.
    pub fn wait_next(&mut self, now: u64, random: u64) -> Next {
        let ends = |index: &usize| self.deadlines.get(index).copied().unwrap_or(0);
        let next = match self.surveys {
            None => 0,
            Some(_) => self.postponed.iter().position(|index| ends(index) <= now).unwrap_or(usize::MAX),
        };
        if let Some(index) = self.postponed.remove(next) {
            return Next::WaitFor(index, ends(&index));
        }
        match &mut self.surveys {
            Some(backoff) if !self.postponed.is_empty() => {
                self.is_outdated = true;
                Next::Pause(backoff.pause(random))
            }
            _ => Next::End,
        }
    }

    /// Records that the artifact in hand is there, or cannot be built.
    pub const fn resolve(&mut self) {
        match self.stored.checked_sub(1) {
            Some(stored) => self.stored = stored,
            None => self.is_outdated = true,
        }
    }

    /// Records that an artifact is claimed elsewhere. The time to wait for it counts from the first time.
    pub fn postpone(&mut self, index: usize, now: u64) {
        self.deadlines.entry(index).or_insert_with(|| now.saturating_add(self.timeout));
        self.postponed.push_back(index);
        if self.surveys.is_some() {
            self.postponed.extend(self.untried.drain(..).rev());
            self.is_outdated = true;
        }
    }

    /// Returns the artifacts to survey: all that are postponed, if nothing is left to try and the last survey is out of date.
    #[must_use]
    pub fn to_survey(&self) -> Vec<usize> {
        let is_due = self.untried.is_empty() && self.is_outdated;
        if is_due { self.postponed.iter().copied().collect() } else { Vec::new() }
    }

    /// Begins a pass over what a survey found stored or free, the stored artifacts first.
    pub fn begin_pass(&mut self, surveyed: impl IntoIterator<Item = (usize, Surveyed)>, now: u64) {
        self.is_outdated = false;
        let found: BTreeMap<usize, Surveyed> = surveyed.into_iter().collect();
        let (mut stored, mut free) = (Vec::new(), Vec::new());
        self.postponed.retain(|index| {
            match found.get(index) {
                Some(Surveyed::Stored) => stored.push(*index),
                Some(Surveyed::Free) => free.push(*index),
                Some(Surveyed::Claimed) | None => return true,
            }
            false
        });
        for index in &self.postponed {
            self.deadlines.entry(*index).or_insert_with(|| now.saturating_add(self.timeout));
        }
        // What others store says nothing about how soon the rest is there.
        if let Some(backoff) = self.surveys.as_mut().filter(|_| !free.is_empty()) {
            backoff.reset();
        }
        self.stored = stored.len();
        self.untried.extend(free.into_iter().rev().chain(stored));
    }

    /// Goes on without surveys, because they are unavailable now.
    pub const fn end_surveys(&mut self) {
        self.surveys = None;
        self.stored = 0;
        self.is_outdated = true;
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
