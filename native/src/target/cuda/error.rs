//! Errors of compiling a CUDA program.

use std::{error::Error, fmt, path::PathBuf};

use warmstart_core::program::Refusal;

use super::{headers::HeaderError, program::Program, toolkit::part::Part};

/// The error of a program that could not be compiled. The message says what to do about it.
///
/// A failing cache is not an error: the program is compiled all the same.
///
/// ```
/// use warmstart::target::cuda::Toolkit;
///
/// let error = Toolkit::at("/no/such/folder").unwrap_err();
/// assert!(error.is_no_library());
/// assert!(error.to_string().contains("pip install nvidia-cuda-nvrtc"));
/// ```
pub struct CudaError(Box<CudaProblem>);

#[derive(Debug, thiserror::Error)]
pub(super) enum CudaProblem {
    #[error(
        "{part} is missing: looked for {} in {looked_in}; install it (pip install {}, or the CUDA toolkit), activate the \
         Python environment that has it, or set WARMSTART_CUDA to its folder",
        part.pattern(),
        part.facts().package
    )]
    Missing { part: Part, looked_in: String },
    /// The file exists and cannot be loaded. `why` completes "the file ...".
    #[error(
        "{part} cannot be used: {} {why}; install it again or set WARMSTART_CUDA to the folder of another",
        path.display()
    )]
    Unusable { part: Part, path: PathBuf, why: String, source: Option<Box<dyn Error + Send + Sync>> },
    /// `why` completes "the file ...".
    #[error(
        "{part} is too old: {} {why}, and {} or newer is needed; upgrade it (pip install --upgrade {}, or the CUDA \
         toolkit)",
        path.display(),
        part.facts().oldest,
        part.facts().package
    )]
    TooOld { part: Part, path: PathBuf, why: String },
    /// The library was replaced since its toolchain was read. The toolchain has to be read again.
    #[error(
        "{part} was replaced while the program was compiled: {} is another file now; compile it again",
        path.display()
    )]
    Changed { part: Part, path: PathBuf },
    /// The process has loaded another library that the loader takes for this one.
    #[error(
        "{part} cannot be used: this process has loaded {other}, which the loader takes for {}; compile with only \
         one of the two in a process, or restart it",
        path.display()
    )]
    Loaded { part: Part, path: PathBuf, other: &'static str },
    #[error(transparent)]
    Refused(Refusal),
    #[error("`{program}`: {error}")]
    Headers { program: String, error: HeaderError },
    /// The headers or a library changed at every attempt.
    #[error(
        "the headers or the compiler's library change again and again during compilation; compile when they no longer \
         change"
    )]
    Unstable,
    /// `places` says which directories the names in the log stand for, one on each line.
    #[error("{part} rejects `{program}`:{}{}", Log(log), Log(places))]
    Rejected { part: Part, program: String, log: String, places: String },
    /// `known` has the architectures that the compiler supports if it lists them, else its message.
    #[error(
        "{part} does not know the architecture {architecture}; {known}; choose one of these, or install another \
         version of it"
    )]
    UnknownArchitecture { part: Part, architecture: String, known: String, log: String },
    #[error(
        "{part} made no {target} of `{program}`; check that the program is not empty; CUDA C++ becomes LTO-IR with the option \
         link_time_optimization, and only with it"
    )]
    Empty { part: Part, program: String, target: &'static str },
    /// A call of the library failed for a reason that is not the program's.
    #[error("{part} failed in {call} with status {status}{}", Log(log))]
    Failed { part: Part, call: &'static str, status: i32, log: String },
    /// Names the part of the program that has a NUL byte.
    #[error("{0} has a NUL byte in it, where the compiler would stop reading; remove it")]
    Nul(&'static str),
    #[error(
        "NVRTC has no lowered name for `{expression}`: check that it names a kernel or variable of the program{}",
        Log(log)
    )]
    NameExpression { expression: String, log: String },
    #[error("{0} needs more memory than there is; free some, or compile a smaller program")]
    OutOfMemory(Part),
}

impl CudaError {
    pub(super) fn new(problem: CudaProblem) -> Self {
        Self(Box::new(problem))
    }

    /// Returns whether a library is missing or cannot be used.
    #[must_use]
    pub fn is_no_library(&self) -> bool {
        matches!(
            *self.0,
            CudaProblem::Missing { .. }
                | CudaProblem::Unusable { .. }
                | CudaProblem::TooOld { .. }
                | CudaProblem::Loaded { .. }
        )
    }

    /// Returns whether the program cannot be compiled through a cache, because of an option or of its headers.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(*self.0, CudaProblem::Refused(_) | CudaProblem::Headers { .. })
    }

    /// Returns whether the compiler rejected the program or its options; [`log`](Self::log) says why.
    #[must_use]
    pub fn is_rejected_source(&self) -> bool {
        matches!(
            *self.0,
            CudaProblem::Rejected { .. } | CudaProblem::NameExpression { .. } | CudaProblem::Nul(_)
        )
    }

    /// Returns whether the compiler does not support the architecture.
    #[must_use]
    pub fn is_unknown_architecture(&self) -> bool {
        matches!(*self.0, CudaProblem::UnknownArchitecture { .. })
    }

    /// Returns the compiler's log, if it failed.
    #[must_use]
    pub fn log(&self) -> Option<&str> {
        match &*self.0 {
            CudaProblem::Rejected { log, .. }
            | CudaProblem::UnknownArchitecture { log, .. }
            | CudaProblem::NameExpression { log, .. }
            | CudaProblem::Failed { log, .. } => Some(log),
            _ => None,
        }
    }

    /// Wraps an error about the headers of a program.
    pub(super) fn headers(program: &Program, error: HeaderError) -> Self {
        Self::new(CudaProblem::Headers { program: program.name().into(), error })
    }

    /// Adds the directories that the names in the log stand for, if the log has such names.
    pub(super) fn with_places(mut self, said: impl FnOnce() -> Vec<String>) -> Self {
        if let CudaProblem::Rejected { log, places, .. } = &mut *self.0
            && ["open source file", "/warmstart/source/", "/warmstart/include"]
                .iter()
                .any(|word| log.contains(word))
        {
            *places = said().join("\n");
        }
        self
    }

    /// Returns whether a library was replaced since its toolchain was read. Another attempt reads it again and may succeed.
    pub(super) fn is_changed_library(&self) -> bool {
        matches!(*self.0, CudaProblem::Changed { .. })
    }
}

impl From<Refusal> for CudaError {
    fn from(refusal: Refusal) -> Self {
        Self::new(CudaProblem::Refused(refusal))
    }
}

/// Prints the message, as for a program that returns the error from `main`.
impl fmt::Debug for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for CudaError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &*self.0 {
            // The message of this error includes that of the inner one, so its source is next.
            CudaProblem::Headers { error, .. } => error.source(),
            problem => problem.source(),
        }
    }
}

/// A compiler's log, on lines of its own.
struct Log<'a>(&'a str);

impl fmt::Display for Log<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.trim().is_empty() { Ok(()) } else { write!(f, "\n{}", self.0.trim_end()) }
    }
}
