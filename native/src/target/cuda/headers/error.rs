//! Why the headers of a program cannot be told.

use std::{fmt, io, path::PathBuf};

use warmstart_core::includes::Trouble;

/// The headers of a program cannot be told or read. Says which, and what to do.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct HeaderError(Box<Problem>);

#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    /// A text that only the preprocessor can tell.
    #[error("{}{trouble}{ANSWER}", Line(place, *line))]
    Text { place: Place, line: usize, trouble: Trouble },
    /// A macro definition with a line break in it, behind which could be directives.
    #[error(
        "the macro definition {0:?} has more than one line; define it in the program, or in a header that is included \
         before it"
    )]
    Lines(String),
    /// Words that `__has_include` could be pasted from.
    #[error(
        "{}a word that __has_include, __DATE__ or __TIME__ could be pasted from; rename the word, and name a header in \
         a __has_include of its own{ANSWER}",
        Line(place, *line)
    )]
    Pasted { place: Place, line: usize },
    /// One name that a macro asks for, which is there from one place only.
    #[error(
        "the name {0:?}, which a macro asks for, is there from one place and not from another; ask for it in a \
         __has_include of its own"
    )]
    AmbiguousQuestion(String),
    /// One file that asks to be read once, and would have to be two.
    #[error(
        "{one} is the same file as {other}, asks to be read once, and may include other headers there; include it by \
         one name"
    )]
    Twice { one: Place, other: Place },
    /// A header to be read before the program that is not there.
    #[error(
        "the header {0:?} is to be included before the program and is in no include directory; add its directory, or \
         give its text"
    )]
    NoPreInclude(String),
    /// Something that is neither a file nor a directory.
    #[error("{} is included and is no regular file; put one there or move it away", .0.display())]
    NoFile(PathBuf),
    #[error("the header {} cannot be read ({error}); see its permissions", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    #[error("the program may include more than {0} headers; name fewer include directories, or include less")]
    TooMany(usize),
    #[error("the headers that the program may include are larger than {} MiB in all; include less", .0 >> 20)]
    TooLarge(u64),
}

/// What helps where headers cannot be told.
const ANSWER: &str = ", or answer for the headers by a digest of your own: see Program::header_digest";

/// A text, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::target::cuda) enum Place {
    Source,
    Given(String),
    Definition(String),
    File(PathBuf),
}

impl HeaderError {
    pub(super) fn new(problem: Problem) -> Self {
        Self(Box::new(problem))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source => f.write_str("the source"),
            Self::Given(name) => write!(f, "the given header {name:?}"),
            Self::Definition(text) => write!(f, "the macro definition `{text}`"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// The beginning of a sentence on a line of a text. A macro definition has but one.
struct Line<'a>(&'a Place, usize);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(place @ Place::Definition(_), _) => write!(f, "{place} has "),
            Self(place, line) => write!(f, "{place}, line {line}, has "),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;
    use crate::target::cuda::CudaError;

    #[test]
    fn source_of_an_unreadable_header_is_the_error_of_the_system() {
        let error = io::Error::from_raw_os_error(13);
        let unreadable = HeaderError::new(Problem::Unreadable { path: "a.h".into(), error });
        let error = CudaError::headers("kernel.cu", unreadable);
        let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        assert_eq!(source.and_then(io::Error::raw_os_error), Some(13));
    }
}
