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

/// Reads bytes with their length before them, as postcard writes them and texts.
pub(crate) fn take_bytes<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Malformed> {
    let len: u64 = take(rest)?;
    let len = usize::try_from(len).map_err(|_| Malformed)?;
    let (bytes, after) = rest.split_at_checked(len).ok_or(Malformed)?;
    *rest = after;
    Ok(bytes)
}

/// Reads a text.
pub(crate) fn take_text<'a>(rest: &mut &'a [u8]) -> Result<&'a str, Malformed> {
    core::str::from_utf8(take_bytes(rest)?).map_err(|_| Malformed)
}

/// Appends a number, as postcard writes it whatever its type: seven bits a byte, the lowest first.
pub(crate) fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 127 {
        bytes.push((number & 127 | 128) as u8);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Appends bytes, or a text, with their length before them.
pub(crate) fn put_bytes(bytes: &mut Vec<u8>, value: &[u8]) {
    put_number(bytes, value.len() as u64);
    bytes.extend_from_slice(value);
}

/// Appends `value`. Postcard fails only where a value has no length or its buffer is full; ours have and grow.
pub(crate) fn put<T: Serialize + ?Sized>(bytes: &mut Vec<u8>, value: &T) {
    let encoded = postcard::to_allocvec(value);
    debug_assert!(encoded.is_ok(), "a value of known length always encodes into a growing buffer");
    bytes.extend_from_slice(&encoded.unwrap_or_default());
}
