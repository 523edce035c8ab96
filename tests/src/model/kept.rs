//! What may be kept of reports, whatever failed.

use warmstart::{
    Statistics,
    store::{Kept, Report},
};
use warmstart_core::miss::Miss;

/// What was reported.
#[derive(Clone, Debug, Default)]
pub struct Reported {
    /// What is kept at least.
    least: Statistics,
    /// What is kept at most.
    most: Statistics,
    /// How often a tally may have been damaged.
    damages: u64,
    misses: Vec<Miss>,
    /// Whether the last of them must be kept.
    is_last_kept: bool,
}

impl Reported {
    /// This was reported; `accepted` says whether the store kept it, and `failed` whether a call of the disk failed in it.
    pub fn add(&mut self, report: &Report, accepted: bool, failed: bool) {
        self.most.add(&report.counted);
        if accepted {
            self.least.add(&report.counted);
        }
        // A tally of which only a part was written.
        self.damages += u64::from(failed);
        if let Some(miss) = &report.last_miss {
            self.misses.push(miss.clone());
            self.is_last_kept = accepted && !failed;
        }
    }

    /// Nothing of it must be kept.
    pub fn lost(&mut self) {
        self.least = Statistics::default();
        self.is_last_kept = false;
    }

    /// Somebody changed what is kept of numbers.
    pub fn tally_damaged(&mut self) {
        self.least = Statistics::default();
        self.damages += 1;
    }

    /// Somebody changed what is kept of the last miss.
    pub fn last_miss_damaged(&mut self) {
        self.is_last_kept = false;
    }

    /// Checks what is kept.
    ///
    /// # Panics
    /// If it cannot be.
    pub fn check(&self, kept: &Kept) {
        let numbers = |statistics: &Statistics| (statistics.hits, statistics.misses.total());
        let (found, least, most) =
            (numbers(kept.tally.statistics()), numbers(&self.least), numbers(&self.most));
        let is_within = |found, least, most| (least..=most).contains(&found);
        assert!(
            is_within(found.0, least.0, most.0) && is_within(found.1, least.1, most.1),
            "{found:?} are kept, and {least:?} to {most:?} were reported"
        );
        if least == most {
            assert_eq!(kept.tally.statistics(), &self.most);
        }
        assert!(kept.tally.resets() <= self.damages, "{} resets", kept.tally.resets());
        if self.is_last_kept {
            assert_eq!(kept.last_miss.as_ref(), self.misses.last());
        }
        assert!(kept.last_miss.as_ref().is_none_or(|miss| self.misses.contains(miss)), "{kept:?}");
    }
}
