//! The parts of a file that are of fixed length, and the values they hold: the first page of version 3, with the identity of the
//! file and the two commit slots; the records and the slots of its index; and the footer of both versions.
//!
//! ```text
//! first page
//!   0  magic        89 57 53 50 0D 0A 1A 0A  ("\x89WSP\r\n\x1A\n")
//!   8  version      u32  3
//!  12  header_len   u32  4096
//!  16  file         16 bytes that tell this file from every other
//!  32  zeros to 56
//!  56  checksum     u64  XXH3-64 of 0..56
//! 512  slot A       64 bytes
//! 1024 slot B       64 bytes; the rest of the page is zeros
//!
//! commit slot       all zeros until it is written for the first time
//!   0  generation   u64  1 for the first commit, then one more each time
//!   8  index_start  u64  a multiple of 128, at least 4096
//!  16  index_len    u64  bytes of the index block, with its footer
//!  24  index_sum    u64  XXH3-64 of the index block
//!  32  zeros to 56
//!  56  checksum     u64  XXH3-64 of the 56 bytes before it, then of the 16 bytes of `file`
//!
//! record            of a packed weight, in an index
//!   0  offset       u64  where the payload begins; a multiple of 128
//!   8  size         u64  of the payload, in bytes
//!  16  checksum     u64  XXH3-64 of the payload
//!  24  generation   u64  the commit that added the entry
//!  32  seed         u32
//!  36  model        u32  its place in the list of models
//!  40  fingerprint  u32  its id
//!  44  fingerprint  u32  its value
//!  48  slot         u32  the place of the entry's slot
//!  52  weight_len   u32  bytes of the weight's name
//!  56  bias_len     u32  bytes of the bias's name
//!  60  flags        u32  bit 0: has a bias; 1: has a fingerprint id; 2: has a fingerprint value, which needs bit 1;
//!                     3: imported from version 2, which excludes the others: the name is the joined one
//!  64  weight's name, bias's name, zeros to a multiple of 8
//!
//! slot of an index
//!   0  tag          u32  the low half of the name's hash
//!   4  at           u32  where the record is, in units of 8 bytes from the first
//!
//! footer
//!   0  index start   u64  where the index begins; it ends where the footer begins
//!   8  entry count   u32
//!  12  magic         u32  0x58505743
//!  16  version       u32
//! ```
//!
//! The magic, the version and the checksum of the first page mean the same in every version. The commit slots are in separate
//! sectors, so that a torn write of one leaves the other intact. Their checksum covers `file`, so that a slot of another file,
//! left here by an interrupted copy, is not taken for one of this file.
//!
//! Fields of a record that the flags mark as absent are zero.

use alloc::vec::Vec;
use core::fmt;

use super::{ALIGNMENT, FormatError, HEADER_LEN, VERSION};
use crate::bytes::XXH3_64;

/// The length of a commit slot in bytes.
pub const SLOT_LEN: usize = 64;

/// The length of a file's identity in bytes.
const FILE_LEN: usize = 16;

/// The length of the footer in bytes.
pub const FOOTER_LEN: usize = 20;

/// A number, so that its bytes are in the byte order of the writer: 43 57 50 58 on disk.
const FOOTER_MAGIC: u32 = 0x5850_5743;

const MAGIC: [u8; 8] = *b"\x89WSP\r\n\x1a\n";

/// The offset of the checksum, both in the header and in a commit slot.
const SUM: usize = 56;

/// The end of the header's fields. Zeros follow.
const FIXED_LEN: usize = 64;

/// The length of the part of a record before the names, in bytes.
pub(super) const RECORD_LEN: usize = 64;

/// The offset of a record's 32-bit fields, which follow the 64-bit ones.
const NUMBERS: usize = 32;

/// The unit of record positions, in bytes: records begin at multiples of it, and slots count in it.
pub(super) const UNIT: usize = 8;

const HAS_BIAS: u32 = 1;
const HAS_ID: u32 = 2;
const HAS_VALUE: u32 = 4;
const IS_IMPORTED: u32 = 8;

