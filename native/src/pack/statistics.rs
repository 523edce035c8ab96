//! What happened with a pack since it was opened.

pub(super) use super::counters::add;
use super::counters::counters;
use crate::Reason;

counters! {
    /// What happened with a pack since it was opened, in this process.
    PackStatistics,
    numbers: {
        /// Look-ups that found what they wanted.
        hits,
        /// Hits on entries that were imported from version 2: nothing proves their model and packing.
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
    reasons: {
        /// Look-ups that found nothing they could use, by reason.
        misses,
        /// Weights that went to the heap and not to the file, or saves that did not happen, by reason.
        refusals,
    }
}

impl Counters {
    pub(super) fn miss(&self, reason: Reason) {
        self.misses.add(reason);
    }

    pub(super) fn refuse(&self, reason: Reason) {
        self.refusals.add(reason);
    }
}
