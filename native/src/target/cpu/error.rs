//! What can go wrong when a kernel is compiled or loaded.

use std::{fmt, io};

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
#[derive(Debug)]
pub struct CompileError(Box<CompileProblem>);

#[derive(Debug)]
pub(super) enum CompileProblem {
    /// What was looked for, and where.
    NoCompiler(String),
    /// The compiler is there and does not answer.
    Unusable {
        compiler: String,
        problem: String,
        source: Option<io::Error>,
    },
    /// A cache of compilers, and the compiler behind it if that was named.
    Wrapped {
        named: String,
        wrapper: &'static str,
        compiler: Option<String>,
    },
    /// A compiler with arguments.
    Arguments {
        named: String,
        compiler: String,
    },
    RefusedFlag {
        flag: String,
        remedy: &'static str,
    },
    Failed {
        kernel: String,
        log: String,
        /// Where headers were looked for, if one is missing.
        searched: Option<String>,
    },
    /// What was tried.
    Io(&'static str, io::Error),
}

impl CompileError {
    pub(super) fn new(problem: CompileProblem) -> Self {
        Self(Box::new(problem))
    }

    /// Whether there is no compiler, or none that works.
    #[must_use]
    pub fn is_no_compiler(&self) -> bool {
        matches!(
            *self.0,
            CompileProblem::NoCompiler(_)
                | CompileProblem::Unusable { .. }
                | CompileProblem::Wrapped { .. }
                | CompileProblem::Arguments { .. }
        )
    }

    /// Whether the kernel has a flag that is not accepted.
    #[must_use]
    pub fn is_refused_flag(&self) -> bool {
        matches!(*self.0, CompileProblem::RefusedFlag { .. })
    }

    /// Whether the compiler rejected the source; [`log`](Self::log) says why.
    #[must_use]
    pub fn is_rejected_source(&self) -> bool {
        matches!(*self.0, CompileProblem::Failed { .. })
    }

    /// What the compiler wrote, if it rejected the source.
    #[must_use]
    pub fn log(&self) -> Option<&str> {
        match &*self.0 {
            CompileProblem::Failed { log, .. } => Some(log),
            _ => None,
        }
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            CompileProblem::NoCompiler(looked_for) => write!(
                f,
                "no C compiler: looked for {looked_for}; install gcc or clang (Debian: apt install gcc, Fedora: \
                 dnf install gcc, macOS: xcode-select --install) or set CC to the path of one"
            ),
            CompileProblem::Unusable { compiler, problem, .. } => write!(
                f,
                "the C compiler {compiler} does not answer like gcc or clang: {problem}; set CC to the path of one"
            ),
            CompileProblem::Wrapped { named, wrapper, compiler } => write!(
                f,
                "the C compiler `{named}` is {wrapper}, a cache of its own that hides which compiler it runs; name the \
                 compiler itself, as in CC={}",
                compiler.as_deref().unwrap_or("gcc")
            ),
            CompileProblem::Arguments { named, compiler } => write!(
                f,
                "the C compiler `{named}` has arguments, which would not be in the keys; set CC={compiler} and give flags \
                 to Kernel::flag"
            ),
            CompileProblem::RefusedFlag { flag, remedy } => {
                write!(f, "the flag `{flag}` is not accepted: {remedy}")
            }
            CompileProblem::Failed { kernel, log, searched } => {
                write!(f, "the compiler rejected the kernel {kernel}; mend its source or its flags:\n{log}")?;
                let Some(searched) = searched else { return Ok(()) };
                let end = if log.ends_with('\n') { "" } else { "\n" };
                write!(
                    f,
                    "{end}headers were looked for in {searched}; see Kernel::include_dir and Kernel::source_dir"
                )
            }
            CompileProblem::Io(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for CompileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.0 {
            CompileProblem::Io(_, error) | CompileProblem::Unusable { source: Some(error), .. } => {
                Some(error)
            }
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
#[derive(Debug)]
pub struct LoadError(Box<LoadProblem>);

#[derive(Debug)]
pub(super) enum LoadProblem {
    Compile(CompileError),
    /// The features that the host lacks.
    MissingFeatures(String),
    /// The machine that the object is for.
    OtherMachine(String),
    Open(libloading::Error),
    Symbol(String, libloading::Error),
    Io(io::Error),
}

impl LoadError {
    pub(super) fn new(problem: LoadProblem) -> Self {
        Self(Box::new(problem))
    }

    /// Why there is nothing to load, if the kernel could not be compiled.
    #[must_use]
    pub fn compile_error(&self) -> Option<&CompileError> {
        match &*self.0 {
            LoadProblem::Compile(error) => Some(error),
            _ => None,
        }
    }

    /// Whether the system's loader refused the object.
    pub(super) fn is_refused_object(&self) -> bool {
        matches!(*self.0, LoadProblem::Open(_))
    }

    /// Whether this host lacks a CPU feature that the object was compiled for.
    #[must_use]
    pub fn is_missing_feature(&self) -> bool {
        matches!(*self.0, LoadProblem::MissingFeatures(_))
    }

    /// Whether the library has no such symbol.
    #[must_use]
    pub fn is_missing_symbol(&self) -> bool {
        matches!(*self.0, LoadProblem::Symbol(..))
    }
}

impl From<CompileError> for LoadError {
    fn from(error: CompileError) -> Self {
        Self::new(LoadProblem::Compile(error))
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            LoadProblem::Compile(error) => error.fmt(f),
            LoadProblem::MissingFeatures(features) => write!(
                f,
                "this host lacks CPU features that the object was compiled for ({features}); compile it here, with \
                 CpuFeatures::host()"
            ),
            LoadProblem::OtherMachine(machine) => {
                write!(f, "the object was compiled for {machine}; compile it here")
            }
            LoadProblem::Open(error) => {
                write!(
                    f,
                    "the object cannot be loaded ({}); see whether it needs a library that is missing",
                    in_full(error)
                )
            }
            LoadProblem::Symbol(name, error) => {
                write!(
                    f,
                    "the object has no symbol {name} ({}); see whether it is static or misspelt",
                    in_full(error)
                )
            }
            LoadProblem::Io(error) => write!(f, "the object cannot be put where it could be loaded: {error}"),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.0 {
            // Its words are this error's own.
            LoadProblem::Compile(error) => std::error::Error::source(error),
            LoadProblem::Open(error) | LoadProblem::Symbol(_, error) => Some(error),
            LoadProblem::Io(error) => Some(error),
            LoadProblem::MissingFeatures(_) | LoadProblem::OtherMachine(_) => None,
        }
    }
}

/// What the loader says, down to the name that it missed.
fn in_full(error: &libloading::Error) -> String {
    let source = std::error::Error::source(error);
    source.map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}
