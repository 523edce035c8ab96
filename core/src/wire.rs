//! Postcard, item by item: memory is only taken for items that are there, whatever a count claims.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

/// A list that is stored has at most so many items: a recipe's fields, an artifact's attributes, a record's rows. More are
/// refused as they are read, so that forged bytes take little more memory than they are long.
pub const MAX_ITEMS: u64 = 1 << 16;

/// The bytes are not what they should be.
#[derive(Debug)]
pub(crate) struct Malformed;

/// Reads the next value.
pub(crate) fn take<'a, T: Deserialize<'a>>(rest: &mut &'a [u8]) -> Result<T, Malformed> {
    let (value, after) = postcard::take_from_bytes(rest).map_err(|_| Malformed)?;
    *rest = after;
    Ok(value)
}

/// Reads how many items follow.
pub(crate) fn take_count(rest: &mut &[u8]) -> Result<u64, Malformed> {
    take(rest).ok().filter(|count| *count <= MAX_ITEMS).ok_or(Malformed)
}

/// Appends `value`. Postcard fails only where a value has no length or its buffer is full; ours have and grow.
pub(crate) fn put<T: Serialize + ?Sized>(bytes: &mut Vec<u8>, value: &T) {
    let encoded = postcard::to_allocvec(value);
    debug_assert!(encoded.is_ok(), "a value of known length always encodes into a growing buffer");
    bytes.extend_from_slice(&encoded.unwrap_or_default());
}
