//! The counters of a provider.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::pack::statistics::counters;

counters! {
    /// The counters of a provider since it was created.
    ProviderStatistics,
    numbers: {
        /// Look-ups that found a packed weight, which XNNPACK did not pack again.
        hits,
        /// Reservations that XNNPACK made to pack into.
        reservations,
        /// The bytes of those reservations.
        reserved_bytes,
        /// Weights that XNNPACK packed and that later look-ups find.
        packed,
        /// The bytes of those weights.
        packed_bytes,
        /// Weights that XNNPACK packed and that only this provider has, because they have no name.
        unnamed,
        /// The bytes of those weights.
        unnamed_bytes,
        /// Calls that failed: no memory, an address that is not of this provider, a size that was not reserved.
        refused,
        /// Calls in which warmstart panicked, which is a bug. XNNPACK got the answer for a miss or for lack of memory.
        panics,
    }
    reasons: {
        /// Look-ups that missed, by reason: [`MissReason::Unnamed`](crate::MissReason::Unnamed) for weights without a name,
        /// [`MissReason::Uncacheable`](crate::MissReason::Uncacheable) if XNNPACK has no fingerprint of the packing algorithm.
        misses,
    }
}

/// Adds to a counter.
pub(super) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}