/// The length of a slot of an index in bytes.
pub(super) const INDEX_SLOT_LEN: usize = 8;

/// The part of the first page before the slots.
///
/// ```
/// use warmstart_core::trailer::{Commits, Header};
///
/// let page = Header::encode([7; 16]);
/// assert_eq!(Header::decode(&page)?.file, [7; 16]);
/// assert!(Commits::read(&page)?.is_empty());
/// # Ok::<(), warmstart_core::trailer::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Identifies this file among all others, including earlier files at the same path.
    pub file: [u8; FILE_LEN],
}

impl Header {
    /// Encodes the first page of a pack without commits. `file` should be random.
    #[must_use]
    pub fn encode(file: [u8; FILE_LEN]) -> [u8; HEADER_LEN] {
        let mut page = [0; HEADER_LEN];
        page[..8].copy_from_slice(&MAGIC);
        page[8..12].copy_from_slice(&VERSION.to_le_bytes());
        page[12..16].copy_from_slice(&(HEADER_LEN as u32).to_le_bytes());
        page[16..32].copy_from_slice(&file);
        let sum = XXH3_64(&page[..SUM]);
        page[SUM..FIXED_LEN].copy_from_slice(&sum.to_le_bytes());
        page
    }

    /// Decodes the first page, which must be given whole. Bytes after it are ignored.
    ///
    /// # Errors
    /// [`FormatError::Foreign`] if it is not the first page of version 3: the file may be of [version 2](super::version2). Else
    /// [`FormatError::Short`], [`FormatError::HeaderChecksum`], [`FormatError::BigEndian`], [`FormatError::UnknownVersion`],
    /// [`FormatError::Lengths`] or [`FormatError::Reserved`].
    pub fn decode(page: &[u8]) -> Result<Self, FormatError> {
        let short = FormatError::Short { len: page.len() as u64, needed: HEADER_LEN as u64 };
        if !page.starts_with(&MAGIC) {
            return Err(if MAGIC.starts_with(page) { short } else { FormatError::Foreign });
        }
        let page = page.first_chunk::<HEADER_LEN>().ok_or(short)?;
        // A damaged version must not pass for a newer one.
        if page[SUM..FIXED_LEN] != XXH3_64(&page[..SUM]).to_le_bytes() {
            return Err(FormatError::HeaderChecksum);
        }
        let [_, _, version, header_len, ..] = *page.as_chunks().0 else { return Err(short) };
        match u32::from_le_bytes(version) {
            VERSION => {}
            version if version.swap_bytes() == VERSION => return Err(FormatError::BigEndian),
            version => return Err(FormatError::UnknownVersion(version)),
        }
        if u32::from_le_bytes(header_len) != HEADER_LEN as u32 {
            return Err(FormatError::Lengths);
        }
        let (a, b) = (Place::A.offset() as usize, Place::B.offset() as usize);
        let reserved = [&page[32..SUM], &page[FIXED_LEN..a], &page[a + SLOT_LEN..b], &page[b + SLOT_LEN..]];
        if !reserved.into_iter().all(is_zero) {
            return Err(FormatError::Reserved);
        }
        Ok(Self { file: *page[16..].first_chunk().ok_or(short)? })
    }
}

/// A commit: the index that was added, and its location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The number of the commit, from 1; below [`u64::MAX`].
    pub generation: u64,
    /// The start of the index block, in bytes from the start of the file: a multiple of [`ALIGNMENT`].
    pub index_start: u64,
    /// The length of the index block in bytes, with its footer.
    pub index_len: u64,
    /// The XXH3-64 of the index block.
    pub index_sum: u64,
}

