//! The first page of a file of version 3: which file it is, and two slots that say which index counts.
//!
//! ```text
//!   0  magic        89 57 53 50 0D 0A 1A 0A  ("\x89WSP\r\n\x1A\n")
//!   8  version      u32  3
//!  12  header_len   u32  4096
//!  16  file         16 bytes that tell this file from every other
//!  32  zeros to 56
//!  56  checksum     u64  XXH3-64 of 0..56
//! 512  slot A       64 bytes
//! 1024 slot B       64 bytes; the rest of the page is zeros
//!
//! slot              all zeros until it is written for the first time
//!   0  generation   u64  1 for the first commit, then one more each time
//!   8  index_start  u64  a multiple of 128, at least 4096
//!  16  index_len    u64  bytes of the index block, with its footer
//!  24  index_sum    u64  XXH3-64 of the index block
//!  32  zeros to 56
//!  56  checksum     u64  XXH3-64 of the 56 bytes before it, then of the 16 bytes of `file`
//! ```
//!
//! The magic, the version and the checksum mean the same in every version. The slots are in sectors of their own, so that
//! a write of one that is torn leaves the other whole. Their checksum covers `file`, so that a slot of another file, put
//! here by a copy that was broken off, is not taken for one of this file.

use xxhash_rust::xxh3::xxh3_64;

use super::{ALIGNMENT, FOOTER_LEN, HEADER_LEN, Refusal, VERSION};
use crate::bytes::{array, u32_at, u64_at};

/// The length of a commit slot in bytes.
pub const SLOT_LEN: usize = 64;

/// The length in bytes of what tells a file from every other.
pub const FILE_LEN: usize = 16;

const MAGIC: [u8; 8] = *b"\x89WSP\r\n\x1a\n";

/// Where the checksum of the header is, and in a slot that of the slot.
const SUM: usize = 56;

/// Where the header ends, and what is zero begins.
const FIXED_LEN: usize = 64;

/// What is before the slots in the first page.
///
/// ```
/// use warmstart_core::trailer::header::{Commits, Header};
///
/// let page = Header::encode([7; 16]);
/// assert_eq!(Header::decode(&page)?.file, [7; 16]);
/// assert!(Commits::read(&page)?.is_empty());
/// # Ok::<(), warmstart_core::trailer::Refusal>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Tells this file from every other, also from one that was under its name before.
    pub file: [u8; FILE_LEN],
}

/// A commit: which index was added, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Counts the commits, from 1; below [`u64::MAX`].
    pub generation: u64,
    /// Where the index block begins, in bytes from the start of the file: a multiple of [`ALIGNMENT`].
    pub index_start: u64,
    /// Bytes of the index block, with its footer.
    pub index_len: u64,
    /// XXH3-64 of the index block.
    pub index_sum: u64,
}

/// One of the two places where a commit slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// At byte 512.
    A,
    /// At byte 1024.
    B,
}

/// The commits that a first page tells of, the newest first.
///
/// That a commit is here does not say that its index is whole: see [`pick`](super::pick::pick).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commits {
    header: Header,
    newest: Option<(Place, Slot)>,
    other: Option<(Place, Slot)>,
    refused: Option<Refusal>,
}

impl Header {
    /// The first page of a pack in which nothing was committed yet. `file` should be random.
    #[must_use]
    pub fn encode(file: [u8; FILE_LEN]) -> [u8; HEADER_LEN] {
        let mut page = [0; HEADER_LEN];
        page[..8].copy_from_slice(&MAGIC);
        page[8..12].copy_from_slice(&VERSION.to_le_bytes());
        page[12..16].copy_from_slice(&(HEADER_LEN as u32).to_le_bytes());
        page[16..32].copy_from_slice(&file);
        let sum = xxh3_64(&page[..SUM]);
        page[SUM..FIXED_LEN].copy_from_slice(&sum.to_le_bytes());
        page
    }

    /// Reads the first page, of which all is given; what follows it is not looked at.
    ///
    /// # Errors
    /// [`Refusal::Foreign`] if it is no first page of ours: the file may be of [version 2](super::version2). Else
    /// [`Refusal::Short`], [`Refusal::HeaderChecksum`], [`Refusal::BigEndian`], [`Refusal::UnknownVersion`],
    /// [`Refusal::Lengths`] or [`Refusal::Reserved`].
    pub fn decode(page: &[u8]) -> Result<Self, Refusal> {
        let short = Refusal::Short { len: page.len() as u64, needed: HEADER_LEN as u64 };
        if !page.starts_with(&MAGIC) {
            return Err(if MAGIC.starts_with(page) { short } else { Refusal::Foreign });
        }
        let page = page.first_chunk::<HEADER_LEN>().ok_or(short)?;
        // A version that was damaged must not pass for a newer one.
        if u64_at(page, SUM) != Some(xxh3_64(&page[..SUM])) {
            return Err(Refusal::HeaderChecksum);
        }
        match u32_at(page, 8).ok_or(short)? {
            VERSION => {}
            version if version.swap_bytes() == VERSION => return Err(Refusal::BigEndian),
            version => return Err(Refusal::UnknownVersion(version)),
        }
        if u32_at(page, 12) != Some(HEADER_LEN as u32) {
            return Err(Refusal::Lengths);
        }
        let (a, b) = (Place::A.offset() as usize, Place::B.offset() as usize);
        let reserved = [&page[32..SUM], &page[FIXED_LEN..a], &page[a + SLOT_LEN..b], &page[b + SLOT_LEN..]];
        if !reserved.into_iter().all(is_zero) {
            return Err(Refusal::Reserved);
        }
        Ok(Self { file: array(page, 16).ok_or(short)? })
    }
}

