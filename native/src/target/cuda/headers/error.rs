//! The error for headers that cannot be found or read.

use std::{fmt, io, path::PathBuf};

use warmstart_core::includes::Trouble;

/// The error of a program whose headers cannot be found without the compiler, or cannot be read.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct HeaderError(Box<Problem>);

#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    /// Only the preprocessor can tell what the text includes.
    #[error("{}{trouble}{ANSWER}", Line(place, *line))]
    Text { place: Place, line: usize, trouble: Trouble },
    /// A macro definition has a line break, after which there could be directives.
    #[error(
        "the macro definition {0:?} has more than one line; define it in the program, or in a header that is included \
         before it"
    )]
    Lines(String),
    /// `__has_include` could be pasted from the words of the program.
    #[error(
        "{}a word that __has_include, __DATE__ or __TIME__ could be pasted from; rename the word, and name a header in \
         a __has_include of its own{ANSWER}",
        Line(place, *line)
    )]
    Pasted { place: Place, line: usize },
    /// A macro asks for one header from several files, and only some of them find it.
    #[error(
        "a macro asks for the header {0:?}, which is found from one file and not from another; ask for it in a \
         __has_include of its own"
    )]
    AmbiguousQuestion(String),
    /// A file that asks to be included only once is reached under two names that may lead to other headers.
    #[error(
        "{one} is the same file as {other}, asks to be included once, and may include other headers there; include it \
         by one name"
    )]
    Twice { one: Place, other: Place },
    /// An included path leads to something that is neither a file nor a directory.
    #[error("{} is included and is no regular file; replace it by one, or remove it", .0.display())]
    NoFile(PathBuf),
    #[error("the header {} cannot be read ({error}); check its permissions", path.display())]
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

/// What to do if headers cannot be found without the compiler.
const ANSWER: &str = ", or answer for the headers by a digest of your own: see Program::header_digest";

/// The name of a text in messages.
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

/// The beginning of a message about a line of a text. A macro definition has only one line.
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
    use crate::target::cuda::{CudaError, Program};

    #[test]
    fn source_of_an_unreadable_header_is_the_error_of_the_system() {
        let error = io::Error::from_raw_os_error(13);
        let unreadable = HeaderError::new(Problem::Unreadable { path: "a.h".into(), error });
        let error = CudaError::headers(&Program::cxx("kernel.cu", ""), unreadable);
        let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        assert_eq!(source.and_then(io::Error::raw_os_error), Some(13));
    }
}
