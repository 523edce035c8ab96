//! Statistics: the counters of a cache, and the block of counters that a store keeps for all processes.
//!
//! ```text
//!  0  magic     89 57 53 53 0D 0A 1A 0A  ("\x89WSS\r\n\x1A\n")
//!  8  checksum  u64  XXH3-64 of every byte from 16 to the end
//! 16  version   u16  1
//! 18  reserved  u16  0
//! 20  length    u32  of the whole
//! 24  since     u64  milliseconds since 1970 UTC of the first count
//! 32  number    u64  of reports that were added
//! 40  counters, sorted by name, to the end; each: length of the name u8, name, count u64
//! ```
//!
//! A file has two slots of 4096 bytes, which are written in turn. If a process dies while writing one slot, the other stays
//! intact.
//!
//! Counters are identified by name, so that reasons can be added. Counters of a newer version, whose names are unknown here,
//! are preserved.

use alloc::{collections::BTreeMap, format, string::String, vec::Vec};
use core::fmt;

use crate::{
    bytes::{XXH3_64, u16_at, u32_at, u64_at},
    miss::Miss,
    reason::MissReason,
};

const MAGIC: [u8; 8] = *b"\x89WSS\r\n\x1a\n";
const VERSION: u16 = 1;
const CHECKED: usize = 16;
const HEADER_LEN: usize = 40;

/// The length of a slot in bytes.
pub const SLOT_LEN: usize = 4096;

/// The name of the counter of resets. Counters are reset if they are damaged.
const RESETS: &str = "resets";

/// The prefixes of the names of counters by reason.
const MISSES: &str = "misses.";
const REFUSALS: &str = "refusals.";

/// The number of occurrences of each [`MissReason`].
///
/// ```
/// use warmstart_core::{reason::MissReason, statistics::ReasonCounts};
///
/// let mut counts = ReasonCounts::default();
/// counts.add(MissReason::Absent, 2);
/// assert_eq!(counts.of(MissReason::Absent), 2);
/// assert_eq!(counts.total(), 2);
/// assert_eq!(format!("{counts:?}"), "{absent: 2}");
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ReasonCounts([u64; MissReason::COUNT]);

impl ReasonCounts {
    /// Adds `n` occurrences of `reason`.
    pub const fn add(&mut self, reason: MissReason, n: u64) {
        let count = &mut self.0[reason.index()];
        *count = count.saturating_add(n);
    }

    /// Returns the number of occurrences of `reason`.
    #[must_use]
    pub const fn of(&self, reason: MissReason) -> u64 {
        self.0[reason.index()]
    }

    /// Returns the number of occurrences of all reasons.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        other.iter().for_each(|(reason, n)| self.add(reason, n));
    }

    /// Returns the difference from `earlier` counts.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut counts = Self::default();
        self.iter().for_each(|(reason, n)| counts.add(reason, n.saturating_sub(earlier.of(reason))));
        counts
    }

    /// Iterates over the reasons that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (MissReason, u64)> + '_ {
        MissReason::ALL.iter().map(|reason| (*reason, self.of(*reason))).filter(|(_, n)| *n > 0)
    }
}

/// Shows the reasons that occurred, by name: `{absent: 2}`.
impl fmt::Debug for ReasonCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut counts = f.debug_map();
        for (reason, n) in self.iter() {
            counts.entry(&format_args!("{}", reason.as_str()), &n);
        }
        counts.finish()
    }
}

impl Default for ReasonCounts {
    fn default() -> Self {
        Self([0; MissReason::COUNT])
    }
}

