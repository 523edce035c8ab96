//! What can go wrong when a kernel is compiled or loaded.

use std::{error::Error, io};

/// A kernel could not be compiled, for a reason that only the caller or the machine's owner can mend. Says what to do.
///
/// A cache that fails is not this error: the kernel is compiled all the same.
///
/// ```
/// use warmstart::target::cpu::Compiler;
///
/// let error = Compiler::at("/no/such/compiler").unwrap_err();
/// assert!(error.is_no_compiler());
/// assert!(error.to_string().contains("install"));
/// ```
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct CompileError(#[from] CompileProblem);

#[derive(Debug, thiserror::Error)]
pub(super) enum CompileProblem {
    /// What was looked for, and where.
    #[error(
        "no C compiler: looked for {0}; install gcc or clang (Debian: apt install gcc, Fedora: dnf install gcc, \
         macOS: xcode-select --install) or set CC to the path of one alone: ccache and its like hide which compiler they \
         run, and flags are for Kernel::flag"
    )]
    NoCompiler(String),
    #[error(
        "the C compiler {compiler} does not answer like gcc or clang: {problem}; set CC to the path of one"
    )]
    Unusable { compiler: String, problem: String },
    #[error("the flag `{flag}` is not accepted: {remedy}")]
    RefusedFlag { flag: String, remedy: &'static str },
    /// What is in the assembly.
    #[error(
        "the assembly of the kernel {kernel} has {found}, which can read files that no key holds; put them into a header, \
         as an array, or give a digest of them to Kernel::extra_digest"
    )]
    ReadsFiles { kernel: String, found: &'static str },
    #[error(
        "the compiler rejected the kernel {kernel}; mend its source, its flags or where its headers are looked for \
         (Kernel::include_dir and Kernel::source_dir):\n{log}"
    )]
    Rejected { kernel: String, log: String },
    /// What was tried.
    #[error("{0}: {1}")]
    Io(&'static str, #[source] io::Error),
}

impl CompileError {
    /// Whether there is no compiler, or none that works.
    #[must_use]
    pub fn is_no_compiler(&self) -> bool {
        matches!(self.0, CompileProblem::NoCompiler(_) | CompileProblem::Unusable { .. })
    }

    /// Whether the kernel is refused: it has a flag that is not accepted, or its assembly can read files that no key holds.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(self.0, CompileProblem::RefusedFlag { .. } | CompileProblem::ReadsFiles { .. })
    }

    /// Whether the compiler rejected the source; [`log`](Self::log) says why.
    #[must_use]
    pub fn is_rejected_source(&self) -> bool {
        self.log().is_some()
    }

    /// What the compiler wrote, if it rejected the source.
    #[must_use]
    pub fn log(&self) -> Option<&str> {
        match &self.0 {
            CompileProblem::Rejected { log, .. } => Some(log),
            _ => None,
        }
    }
}

/// A kernel could not be loaded, or has no such symbol. Says what to do.
///
/// ```
/// use warmstart::{Artifact, target::cpu::Library};
///
/// // SAFETY: what is not a shared object is refused before anything of it runs.
/// let error = unsafe { Library::load(&Artifact::new(b"not an object".to_vec())) }.unwrap_err();
/// assert!(!error.is_missing_feature());
/// ```
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct LoadError(#[from] LoadProblem);

#[derive(Debug, thiserror::Error)]
pub(super) enum LoadProblem {
    #[error(transparent)]
    Compile(CompileError),
    /// The features that the host lacks.
    #[error(
        "this host lacks CPU features that the object was compiled for ({0}); compile it here, with CpuFeatures::host()"
    )]
    MissingFeatures(String),
    /// The machine that the object is for.
    #[error("the object was compiled for {0}; compile it here")]
    OtherMachine(String),
    #[error("the object cannot be loaded ({why}); see whether it needs a library that is missing", why = in_full(.0))]
    Open(#[source] libloading::Error),
    #[error("the object has no symbol {0} ({why}); see whether it is static or misspelt", why = in_full(.1))]
    Symbol(String, #[source] libloading::Error),
    #[error("the object cannot be put where it could be loaded: {0}")]
    Io(#[source] io::Error),
}

impl LoadError {
    /// Whether the system's loader refused the object.
    pub(super) fn is_refused_object(&self) -> bool {
        matches!(self.0, LoadProblem::Open(_))
    }

    /// Whether this host lacks a CPU feature that the object was compiled for.
    #[must_use]
    pub fn is_missing_feature(&self) -> bool {
        matches!(self.0, LoadProblem::MissingFeatures(_))
    }

    /// Whether the library has no such symbol.
    #[must_use]
    pub fn is_missing_symbol(&self) -> bool {
        matches!(self.0, LoadProblem::Symbol(..))
    }
}

impl From<CompileError> for LoadError {
    fn from(error: CompileError) -> Self {
        Self(LoadProblem::Compile(error))
    }
}

/// What the loader says, down to the name that it missed.
fn in_full(error: &libloading::Error) -> String {
    let source = Error::source(error);
    source.map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}
