//! What XNNPACK asked of a provider, and what it got.

pub(super) use crate::pack::counters::add;
use crate::{Reason, pack::counters::counters};

counters! {
    /// What XNNPACK asked of a provider since it was made, and what it got.
    ProviderStatistics,
    numbers: {
        /// Look-ups that found what they wanted: weights that XNNPACK did not pack.
        hits,
        /// Spaces that XNNPACK got to pack into.
        reservations,
        /// Bytes of them.
        reserved_bytes,
        /// Weights that XNNPACK packed and that can be found from then on.
        packed,
        /// Bytes of them.
        packed_bytes,
        /// Weights that XNNPACK packed and that only this provider has: nobody said which they are.
        unnamed,
        /// Bytes of them.
        unnamed_bytes,
        /// Calls that could not be done: no memory, an address that is not of this provider, a size that was not reserved.
        refused,
        /// Calls that would have panicked. That is a bug of warmstart's; XNNPACK was told that nothing was found, or that there
        /// is no memory.
        panics,
        /// Calls of `look_up`.
        look_up_calls,
        /// Calls of `reserve_space`.
        reserve_space_calls,
        /// Calls of `look_up_or_insert`.
        look_up_or_insert_calls,
        /// Calls of `is_finalized`.
        is_finalized_calls,
        /// Calls of `offset_to_addr`.
        offset_to_addr_calls,
        /// Calls of `delete_cache`.
        delete_cache_calls,
        /// Calls of `alias_data`.
        alias_data_calls,
    }
    reasons: {
        /// Look-ups that found nothing, by reason. Those of weights without a name are [`Reason::Unnamed`]. Those of
        /// weights whose packing algorithm XNNPACK has no fingerprint of are [`Reason::Uncacheable`].
        misses,
    }
}

impl Counters {
    pub(super) fn miss(&self, reason: Reason) {
        self.misses.add(reason);
    }
}
