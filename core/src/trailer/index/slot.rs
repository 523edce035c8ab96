//! The slots of an index: what a name is filed under.

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::trailer::Name;

/// The length of a slot in bytes.
pub(in crate::trailer) const SLOT_LEN: usize = 8;

/// A slot of the index: not a commit slot.
#[derive(Clone, Copy, Debug)]
pub(in crate::trailer) struct IndexSlot {
    pub(in crate::trailer) tag: u32,
    /// Where the record is, in units of 8 bytes.
    pub(in crate::trailer) at: u32,
}

impl IndexSlot {
    #[inline]
    pub(in crate::trailer) fn decode(bytes: [u8; SLOT_LEN]) -> Self {
        let number = u64::from_le_bytes(bytes);
        Self { tag: tag(number), at: (number >> 32) as u32 }
    }

    pub(in crate::trailer) fn encode(self) -> [u8; SLOT_LEN] {
        (u64::from(self.at) << 32 | u64::from(self.tag)).to_le_bytes()
    }
}

/// The hash that a name is filed under.
#[inline]
pub(in crate::trailer) fn hash(name: &Name<'_>) -> u64 {
    xxh3_64(name.weight.as_bytes())
}

/// The hash that an entry of version 2 is filed under: that of its joined name.
pub(super) fn hash_joined(name: &Name<'_>) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(name.weight.as_bytes());
    hasher.update(name.bias.unwrap_or_default().as_bytes());
    hasher.digest()
}

/// The bucket that a hash belongs to.
#[inline]
pub(in crate::trailer) const fn bucket(hash: u64, bucket_bits: u32) -> u64 {
    // Of no bits, that is a shift by all 64.
    match hash.checked_shr(u64::BITS - bucket_bits) {
        Some(bucket) => bucket,
        None => 0,
    }
}

/// The tag that a hash has in its slot.
#[inline]
pub(in crate::trailer) const fn tag(hash: u64) -> u32 {
    (hash & 0xffff_ffff) as u32
}
