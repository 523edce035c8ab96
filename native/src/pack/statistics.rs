//! What happened with a pack since it was opened.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use crate::{Reason, ReasonCounts};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// What happened with a pack since it was opened, in this process.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct PackStatistics {
            $($(#[$doc])* pub $name: u64,)*
            /// Look-ups that found nothing they could use, by reason.
            pub misses: ReasonCounts,
            /// Weights that went to the heap and not to the file, or saves that did not happen, by reason.
            pub refusals: ReasonCounts,
        }

        #[derive(Debug, Default)]
        pub(super) struct Counters {
            $(pub(super) $name: AtomicU64,)*
            misses: Mutex<ReasonCounts>,
            refusals: Mutex<ReasonCounts>,
        }

        impl Counters {
            pub(super) fn snapshot(&self) -> PackStatistics {
                let counts = |counts: &Mutex<ReasonCounts>| {
                    counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
                };
                PackStatistics {
                    $($name: self.$name.load(Ordering::Relaxed),)*
                    misses: counts(&self.misses),
                    refusals: counts(&self.refusals),
                }
            }
        }
    };
}

counters! {
    /// Look-ups that found what they wanted.
    hits,
    /// Hits on entries of which nothing proves the model and the packing, because version 2 holds neither.
    unverified_hits,
    /// Spaces that were reserved to pack into.
    reservations,
    /// Bytes of them.
    reserved_bytes,
    /// Weights that were packed and inserted.
    packed,
    /// Weights that are in the heap.
    heap_entries,
    /// Bytes of them.
    heap_bytes,
    /// Payloads whose checksum was proved.
    proved,
    /// Saves that wrote something.
    saves,
    /// Entries that they added to the file.
    saved_entries,
    /// Bytes that were added to the file for good: payloads, indexes and padding.
    written_bytes,
    /// Saves that had nothing new to write.
    empty_saves,
}

impl Counters {
    pub(super) fn miss(&self, reason: Reason) {
        self.misses.lock().unwrap_or_else(PoisonError::into_inner).add(reason, 1);
    }

    pub(super) fn refuse(&self, reason: Reason) {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner).add(reason, 1);
    }
}

/// Adds to a counter.
pub(super) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}
