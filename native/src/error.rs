//! The caller's own mistakes when a store is opened.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

/// A store could not be opened because of what its path is. Says what to do.
///
/// A disk that fails, is full or is read-only is not this error: such a store opens, and misses with the reason.
///
/// ```
/// use warmstart::store::{FileOptions, FileStore};
///
/// let file = tempfile::NamedTempFile::new()?;
/// let error = FileStore::open(file.path(), FileOptions::default()).unwrap_err();
/// assert!(error.is_wrong_kind());
/// assert!(error.to_string().contains("name a directory"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct OpenError {
    path: PathBuf,
    problem: Problem,
}

#[derive(Debug)]
pub(crate) enum Problem {
    /// Expected, what it is, what to do.
    WrongKind { found: &'static str, remedy: &'static str },
    /// Who could have written there, and what to do.
    Untrusted { found: String, remedy: &'static str },
    /// A pack that is open in this process has another value of this option.
    #[cfg(feature = "packs")]
    OtherOptions(&'static str),
    /// Another failure that only the caller can mend, such as a path with a NUL in it.
    Io(io::Error),
}

impl OpenError {
    pub(crate) fn new(path: &Path, problem: Problem) -> Self {
        Self { path: path.to_path_buf(), problem }
    }

    /// The path that was to be opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the path is a file where a directory was wanted, a directory where a file was, or a symbolic link.
    #[must_use]
    pub const fn is_wrong_kind(&self) -> bool {
        matches!(self.problem, Problem::WrongKind { .. })
    }

    /// Whether somebody else owns the path or may write to it. Cached artifacts are code.
    #[must_use]
    pub const fn is_untrusted(&self) -> bool {
        matches!(self.problem, Problem::Untrusted { .. })
    }

    /// Whether it is open in this process with other options.
    #[cfg(feature = "packs")]
    #[must_use]
    pub const fn is_other_options(&self) -> bool {
        matches!(self.problem, Problem::OtherOptions(_))
    }

    /// Whether the system refused the path itself, such as one with a NUL in it.
    /// [`source`](std::error::Error::source) says why.
    ///
    /// ```
    /// use std::error::Error;
    /// use warmstart::store::{FileOptions, FileStore};
    ///
    /// let error = FileStore::open("cache\0", FileOptions::default()).unwrap_err();
    /// assert!(error.is_io() && error.source().is_some());
    /// ```
    #[must_use]
    pub const fn is_io(&self) -> bool {
        matches!(self.problem, Problem::Io(_))
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot open the cache {:?}: ", self.path)?;
        match &self.problem {
            Problem::WrongKind { found, remedy } => write!(f, "it is {found}; {remedy}"),
            Problem::Untrusted { found, remedy } => write!(f, "it is {found}; {remedy}"),
            #[cfg(feature = "packs")]
            Problem::OtherOptions(option) => write!(
                f,
                "it is open in this process with another `{option}`; open it with the same options, or drop the other handles first"
            ),
            Problem::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.problem {
            Problem::Io(error) => Some(error),
            _ => None,
        }
    }
}
