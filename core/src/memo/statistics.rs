//! What a memo counts.

use core::ops::AddAssign;

use super::{launched::Evaluated, reduction::Reduction};

/// What was counted since a memo was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoStatistics {
    /// Launches whose result was there.
    pub hits: u64,
    /// Launches that were evaluated to their end.
    pub evaluations: u64,
    /// Evaluations whose result was not kept.
    pub unkept: u64,
    /// Specs that evaluations asked for and that were there.
    pub spec_hits: u64,
    /// Specs that evaluations asked for and that had to be evaluated.
    pub spec_evaluations: u64,
}

impl MemoStatistics {
    /// Counts an evaluation.
    pub fn add<K: Reduction>(&mut self, evaluated: &Evaluated<K>) {
        self.evaluations += 1;
        self.spec_hits += evaluated.specs_found as u64;
        self.spec_evaluations += (evaluated.specs_asked - evaluated.specs_found) as u64;
    }
}

impl AddAssign for MemoStatistics {
    fn add_assign(&mut self, other: Self) {
        self.hits += other.hits;
        self.evaluations += other.evaluations;
        self.unkept += other.unkept;
        self.spec_hits += other.spec_hits;
        self.spec_evaluations += other.spec_evaluations;
    }
}
