//! Statistics that last: what all processes counted, as it is kept with a store.
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
//! In a file there are two slots of 4096 bytes, which are written in turn: whoever dies while it writes one leaves the
//! other.
//!
//! A counter goes by its name, so that reasons may be added. What a newer version counts, under names that are not
//! known here, is kept as it is.

use alloc::{
    collections::{BTreeMap, btree_map::Entry},
    string::String,
    vec::Vec,
};

use xxhash_rust::xxh3::xxh3_64;

use crate::{
    bytes::{u16_at, u32_at, u64_at},
    reason::Reason,
    statistics::Statistics,
};

const MAGIC: [u8; 8] = *b"\x89WSS\r\n\x1a\n";
const VERSION: u16 = 1;
const CHECKED: usize = 16;
const HEADER_LEN: usize = 40;

/// The length of a slot in bytes.
pub const SLOT_LEN: usize = 4096;

/// The counter of the times that a tally was lost to damage.
const RESETS: &str = "resets";

/// What all caches over one store counted.
///
/// ```
/// use warmstart_core::{statistics::Statistics, tally::Tally};
///
/// let mut counted = Statistics::default();
/// counted.hits = 3;
/// let mut tally = Tally::new(1_700_000_000_000);
/// tally.add(&counted);
/// tally.add(&counted);
/// let kept = Tally::decode(&tally.encode())?;
/// assert_eq!(kept.statistics().hits, 6);
/// # Ok::<(), warmstart_core::reason::Reason>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    since_unix_ms: u64,
    number: u64,
    statistics: Statistics,
    resets: u64,
    /// Counters of a newer version.
    others: BTreeMap<String, u64>,
}

impl Tally {
    /// Nothing counted, from this time on, in milliseconds since 1970 UTC.
    #[must_use]
    pub fn new(since_unix_ms: u64) -> Self {
        Self { since_unix_ms, ..Self::default() }
    }

    /// Begins anew in place of one that is damaged, and counts that.
    #[must_use]
    pub fn reset(since_unix_ms: u64) -> Self {
        Self { resets: 1, ..Self::new(since_unix_ms) }
    }

    /// What was counted.
    #[must_use]
    pub const fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Since when, in milliseconds since 1970 UTC; 0 if nothing was counted yet.
    #[must_use]
    pub const fn since_unix_ms(&self) -> u64 {
        self.since_unix_ms
    }

    /// How often counting began anew because what was counted before was damaged.
    #[must_use]
    pub const fn resets(&self) -> u64 {
        self.resets
    }

    /// Adds what was counted.
    pub fn add(&mut self, counted: &Statistics) {
        self.statistics.add(counted);
        self.number = self.number.wrapping_add(1);
    }

    /// Where the tally goes in a file of two slots, in bytes: not where the one before it is.
    #[must_use]
    pub const fn slot(&self) -> u64 {
        self.number % 2 * SLOT_LEN as u64
    }

    /// The newer of the tallies in two slots. One that is damaged, as by the death of its writer, is passed over, and the
    /// last report is lost with it.
    ///
    /// # Errors
    /// As [`decode`](Self::decode), if there is none.
    pub fn decode_slots(bytes: &[u8]) -> Result<Self, Reason> {
        let (mut newest, mut refused): (Option<Self>, _) = (None, Reason::Truncated);
        for slot in bytes.chunks(SLOT_LEN).take(2).filter(|slot| slot.iter().any(|byte| *byte != 0)) {
            match Self::decode(slot) {
                Err(Reason::NewerVersion) => return Err(Reason::NewerVersion),
                Err(reason) => refused = reason,
                Ok(tally) if newest.as_ref().is_none_or(|other| tally.is_newer_than(other)) => {
                    newest = Some(tally);
                }
                Ok(_) => {}
            }
        }
        newest.ok_or(refused)
    }

    /// What counting goes on from: what is stored, or nothing yet, or anew, and counting that, if what is stored is damaged.
    ///
    /// # Errors
    /// Why what is stored can neither be added to nor replaced, such as [`Reason::NewerVersion`].
    pub fn resume(stored: Result<Self, Reason>, now_unix_ms: u64) -> Result<Self, Reason> {
        match stored {
            Err(Reason::Absent) => Ok(Self::new(now_unix_ms)),
            // Whoever could write there is not believed either.
            Err(reason) if reason.is_damage() || reason == Reason::Untrusted => Ok(Self::reset(now_unix_ms)),
            stored => stored,
        }
    }

    /// Numbers come round.
    const fn is_newer_than(&self, other: &Self) -> bool {
        self.number.wrapping_sub(other.number).cast_signed() > 0
    }

