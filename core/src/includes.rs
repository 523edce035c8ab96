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
    /// Headers whose names are macros.
    pub computed: Vec<Computed>,
    /// Includes whose names the preprocessor makes of several words.
    pub untold: Vec<Untold>,
    /// Macros that are the name of a header or another word. All others are in [`macros`](Self::macros) only.
    pub definitions: Vec<Definition>,
    /// The names of all macros that are defined, each with a newline behind it.
    pub macros: String,
    /// Macros that ask whether their parameter is there, as in `#define HAS_INCLUDE(x) __has_include(x)`.
    pub askers: Vec<String>,
    /// Where a macro is used that may be one of those, by its name.
    pub calls: Vec<Call>,
    /// What cannot be told without preprocessing.
    pub problems: Vec<Problem>,
    /// The standards of C++ under which the text may include something else, each with the line from which on.
    pub unlike: Vec<(Standard, usize)>,
    /// Whether it may ask to be read only once.
    pub once: bool,
    /// Whether it pastes tokens together.
    pub pastes: bool,
    /// The line of a word that `__has_include`, `__DATE__` or `__TIME__` could be pasted from.
    pub fragment: Option<usize>,
}

/// A standard of C++ that divides a text otherwise than the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standard {
    /// It has trigraphs, and neither raw strings nor separators of digits.
    Cxx03,
    /// It has trigraphs, and neither separators of digits nor exponents of two.
    Cxx11,
    /// It has trigraphs, and no exponents of two.
    Cxx14,
    /// Blanks may stand between a backslash and the end of its line, and escapes in braces.
    Cxx23,
}

impl Standard {
    /// The one that the option `--std` names, if it is one of these.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "c++03" => Self::Cxx03,
            "c++11" => Self::Cxx11,
            "c++14" => Self::Cxx14,
            "c++23" => Self::Cxx23,
            _ => return None,
        })
    }
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
}

/// An include whose name only the preprocessor can make.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Untold {
    /// The bytes from which it makes the name.
    pub range: Range<usize>,
    /// The line, counted from 1.
    pub line: usize,
}

/// An include whose name is a macro.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Computed {
    /// The macro.
    pub name: String,
    /// Whether it is an `#include_next`.
    pub next: bool,
    /// The line, counted from 1.
    pub line: usize,
}

/// A use of a macro that may ask whether a header is there. Its name has `HAS_INCLUDE` in it, in any case.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// The macro.
    pub name: String,
    /// The header that it is given, and whether that stands in quotes. Nothing if it is given something else.
    pub header: Option<(String, bool)>,
    /// The line, counted from 1.
    pub line: usize,
}

/// A macro without parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// What it stands for.
    pub body: Body,
}

/// What a macro stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The name of a header.
    Header {
        /// The name, without what stands around it.
        name: String,
        /// Whether it stands in quotes.
        quoted: bool,
    },
    /// Another macro.
    Macro(String),
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
    /// An include of more than one macro.
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
                "an #include whose name only the preprocessor can make; define one macro as the name in quotes or \
                 angle brackets and include that, or write the name itself"
            }
            Self::ComputedQuestion => {
                "a __has_include that does not name a header in quotes or angle brackets; write the name itself"
            }
            Self::QuestionInMacro => {
                "a __has_include in the definition of a macro; ask in the #if itself, and name the header there, or \
                 define a macro of one parameter and ask for that, as in #define _HAS_INCLUDE(x) __has_include(x)"
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
                "a line that the standard of C++ that is asked for reads otherwise than others do (a trigraph, a raw \
                 string, a separator of digits, or blanks behind a backslash at the end of a line); write it otherwise, \
                 or ask for c++17 or c++20"
            }
        })
    }
}
