//! The bounds of the persisted statistics, which hold even if calls of the disk failed.

use warmstart::{PersistedStats, Statistics};
use warmstart_core::miss::Miss;

/// The bounds of the reported counters, and the last miss.
#[derive(Clone, Debug, Default)]
pub struct Reported {
    /// The lower bound of each counter.
    least: Statistics,
    /// The upper bound of each counter.
    most: Statistics,
    /// The number of times that the counters may have been damaged.
    damages: u64,
    misses: Vec<Miss>,
    /// Whether the last reported miss must be stored.
    is_last_kept: bool,
}

impl Reported {
    /// Records a report. `accepted` is whether the store accepted it, `failed` whether a call of the disk failed during it.
    pub fn add(&mut self, counted: &Statistics, last_miss: Option<&Miss>, accepted: bool, failed: bool) {
        self.most.add(counted);
        if accepted {
            self.least.add(counted);
        }
        // Counters of which only a part was written are damaged.
        self.damages += u64::from(failed);
        if let Some(miss) = last_miss {
            self.misses.push(miss.clone());
            self.is_last_kept = accepted && !failed;
        }
    }

    /// Records that all reports may be lost.
    pub fn lost(&mut self) {
        self.least = Statistics::default();
        self.is_last_kept = false;
    }

    /// Records that the persisted counters were changed.
    pub fn stats_damaged(&mut self) {
        self.least = Statistics::default();
        self.damages += 1;
    }

    /// Records that the persisted last miss was changed.
    pub fn last_miss_damaged(&mut self) {
        self.is_last_kept = false;
    }

    /// Checks the persisted statistics.
    ///
    /// # Panics
    /// If they are outside the bounds.
    pub fn check(&self, kept: &PersistedStats) {
        let numbers = |statistics: &Statistics| (statistics.hits, statistics.misses.total());
        let (found, least, most) = (numbers(&kept.counted), numbers(&self.least), numbers(&self.most));
        let is_within = |found, least, most| (least..=most).contains(&found);
        assert!(
            is_within(found.0, least.0, most.0) && is_within(found.1, least.1, most.1),
            "{found:?} are kept, and {least:?} to {most:?} were reported"
        );
        if least == most {
            assert_eq!(kept.counted, self.most);
        }
        assert!(kept.resets <= self.damages, "{} resets", kept.resets);
        if self.is_last_kept {
            assert_eq!(kept.last_miss.as_ref(), self.misses.last());
        }
        assert!(kept.last_miss.as_ref().is_none_or(|miss| self.misses.contains(miss)), "{kept:?}");
    }
}
