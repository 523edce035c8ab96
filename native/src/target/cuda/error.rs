//! What can go wrong when a CUDA program is compiled.

use std::{error::Error, fmt, path::PathBuf};

use warmstart_core::program::Refusal;

use super::{headers::HeaderError, toolkit::search::Part};

/// A program could not be compiled, for a reason that only the caller or the machine's owner can mend. Says what to do.
///
/// A cache that fails is not this error: the program is compiled all the same.
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
    /// It is there and is none that can be loaded. `why` completes "the file ...".
    #[error(
        "{part} cannot be used: {} {why}; install it anew or set WARMSTART_CUDA to the folder of another",
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
    /// What was known of the library no longer holds. Ask for the toolchain anew.
    #[error(
        "{part} was replaced while the program was compiled: {} is another file now; compile it again",
        path.display()
    )]
    Changed { part: Part, path: PathBuf },
    /// The process has loaded what stands in the way.
    #[error(
        "{part} cannot be used: this process has loaded {other}, which the loader takes for {}; compile with only \
         one of the two in a process, or start it anew",
        path.display()
    )]
    Loaded { part: Part, path: PathBuf, other: &'static str },
    /// The version of NVRTC that has no headers in it.
    #[error(
        "NVRTC {0} brings no headers along; install a newer one (pip install --upgrade nvidia-cuda-nvrtc), or name the \
         headers of a CUDA toolkit by Program::include_dir"
    )]
    NoHeaders(String),
    #[error(transparent)]
    Refused(Refusal),
    #[error("`{program}`: {error}")]
    Headers { program: String, error: HeaderError },
    /// Headers or a library that never stood still.
    #[error(
        "the headers or the compiler's library change again and again while they are compiled; compile once they are \
         left alone"
    )]
    Unstable,
    /// With what the names of directories in the log stand for, on a line each.
    #[error("{part} rejects `{program}`:{}{}", Log(log), Log(places))]
    Rejected { part: Part, program: String, log: String, places: String },
    /// With the architectures that the compiler knows, if it lists them, or what it says.
    #[error(
        "{part} does not know the architecture {architecture}; {known}; choose one of these, or install another \
         version of it"
    )]
    UnknownArchitecture { part: Part, architecture: String, known: String, log: String },
    #[error("{part} made no {target} of `{program}`: {advice}")]
    Empty { part: Part, program: String, target: &'static str, advice: &'static str },
    /// A call of the library that has nothing to do with the program.
    #[error("{part} failed in {call} with status {status}{}", Log(log))]
    Failed { part: Part, call: &'static str, status: i32, log: String },
    /// What of the program has a NUL byte in it.
    #[error("{0} has a NUL byte in it, where the compiler would stop reading; remove it")]
    Nul(&'static str),
    #[error(
        "NVRTC has no lowered name for `{expression}`: see whether it names a kernel or variable of the program{}",
        Log(log)
    )]
    NameExpression { expression: String, log: String },
    #[error("{0} asks for more memory than there is")]
    OutOfMemory(Part),
}

impl CudaError {
    pub(super) fn new(problem: CudaProblem) -> Self {
        Self(Box::new(problem))
    }

    /// Whether a library is missing, or none that works.
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

    /// Whether the program cannot be compiled through a cache as it is: because of an option, which
    /// [`refusal`](Self::refusal) names, or because of its headers.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(*self.0, CudaProblem::Refused(_) | CudaProblem::Headers { .. })
    }

    /// The option that is refused, and why, if it is one.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match &*self.0 {
            CudaProblem::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// Whether the compiler rejected the program or its options; [`log`](Self::log) says why.
    #[must_use]
    pub fn is_rejected_source(&self) -> bool {
        matches!(
            *self.0,
            CudaProblem::Rejected { .. } | CudaProblem::NameExpression { .. } | CudaProblem::Nul(_)
        )
    }

    /// Whether the compiler made nothing of the program.
    #[must_use]
    pub fn is_empty_output(&self) -> bool {
        matches!(*self.0, CudaProblem::Empty { .. })
    }

    /// Whether the compiler does not know the architecture.
    #[must_use]
    pub fn is_unknown_architecture(&self) -> bool {
        matches!(*self.0, CudaProblem::UnknownArchitecture { .. })
    }

    /// What the compiler wrote, if it failed.
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

    /// The headers of the program of this name cannot be told.
    pub(super) fn headers(program: &str, error: HeaderError) -> Self {
        Self::new(CudaProblem::Headers { program: program.into(), error })
    }

    /// Says which directories were searched, if the log leads one to ask.
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

    /// Whether a library was replaced since its toolchain was asked for. With the toolchain of now, it is worth another try.
    pub(super) fn is_changed_library(&self) -> bool {
        matches!(*self.0, CudaProblem::Changed { .. })
    }
}

impl From<Refusal> for CudaError {
    fn from(refusal: Refusal) -> Self {
        Self::new(CudaProblem::Refused(refusal))
    }
}

/// What a program prints that returns it from `main`: the message.
impl fmt::Debug for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            f.debug_tuple("CudaError").field(&self.0).finish()
        } else {
            fmt::Display::fmt(self, f)
        }
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
            // Its words are this error's own.
            CudaProblem::Headers { error, .. } => error.source(),
            problem => problem.source(),
        }
    }
}

/// What a compiler wrote, on lines of its own.
struct Log<'a>(&'a str);

impl fmt::Display for Log<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.trim().is_empty() { Ok(()) } else { write!(f, "\n{}", self.0.trim_end()) }
    }
}