impl Slot {
    /// Encodes the slot for the file with this identity.
    #[must_use]
    pub fn encode(&self, file: &[u8; FILE_LEN]) -> [u8; SLOT_LEN] {
        let mut bytes = [0; SLOT_LEN];
        let fields = [self.generation, self.index_start, self.index_len, self.index_sum];
        for (field, number) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(fields) {
            *field = number.to_le_bytes();
        }
        let sum = slot_checksum(&bytes, file);
        bytes[SUM..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Creates the slot of an index block that will be written at `index_start`.
    #[must_use]
    pub fn of(generation: u64, index_start: u64, block: &[u8]) -> Self {
        Self { generation, index_start, index_len: block.len() as u64, index_sum: XXH3_64(block) }
    }

    /// Decodes a slot of the file with this identity; `None` if the slot was never written.
    ///
    /// # Errors
    /// [`FormatError::SlotChecksum`]; or, if the checksum is right, [`FormatError::Reserved`] or [`FormatError::SlotPlace`].
    pub fn decode(bytes: &[u8; SLOT_LEN], file: &[u8; FILE_LEN]) -> Result<Option<Self>, FormatError> {
        if is_zero(bytes) {
            return Ok(None);
        }
        if bytes[SUM..] != slot_checksum(bytes, file).to_le_bytes() {
            return Err(FormatError::SlotChecksum);
        }
        if !is_zero(&bytes[32..SUM]) {
            return Err(FormatError::Reserved);
        }
        let [generation, index_start, index_len, index_sum, ..] = *bytes.as_chunks().0 else {
            return Err(FormatError::SlotPlace);
        };
        let slot = Self {
            generation: u64::from_le_bytes(generation),
            index_start: u64::from_le_bytes(index_start),
            index_len: u64::from_le_bytes(index_len),
            index_sum: u64::from_le_bytes(index_sum),
        };
        slot.check().map(|()| Some(slot))
    }

    /// Returns the end of the index block, and thus of the committed bytes; [`u64::MAX`] if it would overflow.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.index_start.saturating_add(self.index_len)
    }

    /// Checks that an index can be where the slot says.
    pub(super) fn check(&self) -> Result<(), FormatError> {
        let is_generation = self.generation != 0 && self.generation != u64::MAX;
        let is_start = self.index_start >= HEADER_LEN as u64 && self.index_start.is_multiple_of(ALIGNMENT);
        let has_end = self.index_start.checked_add(self.index_len).is_some();
        let is_long_enough = self.index_len >= FOOTER_LEN as u64;
        if is_generation && is_start && has_end && is_long_enough {
            Ok(())
        } else {
            Err(FormatError::SlotPlace)
        }
    }
}

/// One of the two positions of commit slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// At byte 512.
    A,
    /// At byte 1024.
    B,
}

impl Place {
    /// Returns the offset in bytes from the start of the file.
    #[must_use]
    pub const fn offset(self) -> u64 {
        match self {
            Self::A => 512,
            Self::B => 1024,
        }
    }

    /// Returns the other position.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// The commits that a first page records, the newest first.
///
/// A commit in this list does not mean that its index is intact: see [`pick`](super::pick::pick).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commits {
    header: Header,
    /// The newest first.
    slots: [Option<(Place, Slot)>; 2],
    refused: Option<FormatError>,
}

impl Commits {
    /// Reads the first page, which must be given whole. Bytes after it are ignored.
    ///
    /// # Errors
    /// As [`Header::decode`]; also the error of a slot if no other slot is intact, because the last commit is then unknown.
    pub fn read(page: &[u8]) -> Result<Self, FormatError> {
        let header = Header::decode(page)?;
        let (mut slots, mut refused) = ([None; 2], None);
        for (at, place) in [Place::A, Place::B].into_iter().enumerate() {
            let bytes = page.get(place.offset() as usize..).and_then(<[u8]>::first_chunk);
            match Slot::decode(bytes.ok_or(FormatError::SlotPlace)?, &header.file) {
                Ok(slot) => slots[at] = slot.map(|slot| (place, slot)),
                Err(refusal) => refused = Some(refusal),
            }
        }
        let generation = |at: usize| slots[at].map(|(_, slot)| slot.generation);
        if generation(0) < generation(1) {
            slots.swap(0, 1);
        }
        match refused {
            Some(refusal) if slots == [None; 2] => Err(refusal),
            refused => Ok(Self { header, slots, refused }),
        }
    }

