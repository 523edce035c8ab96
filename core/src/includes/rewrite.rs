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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_numbers() {
        let text = b"#include /* x */ \"a\\\n.h\"\nb\n";
        assert_eq!(rewrite(text, &[(17..24, "\"/x\"")]), b"#include /* x */ \"/x\"\\\n\nb\n");
        assert_eq!(rewrite(text, &[(17..24, "\"a\\\n.h\"")]), text);
        assert_eq!(rewrite(b"a b c", &[(0..1, "x"), (2..3, ""), (4..5, "yz")]), b"x  yz");
        assert_eq!(rewrite::<&str>(text, &[]), text);
    }
}
