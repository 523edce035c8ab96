//! Alters stored bytes.

use std::iter;

use crate::scenario::script::{How, Kind};

/// Returns the bit that is flipped in the byte at an offset.
const fn bit(at: usize) -> u8 {
    1 << (at % 8)
}

/// Alters `bytes`. `others` are the bytes of the entry to copy, if one is copied.
///
/// # Panics
/// If the offset is outside the bytes.
pub(super) fn alter(bytes: &mut Vec<u8>, how: &How, others: &[u8]) {
    let len = bytes.len();
    let place = |at: i64| {
        let at = if at < 0 { at + i64::try_from(len).expect("entries are short") } else { at };
        usize::try_from(at).expect("a place is one of the bytes")
    };
    match how {
        How::Flip(at) => bytes[place(*at)] ^= bit(place(*at)),
        How::Zero(at) => bytes[place(*at)] = 0,
        How::Cut(n) => bytes.truncate(len - n),
        How::Grow(n) => bytes.resize(len + n, 0),
        How::Resize(len) => bytes.resize(*len, 0),
        How::CopyOf(_) => *bytes = others.to_vec(),
        How::Hex(hex) => *bytes = from_hex(hex),
        How::Each => panic!("it is no turn of any damage"),
    }
}

/// Returns all alterations of a kind for an entry of `len` bytes.
pub(super) fn each(kind: Kind, len: usize) -> Box<dyn Iterator<Item = How>> {
    match kind {
        Kind::Flips => Box::new((0..len).map(|at| How::Flip(i64::try_from(at).expect("entries are short")))),
        Kind::Lengths => {
            Box::new((0..len).chain(iter::once(len + 1)).chain(iter::once(len + 5000)).map(How::Resize))
        }
    }
}

/// Decodes hexadecimal digits.
///
/// # Panics
/// If there are other characters.
#[must_use]
pub(super) fn from_hex(hex: &str) -> Vec<u8> {
    let digit = |c: u8| char::from(c).to_digit(16).and_then(|n| u8::try_from(n).ok());
    let pairs = hex.as_bytes().chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?));
    pairs.collect::<Option<_>>().expect("hexadecimal digits, two a byte")
}