/// The counters of a cache since it was opened.
///
/// Every look-up is counted once, so that their number is `hits + misses.total()`. A miss of `get_or_build` also counts as one
/// of `builds` or of `shared`, unless the builder failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Look-ups that returned a stored artifact.
    pub hits: u64,
    /// Look-ups that missed, by reason.
    pub misses: ReasonCounts,
    /// Artifacts that were not stored, by reason.
    pub refusals: ReasonCounts,
    /// Artifacts built by this cache's callers. Builds that failed are not counted.
    pub builds: u64,
    /// Look-ups that missed and whose artifact was built by another thread or process meanwhile. The caller waited for that
    /// build, or it ended just after the look-up.
    pub shared: u64,
    /// Nanoseconds that look-ups counted as `shared` waited for the builds of others.
    pub wait_nanos: u64,
    /// Payload bytes returned by hits. Artifacts counted as `shared` are not included, even if they were read.
    pub bytes_read: u64,
    /// Payload bytes stored.
    pub bytes_written: u64,
    /// Entries evicted to make room.
    pub evictions: u64,
    /// Nanoseconds spent in builders.
    pub build_nanos: u64,
    /// Nanoseconds that the hits saved: the build times of the artifacts that they returned.
    pub saved_nanos: u64,
}

impl Statistics {
    /// Adds other counters. Each sum saturates at [`u64::MAX`].
    pub fn add(&mut self, counted: &Self) {
        let mut counted = *counted;
        for ((_, n), (_, more)) in self.numbers().into_iter().zip(counted.numbers()) {
            *n = n.saturating_add(*more);
        }
        self.misses.merge(&counted.misses);
        self.refusals.merge(&counted.refusals);
    }

    /// Returns the difference from `earlier` statistics of the same cache.
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
        let (mut since, mut earlier) = (*self, *earlier);
        for ((_, n), (_, before)) in since.numbers().into_iter().zip(earlier.numbers()) {
            *n = n.saturating_sub(*before);
        }
        since.misses = self.misses.since(&earlier.misses);
        since.refusals = self.refusals.since(&earlier.refusals);
        since
    }

    /// Returns the counters that are not by reason, with the names under which they are stored.
    const fn numbers(&mut self) -> [(&'static str, &mut u64); 9] {
        [
            ("hits", &mut self.hits),
            ("builds", &mut self.builds),
            ("shared", &mut self.shared),
            ("wait_nanos", &mut self.wait_nanos),
            ("bytes_read", &mut self.bytes_read),
            ("bytes_written", &mut self.bytes_written),
            ("evictions", &mut self.evictions),
            ("build_nanos", &mut self.build_nanos),
            ("saved_nanos", &mut self.saved_nanos),
        ]
    }
}

/// The sum of the reports of all caches over a store, from all processes, and the last miss.
///
/// ```
/// use warmstart_core::statistics::{PersistedStats, Statistics};
///
/// let mut counted = Statistics::default();
/// counted.hits = 3;
/// let mut stats = PersistedStats::new(1_700_000_000_000);
/// stats.add(&counted);
/// stats.add(&counted);
/// assert_eq!(PersistedStats::decode(&stats.encode())?.counted.hits, 6);
/// # Ok::<(), warmstart_core::reason::MissReason>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PersistedStats {
    /// The sum of the reported counters.
    pub counted: Statistics,
    /// The time at which counting began, in milliseconds since 1970 UTC; 0 if nothing has been counted.
    pub since_unix_ms: u64,
    /// The number of times that counting restarted from 0 because the stored counters were damaged.
    pub resets: u64,
    /// The last miss. It is stored apart from the counters, and [`encode`](Self::encode) leaves it out.
    pub last_miss: Option<Miss>,
    /// The number of reports added; wraps around.
    number: u64,
    /// Counters of a newer version, by name.
    others: BTreeMap<String, u64>,
}

impl PersistedStats {
    /// Creates counters that start at 0 at this time, in milliseconds since 1970 UTC.
    #[must_use]
    pub fn new(since_unix_ms: u64) -> Self {
        Self { since_unix_ms, ..Self::default() }
    }

    /// Adds one report.
    pub fn add(&mut self, counted: &Statistics) {
        self.counted.add(counted);
        self.number = self.number.wrapping_add(1);
    }

    /// Returns the offset, in bytes, at which the counters are written in a file of two slots: that of the slot without the
    /// previous report.
    #[must_use]
    pub const fn slot(&self) -> u64 {
        self.number % 2 * SLOT_LEN as u64
    }

