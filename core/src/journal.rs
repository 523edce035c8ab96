//! The shared accounting of a cache directory: an append-only list of what was stored, used and removed.
//!
//! Every process that stores into a directory replays the journal into a policy of its own ([`Accounts`]) and appends
//! what it does. So all of them agree on the sizes and on the order of use, a store costs one appended record however
//! many entries there are, and nothing has to be scanned. The journal is derived data: if it is lost or damaged it is
//! made again from the entries themselves; what is lost is the exact order and the times of use.
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
//!         24  name      32 bytes
//!         56  reserved  zeros to 64
//! skipped  0  checksum  as in a record
//!          4  kind      u8   4: what the first edition wrote to find recipes by
//! ```

use core::hash::BuildHasher;

use crate::{
    bytes::{array, u16_at, u32_at, u64_at},
    key::Key,
    lru::{Limits, Lru},
    reason::Reason,
    sum::xxh3_64,
};

/// The length of the header in bytes.
pub const HEADER_LEN: usize = 64;

/// The length of a record in bytes.
pub const RECORD_LEN: usize = 64;

const MAGIC: [u8; 8] = *b"\x89WSJ\r\n\x1a\n";
const VERSION: u16 = 2;

/// The kind of what the first edition wrote, and nothing reads any more.
const SKIPPED: u8 = 4;

/// Where the header's checksum is. It means the same in every version, as do magic and version.
const HEADER_SUM: usize = 60;

/// Fewer records than this are never worth compacting.
const COMPACT_FLOOR: u64 = 1024;

/// What happened to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// It is, or is about to be, stored with this size in bytes.
    Stored {
        /// Bytes of the entry.
        size: u64,
    },
    /// It was read.
    Used,
    /// It is gone.
    Removed,
}

/// One record of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The entry's name.
    pub name: Key,
    /// What happened to it.
    pub event: Event,
    /// When, in milliseconds since 1970 UTC.
    pub unix_ms: u64,
}

