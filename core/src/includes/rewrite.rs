//! A text with other bytes in some of its places.

use alloc::vec::Vec;
use core::ops::Range;

/// `text` with each range replaced by the bytes beside it. The ranges are in order and do not overlap.
///
/// Lines keep their numbers: newlines that were in a range and are not in what replaces it stay, spliced.
///
/// # Panics
/// If a range is not in the text, or the ranges are not in order.
#[must_use]
pub fn rewrite<T: AsRef<[u8]>>(text: &[u8], edits: &[(Range<usize>, T)]) -> Vec<u8> {
    let newlines = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count();
    let mut rewritten = Vec::with_capacity(text.len() + 32 * edits.len());
    let mut from = 0;
    for (range, replacement) in edits {
        let replacement = replacement.as_ref();
        rewritten.extend_from_slice(&text[from..range.start]);
        rewritten.extend_from_slice(replacement);
        for _ in newlines(replacement)..newlines(&text[range.clone()]) {
            rewritten.extend_from_slice(b"\\\n");
        }
        from = range.end;
    }
    rewritten.extend_from_slice(&text[from..]);
    rewritten
}
