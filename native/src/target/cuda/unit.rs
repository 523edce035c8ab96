//! The input of a compiler, its output, and the session in between.

use std::{fmt::Debug, ptr::null_mut, sync::Arc};

use warmstart_core::program::{Description, TargetType};

use super::{
    error::{CudaError, CudaProblem},
    headers::Closed,
    library::{Bytes, Handle, Status, without_nul},
    toolkit::part::Part,
};

/// A program as a compiler gets it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit<'a> {
    pub(super) description: &'a Description<'static>,
    /// The source, its name, and the headers of CUDA C++.
    pub(super) texts: &'a Closed,
    pub(super) arguments: &'a [String],
    /// The contents of libdevice, for NVVM.
    pub(super) libdevice: Option<&'a [u8]>,
}

/// The output of a compiler. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Output {
    /// PTX has no NUL at its end.
    pub(super) binary: Vec<u8>,
    /// The compiler's log: warnings and reports.
    pub(super) log: String,
    /// The lowered names, in the order of the program's name expressions.
    pub(super) lowered_names: Vec<String>,
}

/// The functions of a compiler's library.
pub(super) trait Compile: Debug + Send + Sync {
    fn compile(&self, unit: &Unit<'_>) -> Result<Output, CudaError>;
}

/// A compiler, and the version that its library reports.
pub(super) type Bound = (Arc<dyn Compile>, String);

impl Unit<'_> {
    pub(super) fn rejected(&self, part: Part, log: &str) -> CudaError {
        CudaError::new(CudaProblem::Rejected {
            part,
            program: self.texts.name.clone(),
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
        CudaError::new(CudaProblem::Empty {
            part,
            program: self.texts.name.clone(),
            target: match self.description.target {
                TargetType::Ptx => "PTX",
                TargetType::Cubin => "CUBIN",
                TargetType::LtoIr => "LTO-IR",
            },
        })
    }

    /// Returns the architecture that the last option names.
    pub(super) fn architecture(&self) -> Option<&str> {
        self.arguments.iter().rev().find_map(|argument| {
            let (option, value) = argument.split_once('=')?;
            ["-arch", "--gpu-architecture", "--arch"].contains(&option).then_some(value)
        })
    }
}

/// A program in a compiler's library, destroyed when dropped.
pub(super) struct Session<'a> {
    /// Null until the library returned one.
    pub(super) handle: Handle,
    part: Part,
    unit: &'a Unit<'a>,
    destroy: unsafe extern "C" fn(*mut Handle) -> Status,
    log: Bytes,
    /// Turns an unsuccessful status and the log into an error about the program; `None` if it is about something else.
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

    /// Reads the output, which is never empty.
    ///
    /// # Safety
    /// They are the two functions of an output of this library.
    pub(super) unsafe fn binary(&self, output: Bytes, call: &'static str) -> Result<Vec<u8>, CudaError> {
        // SAFETY: the handle is there where a call succeeded, and the caller vouches for the functions.
        let binary = unsafe { output.read(self.handle) };
        let binary = binary.or_else(|status| self.check(status, call).map(|()| Some(Vec::new())))?;
        let binary = binary.ok_or_else(|| CudaError::new(CudaProblem::OutOfMemory(self.part)))?;
        let is_ptx = self.unit.description.target == TargetType::Ptx;
        let binary = if is_ptx { without_nul(binary) } else { binary };
        if binary.is_empty() { Err(self.unit.empty(self.part)) } else { Ok(binary) }
    }

    /// Returns the compiler's log. Empty if there is none.
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