    /// Returns the header, which is the part before the slots.
    #[must_use]
    pub const fn header(&self) -> Header {
        self.header
    }

    /// Iterates over the commits, at most two, the newest first.
    pub fn iter(&self) -> impl Iterator<Item = (Place, Slot)> + use<> {
        self.slots.into_iter().flatten()
    }

    /// Returns whether no index was ever committed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.slots[0].is_none()
    }

    /// Returns the reason why a slot was refused, if one was.
    #[must_use]
    pub const fn refused(&self) -> Option<FormatError> {
        self.refused
    }

    /// Returns the generation of the next commit.
    #[must_use]
    pub fn next_generation(&self) -> u64 {
        self.slots[0].map_or(1, |(_, slot)| slot.generation.saturating_add(1))
    }

    /// Returns the position to which the next commit is written, which leaves the slot at `active` alone: that of the active
    /// index, if there is one.
    #[must_use]
    pub const fn place_beside(&self, active: Option<Place>) -> Place {
        match active {
            Some(place) => place.other(),
            None => Place::A,
        }
    }
}

/// The end of a file of packed weights: its version, and the location of its index.
///
/// ```
/// use warmstart_core::trailer::{FOOTER_LEN, Footer};
///
/// let footer = Footer { index_start: 4096, entry_count: 0, version: 2 };
/// let file_len = 4096 + FOOTER_LEN as u64;
/// assert_eq!(Footer::decode(&footer.encode(), file_len), Ok(footer));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// The start of the index, in bytes from the start of the file.
    pub index_start: u64,
    /// The number of entries.
    pub entry_count: u32,
    /// The version: 2 or 3.
    pub version: u32,
}

impl Footer {
    /// Encodes the footer.
    #[must_use]
    pub fn encode(&self) -> [u8; FOOTER_LEN] {
        let mut bytes = [0; FOOTER_LEN];
        bytes[..8].copy_from_slice(&self.index_start.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.entry_count.to_le_bytes());
        bytes[12..16].copy_from_slice(&FOOTER_MAGIC.to_le_bytes());
        bytes[16..].copy_from_slice(&self.version.to_le_bytes());
        bytes
    }

    /// Decodes the footer of a file of `file_len` bytes from at least its last [`FOOTER_LEN`] bytes. No bytes may follow them.
    ///
    /// # Errors
    /// The reason why it is not a footer of version 2 or 3: [`FormatError::Short`], [`FormatError::Foreign`],
    /// [`FormatError::BigEndian`], [`FormatError::Version1`], [`FormatError::UnknownVersion`], or [`FormatError::Footer`] if
    /// the index cannot be where it says.
    pub fn decode(tail: &[u8], file_len: u64) -> Result<Self, FormatError> {
        let len = file_len.min(tail.len() as u64);
        let short = FormatError::Short { len, needed: FOOTER_LEN as u64 };
        let last = tail.last_chunk::<FOOTER_LEN>().ok_or(short)?;
        let last_start = file_len.checked_sub(FOOTER_LEN as u64).ok_or(short)?;
        let (index_start, numbers) = last.split_first_chunk().ok_or(short)?;
        let [entry_count, magic, version] = *numbers.as_chunks().0 else { return Err(short) };
        match u32::from_le_bytes(magic) {
            FOOTER_MAGIC => {}
            magic if magic.swap_bytes() == FOOTER_MAGIC => return Err(FormatError::BigEndian),
            _ => return Err(FormatError::Foreign),
        }
        let version = u32::from_le_bytes(version);
        match version {
            2..=VERSION => {}
            1 => return Err(FormatError::Version1),
            version if matches!(version.swap_bytes(), 1..=VERSION) => return Err(FormatError::BigEndian),
            version => return Err(FormatError::UnknownVersion(version)),
        }
        let (index_start, entry_count) = (u64::from_le_bytes(*index_start), u32::from_le_bytes(entry_count));
        let footer = Self { index_start, entry_count, version };
        if footer.index_start > last_start {
            return Err(FormatError::Footer);
        }
        Ok(footer)
    }
}