/// The header of a journal of this version.
#[must_use]
pub fn header() -> [u8; HEADER_LEN] {
    let mut bytes = [0; HEADER_LEN];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
    let sum = low_half(&bytes[..HEADER_SUM]);
    bytes[HEADER_SUM..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Checks a header.
///
/// # Errors
/// [`Reason::NewerVersion`] if a newer version wrote it, else why it is no header.
pub fn check_header(bytes: &[u8]) -> Result<(), Reason> {
    let header = array::<HEADER_LEN>(bytes, 0).ok_or(Reason::Truncated)?;
    if !header.starts_with(&MAGIC) {
        return Err(Reason::Foreign);
    }
    // A version that was damaged must not pass for a newer one, which would be left alone for ever.
    if u32_at(&header, HEADER_SUM) != Some(low_half(&header[..HEADER_SUM])) {
        return Err(Reason::ChecksumMismatch);
    }
    match u16_at(&header, 8) {
        Some(VERSION) if header[10..HEADER_SUM].iter().all(|byte| *byte == 0) => Ok(()),
        Some(version) if version > VERSION => Err(Reason::NewerVersion),
        _ => Err(Reason::Malformed),
    }
}

impl Record {
    /// The bytes of the record.
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
        bytes[24..56].copy_from_slice(self.name.as_bytes());
        let sum = checksum(&bytes);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a record.
    ///
    /// # Errors
    /// [`Reason::ChecksumMismatch`] or [`Reason::Malformed`].
    pub fn decode(bytes: &[u8; RECORD_LEN]) -> Result<Self, Reason> {
        if u32_at(bytes, 0) != Some(checksum(bytes)) {
            return Err(Reason::ChecksumMismatch);
        }
        let size = u64_at(bytes, 8).ok_or(Reason::Malformed)?;
        let event = match (bytes[4], size) {
            (1, size) => Event::Stored { size },
            (2, 0) => Event::Used,
            (3, 0) => Event::Removed,
            _ => return Err(Reason::Malformed),
        };
        let name = Key::from_bytes(array(bytes, 24).ok_or(Reason::Malformed)?);
        Ok(Self { name, event, unix_ms: u64_at(bytes, 16).ok_or(Reason::Malformed)? })
    }
}

/// The checksum of a record: of everything behind it.
fn checksum(bytes: &[u8; RECORD_LEN]) -> u32 {
    low_half(&bytes[4..])
}

fn low_half(bytes: &[u8]) -> u32 {
    (xxh3_64(bytes) & 0xffff_ffff) as u32
}

/// A directory's entries, sizes and order of use, as a replayed journal tells them.
///
/// ```
/// use std::hash::{BuildHasherDefault, DefaultHasher};
/// use warmstart_core::{journal::{Accounts, Event, Record}, key::Key, lru::Limits};
///
/// let mut accounts = Accounts::new(Limits::bytes(1000), BuildHasherDefault::<DefaultHasher>::default());
/// let stored = Record { name: Key::digest(b"a"), event: Event::Stored { size: 600 }, unix_ms: 0 };
/// accounts.replay(&stored.encode())?;
/// assert_eq!(accounts.total_bytes(), 600);
/// assert!(accounts.must_evict(&Key::digest(b"b"), 500, 0));
/// # Ok::<(), warmstart_core::reason::Reason>(())
/// ```
#[derive(Debug)]
pub struct Accounts<S> {
    /// With the time of the last use.
    lru: Lru<Key, u64, S>,
    records: u64,
}

/// What is known about one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// The entry's name.
    pub name: Key,
    /// Bytes of the entry.
    pub size: u64,
    /// When it was last stored or used, in milliseconds since 1970 UTC.
    pub used_unix_ms: u64,
}

impl<S: BuildHasher> Accounts<S> {
    /// Of an empty journal.
    pub const fn new(limits: Limits, hasher: S) -> Self {
        Self { lru: Lru::new(limits, hasher), records: 0 }
    }

    /// Replays whole records, after the header or after the last replay.
    ///
    /// # Errors
    /// The reason why a record cannot be one, or [`Reason::Truncated`] for a part of one: the journal is damaged from
    /// there on and has to be made anew.
    pub fn replay(&mut self, bytes: &[u8]) -> Result<(), Reason> {
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
                return Err(Reason::ChecksumMismatch);
            }
        }
        if rest.is_empty() { Ok(()) } else { Err(Reason::Truncated) }
    }

    /// Counts one record, read or just written.
    pub fn apply(&mut self, record: &Record) {
        self.records += 1;
        match record.event {
            Event::Stored { size } => {
                self.lru.insert(record.name, record.unix_ms, size);
            }
            Event::Used => {
                if let Some(size) = self.size_of(&record.name) {
                    self.lru.insert(record.name, record.unix_ms, size);
                }
            }
            Event::Removed => {
                self.lru.remove(&record.name);
            }
        }
    }

    /// Whether something has to go before `size` bytes can be stored under `name`, while `reserved` bytes are in use
    /// beside the entries. What the entry replaces is not counted.
    ///
    /// The entry itself is made the newest, so that it is the last one that [`oldest`](Self::oldest) gives.
    pub fn must_evict(&mut self, name: &Key, size: u64, reserved: u64) -> bool {
        self.lru.touch(name);
        !self.lru.fits(name, size.saturating_add(reserved))
            && self.lru.oldest().is_some_and(|(old, ..)| old != name)
    }

    /// The entry whose last use is longest ago, and its size.
    #[must_use]
    pub fn oldest(&self) -> Option<(Key, u64)> {
        self.lru.oldest().map(|(name, _, size)| (*name, size))
    }

    /// The size of an entry.
    #[must_use]
    pub fn size_of(&self, name: &Key) -> Option<u64> {
        self.lru.peek(name).map(|(_, size)| size)
    }

    /// The sizes of all entries, added up; [`u64::MAX`] if that is more.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.lru.total_bytes()
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lru.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lru.is_empty()
    }

    /// Whether so many records are out of date that the journal should be written anew: then the cost of doing so,
    /// which is in proportion to the entries, is spread over at least as many records.
    #[must_use]
    pub fn should_compact(&self) -> bool {
        self.records > COMPACT_FLOOR + 6 * self.len() as u64
    }

    /// Every entry, the one longest unused first.
    pub fn iter(&self) -> impl Iterator<Item = Account> {
        self.lru.iter().map(|(name, unix_ms, size)| Account { name: *name, size, used_unix_ms: *unix_ms })
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
            self.0 = xxh3_64(bytes);
        }
    }

    fn record(name: u8, event: Event) -> Record {
        Record { name: Key::digest(&[name]), event, unix_ms: 7 }
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

    #[test]
    fn a_header_is_checked_and_a_newer_one_is_left_alone() {
        assert_eq!(check_header(&header()), Ok(()));
        assert_eq!(check_header(&header()[..63]), Err(Reason::Truncated));
        assert_eq!(check_header(&[0; 64]), Err(Reason::Foreign));
        for bit in 64..8 * HEADER_LEN {
            let mut damaged = header();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(check_header(&damaged), Err(Reason::ChecksumMismatch), "bit {bit}");
        }
        let mut newer = header();
        newer[8] = 3;
        let sum = low_half(&newer[..HEADER_SUM]);
        newer[HEADER_SUM..].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(check_header(&newer), Err(Reason::NewerVersion));
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
        assert_eq!(accounts.replay(&bytes[..70]), Err(Reason::Truncated));
    }

    #[test]
    fn a_replayed_use_moves_an_entry_behind_those_that_were_used_before() {
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