    /// The bytes of the tally. What is 0 takes none.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut counters = self.others.clone();
        self.statistics.each(&mut |name, n| _ = counters.insert(name, n));
        counters.insert(String::from(RESETS), self.resets);

        let mut bytes = Vec::with_capacity(1024);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 6]);
        bytes.extend_from_slice(&self.since_unix_ms.to_le_bytes());
        bytes.extend_from_slice(&self.number.to_le_bytes());
        for (name, n) in counters {
            // A name of ours is short, and one that was read had its length in a byte.
            let Ok(len) = u8::try_from(name.len()) else { continue };
            if n > 0 {
                bytes.push(len);
                bytes.extend_from_slice(name.as_bytes());
                bytes.extend_from_slice(&n.to_le_bytes());
            }
        }
        // Some hundred names of at most 255 bytes each.
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        bytes[20..24].copy_from_slice(&len.to_le_bytes());
        let sum = xxh3_64(&bytes[CHECKED..]);
        bytes[8..CHECKED].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads what [`encode`](Self::encode) wrote. What is behind it is passed over.
    ///
    /// # Errors
    /// [`Reason::NewerVersion`] if it is whole and a newer version's, else why it is damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, Reason> {
        if !bytes.starts_with(&MAGIC) {
            return Err(if MAGIC.starts_with(bytes) { Reason::Truncated } else { Reason::Foreign });
        }
        let sum = u64_at(bytes, 8).ok_or(Reason::Truncated)?;
        let len = u32_at(bytes, 20).and_then(|len| usize::try_from(len).ok()).ok_or(Reason::Truncated)?;
        let bytes = bytes.get(..len).ok_or(Reason::Truncated)?;
        let checked = bytes.get(CHECKED..).ok_or(Reason::Truncated)?;
        if xxh3_64(checked) != sum {
            return Err(Reason::ChecksumMismatch);
        }
        match u16_at(bytes, 16).ok_or(Reason::Truncated)? {
            VERSION => {}
            0 => return Err(Reason::Malformed),
            _ => return Err(Reason::NewerVersion),
        }
        if u16_at(bytes, 18) != Some(0) {
            return Err(Reason::Malformed);
        }
        let mut tally = Self::new(u64_at(bytes, 24).ok_or(Reason::Truncated)?);
        tally.number = u64_at(bytes, 32).ok_or(Reason::Truncated)?;
        let mut counters = take_counters(bytes.get(HEADER_LEN..).unwrap_or_default())?;
        tally.statistics = Statistics::from_counters(&mut |name| counters.remove(name).unwrap_or(0));
        tally.resets = counters.remove(RESETS).unwrap_or(0);
        tally.others = counters;
        Ok(tally)
    }
}

