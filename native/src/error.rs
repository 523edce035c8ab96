//! Errors that a caller causes when it opens a store.

use std::{
    error::Error,
    fmt, io,
    path::{Path, PathBuf},
};

/// An error that `path` cannot be opened as a store. The message says what to do.
///
/// A disk that fails, is full or is read-only does not cause this error: the store opens, and its look-ups miss with the reason.
/// Where the system refused the path, for example because it has a NUL byte, [`source`](Error::source) returns the system's error.
///
/// ```
/// use warmstart::store::{FileStore, StoreOptions};
///
/// let file = tempfile::NamedTempFile::new()?;
/// let error = FileStore::open(file.path(), StoreOptions::default()).unwrap_err();
/// assert!(error.is_wrong_kind());
/// assert!(error.to_string().contains("name a directory"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct OpenError {
    path: PathBuf,
    problem: Problem,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    /// The path is something else than expected, and what to do about it.
    #[error("it is {found}; {remedy}")]
    WrongKind { found: &'static str, remedy: &'static str },
    /// Other users could have written there, and what to do about it.
    #[error("it is {found}; {remedy}")]
    Untrusted { found: String, remedy: &'static str },
    /// The pack is open in this process with another value of this option.
    #[cfg(feature = "packs")]
    #[error(
        "it is open in this process with another `{0}`; open it with the same options, or drop the other handles first"
    )]
    OtherOptions(&'static str),
    /// Another error that only the caller can correct, such as a path with a NUL byte.
    #[error("{0}")]
    Io(#[source] io::Error),
}

impl OpenError {
    pub(crate) fn new(path: &Path, problem: Problem) -> Self {
        Self { path: path.to_path_buf(), problem }
    }

    /// Returns whether the path is of the wrong kind: a file instead of a directory, a directory instead of a file, or a symbolic
    /// link.
    #[must_use]
    pub const fn is_wrong_kind(&self) -> bool {
        matches!(self.problem, Problem::WrongKind { .. })
    }

    /// Returns whether another user owns the path or may write to it. Cached artifacts are code, so such a path is refused.
    #[must_use]
    pub const fn is_untrusted(&self) -> bool {
        matches!(self.problem, Problem::Untrusted { .. })
    }

    /// Returns whether the pack is open in this process with other options.
    #[cfg(feature = "packs")]
    #[must_use]
    pub const fn is_other_options(&self) -> bool {
        matches!(self.problem, Problem::OtherOptions(_))
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot open the cache {:?}: {}", self.path, self.problem)
    }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.problem.source()
    }
}
