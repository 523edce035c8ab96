//! The record of an entry in an index of version 3: 64 bytes, then the names, then zeros to a multiple of 8.
//!
//! ```text
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
//! ```
//!
//! What the flags say is absent is zero.

use alloc::vec::Vec;

use super::{Fingerprint, Name, Packing};
use crate::bytes::{u32_at, u64_at};

/// The length of what is before the names, in bytes.
pub(super) const FIXED_LEN: usize = 64;

/// Records begin at multiples of this in the run of records, and slots count in it.
pub(super) const UNIT: usize = 8;

const HAS_BIAS: u32 = 1;
const HAS_ID: u32 = 2;
const HAS_VALUE: u32 = 4;
const IS_IMPORTED: u32 = 8;

/// What is before the names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) checksum: u64,
    pub(super) generation: u64,
    pub(super) seed: u32,
    pub(super) model: u32,
    id: u32,
    value: u32,
    pub(super) slot: u32,
    weight_len: u32,
    bias_len: u32,
    flags: u32,
}

/// What a record says of how its names are divided and how its weight was packed: equal where those are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    seed: u32,
    id: u32,
    value: u32,
    weight_len: u32,
    bias_len: u32,
    flags: u32,
}

impl Form {
    /// Of what is to be found or written; nothing if a name is too long to be in a record.
    #[inline]
    pub(super) fn new(name: &Name<'_>, packing: &Packing) -> Option<Self> {
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
        Some(Self { seed: packing.seed, id, value, weight_len, bias_len, flags: flags | has_bias })
    }

    /// Whether the record that begins with these bytes is of this form.
    #[inline]
    pub(super) fn is_of(&self, bytes: &[u8; FIXED_LEN]) -> bool {
        let differs = |at, field| u32_at(bytes, at).is_none_or(|found| found != field);
        // All of them, without a branch for each.
        !(differs(32, self.seed)
            | differs(40, self.id)
            | differs(44, self.value)
            | differs(52, self.weight_len)
            | differs(56, self.bias_len)
            | differs(60, self.flags))
    }
}

/// The place of the model in the list of models.
#[inline]
pub(super) fn model_of(bytes: &[u8; FIXED_LEN]) -> Option<u32> {
    u32_at(bytes, 36)
}

impl Record {
    /// A record of this form.
    pub(super) const fn new(
        [offset, size, checksum, generation]: [u64; 4],
        form: Form,
        [model, slot]: [u32; 2],
    ) -> Self {
        let Form { seed, id, value, weight_len, bias_len, flags } = form;
        Self { offset, size, checksum, generation, seed, model, id, value, slot, weight_len, bias_len, flags }
    }

    /// The record as one that came from version 2.
    pub(super) const fn imported(mut self) -> Self {
        self.flags |= IS_IMPORTED;
        self
    }

    /// Reads the record at the beginning of these bytes.
    #[inline]
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        // The fields of an array are read without asking again whether they are there.
        let bytes = bytes.first_chunk::<FIXED_LEN>()?;
        Some(Self {
            offset: u64_at(bytes, 0)?,
            size: u64_at(bytes, 8)?,
            checksum: u64_at(bytes, 16)?,
            generation: u64_at(bytes, 24)?,
            seed: u32_at(bytes, 32)?,
            model: u32_at(bytes, 36)?,
            id: u32_at(bytes, 40)?,
            value: u32_at(bytes, 44)?,
            slot: u32_at(bytes, 48)?,
            weight_len: u32_at(bytes, 52)?,
            bias_len: u32_at(bytes, 56)?,
            flags: u32_at(bytes, 60)?,
        })
    }

    /// Appends the record, without its names.
    pub(super) fn encode(&self, into: &mut Vec<u8>) {
        for number in [self.offset, self.size, self.checksum, self.generation] {
            into.extend_from_slice(&number.to_le_bytes());
        }
        let Self { seed, model, id, value, slot, weight_len, bias_len, flags, .. } = *self;
        for number in [seed, model, id, value, slot, weight_len, bias_len, flags] {
            into.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// Whether the flags are known, and what they say is absent is zero.
    #[inline]
    pub(super) const fn has_right_flags(&self) -> bool {
        const ALL: u32 = HAS_BIAS | HAS_ID | HAS_VALUE;
        // Without a branch for each: all of them hold, nearly always.
        ((self.flags & !ALL == 0) | (self.flags == IS_IMPORTED))
            & (self.flags & (HAS_ID | HAS_VALUE) != HAS_VALUE)
            & ((self.flags & HAS_BIAS != 0) | (self.bias_len == 0))
            & ((self.flags & HAS_ID != 0) | (self.id == 0))
            & ((self.flags & HAS_VALUE != 0) | (self.value == 0))
    }

    /// Whether it came from version 2, so that nothing proves its model and its packing.
    #[inline]
    pub(super) const fn is_imported(&self) -> bool {
        self.flags & IS_IMPORTED != 0
    }

    /// Bytes of both names; nothing if memory cannot hold so many.
    #[inline]
    pub(super) fn names_len(&self) -> Option<usize> {
        usize::try_from(u64::from(self.weight_len) + u64::from(self.bias_len)).ok()
    }

    /// Bytes of the whole record, with names and padding.
    #[inline]
    pub(super) fn len(&self) -> Option<usize> {
        self.names_len()?.checked_next_multiple_of(UNIT)?.checked_add(FIXED_LEN)
    }

    /// The names of the record that stands at the beginning of these bytes.
    #[inline]
    pub(super) fn names<'a>(&self, bytes: &'a [u8]) -> Option<(&'a [u8], Option<&'a [u8]>)> {
        let end = self.names_len()?.checked_add(FIXED_LEN)?;
        let (weight, bias) = bytes.get(FIXED_LEN..end)?.split_at_checked(self.weight_len as usize)?;
        Some((weight, (self.flags & HAS_BIAS != 0).then_some(bias)))
    }

    /// How the weight was packed.
    #[inline]
    pub(super) const fn packing(&self) -> Packing {
        let value = if self.flags & HAS_VALUE != 0 { Some(self.value) } else { None };
        let has_id = self.flags & HAS_ID != 0;
        let fingerprint = if has_id { Some(Fingerprint { id: self.id, value }) } else { None };
        Packing { seed: self.seed, fingerprint }
    }
}