    /// Decodes the newer of the two slots. Ignores a damaged slot, such as that of a writer that died; its report is then lost.
    ///
    /// # Errors
    /// As [`decode`](Self::decode), if neither slot is intact.
    pub fn decode_slots(bytes: &[u8]) -> Result<Self, MissReason> {
        let (mut newest, mut refused): (Option<Self>, _) = (None, MissReason::Truncated);
        for slot in bytes.chunks(SLOT_LEN).take(2).filter(|slot| slot.iter().any(|byte| *byte != 0)) {
            match Self::decode(slot) {
                Err(MissReason::NewerVersion) => return Err(MissReason::NewerVersion),
                Err(reason) => refused = reason,
                Ok(stats) if newest.as_ref().is_none_or(|other| stats.is_newer_than(other)) => {
                    newest = Some(stats);
                }
                Ok(_) => {}
            }
        }
        newest.ok_or(refused)
    }

    /// Returns the counters to continue with: the stored ones, or new ones if none are stored or if the stored ones are
    /// damaged. Damage counts as a reset.
    ///
    /// # Errors
    /// The reason why the stored counters can neither be added to nor replaced, such as [`MissReason::NewerVersion`].
    pub fn resume(stored: Result<Self, MissReason>, now_unix_ms: u64) -> Result<Self, MissReason> {
        match stored {
            Err(MissReason::Absent) => Ok(Self::new(now_unix_ms)),
            // A file that other users may write to is not trusted either.
            Err(reason) if reason.is_damage() || reason == MissReason::Untrusted => {
                Ok(Self { resets: 1, ..Self::new(now_unix_ms) })
            }
            stored => stored,
        }
    }

    /// Compares the numbers of reports with wraparound.
    const fn is_newer_than(&self, other: &Self) -> bool {
        self.number.wrapping_sub(other.number).cast_signed() > 0
    }

    /// Encodes the counters. A counter of 0 takes no space.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (mut counters, mut counted) = (self.others.clone(), self.counted);
        counters.extend(counted.numbers().map(|(name, n)| (String::from(name), *n)));
        for (kind, counts) in [(MISSES, &self.counted.misses), (REFUSALS, &self.counted.refusals)] {
            counters.extend(counts.iter().map(|(reason, n)| (format!("{kind}{}", reason.as_str()), n)));
        }
        counters.insert(String::from(RESETS), self.resets);

        let mut bytes = Vec::with_capacity(1024);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 6]);
        bytes.extend_from_slice(&self.since_unix_ms.to_le_bytes());
        bytes.extend_from_slice(&self.number.to_le_bytes());
        for (name, n) in counters {
            // Our own names are short, and the length of a name that was read fitted in a byte.
            let Ok(len) = u8::try_from(name.len()) else { continue };
            if n > 0 {
                bytes.push(len);
                bytes.extend_from_slice(name.as_bytes());
                bytes.extend_from_slice(&n.to_le_bytes());
            }
        }
        // A few hundred names of at most 255 bytes each.
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        bytes[20..24].copy_from_slice(&len.to_le_bytes());
        let sum = XXH3_64(&bytes[CHECKED..]);
        bytes[8..CHECKED].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Decodes the bytes that [`encode`](Self::encode) returns, and ignores bytes after them.
    ///
    /// # Errors
    /// [`MissReason::NewerVersion`] if the bytes are intact but of a newer version, else the reason why they are damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, MissReason> {
        if !bytes.starts_with(&MAGIC) {
            return Err(if MAGIC.starts_with(bytes) { MissReason::Truncated } else { MissReason::Foreign });
        }
        let sum = u64_at(bytes, 8).ok_or(MissReason::Truncated)?;
        let len = u32_at(bytes, 20).and_then(|len| usize::try_from(len).ok()).ok_or(MissReason::Truncated)?;
        let bytes = bytes.get(..len).ok_or(MissReason::Truncated)?;
        let checked = bytes.get(CHECKED..).ok_or(MissReason::Truncated)?;
        if XXH3_64(checked) != sum {
            return Err(MissReason::ChecksumMismatch);
        }
        match u16_at(bytes, 16).ok_or(MissReason::Truncated)? {
            VERSION => {}
            0 => return Err(MissReason::Malformed),
            _ => return Err(MissReason::NewerVersion),
        }
        if u16_at(bytes, 18) != Some(0) {
            return Err(MissReason::Malformed);
        }
        let mut stats = Self::new(u64_at(bytes, 24).ok_or(MissReason::Truncated)?);
        stats.number = u64_at(bytes, 32).ok_or(MissReason::Truncated)?;
        let mut counters = take_counters(bytes.get(HEADER_LEN..).unwrap_or_default())?;
        let mut take = |name: &str| counters.remove(name).unwrap_or(0);
        for (name, n) in stats.counted.numbers() {
            *n = take(name);
        }
        let Statistics { misses, refusals, .. } = &mut stats.counted;
        for (kind, counts) in [(MISSES, misses), (REFUSALS, refusals)] {
            MissReason::ALL
                .iter()
                .for_each(|reason| counts.add(*reason, take(&format!("{kind}{}", reason.as_str()))));
        }
        stats.resets = take(RESETS);
        stats.others = counters;
        Ok(stats)
    }
}