/// A packed weight in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The name of the weight. Version 2 does not say where the weight's name ends and the bias's begins: there, the weight's
    /// name holds both.
    pub name: Name<'a>,
    /// The model that the weight belongs to: all zeros in version 2, which does not record it.
    pub model: ModelId,
    /// The packing of the weight.
    pub packing: Packing,
    /// The start of the payload, in bytes from the start of the file.
    pub offset: u64,
    /// The length of the payload in bytes.
    pub size: u64,
    /// The XXH3-64 of the payload; version 2 has none.
    pub checksum: Option<u64>,
    /// The generation of the commit that added the entry; 0 in version 2.
    pub generation: u64,
    /// Whether the entry was imported from version 2. Its packing is then unverified, its model is the one given at import or
    /// all zeros, and only [`look_up_imported`](super::index::Index::look_up_imported) finds it. Always true in version 2.
    pub is_imported: bool,
}

impl<'a> Entry<'a> {
    /// Returns the key that finds the entry.
    #[must_use]
    pub const fn weight_key(&self) -> WeightKey<'a> {
        WeightKey { name: self.name, model: self.model, packing: self.packing }
    }

    /// Returns the end of the payload; [`u64::MAX`] if it would overflow.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.size)
    }
}

/// The name of a packed weight: the name of the weight and, if it was packed with a bias, that of the bias.
///
/// The two are kept apart, so that `"ab"` with `"c"` is another weight than `"a"` with `"bc"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name<'a> {
    /// The weight's name.
    pub weight: &'a str,
    /// The bias's name, if it has one.
    pub bias: Option<&'a str>,
}

impl<'a> Name<'a> {
    /// Creates the name of a weight without a bias.
    #[must_use]
    pub const fn new(weight: &'a str) -> Self {
        Self { weight, bias: None }
    }

    /// Adds the name of a bias.
    #[must_use]
    pub const fn with_bias(self, bias: &'a str) -> Self {
        Self { bias: Some(bias), ..self }
    }
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.weight)?;
        self.bias.map_or(Ok(()), |bias| write!(f, " + {bias}"))
    }
}

/// The model that a weight belongs to: a digest that changes when the weights do.
///
/// Names alone are not enough: a model that was trained further keeps the names of its weights.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ModelId([u8; 32]);

impl ModelId {
    /// The length of the digest in bytes.
    pub const LEN: usize = 32;

    /// Wraps the digest of a model.
    #[must_use]
    pub const fn from_bytes(digest: [u8; Self::LEN]) -> Self {
        Self(digest)
    }

    /// Returns the digest.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ModelId({self})")
    }
}

/// The packing of a weight, as far as the runtime describes it. A packing that differs in any part cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Packing {
    /// XNNPACK's seed: the shape of the weight and of the micro-kernel.
    pub seed: u32,
    /// The packing algorithm, if the runtime identifies it.
    pub fingerprint: Option<Fingerprint>,
}

impl Packing {
    /// Creates a packing of which only the seed is known.
    #[must_use]
    pub const fn of_seed(seed: u32) -> Self {
        Self { seed, fingerprint: None }
    }
}

/// XNNPACK's fingerprint of a packing algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint {
    /// The configuration: operator, types and flags.
    pub id: u32,
    /// The hash of the algorithm's output for known weights, if the runtime was asked for it.
    pub value: Option<u32>,
}

/// The key of a look-up: name, model and packing, all of which must match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WeightKey<'a> {
    /// The name of the weight.
    pub name: Name<'a>,
    /// The model that the weight belongs to.
    pub model: ModelId,
    /// The packing of the weight.
    pub packing: Packing,
}

/// The part of a record before the names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) checksum: u64,
    pub(super) generation: u64,
    pub(super) model: u32,
    pub(super) slot: u32,
    pub(super) form: Form,
}

