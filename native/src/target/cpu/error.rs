//! Errors of compiling and loading a kernel.

use std::{error::Error, io};

/// The error of a kernel that could not be compiled. The message says what to do about it.
///
/// A failing cache is not an error: the kernel is compiled all the same.
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
    /// The name of the compiler, and where it was searched for.
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
    /// `found` is the directive or the spelling in the assembly.
    #[error(
        "the assembly of the kernel {kernel} has {found}, which can read files that are not in the key; put them into a \
         header, as an array, or give a digest of them to Kernel::extra_digest"
    )]
    ReadsFiles { kernel: String, found: &'static str },
    #[error(
        "the compiler rejected the kernel {kernel}; correct its source, its flags or its include directories \
         (Kernel::include_dir and Kernel::source_dir):\n{log}"
    )]
    Rejected { kernel: String, log: String },
    /// The step that failed.
    #[error("{0}: {1}")]
    Io(&'static str, #[source] io::Error),
}

impl CompileError {
    /// Returns whether there is no compiler, or none that works.
    #[must_use]
    pub fn is_no_compiler(&self) -> bool {
        matches!(self.0, CompileProblem::NoCompiler(_) | CompileProblem::Unusable { .. })
    }

    /// Returns whether the kernel is refused: it has a flag that is not accepted, or its assembly can read files that are not in
    /// the key.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(self.0, CompileProblem::RefusedFlag { .. } | CompileProblem::ReadsFiles { .. })
    }

    /// Returns whether the compiler rejected the source; [`log`](Self::log) says why.
    #[must_use]
    pub fn is_rejected_source(&self) -> bool {
        self.log().is_some()
    }

    /// Returns the compiler's log, if it rejected the source.
    #[must_use]
    pub fn log(&self) -> Option<&str> {
        match &self.0 {
            CompileProblem::Rejected { log, .. } => Some(log),
            _ => None,
        }
    }
}

/// The error of a kernel that could not be loaded, or has no such symbol. The message says what to do about it.
///
/// ```
/// use warmstart::{Artifact, target::cpu::Library};
///
/// // SAFETY: bytes that are no shared object are refused before any of them run.
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
    #[error("the object cannot be loaded ({why}); check whether it needs a library that is missing", why = in_full(.0))]
    Open(#[source] libloading::Error),
    #[error("the object has no symbol {0} ({why}); check whether it is static or misspelt", why = in_full(.1))]
    Symbol(String, #[source] libloading::Error),
    #[error("the object cannot be copied to where the loader reads it: {0}")]
    Io(#[source] io::Error),
}

impl LoadError {
    /// Returns whether the system's loader refused the object.
    pub(super) fn is_refused_object(&self) -> bool {
        matches!(self.0, LoadProblem::Open(_))
    }

    /// Returns whether this host lacks a CPU feature that the object was compiled for.
    #[must_use]
    pub fn is_missing_feature(&self) -> bool {
        matches!(self.0, LoadProblem::MissingFeatures(_))
    }
}

impl From<CompileError> for LoadError {
    fn from(error: CompileError) -> Self {
        Self(LoadProblem::Compile(error))
    }
}

/// Returns the loader's message, down to the name that it missed.
fn in_full(error: &libloading::Error) -> String {
    let source = Error::source(error);
    source.map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}
