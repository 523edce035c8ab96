//! The shared accounting of a cache directory: an append-only list of the entries stored, used and removed.
//!
//! Every process that stores into a directory replays the journal into its own [`Accounts`], and appends its own changes. All
//! processes therefore agree on the sizes and on the order of use, a store appends one record however many entries there are,
//! and no process has to scan the directory. The journal is derived data: if it is lost or damaged, it is rebuilt from the
//! entries, and only the exact order and times of use are lost.
//!
//! ```text
//! header   0  magic     89 57 53 4A 0D 0A 1A 0A  ("\x89WSJ\r\n\x1A\n")
//!          8  version   u16  2
//!         10  reserved  zeros to 60
//!         60  checksum  u32  low half of XXH3-64 of bytes 0..60
//! record   0  checksum  u32  low half of XXH3-64 of bytes 4..64
//!          4  kind      u8   1 stored, 2 used, 3 removed
//!          5  reserved  zeros to 8
//!          8  size      u64  bytes of the entry; 0 unless stored
//!         16  time      u64  milliseconds since 1970 UTC; informs, never decides
//!         24  digest    32 bytes
//!         56  reserved  zeros to 64
//! skipped  0  checksum  as in a record
//!          4  kind      u8   4: what the first edition wrote to find recipes by
//! ```

use core::hash::BuildHasher;

use crate::{
    bytes::{XXH3_64, array, u16_at, u32_at, u64_at},
    key::Key,
    lru::{Limits, Lru},
    reason::MissReason,
};

/// The length of the header in bytes.
pub const HEADER_LEN: usize = 64;

/// The length of a record in bytes.
pub const RECORD_LEN: usize = 64;

const MAGIC: [u8; 8] = *b"\x89WSJ\r\n\x1a\n";
const VERSION: u16 = 2;

/// The kind of records that the first edition wrote. They are skipped.
const SKIPPED: u8 = 4;

/// The offset of the header's checksum. Like magic and version, it is the same in every version.
const HEADER_SUM: usize = 60;

/// The number of records up to which a journal is never compacted.
const COMPACT_FLOOR: u64 = 1024;

/// A change of an entry: stored, used or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The entry is stored, or about to be.
    Stored {
        /// The size of the entry in bytes.
        size: u64,
    },
    /// The entry was read.
    Used,
    /// The entry is gone.
    Removed,
}

/// One record of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The digest of the entry's key.
    pub digest: Key,
    /// The change of the entry.
    pub event: Event,
    /// The time of the change, in milliseconds since 1970 UTC.
    pub unix_ms: u64,
}