impl Record {
    /// Decodes the record at the start of these bytes.
    #[inline]
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        // Reading the fields of an array needs no further bounds checks.
        let (longs, numbers) = bytes.first_chunk::<RECORD_LEN>()?.split_at(NUMBERS);
        let [offset, size, checksum, generation] = *longs.as_chunks().0 else { return None };
        let [seed, model, id, value, slot, weight_len, bias_len, flags] = *numbers.as_chunks().0 else {
            return None;
        };
        Some(Self {
            offset: u64::from_le_bytes(offset),
            size: u64::from_le_bytes(size),
            checksum: u64::from_le_bytes(checksum),
            generation: u64::from_le_bytes(generation),
            model: u32::from_le_bytes(model),
            slot: u32::from_le_bytes(slot),
            form: Form {
                seed: u32::from_le_bytes(seed),
                id: u32::from_le_bytes(id),
                value: u32::from_le_bytes(value),
                weight_len: u32::from_le_bytes(weight_len),
                bias_len: u32::from_le_bytes(bias_len),
                flags: u32::from_le_bytes(flags),
            },
        })
    }

    /// Appends the record, without its names.
    pub(super) fn encode(&self, into: &mut Vec<u8>) {
        for number in [self.offset, self.size, self.checksum, self.generation] {
            into.extend_from_slice(&number.to_le_bytes());
        }
        let Form { seed, id, value, weight_len, bias_len, flags } = self.form;
        for number in [seed, self.model, id, value, self.slot, weight_len, bias_len, flags] {
            into.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// Returns whether the flags are known, and all fields that they mark as absent are zero.
    #[inline]
    pub(super) const fn has_right_flags(&self) -> bool {
        const ALL: u32 = HAS_BIAS | HAS_ID | HAS_VALUE;
        let Form { id, value, bias_len, flags, .. } = self.form;
        // Without a branch for each, because nearly always all of them hold.
        ((flags & !ALL == 0) | (flags == IS_IMPORTED))
            & (flags & (HAS_ID | HAS_VALUE) != HAS_VALUE)
            & ((flags & HAS_BIAS != 0) | (bias_len == 0))
            & ((flags & HAS_ID != 0) | (id == 0))
            & ((flags & HAS_VALUE != 0) | (value == 0))
    }

    /// Returns whether the entry was imported from version 2, so that its model and packing are unverified.
    #[inline]
    pub(super) const fn is_imported(&self) -> bool {
        self.form.flags & IS_IMPORTED != 0
    }

    /// Returns the length of both names in bytes; `None` if memory cannot hold so many.
    #[inline]
    pub(super) fn names_len(&self) -> Option<usize> {
        usize::try_from(u64::from(self.form.weight_len) + u64::from(self.form.bias_len)).ok()
    }

    /// Returns the length of the whole record in bytes, with names and padding.
    #[inline]
    pub(super) fn len(&self) -> Option<usize> {
        self.names_len()?.checked_next_multiple_of(UNIT)?.checked_add(RECORD_LEN)
    }

    /// Returns the names of the record at the start of these bytes.
    #[inline]
    pub(super) fn names<'a>(&self, bytes: &'a [u8]) -> Option<(&'a [u8], Option<&'a [u8]>)> {
        let end = self.names_len()?.checked_add(RECORD_LEN)?;
        let (weight, bias) = bytes.get(RECORD_LEN..end)?.split_at_checked(self.form.weight_len as usize)?;
        Some((weight, (self.form.flags & HAS_BIAS != 0).then_some(bias)))
    }

    /// Returns the packing of the weight.
    #[inline]
    pub(super) const fn packing(&self) -> Packing {
        let value = if self.form.flags & HAS_VALUE != 0 { Some(self.form.value) } else { None };
        let has_id = self.form.flags & HAS_ID != 0;
        let fingerprint = if has_id { Some(Fingerprint { id: self.form.id, value }) } else { None };
        Packing { seed: self.form.seed, fingerprint }
    }
}

/// The division of a record's names and the packing of its weight, as the record holds them. Two forms are equal if these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) seed: u32,
    id: u32,
    value: u32,
    weight_len: u32,
    bias_len: u32,
    flags: u32,
}

