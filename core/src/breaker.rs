//! The circuit breaker of a remote: after a failure it keeps callers away, so that a dead remote costs one timeout and not one a request.
//!
//! Processes of a machine share its state as a file, which each reads when it opens a fleet. While it is open, callers send
//! nothing, and ignore the outcomes of what they sent before. Then a probe decides, or the first request of a process that starts later.

use crate::{
    bytes::{XXH3_64, u64_at},
    lease::scale,
};

/// The time that the breaker stays open after the first failure, in milliseconds. It doubles with each further one.
const FIRST: u64 = 5_000;

/// The longest time that the breaker stays open, in milliseconds, without jitter.
const LONGEST: u64 = 300_000;

const MAGIC: [u8; 8] = *b"WSBRK\0\0\x01";

/// The state of a breaker. Times are milliseconds since 1970 UTC, because several processes compare them.
///
/// ```
/// use warmstart_core::breaker::{Breaker, Mode};
///
/// let mut breaker = Breaker::default();
/// assert_eq!(breaker.mode(1_000), Mode::Closed);
/// breaker.fail(1_000, 0);
/// assert_eq!(breaker.mode(5_999), Mode::Open);
/// assert_eq!(breaker.mode(6_000), Mode::Due);
/// assert_eq!(Breaker::decode(&breaker.encode()), breaker);
/// breaker.succeed();
/// assert_eq!(breaker.mode(6_000), Mode::Closed);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breaker {
    /// The number of failures since the last success.
    failures: u64,
    /// When the next probe is due.
    probe: u64,
}

/// Whether requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The remote answers: send requests.
    Closed,
    /// The remote failed: send nothing.
    Open,
    /// The remote failed a while ago: send one probe in the background, and nothing else. A process that starts now just begins.
    Due,
}

impl Breaker {
    /// The length of an encoded state in bytes.
    pub const LEN: usize = 32;

    /// Returns whether requests are sent now.
    #[must_use]
    pub const fn mode(&self, unix_ms: u64) -> Mode {
        match self.probe.checked_sub(unix_ms) {
            _ if self.failures == 0 => Mode::Closed,
            // The clock went back if the breaker would be open for longer than it ever is.
            Some(left @ 1..) if left <= LONGEST + LONGEST / 4 => Mode::Open,
            _ => Mode::Due,
        }
    }

    /// Records a failure. `random` is any number: of many machines, not all probe a remote at once.
    pub fn fail(&mut self, unix_ms: u64, random: u64) {
        let doublings = u32::try_from(self.failures).unwrap_or(u32::MAX);
        let open = FIRST.checked_shl(doublings.min(16)).map_or(LONGEST, |open| open.min(LONGEST));
        self.failures = self.failures.saturating_add(1);
        self.probe = unix_ms.saturating_add(open).saturating_add(scale(random, open / 4));
    }

    /// Records that the remote answered.
    pub const fn succeed(&mut self) {
        *self = Self { failures: 0, probe: 0 };
    }

    /// Encodes the state: magic, number of failures, time of the next probe, and XXH3-64 of these.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.failures.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.probe.to_le_bytes());
        let sum = XXH3_64(&bytes[..24]);
        bytes[24..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Decodes a state. Anything that is not one is a closed breaker, so that damage costs at most one timeout.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Self {
        let whole = bytes.len() == Self::LEN && bytes.starts_with(&MAGIC);
        match (u64_at(bytes, 8), u64_at(bytes, 16), u64_at(bytes, 24)) {
            (Some(failures), Some(probe), Some(sum)) if whole && sum == XXH3_64(&bytes[..24]) => {
                Self { failures, probe }
            }
            _ => Self::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_open_time_doubles_up_to_five_minutes() {
        let mut breaker = Breaker::default();
        for open in [5, 10, 20, 40, 80, 160, 300, 300].map(|seconds| seconds * 1_000) {
            breaker.fail(7, 0);
            assert_eq!((breaker.mode(6 + open), breaker.mode(7 + open)), (Mode::Open, Mode::Due));
        }
        breaker.fail(7, u64::MAX);
        assert_eq!(breaker.mode(7 + 375_000 - 1), Mode::Open);
        assert_eq!(breaker.mode(7 + 375_000), Mode::Due);
        breaker.failures = u64::MAX;
        breaker.fail(u64::MAX, u64::MAX);
        assert_eq!(breaker.mode(u64::MAX), Mode::Due);
    }

    #[test]
    fn a_clock_that_went_back_makes_a_probe_due() {
        let mut breaker = Breaker::default();
        breaker.fail(1_000_000_000, 0);
        assert_eq!(breaker.mode(1_000_000), Mode::Due);
        assert_eq!(breaker.mode(0), Mode::Due);
    }

    #[test]
    fn a_damaged_state_is_a_closed_breaker() {
        let mut breaker = Breaker::default();
        breaker.fail(1_000, 5);
        let bytes = breaker.encode();
        for at in 0..Breaker::LEN {
            for bit in 0..8 {
                let mut damaged = bytes;
                damaged[at] ^= 1 << bit;
                assert_eq!(Breaker::decode(&damaged), Breaker::default());
            }
        }
        for len in 0..Breaker::LEN {
            assert_eq!(Breaker::decode(&bytes[..len]), Breaker::default());
        }
        assert_eq!(Breaker::decode(&[bytes, bytes].concat()), Breaker::default());
        assert_eq!(Breaker::decode(&bytes), breaker);
    }
}