/// Encodes the header of a journal of this version.
#[must_use]
pub fn header() -> [u8; HEADER_LEN] {
    let mut bytes = [0; HEADER_LEN];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
    let sum = low_half(&bytes[..HEADER_SUM]);
    bytes[HEADER_SUM..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Checks the header of a journal.
///
/// # Errors
/// [`MissReason::NewerVersion`] if a newer version wrote the header, else the reason why the header is invalid.
pub fn check_header(bytes: &[u8]) -> Result<(), MissReason> {
    let header = array::<HEADER_LEN>(bytes, 0).ok_or(MissReason::Truncated)?;
    if !header.starts_with(&MAGIC) {
        return Err(MissReason::Foreign);
    }
    // A damaged version must not pass for a newer one, which would be left alone for ever.
    if u32_at(&header, HEADER_SUM) != Some(low_half(&header[..HEADER_SUM])) {
        return Err(MissReason::ChecksumMismatch);
    }
    match u16_at(&header, 8) {
        Some(VERSION) if header[10..HEADER_SUM].iter().all(|byte| *byte == 0) => Ok(()),
        Some(version) if version > VERSION => Err(MissReason::NewerVersion),
        _ => Err(MissReason::Malformed),
    }
}

impl Record {
    /// Encodes the record.
    #[must_use]
    pub fn encode(&self) -> [u8; RECORD_LEN] {
        let (kind, size) = match self.event {
            Event::Stored { size } => (1, size),
            Event::Used => (2, 0),
            Event::Removed => (3, 0),
        };
        let mut bytes = [0; RECORD_LEN];
        bytes[4] = kind;
        bytes[8..16].copy_from_slice(&size.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.unix_ms.to_le_bytes());
        bytes[24..56].copy_from_slice(self.digest.as_bytes());
        let sum = checksum(&bytes);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// [`MissReason::ChecksumMismatch`] or [`MissReason::Malformed`].
    pub fn decode(bytes: &[u8; RECORD_LEN]) -> Result<Self, MissReason> {
        if u32_at(bytes, 0) != Some(checksum(bytes)) {
            return Err(MissReason::ChecksumMismatch);
        }
        let size = u64_at(bytes, 8).ok_or(MissReason::Malformed)?;
        let event = match (bytes[4], size) {
            (1, size) => Event::Stored { size },
            (2, 0) => Event::Used,
            (3, 0) => Event::Removed,
            _ => return Err(MissReason::Malformed),
        };
        let digest = Key::from_bytes(array(bytes, 24).ok_or(MissReason::Malformed)?);
        Ok(Self { digest, event, unix_ms: u64_at(bytes, 16).ok_or(MissReason::Malformed)? })
    }
}

/// Computes the checksum of a record, over everything after the checksum itself.
fn checksum(bytes: &[u8; RECORD_LEN]) -> u32 {
    low_half(&bytes[4..])
}

fn low_half(bytes: &[u8]) -> u32 {
    (XXH3_64(bytes) & 0xffff_ffff) as u32
}

/// The entries of a directory with their sizes and order of use, obtained by replaying its journal.
///
/// ```
/// use std::hash::{BuildHasherDefault, DefaultHasher};
/// use warmstart_core::{journal::{Accounts, Event, Record}, key::Key, lru::Limits};
///
/// let mut accounts = Accounts::new(Limits::bytes(1000), BuildHasherDefault::<DefaultHasher>::default());
/// let stored = Record { digest: Key::digest(b"a"), event: Event::Stored { size: 600 }, unix_ms: 0 };
/// accounts.replay(&stored.encode())?;
/// assert_eq!(accounts.total_bytes(), 600);
/// assert!(accounts.must_evict(&Key::digest(b"b"), 500, 0));
/// # Ok::<(), warmstart_core::reason::MissReason>(())
/// ```
#[derive(Debug)]
pub struct Accounts<S> {
    /// The value of an entry is the time of its last use, in milliseconds since 1970 UTC.
    lru: Lru<Key, u64, S>,
    records: u64,
}

/// The digest, size and last use of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// The digest of the entry's key.
    pub digest: Key,
    /// The size of the entry in bytes.
    pub size: u64,
    /// The time of the last store or use, in milliseconds since 1970 UTC.
    pub used_unix_ms: u64,
}

impl<S: BuildHasher> Accounts<S> {
    /// Creates the accounts of an empty journal.
    pub fn new(limits: Limits, hasher: S) -> Self {
        Self { lru: Lru::new(limits, hasher), records: 0 }
    }

    /// Replays whole records: those after the header, or those after the last replay.
    ///
    /// # Errors
    /// The reason why a record is refused, or [`MissReason::Truncated`] if the last record is incomplete. The journal is
    /// damaged from there on, and must be rebuilt.
    pub fn replay(&mut self, bytes: &[u8]) -> Result<(), MissReason> {
        let (records, rest) = bytes.as_chunks::<RECORD_LEN>();
        if self.records == 0 {
            self.lru.reserve(records.len());
        }
        for record in records {
            if record[4] != SKIPPED {
                self.apply(&Record::decode(record)?);
            } else if u32_at(record, 0) == Some(checksum(record)) {
                self.records += 1;
            } else {
                return Err(MissReason::ChecksumMismatch);
            }
        }
        if rest.is_empty() { Ok(()) } else { Err(MissReason::Truncated) }
    }

    /// Applies one record that was read or has just been written.
    pub fn apply(&mut self, record: &Record) {
        self.records += 1;
        match record.event {
            Event::Stored { size } => {
                self.lru.insert(record.digest, record.unix_ms, size);
            }
            Event::Used => {
                if let Some(size) = self.size_of(&record.digest) {
                    self.lru.insert(record.digest, record.unix_ms, size);
                }
            }
            Event::Removed => {
                self.lru.remove(&record.digest);
            }
        }
    }

    /// Returns whether an entry must be evicted before `size` bytes can be stored under `digest`, while `reserved` bytes are in
    /// use beside the entries. The entry that `digest` replaces is not counted.
    ///
    /// Makes the entry of `digest` the newest, so that it is the last one that [`oldest`](Self::oldest) returns.
    pub fn must_evict(&mut self, digest: &Key, size: u64, reserved: u64) -> bool {
        self.lru.record_access(digest);
        !self.lru.fits(digest, size.saturating_add(reserved))
            && self.lru.oldest().is_some_and(|(old, ..)| old != digest)
    }

    /// Returns the digest of the least recently used entry and its size in bytes.
    #[must_use]
    pub fn oldest(&self) -> Option<(Key, u64)> {
        self.lru.oldest().map(|(digest, _, size)| (*digest, size))
    }

    /// Returns the size of an entry in bytes.
    #[must_use]
    pub fn size_of(&self, digest: &Key) -> Option<u64> {
        self.lru.peek(digest).map(|(_, size)| size)
    }

    /// Returns the sum of the sizes of all entries in bytes, at most [`u64::MAX`].
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.lru.total_bytes()
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lru.len()
    }

    /// Returns whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lru.is_empty()
    }

    /// Returns whether so many records are outdated that the journal should be compacted. The cost of compaction is
    /// proportional to the number of entries, and is then spread over at least as many records.
    #[must_use]
    pub fn should_compact(&self) -> bool {
        self.records > COMPACT_FLOOR + 6 * self.len() as u64
    }

    /// Iterates over the entries, the least recently used first.
    pub fn iter(&self) -> impl Iterator<Item = Account> {
        self.lru.iter().map(|(digest, unix_ms, size)| Account {
            digest: *digest,
            size,
            used_unix_ms: *unix_ms,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use core::hash::{BuildHasherDefault, Hasher};

    #[derive(Default)]
    struct Sum(u64);
    impl Hasher for Sum {
        fn finish(&self) -> u64 {
            self.0
        }
        fn write(&mut self, bytes: &[u8]) {
            self.0 = XXH3_64(bytes);
        }
    }

    fn record(digest: u8, event: Event) -> Record {
        Record { digest: Key::digest(&[digest]), event, unix_ms: 7 }
    }

    fn accounts(limits: Limits) -> Accounts<BuildHasherDefault<Sum>> {
        Accounts::new(limits, BuildHasherDefault::default())
    }

    #[test]
    fn every_record_survives_and_every_flipped_bit_is_seen() {
        for event in [Event::Stored { size: u64::MAX }, Event::Used, Event::Removed] {
            let bytes = record(1, event).encode();
            assert_eq!(Record::decode(&bytes), Ok(record(1, event)));
            for bit in 0..8 * RECORD_LEN {
                let mut damaged = bytes;
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(Record::decode(&damaged).is_err());
            }
        }
    }

    /// Changes bytes of a record, and gives it the right checksum.
    fn altered(event: Event, alter: impl FnOnce(&mut [u8; RECORD_LEN])) -> [u8; RECORD_LEN] {
        let mut bytes = record(1, event).encode();
        alter(&mut bytes);
        let sum = checksum(&bytes);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    #[test]
    fn record_of_an_unknown_kind_or_with_a_size_is_malformed() {
        for kind in [0, SKIPPED, 5, 0x81, 0xff] {
            let bytes = altered(Event::Used, |bytes| bytes[4] = kind);
            assert_eq!(Record::decode(&bytes), Err(MissReason::Malformed), "kind {kind}");
        }
        for event in [Event::Used, Event::Removed] {
            let bytes = altered(event, |bytes| bytes[15] = 1);
            assert_eq!(Record::decode(&bytes), Err(MissReason::Malformed), "{event:?} with a size");
        }
    }

    #[test]
    fn replay_refuses_a_record_of_an_unknown_kind() {
        let mut accounts = accounts(Limits::NONE);
        accounts.replay(&record(2, Event::Stored { size: 9 }).encode()).unwrap();
        let unknown = altered(Event::Stored { size: 10 }, |bytes| bytes[4] = 5);
        assert_eq!(accounts.replay(&unknown), Err(MissReason::Malformed));
        assert_eq!((accounts.len(), accounts.total_bytes()), (1, 9));
    }

    /// The first edition wrote them. They count, so that they are compacted away.
    #[test]
    fn replay_skips_and_counts_records_of_the_first_edition() {
        let mut accounts = accounts(Limits::NONE);
        let skipped = altered(Event::Stored { size: 10 }, |bytes| bytes[4] = SKIPPED);
        for _ in 0..COMPACT_FLOOR {
            assert_eq!(accounts.replay(&skipped), Ok(()));
        }
        assert!(accounts.is_empty() && !accounts.should_compact());
        assert_eq!(accounts.replay(&skipped), Ok(()));
        assert!(accounts.is_empty() && accounts.should_compact());
        let mut damaged = skipped;
        damaged[30] ^= 1;
        assert_eq!(accounts.replay(&damaged), Err(MissReason::ChecksumMismatch));
    }

    #[test]
    fn header_with_reserved_bits_or_an_older_version_is_malformed() {
        for (at, byte) in (10..HEADER_SUM).map(|at| (at, 0x80)).chain([(8, 1), (8, 0)]) {
            let mut other = header();
            other[at] = byte;
            let sum = low_half(&other[..HEADER_SUM]);
            other[HEADER_SUM..].copy_from_slice(&sum.to_le_bytes());
            assert_eq!(check_header(&other), Err(MissReason::Malformed), "byte {at} is {byte}");
        }
    }

    #[test]
    fn a_header_is_checked_and_a_newer_one_is_left_alone() {
        assert_eq!(check_header(&header()), Ok(()));
        assert_eq!(check_header(&header()[..63]), Err(MissReason::Truncated));
        assert_eq!(check_header(&[0; 64]), Err(MissReason::Foreign));
        for bit in 64..8 * HEADER_LEN {
            let mut damaged = header();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(check_header(&damaged), Err(MissReason::ChecksumMismatch), "bit {bit}");
        }
        let mut newer = header();
        newer[8] = 3;
        let sum = low_half(&newer[..HEADER_SUM]);
        newer[HEADER_SUM..].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(check_header(&newer), Err(MissReason::NewerVersion));
    }

    #[test]
    fn a_replay_gives_sizes_and_the_order_of_use() {
        let mut bytes = Vec::new();
        for event in [
            record(1, Event::Stored { size: 10 }),
            record(2, Event::Stored { size: 20 }),
            record(3, Event::Stored { size: 30 }),
            record(1, Event::Used),
            record(2, Event::Removed),
            record(9, Event::Used),
            record(9, Event::Removed),
            record(3, Event::Stored { size: 5 }),
        ] {
            bytes.extend_from_slice(&event.encode());
        }
        let mut accounts = accounts(Limits::bytes(20));
        accounts.replay(&bytes).unwrap();
        assert_eq!((accounts.len(), accounts.total_bytes()), (2, 15));
        assert_eq!(accounts.oldest(), Some((Key::digest(&[1]), 10)));
        assert_eq!(accounts.replay(&bytes[..70]), Err(MissReason::Truncated));
    }

    #[test]
    fn replayed_use_makes_an_entry_the_newest() {
        let mut accounts = accounts(Limits::NONE);
        accounts.apply(&record(1, Event::Stored { size: 10 }));
        accounts.apply(&record(2, Event::Stored { size: 20 }));
        assert_eq!(accounts.oldest(), Some((Key::digest(&[1]), 10)));
        accounts.apply(&record(1, Event::Used));
        assert_eq!(accounts.oldest(), Some((Key::digest(&[2]), 20)));
    }

    #[test]
    fn the_entry_being_replaced_is_never_the_one_evicted() {
        let mut accounts = accounts(Limits::bytes(30));
        accounts.apply(&record(1, Event::Stored { size: 10 }));
        accounts.apply(&record(2, Event::Stored { size: 10 }));
        assert!(accounts.must_evict(&Key::digest(&[1]), 21, 0));
        assert_eq!(accounts.oldest(), Some((Key::digest(&[2]), 10)));
        accounts.apply(&record(2, Event::Removed));
        assert!(!accounts.must_evict(&Key::digest(&[1]), 30, 25), "nothing else is left to evict");
    }
}