impl Form {
    /// Creates the form of an entry to find or to write; `None` if a name is too long for a record.
    #[inline]
    pub(super) fn new(name: &Name<'_>, packing: &Packing, is_imported: bool) -> Option<Self> {
        let (id, value, flags) = match packing.fingerprint {
            None => (0, 0, 0),
            Some(Fingerprint { id, value: None }) => (id, 0, HAS_ID),
            Some(Fingerprint { id, value: Some(value) }) => (id, value, HAS_ID | HAS_VALUE),
        };
        let len = |name: &str| u32::try_from(name.len()).ok();
        let (bias_len, has_bias) = match name.bias {
            None => (0, 0),
            Some(bias) => (len(bias)?, HAS_BIAS),
        };
        let weight_len = len(name.weight)?;
        let imported = if is_imported { IS_IMPORTED } else { 0 };
        Some(Self { seed: packing.seed, id, value, weight_len, bias_len, flags: flags | has_bias | imported })
    }

    /// Returns whether the record that begins with these bytes has this form.
    #[inline]
    pub(super) fn is_of(&self, bytes: &[u8; RECORD_LEN]) -> bool {
        let [seed, _, id, value, _, weight_len, bias_len, flags] = *bytes[NUMBERS..].as_chunks().0 else {
            return false;
        };
        let differs = |found, field: u32| u32::from_le_bytes(found) != field;
        // Compares all of them, without a branch for each.
        !(differs(seed, self.seed)
            | differs(id, self.id)
            | differs(value, self.value)
            | differs(weight_len, self.weight_len)
            | differs(bias_len, self.bias_len)
            | differs(flags, self.flags))
    }
}

/// A slot of the index, not a commit slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexSlot {
    pub(super) tag: u32,
    /// The position of the record, in units of 8 bytes.
    pub(super) at: u32,
}

impl IndexSlot {
    #[inline]
    pub(super) fn decode(bytes: [u8; INDEX_SLOT_LEN]) -> Self {
        let number = u64::from_le_bytes(bytes);
        Self { tag: tag(number), at: (number >> 32) as u32 }
    }

    pub(super) fn encode(self) -> [u8; INDEX_SLOT_LEN] {
        (u64::from(self.at) << 32 | u64::from(self.tag)).to_le_bytes()
    }
}

/// Computes the checksum of a payload: XXH3-64.
///
/// ```
/// assert_eq!(warmstart_core::trailer::checksum(b""), 0x2d06_8005_38d3_94c2);
/// ```
#[must_use]
pub fn checksum(payload: &[u8]) -> u64 {
    XXH3_64(payload)
}

/// Computes the hash under which a name is filed.
#[inline]
pub(super) fn hash(name: &Name<'_>) -> u64 {
    XXH3_64(name.weight.as_bytes())
}

/// Computes the hash under which an entry of version 2 is filed: that of its joined name.
pub(super) fn hash_joined(name: &Name<'_>) -> u64 {
    XXH3_64([name.weight, name.bias.unwrap_or_default()].concat().as_bytes())
}

/// Returns the bucket of a hash.
#[inline]
pub(super) const fn bucket(hash: u64, bucket_bits: u32) -> u64 {
    // With 0 bits, this would shift by all 64.
    match hash.checked_shr(u64::BITS - bucket_bits) {
        Some(bucket) => bucket,
        None => 0,
    }
}

/// Returns the tag that a hash has in its slot.
#[inline]
pub(super) const fn tag(hash: u64) -> u32 {
    (hash & 0xffff_ffff) as u32
}

/// Computes the checksum of a slot and of the identity of its file.
fn slot_checksum(slot: &[u8; SLOT_LEN], file: &[u8; FILE_LEN]) -> u64 {
    let mut bytes = [0; SUM + FILE_LEN];
    bytes[..SUM].copy_from_slice(&slot[..SUM]);
    bytes[SUM..].copy_from_slice(file);
    XXH3_64(&bytes)
}

fn is_zero(bytes: &[u8]) -> bool {
    let (blocks, rest) = bytes.as_chunks::<64>();
    blocks.iter().all(|block| *block == [0; 64]) && rest.iter().all(|byte| *byte == 0)
}
