//! Numbers to watch: a snapshot of what a cache did.

use alloc::{format, string::String};
use core::fmt;

use crate::reason::Reason;

/// How often each [`Reason`] occurred.
///
/// ```
/// use warmstart_core::{reason::Reason, statistics::ReasonCounts};
///
/// let mut counts = ReasonCounts::default();
/// counts.add(Reason::Absent, 2);
/// assert_eq!(counts.of(Reason::Absent), 2);
/// assert_eq!(counts.total(), 2);
/// assert_eq!(format!("{counts:?}"), "{absent: 2}");
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ReasonCounts([u64; Reason::COUNT]);

impl ReasonCounts {
    /// Adds `n` occurrences of `reason`.
    pub const fn add(&mut self, reason: Reason, n: u64) {
        let count = &mut self.0[reason.index()];
        *count = count.saturating_add(n);
    }

    /// The number of occurrences of `reason`.
    #[must_use]
    pub const fn of(&self, reason: Reason) -> u64 {
        self.0[reason.index()]
    }

    /// The number of occurrences of any reason.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// Adds other counts.
    pub fn merge(&mut self, other: &Self) {
        other.iter().for_each(|(reason, n)| self.add(reason, n));
    }

    /// What was counted since these counts were `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut counts = Self::default();
        self.iter().for_each(|(reason, n)| counts.add(reason, n.saturating_sub(earlier.of(reason))));
        counts
    }

    /// The reasons that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u64)> + '_ {
        Reason::ALL.iter().map(|reason| (*reason, self.of(*reason))).filter(|(_, n)| *n > 0)
    }
}

/// A reason's stable name, without quotes.
struct Name(Reason);

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

/// The reasons that occurred, by name: `{absent: 2}`.
impl fmt::Debug for ReasonCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(reason, n)| (Name(reason), n))).finish()
    }
}

impl Default for ReasonCounts {
    fn default() -> Self {
        Self([0; Reason::COUNT])
    }
}

/// What a cache did since it was opened.
///
/// Every look-up is counted once: `hits + misses.total()` is their number. A miss of the one call ends as one of `builds` or of
/// `shared`, or the builder failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Look-ups that handed out a stored artifact.
    pub hits: u64,
    /// Look-ups that did not, by reason.
    pub misses: ReasonCounts,
    /// Artifacts that were not stored, by reason.
    pub refusals: ReasonCounts,
    /// Artifacts built by this cache's callers. Builders that failed are not counted.
    pub builds: u64,
    /// Look-ups that missed, and whose artifact somebody else built meanwhile: another thread or process that the caller
    /// waited for, or one that stored it just after the look-up, so that nobody had to wait.
    pub shared: u64,
    /// Payload bytes handed out by hits. What is shared does not count, though it may have been read.
    pub bytes_read: u64,
    /// Payload bytes stored.
    pub bytes_written: u64,
    /// Entries evicted to make room.
    pub evictions: u64,
    /// Nanoseconds spent in builders.
    pub build_nanos: u64,
    /// Nanoseconds that building took when the artifacts that hit were made: what the hits saved.
    pub saved_nanos: u64,
}

/// The counters that are no counts of reasons, by the names that they are kept under.
macro_rules! counters {
    ($($name:ident),*) => {
        impl Statistics {
            /// Adds what was counted elsewhere or since. What would overflow stays at [`u64::MAX`].
            pub fn add(&mut self, counted: &Self) {
                $(self.$name = self.$name.saturating_add(counted.$name);)*
                self.misses.merge(&counted.misses);
                self.refusals.merge(&counted.refusals);
            }

            /// What was counted since the statistics were `earlier`.
            ///
            /// ```
            /// use warmstart_core::statistics::Statistics;
            ///
            /// let mut now = Statistics::default();
            /// now.hits = 5;
            /// let mut earlier = Statistics::default();
            /// earlier.hits = 3;
            /// assert_eq!(now.since(&earlier).hits, 2);
            /// ```
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self {
                    $($name: self.$name.saturating_sub(earlier.$name),)*
                    misses: self.misses.since(&earlier.misses),
                    refusals: self.refusals.since(&earlier.refusals),
                }
            }

            /// Calls `visit` with every counter and its name. Reasons that did not occur are left out.
            pub(crate) fn each(&self, visit: &mut dyn FnMut(String, u64)) {
                $(visit(String::from(stringify!($name)), self.$name);)*
                for (kind, counts) in [(MISSES, &self.misses), (REFUSALS, &self.refusals)] {
                    counts.iter().for_each(|(reason, n)| visit(format!("{kind}{}", reason.as_str()), n));
                }
            }

            /// Statistics of which `count` gives each counter by its name.
            pub(crate) fn from_counters(count: &mut dyn FnMut(&str) -> u64) -> Self {
                let mut statistics = Self { $($name: count(stringify!($name)),)* ..Self::default() };
                for reason in Reason::ALL {
                    statistics.misses.add(*reason, count(&format!("{MISSES}{}", reason.as_str())));
                    statistics.refusals.add(*reason, count(&format!("{REFUSALS}{}", reason.as_str())));
                }
                statistics
            }
        }
    };
}

/// How the names of the counts of reasons begin.
const MISSES: &str = "misses.";
const REFUSALS: &str = "refusals.";

counters!(hits, builds, shared, bytes_read, bytes_written, evictions, build_nanos, saved_nanos);
