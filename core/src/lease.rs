//! Leases: claims of builds on engines that do not notice the death of a holder. A lease ends by itself unless its holder renews it.
//!
//! All times are milliseconds of the caller's monotonic clock, and each party uses its own: clocks are never compared. At worst, a
//! holder that pauses for longer than [`TTL`] builds what another process builds too.

/// The time after which a lease ends that is not renewed, in milliseconds.
pub const TTL: u64 = 3_000;

/// The time from one renewal to the next, in milliseconds. Two in a row may fail.
const RENEWAL: u64 = 1_000;

/// The time after which a failed renewal is retried, in milliseconds.
const RETRY: u64 = 150;

/// A lease that this process holds.
///
/// ```
/// use warmstart_core::lease::{Lease, TTL};
///
/// let mut lease = Lease::new(0);
/// assert_eq!(lease.renewal(), 1_000);
/// lease.renew(1_000);
/// assert!(lease.is_held(999 + TTL));
/// assert!(!lease.is_held(1_000 + TTL));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    ends: u64,
    renewal: u64,
}

impl Lease {
    /// Records a lease that was requested at `sent`. It may have begun later, but not earlier.
    #[must_use]
    pub const fn new(sent: u64) -> Self {
        Self { ends: sent.saturating_add(TTL), renewal: sent.saturating_add(RENEWAL) }
    }

    /// Returns when to renew it.
    #[must_use]
    pub const fn renewal(&self) -> u64 {
        self.renewal
    }

    /// Records a renewal that was requested at `sent`.
    pub const fn renew(&mut self, sent: u64) {
        *self = Self::new(sent);
    }

    /// Records that a renewal failed, without the lease being lost.
    pub const fn retry(&mut self, now: u64) {
        self.renewal = now.saturating_add(RETRY);
    }

    /// Returns whether no other process can hold the lease yet. A lease that is over must not be released: it may be another's.
    #[must_use]
    pub const fn is_held(&self, now: u64) -> bool {
        now < self.ends
    }
}

/// Another process's lease, seen from outside. Each renewal changes its version.
///
/// ```
/// use warmstart_core::lease::{TTL, Watch};
///
/// let mut watch = Watch::new("version 1", 0);
/// assert!(!watch.is_over("version 1", TTL - 1));
/// assert!(!watch.is_over("version 2", TTL), "renewed meanwhile");
/// assert!(watch.is_over("version 2", 2 * TTL));
/// ```
#[derive(Clone, Debug)]
pub struct Watch<V> {
    version: V,
    since: u64,
}

impl<V: PartialEq> Watch<V> {
    /// Begins to watch a lease of this version.
    pub const fn new(version: V, now: u64) -> Self {
        Self { version, since: now }
    }

    /// Observes the lease again. Returns whether it stood still for [`TTL`], so that it may be taken over.
    pub fn is_over(&mut self, version: V, now: u64) -> bool {
        if self.version != version {
            *self = Self::new(version, now);
        }
        now.saturating_sub(self.since) >= TTL
    }
}

/// Pauses that double, with jitter, between two looks at what others build. They are in the caller's unit of time.
///
/// ```
/// use warmstart_core::lease::Backoff;
///
/// let mut backoff = Backoff::new(250, 4_000);
/// // Between a half and the whole of 250, 500, ...
/// assert_eq!([backoff.pause(0), backoff.pause(u64::MAX)], [125, 500]);
/// backoff.reset();
/// assert_eq!(backoff.pause(0), 125);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    first: u64,
    longest: u64,
    next: u64,
}

impl Backoff {
    /// Starts with pauses of `first`, up to `longest`.
    #[must_use]
    pub const fn new(first: u64, longest: u64) -> Self {
        Self { first, longest, next: first }
    }

    /// Returns the next pause. `random` is any number.
    pub fn pause(&mut self, random: u64) -> u64 {
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(self.longest);
        let half = pause / 2;
        half + scale(random, pause - half)
    }

    /// Begins with the first pause again.
    pub const fn reset(&mut self) {
        self.next = self.first;
    }
}

/// Maps a random number to 0..=`most`.
pub(crate) const fn scale(random: u64, most: u64) -> u64 {
    ((random as u128 * (most as u128 + 1)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_lives_through_two_failed_renewals() {
        let mut lease = Lease::new(500);
        assert_eq!(lease.renewal(), 1_500);
        lease.retry(1_700);
        assert_eq!(lease.renewal(), 1_850);
        lease.retry(2_900);
        assert!(lease.is_held(3_499) && !lease.is_held(3_500));
        assert!(!Lease::new(u64::MAX).is_held(u64::MAX));
    }

    #[test]
    fn a_watch_counts_from_the_last_change() {
        let mut watch = Watch::new(1, 10);
        assert!(!watch.is_over(1, 0), "an earlier time is no time that passed");
        assert!(!watch.is_over(2, 10 + TTL));
        assert!(!watch.is_over(2, 9 + 2 * TTL));
        assert!(watch.is_over(2, 10 + 2 * TTL));
        assert!(!watch.is_over(3, 11 + 2 * TTL), "taken over by another");
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut backoff = Backoff::new(250, 4_000);
        let pauses: [u64; 7] = core::array::from_fn(|_| backoff.pause(u64::MAX));
        assert_eq!(pauses, [250, 500, 1_000, 2_000, 4_000, 4_000, 4_000]);
        assert_eq!(backoff.pause(0), 2_000);
        assert_eq!(Backoff::new(0, 0).pause(7), 0);
        assert_eq!(scale(u64::MAX, u64::MAX), u64::MAX);
    }
}
