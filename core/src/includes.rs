//! What a CUDA C++ text includes, read off it as NVRTC reads it, and the same text with other names in its directives.
//!
//! Branches that the preprocessor skips are read like all others: a header too many costs a check, one too few could
//! cost a wrong hit. What only the preprocessor can tell is a [`Problem`].
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
mod rewrite;
mod scan;

pub use rewrite::rewrite;
pub use scan::{Ask, Operand, Problem, Scan, Trouble, Untold};