fn take_counters(mut rest: &[u8]) -> Result<BTreeMap<String, u64>, MissReason> {
    let mut counters = BTreeMap::new();
    while let Some((len, after)) = rest.split_first() {
        let (name, after) = after.split_at_checked(usize::from(*len)).ok_or(MissReason::Malformed)?;
        let name = core::str::from_utf8(name).map_err(|_| MissReason::Malformed)?;
        let n = u64_at(after, 0).ok_or(MissReason::Malformed)?;
        if counters.insert(String::from(name), n).is_some() {
            return Err(MissReason::Malformed);
        }
        rest = after.get(8..).unwrap_or_default();
    }
    Ok(counters)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted() -> Statistics {
        let mut misses = ReasonCounts::default();
        misses.add(MissReason::Absent, 2);
        misses.add(MissReason::TooLong, 1);
        let mut refusals = ReasonCounts::default();
        refusals.add(MissReason::NoSpace, 9);
        Statistics {
            hits: 1,
            misses,
            refusals,
            builds: 3,
            shared: 4,
            wait_nanos: 9,
            bytes_read: 5,
            bytes_written: u64::MAX,
            evictions: 6,
            build_nanos: 7,
            saved_nanos: 8,
        }
    }

    fn stats() -> PersistedStats {
        let mut stats = PersistedStats { resets: 1, ..PersistedStats::new(77) };
        stats.add(&counted());
        stats
    }

    #[test]
    fn every_counter_is_kept_and_added_up_without_overflow() {
        let mut kept = PersistedStats::decode(&stats().encode()).unwrap();
        assert_eq!(kept, stats());
        assert_eq!((kept.counted, kept.resets, kept.since_unix_ms), (counted(), 1, 77));
        kept.add(&counted());
        assert_eq!((kept.counted.hits, kept.counted.bytes_written), (2, u64::MAX));
        assert_eq!(kept.counted.misses.of(MissReason::Absent), 4);
    }

    #[test]
    fn every_flipped_bit_and_every_other_length_is_damage() {
        let bytes = stats().encode();
        for bit in 0..8 * bytes.len() {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(PersistedStats::decode(&damaged).unwrap_err().is_damage(), "bit {bit}");
        }
        for end in 0..bytes.len() {
            assert!(PersistedStats::decode(&bytes[..end]).unwrap_err().is_damage(), "prefix of {end}");
        }
    }

    fn sealed_again(mut bytes: Vec<u8>) -> Vec<u8> {
        let len = u32::try_from(bytes.len()).unwrap();
        bytes[20..24].copy_from_slice(&len.to_le_bytes());
        let sum = XXH3_64(&bytes[CHECKED..]);
        bytes[8..CHECKED].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Returns a file to which each of these statistics was written in turn.
    fn slots<const N: usize>(all: [&PersistedStats; N]) -> Vec<u8> {
        let mut file = alloc::vec![0; 2 * SLOT_LEN];
        for stats in all {
            let (at, bytes) = (stats.slot() as usize, stats.encode());
            file[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        file
    }

    #[test]
    fn newer_of_two_slots_counts_and_a_damaged_slot_is_ignored() {
        let first = {
            let mut first = PersistedStats::new(1);
            first.add(&counted());
            first
        };
        let mut second = first.clone();
        second.add(&counted());
        let mut third = second.clone();
        third.add(&Statistics::default());
        assert_eq!(PersistedStats::decode_slots(&slots([&first])), Ok(first.clone()));
        assert_eq!(PersistedStats::decode_slots(&slots([&first, &second])), Ok(second.clone()));
        assert_eq!(PersistedStats::decode_slots(&slots([&first, &second, &third])), Ok(third.clone()));

        let mut torn = slots([&first, &second, &third]);
        torn[third.slot() as usize + 30] ^= 1;
        assert_eq!(PersistedStats::decode_slots(&torn), Ok(second.clone()));
        torn[second.slot() as usize + 30] ^= 1;
        assert_eq!(PersistedStats::decode_slots(&torn), Err(MissReason::ChecksumMismatch));
        assert!(PersistedStats::decode_slots(b"").unwrap_err().is_damage());
        assert!(PersistedStats::decode_slots(&[0; 9000]).unwrap_err().is_damage());
    }

    #[test]
    fn number_that_wrapped_around_is_newer() {
        let mut last = PersistedStats::new(1);
        last.number = u64::MAX;
        let mut next = last.clone();
        next.add(&counted());
        assert_eq!(PersistedStats::decode_slots(&slots([&last, &next])), Ok(next));
    }

    #[test]
    fn counting_resumes_from_stored_counters_or_from_zero() {
        assert_eq!(PersistedStats::resume(Ok(stats()), 5), Ok(stats()));
        assert_eq!(PersistedStats::resume(Err(MissReason::Absent), 5), Ok(PersistedStats::new(5)));
        assert_eq!(
            PersistedStats::resume(Err(MissReason::ChecksumMismatch), 5),
            Ok(PersistedStats { resets: 1, ..PersistedStats::new(5) })
        );
        assert_eq!(PersistedStats::resume(Err(MissReason::NewerVersion), 5), Err(MissReason::NewerVersion));
        assert_eq!(PersistedStats::resume(Err(MissReason::Unavailable), 5), Err(MissReason::Unavailable));
    }

    #[test]
    fn counters_of_a_newer_version_are_kept() {
        let mut bytes = PersistedStats::new(5).encode();
        bytes.extend_from_slice(b"\x06unique\x09\0\0\0\0\0\0\0");
        let mut stats = PersistedStats::decode(&sealed_again(bytes)).unwrap();
        stats.add(&counted());
        let again = stats.encode();
        assert!(again.windows(7).any(|part| part == b"unique\x09"));
        assert_eq!(PersistedStats::decode(&again), Ok(stats));
    }

    #[test]
    fn newer_version_differs_from_damage() {
        let mut bytes = stats().encode();
        bytes[16] = 2;
        assert_eq!(PersistedStats::decode(&sealed_again(bytes)), Err(MissReason::NewerVersion));
    }

    #[test]
    fn counters_that_contradict_each_other_are_refused() {
        let with = |more: &[u8]| {
            let mut bytes = PersistedStats::new(5).encode();
            bytes.extend_from_slice(more);
            PersistedStats::decode(&sealed_again(bytes))
        };
        let one = b"\x04hits\x01\0\0\0\0\0\0\0";
        assert!(with(one).is_ok());
        assert_eq!(with(&[one.as_slice(), one].concat()), Err(MissReason::Malformed), "counted twice");
        assert_eq!(with(b"\xffhits"), Err(MissReason::Malformed), "a name that claims more than there is");
        assert_eq!(with(b"\x01\xff\0\0\0\0\0\0\0\0"), Err(MissReason::Malformed), "not UTF-8");
    }
}
