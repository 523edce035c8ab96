//! What is handed to a compiler, what it hands back, and the session in between.

use std::ptr::null_mut;

use warmstart_core::program::{self, CodeType, TargetType};

use super::{
    error::{CudaError, CudaProblem},
    headers::Closed,
    library::{Bytes, Handle, Loaded, Status, without_nul},
    toolkit::search::Part,
};

/// One program as a compiler is given it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit<'a> {
    pub(super) program: &'a program::Program<'static>,
    /// What the compiler calls it.
    pub(super) name: &'a str,
    /// The source and the headers of CUDA C++.
    pub(super) texts: &'a Closed,
    pub(super) arguments: &'a [String],
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
    /// In the order of the program's name expressions.
    pub(super) lowered_names: Vec<String>,
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
            part,
            program: self.name.into(),
            log: log.into(),
            places: String::new(),
        })
    }

    pub(super) fn unknown_architecture(&self, part: Part, known: &[String], log: &str) -> CudaError {
        let known =
            if known.is_empty() { log.trim().into() } else { format!("it knows {}", known.join(", ")) };
        CudaError::new(CudaProblem::UnknownArchitecture {
            part,
            architecture: self.architecture().unwrap_or("that it chooses itself").into(),
            known,
            log: log.into(),
        })
    }

    pub(super) fn empty(&self, part: Part) -> CudaError {
        let advice = match (self.program.target(), self.program.code()) {
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
            part,
            program: self.name.into(),
            target: match self.program.target() {
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

/// A program in a compiler's library, destroyed when dropped.
pub(super) struct Session<'a> {
    /// Null until the library gave one.
    pub(super) handle: Handle,
    part: Part,
    unit: &'a Unit<'a>,
    destroy: unsafe extern "C" fn(*mut Handle) -> Status,
    log: Bytes,
    /// What a status that is no success says of the program, with the log; nothing if it says nothing of that.
    judge: &'a dyn Fn(Status, &str) -> Option<CudaError>,
}

impl<'a> Session<'a> {
    /// Begins a session without a handle.
    ///
    /// # Safety
    /// The functions are of the library from which the handle will be.
    pub(super) unsafe fn new(
        part: Part,
        unit: &'a Unit<'a>,
        destroy: unsafe extern "C" fn(*mut Handle) -> Status,
        log: Bytes,
        judge: &'a dyn Fn(Status, &str) -> Option<CudaError>,
    ) -> Self {
        Self { handle: null_mut(), part, unit, destroy, log, judge }
    }

    pub(super) fn check(&self, status: Status, call: &'static str) -> Result<(), CudaError> {
        if status == 0 {
            return Ok(());
        }
        let log = self.log();
        Err((self.judge)(status, &log)
            .unwrap_or_else(|| CudaError::new(CudaProblem::Failed { part: self.part, call, status, log })))
    }

    /// The output, which is never empty.
    ///
    /// # Safety
    /// They are the two functions of an output of this library.
    pub(super) unsafe fn binary(&self, output: Bytes, call: &'static str) -> Result<Vec<u8>, CudaError> {
        // SAFETY: the handle is there where a call succeeded, and the caller vouches for the functions.
        let binary = unsafe { output.read(self.handle) };
        let binary = binary.or_else(|status| self.check(status, call).map(|()| Some(Vec::new())))?;
        let binary = binary.ok_or_else(|| CudaError::new(CudaProblem::OutOfMemory(self.part)))?;
        let is_ptx = self.unit.program.target() == TargetType::Ptx;
        let binary = if is_ptx { without_nul(binary) } else { binary };
        if binary.is_empty() { Err(self.unit.empty(self.part)) } else { Ok(binary) }
    }

    /// What the compiler wrote. Empty if there is none.
    pub(super) fn log(&self) -> String {
        // SAFETY: the handle is there, and these are the two functions of its log.
        if self.handle.is_null() { String::new() } else { unsafe { self.log.log(self.handle) } }
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the handle is there, and nothing of it is used any more. That it fails changes nothing.
            let _ = unsafe { (self.destroy)(&raw mut self.handle) };
        }
    }
}
