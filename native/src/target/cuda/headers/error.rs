//! Why the headers of a program cannot be told.

use std::{fmt, io, path::PathBuf};

use warmstart_core::includes::Trouble;

/// The headers of a program cannot be told or read. Says which, and what to do.
#[derive(Debug)]
pub struct HeaderError(Box<Problem>);

#[derive(Debug)]
pub(super) enum Problem {
    /// A text that only the preprocessor can tell.
    Text {
        place: Place,
        line: usize,
        trouble: Trouble,
    },
    /// A macro definition with a line break in it, behind which could be directives.
    Lines(String),
    /// An include of a macro that is not always the name of a header.
    Macro {
        place: Place,
        line: usize,
        name: String,
    },
    /// Words that `__has_include` could be pasted from.
    Pasted {
        place: Place,
        line: usize,
    },
    /// One name of a macro that leads to two headers.
    Ambiguous {
        name: String,
        headers: [Option<Place>; 2],
    },
    /// One name that a macro asks for, which is there from one place only.
    AmbiguousQuestion(String),
    /// One file that asks to be read once, and would have to be two.
    Twice {
        one: Place,
        other: Place,
    },
    /// A header to be read before the program that is not there.
    NoPreInclude(String),
    /// Something that is neither a file nor a directory.
    NoFile(PathBuf),
    Unreadable(PathBuf, io::Error),
    TooMany(usize),
    TooLarge(u64),
}

/// A text, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Source,
    Given(String),
    Definition(String),
    File(PathBuf),
}

impl HeaderError {
    pub(super) fn new(problem: Problem) -> Self {
        Self(Box::new(problem))
    }

    /// Whether only the compiler could tell what is included.
    #[must_use]
    pub fn is_computed(&self) -> bool {
        matches!(
            *self.0,
            Problem::Text { .. }
                | Problem::Macro { .. }
                | Problem::Pasted { .. }
                | Problem::Ambiguous { .. }
                | Problem::AmbiguousQuestion(_)
        )
    }
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Problem::Text { place: Place::Definition(text), trouble, .. } => {
                write!(f, "the macro definition `{text}` has {trouble}")
            }
            Problem::Lines(text) => write!(
                f,
                "the macro definition {text:?} has more than one line; define it in the program, or in a header that is \
                 included before it"
            ),
            Problem::Text { place, line, trouble } => write!(f, "{place}, line {line}, has {trouble}"),
            Problem::Macro { place, line, name } => write!(
                f,
                "{place}, line {line}, includes the macro {name}, which is not everywhere defined as a header's name; \
                 define it as a name in quotes or angle brackets wherever it is defined, or write the name itself"
            ),
            Problem::Pasted { place, line } => write!(
                f,
                "{place}, line {line}, has a word that __has_include, __DATE__ or __TIME__ could be pasted from; \
                 rename the word, and name a header in a __has_include of its own"
            ),
            Problem::Ambiguous { name, headers: [one, other] } => {
                write!(f, "the name {name:?}, which is included through a macro, leads to ")?;
                for (header, before) in [(one, ""), (other, " from one place and to ")] {
                    match header {
                        Some(header) => write!(f, "{before}{header}")?,
                        None => write!(f, "{before}nothing")?,
                    }
                }
                f.write_str(" from another; include it by its name")
            }
            Problem::AmbiguousQuestion(name) => write!(
                f,
                "the name {name:?}, which a macro asks for, is there from one place and not from another; ask for it in \
                 a __has_include of its own"
            ),
            Problem::Twice { one, other } => write!(
                f,
                "{one} is the same file as {other}, asks to be read once, and includes other headers there; include it \
                 by one name"
            ),
            Problem::NoPreInclude(name) => write!(
                f,
                "the header {name:?} is to be included before the program and is in no include directory; add its \
                 directory, or give its text"
            ),
            Problem::NoFile(path) => {
                write!(
                    f,
                    "{} is included and is no regular file; put one there or move it away",
                    path.display()
                )
            }
            Problem::Unreadable(path, error) => {
                write!(f, "the header {} cannot be read ({error}); see its permissions", path.display())
            }
            Problem::TooMany(most) => write!(
                f,
                "the program may include more than {most} headers; name fewer include directories, or include less"
            ),
            Problem::TooLarge(most) => write!(
                f,
                "the headers that the program may include are larger than {} MiB in all; include less",
                most >> 20
            ),
        }
    }
}

impl std::error::Error for HeaderError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.0 {
            Problem::Unreadable(_, error) => Some(error),
            _ => None,
        }
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

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;
    use crate::target::cuda::CudaError;

    #[test]
    fn source_of_an_unreadable_header_is_the_error_of_the_system() {
        let denied = io::Error::from_raw_os_error(13);
        let unreadable = HeaderError::new(Problem::Unreadable("a.h".into(), denied));
        let error = CudaError::headers("kernel.cu", unreadable);
        let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        assert_eq!(source.and_then(io::Error::raw_os_error), Some(13));
    }
}
