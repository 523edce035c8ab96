//! Finds the headers that a CUDA C++ text includes, as NVRTC reads it, and replaces their names in the text.
//!
//! Branches that the preprocessor would skip are read like all others: a superfluous header costs a check, a missing one could
//! make a wrong hit. Anything that only the preprocessor could decide is reported as a [`Trouble`].
//!
//! ```
//! use warmstart_core::includes::{Scan, rewrite};
//!
//! let text = b"#include <a.h> // not \"b.h\"\n#if __has_include(\"c.h\")\n#endif\n";
//! let scan = Scan::of(text);
//! let names: Vec<&str> = scan.operands.iter().map(|operand| operand.name.as_str()).collect();
//! assert_eq!(names, ["a.h", "c.h"]);
//!
//! let [include, question] = [&scan.operands[0], &scan.operands[1]];
//! let edits = [(include.range.clone(), "\"/x/a.h\""), (question.range.clone(), " 0 ")];
//! let rewritten = rewrite(text, &edits);
//! assert_eq!(rewritten, b"#include \"/x/a.h\" // not \"b.h\"\n#if  0 \n#endif\n");
//! ```

mod lexer;
mod scan;

pub use scan::{Ask, Operand, Scan, Trouble};

use alloc::vec::Vec;
use core::ops::Range;

/// Returns `text` with each range replaced by the bytes given with it. The ranges are in order and do not overlap.
///
/// Lines keep their numbers: if a range has more newlines than its replacement, spliced newlines are added.
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