impl Slot {
    /// The bytes of the slot, for the file of this name.
    #[must_use]
    pub fn encode(&self, file: &[u8; FILE_LEN]) -> [u8; SLOT_LEN] {
        let mut bytes = [0; SLOT_LEN];
        let fields = [self.generation, self.index_start, self.index_len, self.index_sum];
        for (field, number) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(fields) {
            *field = number.to_le_bytes();
        }
        let sum = checksum(&bytes, file);
        bytes[SUM..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The commit of an index block that is to stand at `index_start`.
    #[must_use]
    pub fn of(generation: u64, index_start: u64, block: &[u8]) -> Self {
        Self { generation, index_start, index_len: block.len() as u64, index_sum: xxh3_64(block) }
    }

    /// Reads a slot of the file of this name; nothing if it was never written.
    ///
    /// # Errors
    /// [`Refusal::SlotChecksum`], or, of one that was written so, [`Refusal::Reserved`] or [`Refusal::SlotPlace`].
    pub fn decode(bytes: &[u8; SLOT_LEN], file: &[u8; FILE_LEN]) -> Result<Option<Self>, Refusal> {
        if is_zero(bytes) {
            return Ok(None);
        }
        if u64_at(bytes, SUM) != Some(checksum(bytes, file)) {
            return Err(Refusal::SlotChecksum);
        }
        if !is_zero(&bytes[32..SUM]) {
            return Err(Refusal::Reserved);
        }
        let field = |at| u64_at(bytes, at).ok_or(Refusal::SlotPlace);
        let slot = Self {
            generation: field(0)?,
            index_start: field(8)?,
            index_len: field(16)?,
            index_sum: field(24)?,
        };
        slot.check().map(|()| Some(slot))
    }

    /// Where the index block ends, and with it what was committed; [`u64::MAX`] if no number says.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.index_start.saturating_add(self.index_len)
    }

    /// Whether an index can be where the slot says.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let is_generation = self.generation != 0 && self.generation != u64::MAX;
        let is_start = self.index_start >= HEADER_LEN as u64 && self.index_start.is_multiple_of(ALIGNMENT);
        let has_end = self.index_start.checked_add(self.index_len).is_some();
        let is_long_enough = self.index_len >= FOOTER_LEN as u64;
        if is_generation && is_start && has_end && is_long_enough { Ok(()) } else { Err(Refusal::SlotPlace) }
    }
}

impl Place {
    /// In bytes from the start of the file.
    #[must_use]
    pub const fn offset(self) -> u64 {
        match self {
            Self::A => 512,
            Self::B => 1024,
        }
    }

    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

impl Commits {
    /// Reads the first page, of which all is given; what follows it is not looked at.
    ///
    /// # Errors
    /// As [`Header::decode`]. The refusal of a slot if no other is whole: then nothing says what was committed last.
    pub fn read(page: &[u8]) -> Result<Self, Refusal> {
        let header = Header::decode(page)?;
        let mut commits = Self { header, newest: None, other: None, refused: None };
        for place in [Place::A, Place::B] {
            let bytes = array(page, place.offset() as usize);
            match Slot::decode(&bytes.ok_or(Refusal::SlotPlace)?, &header.file) {
                Ok(Some(slot)) => commits.add(place, slot),
                Ok(None) => {}
                Err(refusal) => commits.refused = Some(refusal),
            }
        }
        match commits {
            Self { newest: None, refused: Some(refusal), .. } => Err(refusal),
            commits => Ok(commits),
        }
    }

    fn add(&mut self, place: Place, slot: Slot) {
        let added = Some((place, slot));
        if self.newest.is_none_or(|(_, newest)| newest.generation < slot.generation) {
            self.other = core::mem::replace(&mut self.newest, added);
        } else {
            self.other = added;
        }
    }

    /// What is before the slots.
    #[must_use]
    pub const fn header(&self) -> Header {
        self.header
    }

    /// The commits, the newest first: at most two.
    pub fn iter(&self) -> impl Iterator<Item = (Place, Slot)> + use<> {
        [self.newest, self.other].into_iter().flatten()
    }

    /// Whether nothing was ever committed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.newest.is_none()
    }

    /// Why one of the slots is not among the commits, if that is so.
    #[must_use]
    pub const fn refused(&self) -> Option<Refusal> {
        self.refused
    }

    /// The generation of the next commit.
    #[must_use]
    pub fn next_generation(&self) -> u64 {
        self.newest.map_or(1, |(_, slot)| slot.generation.saturating_add(1))
    }

    /// Where the next commit is written, so that the slot at `counting` is left alone: that of the index that counts, if
    /// there is one.
    #[must_use]
    pub const fn place_beside(&self, counting: Option<Place>) -> Place {
        match counting {
            Some(place) => place.other(),
            None => Place::A,
        }
    }
}

/// Of a slot and the name of its file.
fn checksum(slot: &[u8; SLOT_LEN], file: &[u8; FILE_LEN]) -> u64 {
    let mut bytes = [0; SUM + FILE_LEN];
    bytes[..SUM].copy_from_slice(&slot[..SUM]);
    bytes[SUM..].copy_from_slice(file);
    xxh3_64(&bytes)
}

fn is_zero(bytes: &[u8]) -> bool {
    let (blocks, rest) = bytes.as_chunks::<64>();
    blocks.iter().all(|block| *block == [0; 64]) && rest.iter().all(|byte| *byte == 0)
}
