//! What is handed to a compiler, and what it hands back.

use warmstart_core::program::{CodeType, NameExpression, Source, TargetType};

use super::{
    error::{CudaError, CudaProblem},
    library::Loaded,
    toolkit::search::Part,
};

/// One program, closed: the compiler reads nothing else.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit<'a> {
    pub(super) code: CodeType,
    pub(super) target: TargetType,
    pub(super) name: &'a str,
    pub(super) source: &'a [u8],
    /// In-memory headers of CUDA C++, by the names that directives have.
    pub(super) headers: &'a [(String, Vec<u8>)],
    pub(super) arguments: &'a [String],
    pub(super) name_expressions: &'a [NameExpression],
    /// More modules in the language of the program, with their names.
    pub(super) extra_sources: &'a [(String, Source<'static>)],
    /// For NVVM.
    pub(super) libdevice: Option<&'a [u8]>,
}

/// What a compiler made. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Output {
    /// PTX has no NUL at its end.
    pub(super) binary: Vec<u8>,
    /// What the compiler said although it succeeded.
    pub(super) log: String,
    /// In the order of the unit's.
    pub(super) lowered_names: Vec<(NameExpression, String)>,
}

/// A compiler's library.
pub(super) trait Compile: Sized {
    /// Which.
    const PART: Part;

    /// Looks its functions up.
    ///
    /// # Safety
    /// It is that library, and is never unloaded.
    unsafe fn bind(library: &Loaded) -> Result<Self, CudaError>;

    /// What it says its version is.
    fn version(&self) -> String;

    /// The file that it loads when it is of this version and compiles, by the name under which it does.
    fn builtins(version: &str) -> Option<String> {
        let _ = version;
        None
    }

    fn compile(&self, unit: &Unit<'_>) -> Result<Output, CudaError>;
}

impl Unit<'_> {
    pub(super) fn rejected(&self, part: Part, log: &str) -> CudaError {
        CudaError::new(CudaProblem::Rejected {
            compiler: part.name(),
            program: self.name.into(),
            log: log.into(),
            places: Vec::new(),
        })
    }

    pub(super) fn unknown_architecture(&self, part: Part, known: Vec<String>, log: &str) -> CudaError {
        CudaError::new(CudaProblem::UnknownArchitecture {
            compiler: part.name(),
            architecture: self.architecture().unwrap_or("that it chooses itself").into(),
            known,
            log: log.into(),
        })
    }

    pub(super) fn empty(&self, part: Part) -> CudaError {
        let advice = match (self.target, self.code) {
            (TargetType::LtoIr, CodeType::Cxx) => {
                "it makes LTO-IR with link_time_optimization only, so set that"
            }
            (TargetType::LtoIr, _) => "see whether the program has anything in it",
            (TargetType::Cubin, _) if self.architecture().is_some_and(|name| name.contains("compute_")) => {
                "a CUBIN is of a real architecture, so name one, such as sm_90 for compute_90"
            }
            _ if self.has("-dlto") || self.has("--dlink-time-opt") => {
                "with link_time_optimization it makes LTO-IR only, so ask for that or remove the option"
            }
            _ => "see whether the program has anything in it",
        };
        CudaError::new(CudaProblem::Empty {
            compiler: part.name(),
            program: self.name.into(),
            target: match self.target {
                TargetType::Ptx => "PTX",
                TargetType::Cubin => "CUBIN",
                TargetType::LtoIr => "LTO-IR",
            },
            advice,
        })
    }

    fn has(&self, option: &str) -> bool {
        self.arguments.iter().any(|argument| argument.split('=').next() == Some(option))
    }

    /// The one that the last option names.
    pub(super) fn architecture(&self) -> Option<&str> {
        self.arguments.iter().rev().find_map(|argument| {
            let (option, value) = argument.split_once('=')?;
            ["-arch", "--gpu-architecture", "--arch"].contains(&option).then_some(value)
        })
    }
}
