//! Statistics of a pack since it was opened, counted by any number of threads.

use crate::{MissReason, ReasonCounts, os::fork::Mutex};

/// Declares the statistics, and the `Counters` behind them. Each counter is exact, but a snapshot that is taken
/// while others count does not show a single instant.
macro_rules! counters {
    (
        $(#[$about:meta])* $statistics:ident,
        numbers: { $($(#[$number_doc:meta])* $number:ident,)* }
        reasons: { $($(#[$reasons_doc:meta])* $reasons:ident,)* }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct $statistics {
            $($(#[$number_doc])* pub $number: u64,)*
            $($(#[$reasons_doc])* pub $reasons: $crate::ReasonCounts,)*
        }

        #[derive(Debug, Default)]
        pub(super) struct Counters {
            $(pub(super) $number: std::sync::atomic::AtomicU64,)*
            $(pub(super) $reasons: $crate::pack::statistics::ByReason,)*
        }

        impl Counters {
            pub(super) fn snapshot(&self) -> $statistics {
                $statistics {
                    $($number: self.$number.load(std::sync::atomic::Ordering::Relaxed),)*
                    $($reasons: self.$reasons.snapshot(),)*
                }
            }
        }
    };
}

pub(crate) use counters;

counters! {
    /// Statistics of a pack since it was opened, in this process.
    PackStatistics,
    numbers: {
        /// Look-ups that found the requested weight.
        hits,
        /// Hits on entries that were imported from version 2, whose model and packing are unverified.
        unverified_hits,
        /// Reservations that were made to pack into.
        reservations,
        /// Bytes of these reservations.
        reserved_bytes,
        /// Weights that were packed and inserted.
        packed,
        /// Weights on the heap.
        heap_entries,
        /// Bytes of these weights.
        heap_bytes,
        /// Payloads whose checksum was verified.
        proved,
        /// Saves that wrote something.
        saves,
        /// Entries that these saves added to the file.
        saved_entries,
        /// Bytes that were permanently added to the file: payloads, indexes and padding.
        written_bytes,
        /// Saves that had nothing new to write.
        empty_saves,
    }
    reasons: {
        /// Look-ups without a usable result, by reason.
        misses,
        /// Weights that went to the heap instead of the file, and failed saves, by reason.
        refusals,
    }
}

/// Counts by reason.
#[derive(Debug, Default)]
pub(crate) struct ByReason(Mutex<ReasonCounts>);

impl ByReason {
    pub(crate) fn add(&self, reason: MissReason) {
        self.0.lock().add(reason, 1);
    }

    pub(crate) fn snapshot(&self) -> ReasonCounts {
        *self.0.lock()
    }
}