fn take_counters(mut rest: &[u8]) -> Result<BTreeMap<String, u64>, Reason> {
    let mut counters = BTreeMap::new();
    while let Some((len, after)) = rest.split_first() {
        let (name, after) = after.split_at_checked(usize::from(*len)).ok_or(Reason::Malformed)?;
        let name = core::str::from_utf8(name).map_err(|_| Reason::Malformed)?;
        let n = u64_at(after, 0).ok_or(Reason::Malformed)?;
        match counters.entry(String::from(name)) {
            Entry::Vacant(place) => _ = place.insert(n),
            Entry::Occupied(_) => return Err(Reason::Malformed),
        }
        rest = after.get(8..).unwrap_or_default();
    }
    Ok(counters)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::ReasonCounts;

    fn counted() -> Statistics {
        let mut misses = ReasonCounts::default();
        misses.add(Reason::Absent, 2);
        misses.add(Reason::TooLong, 1);
        let mut refusals = ReasonCounts::default();
        refusals.add(Reason::NoSpace, 9);
        Statistics {
            hits: 1,
            misses,
            refusals,
            builds: 3,
            shared: 4,
            bytes_read: 5,
            bytes_written: u64::MAX,
            evictions: 6,
            build_nanos: 7,
            saved_nanos: 8,
        }
    }

    fn tally() -> Tally {
        let mut tally = Tally::reset(77);
        tally.add(&counted());
        tally
    }

    #[test]
    fn every_counter_is_kept_and_added_up_without_overflow() {
        let mut kept = Tally::decode(&tally().encode()).unwrap();
        assert_eq!(kept, tally());
        assert_eq!((*kept.statistics(), kept.resets(), kept.since_unix_ms()), (counted(), 1, 77));
        kept.add(&counted());
        assert_eq!((kept.statistics().hits, kept.statistics().bytes_written), (2, u64::MAX));
        assert_eq!(kept.statistics().misses.of(Reason::Absent), 4);
    }

    #[test]
    fn every_flipped_bit_and_every_other_length_is_damage() {
        let bytes = tally().encode();
        for bit in 0..8 * bytes.len() {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Tally::decode(&damaged).unwrap_err().is_damage(), "bit {bit}");
        }
        for end in 0..bytes.len() {
            assert!(Tally::decode(&bytes[..end]).unwrap_err().is_damage(), "prefix of {end}");
        }
    }

    fn sealed_again(mut bytes: Vec<u8>) -> Vec<u8> {
        let len = u32::try_from(bytes.len()).unwrap();
        bytes[20..24].copy_from_slice(&len.to_le_bytes());
        let sum = xxh3_64(&bytes[CHECKED..]);
        bytes[8..CHECKED].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// A file to which each of these tallies was written in its turn.
    fn slots<const N: usize>(tallies: [&Tally; N]) -> Vec<u8> {
        let mut file = alloc::vec![0; 2 * SLOT_LEN];
        for tally in tallies {
            let (at, bytes) = (tally.slot() as usize, tally.encode());
            file[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        file
    }

    #[test]
    fn of_two_slots_the_newer_counts_and_a_damaged_one_is_passed_over() {
        let first = {
            let mut first = Tally::new(1);
            first.add(&counted());
            first
        };
        let mut second = first.clone();
        second.add(&counted());
        let mut third = second.clone();
        third.add(&Statistics::default());
        assert_eq!(Tally::decode_slots(&slots([&first])), Ok(first.clone()));
        assert_eq!(Tally::decode_slots(&slots([&first, &second])), Ok(second.clone()));
        assert_eq!(Tally::decode_slots(&slots([&first, &second, &third])), Ok(third.clone()));

        let mut torn = slots([&first, &second, &third]);
        torn[third.slot() as usize + 30] ^= 1;
        assert_eq!(Tally::decode_slots(&torn), Ok(second.clone()));
        torn[second.slot() as usize + 30] ^= 1;
        assert_eq!(Tally::decode_slots(&torn), Err(Reason::ChecksumMismatch));
        assert!(Tally::decode_slots(b"").unwrap_err().is_damage());
        assert!(Tally::decode_slots(&[0; 9000]).unwrap_err().is_damage());
    }

    #[test]
    fn a_number_that_has_come_round_is_newer() {
        let mut last = Tally::new(1);
        last.number = u64::MAX;
        let mut next = last.clone();
        next.add(&counted());
        assert_eq!(Tally::decode_slots(&slots([&last, &next])), Ok(next));
    }

    #[test]
    fn counting_goes_on_from_what_is_stored_or_anew() {
        assert_eq!(Tally::resume(Ok(tally()), 5), Ok(tally()));
        assert_eq!(Tally::resume(Err(Reason::Absent), 5), Ok(Tally::new(5)));
        assert_eq!(Tally::resume(Err(Reason::ChecksumMismatch), 5), Ok(Tally::reset(5)));
        assert_eq!(Tally::resume(Err(Reason::NewerVersion), 5), Err(Reason::NewerVersion));
        assert_eq!(Tally::resume(Err(Reason::Unavailable), 5), Err(Reason::Unavailable));
    }

    #[test]
    fn what_a_newer_version_counts_is_kept() {
        let mut bytes = Tally::new(5).encode();
        bytes.extend_from_slice(b"\x06unique\x09\0\0\0\0\0\0\0");
        let mut tally = Tally::decode(&sealed_again(bytes)).unwrap();
        tally.add(&counted());
        let again = tally.encode();
        assert!(again.windows(7).any(|part| part == b"unique\x09"));
        assert_eq!(Tally::decode(&again), Ok(tally));
    }

    #[test]
    fn a_newer_version_is_told_from_damage() {
        let mut bytes = tally().encode();
        bytes[16] = 2;
        assert_eq!(Tally::decode(&sealed_again(bytes)), Err(Reason::NewerVersion));
    }

    #[test]
    fn counters_that_contradict_each_other_are_refused() {
        let with = |more: &[u8]| {
            let mut bytes = Tally::new(5).encode();
            bytes.extend_from_slice(more);
            Tally::decode(&sealed_again(bytes))
        };
        let one = b"\x04hits\x01\0\0\0\0\0\0\0";
        assert!(with(one).is_ok());
        assert_eq!(with(&[one.as_slice(), one].concat()), Err(Reason::Malformed), "counted twice");
        assert_eq!(with(b"\xffhits"), Err(Reason::Malformed), "a name that claims more than there is");
        assert_eq!(with(b"\x01\xff\0\0\0\0\0\0\0\0"), Err(Reason::Malformed), "not UTF-8");
    }
}
