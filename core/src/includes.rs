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

use alloc::{string::String, vec::Vec};
use core::{fmt, ops::Range};

pub use rewrite::rewrite;

/// What one text asks for, in the order of the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scan {
    /// Headers that are included or asked for by their names.
    pub operands: Vec<Operand>,
    /// Includes whose names the preprocessor makes.
    pub untold: Vec<Untold>,
    /// What cannot be told without preprocessing.
    pub problems: Vec<Problem>,
    /// The line from which on a standard before C++17 may read the text otherwise: it has trigraphs, and lacks raw strings,
    /// separators of digits or exponents of two.
    pub unlike_older: Option<usize>,
    /// The line from which on C++23 may: it has escapes in braces, and blanks between a backslash and the end of its line.
    pub unlike_newer: Option<usize>,
    /// Whether it may ask to be read only once.
    pub once: bool,
    /// Whether it pastes tokens together.
    pub pastes: bool,
    /// The line of a word that `__has_include`, `__DATE__` or `__TIME__` could be pasted from.
    pub fragment: Option<usize>,
}

/// A directive or a question that names a header.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Operand {
    /// What is asked.
    pub ask: Ask,
    /// The name, without what stands around it and without spliced lines.
    pub name: String,
    /// Whether it stands in quotes.
    pub quoted: bool,
    /// The bytes to replace: the name with what stands around it, or all of `__has_include(..)`.
    pub range: Range<usize>,
}

/// What is asked about a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// `#include`
    Include,
    /// `#include_next`
    Next,
    /// `__has_include(..)`
    Exists,
    /// `NAME_HAS_INCLUDE(..)` in a directive, a macro that asks whether its parameter is there.
    Macro,
}

/// An include whose name only the preprocessor can make: of one macro or of several words.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Untold {
    /// The bytes from which it makes the name.
    pub range: Range<usize>,
    /// The line, counted from 1.
    pub line: usize,
}

/// What cannot be told without preprocessing the text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// What it is.
    pub what: Trouble,
    /// The line, counted from 1.
    pub line: usize,
}

/// Why a text cannot be read without preprocessing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trouble {
    /// An include of a macro.
    ComputedName,
    /// `__has_include` that does not name a header.
    ComputedQuestion,
    /// `__has_include` in the definition of a macro.
    QuestionInMacro,
    /// A name that is not UTF-8.
    NotText,
    /// A NUL.
    Nul,
    /// A raw string that may end where two lines are spliced.
    SplicedRawString,
    /// A raw string behind a letter or a literal, without a blank between.
    GluedRawString,
    /// The day or the time at which it is compiled.
    Clock,
    /// A line that would end elsewhere in a branch that is skipped.
    Uneven,
    /// A line that the chosen standard of C++ reads otherwise than others do.
    OtherStandard,
}

impl Scan {
    /// Reads `text`.
    #[must_use]
    pub fn of(text: &[u8]) -> Self {
        scan::scan(text)
    }

    /// Whether nothing in it can make the compiler look for a file.
    #[must_use]
    pub const fn reaches_nothing(&self) -> bool {
        let may_paste = self.pastes && self.fragment.is_some();
        self.operands.is_empty() && self.untold.is_empty() && !may_paste
    }

    /// Why it cannot be told without preprocessing what the text includes under a standard of C++, as `--std` names it, and
    /// the line of that.
    #[must_use]
    pub fn trouble(&self, standard: Option<&str>) -> Option<(Trouble, usize)> {
        if let Some(problem) = self.problems.first() {
            return Some((problem.what, problem.line));
        }
        let line = match standard? {
            "c++17" | "c++20" => None,
            "c++23" => self.unlike_newer,
            _ => self.unlike_older,
        };
        Some((Trouble::OtherStandard, line?))
    }

    /// Reads a definition as the option `-D` has it: `NAME` or `NAME=VALUE`.
    #[must_use]
    pub fn of_definition(definition: &str) -> Self {
        let (name, value) = definition.split_once('=').unwrap_or((definition, "1"));
        Self::of(alloc::format!("#define {name} {value}").as_bytes())
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ComputedName => {
                "an #include whose name only the preprocessor can make; write the name itself"
            }
            Self::ComputedQuestion => {
                "a __has_include that does not name a header in quotes or angle brackets, or a macro that may stand for \
                 one and is not given a plain name in a directive; write __has_include and the name itself"
            }
            Self::QuestionInMacro => {
                "a __has_include in the definition of a macro; ask in the #if itself, or define a macro of one parameter \
                 as in #define _HAS_INCLUDE(x) __has_include(x)"
            }
            Self::NotText => "the name of a header that is not UTF-8; rename the header",
            Self::Nul => "a NUL byte, where the compiler would stop reading; remove it",
            Self::SplicedRawString => {
                "a raw string with a backslash at the end of a line where the string may end; write the line otherwise"
            }
            Self::GluedRawString => {
                "a raw string or a __has_include right behind a string, a backslash, a dollar sign or a letter that is \
                 not ASCII; put a blank between them"
            }
            Self::Clock => {
                "__DATE__ or __TIME__, and a binary that is kept would have another day's; remove it, or define a \
                 macro as what you want there"
            }
            Self::Uneven => {
                "a separator of digits or a name of a header with a quote, a backslash or a comment behind it or in it, \
                 which would hide the next lines where the line is skipped; write them on lines of their own"
            }
            Self::OtherStandard => {
                "a line that the standard of C++ that is asked for may read otherwise than others do (a trigraph, a raw \
                 string, a separator of digits, or blanks behind a backslash at the end of a line); write it otherwise, \
                 or ask for c++17 or c++20"
            }
        })
    }
}
