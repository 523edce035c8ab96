//! NVVM, which compiles NVVM IR.

use std::{
    ffi::{c_char, c_int},
    ptr::null_mut,
};

use warmstart_core::program::TargetType;

use super::{
    error::{CudaError, CudaProblem},
    library::{Bytes, CStrings, Handle, Loaded, Status, c_string, functions, without_nul},
    toolkit::search::Part,
    unit::{Compile, Output, Unit},
};

functions! {
    version = "nvvmVersion": fn(*mut c_int, *mut c_int);
    ir_version = "nvvmIRVersion": fn(*mut c_int, *mut c_int, *mut c_int, *mut c_int);
    create = "nvvmCreateProgram": fn(*mut Handle);
    destroy = "nvvmDestroyProgram": fn(*mut Handle);
    add = "nvvmAddModuleToProgram": fn(Handle, *const c_char, usize, *const c_char);
    add_lazily = "nvvmLazyAddModuleToProgram": fn(Handle, *const c_char, usize, *const c_char);
    verify = "nvvmVerifyProgram": fn(Handle, c_int, *const *const c_char);
    compile = "nvvmCompileProgram": fn(Handle, c_int, *const *const c_char);
    result_size = "nvvmGetCompiledResultSize": fn(Handle, *mut usize);
    result = "nvvmGetCompiledResult": fn(Handle, *mut c_char);
    log_size = "nvvmGetProgramLogSize": fn(Handle, *mut usize);
    log = "nvvmGetProgramLog": fn(Handle, *mut c_char);
}

const SUCCESS: Status = 0;
const OUT_OF_MEMORY: Status = 1;
const IR_VERSION_MISMATCH: Status = 3;
const INVALID_INPUT: Status = 4;
const INVALID_IR: Status = 6;
const INVALID_OPTION: Status = 7;
const COMPILATION: Status = 9;

/// NVVM, loaded. Its functions may be called by several threads, each with a program of its own.
#[derive(Debug)]
pub(super) struct Nvvm {
    functions: Functions,
    version: String,
}

impl Compile for Nvvm {
    const PART: Part = Part::Nvvm;

    unsafe fn bind(library: &Loaded) -> Result<Self, CudaError> {
        // SAFETY: since the first version, what it has of these has these types.
        let functions = unsafe { Functions::of(library, |name| name.into()) }?;
        let (mut major, mut minor) = (0, 0);
        let mut ir = [0; 4];
        let [a, b, c, d] = &mut ir;
        // SAFETY: all point to an `int`.
        let statuses = unsafe {
            [(functions.version)(&raw mut major, &raw mut minor), (functions.ir_version)(a, b, c, d)]
        };
        if let Some(status) = statuses.into_iter().find(|status| *status != SUCCESS) {
            return Err(library.unusable(format!("does not say its version ({})", name(status))));
        }
        let [ir_major, ir_minor, debug_major, debug_minor] = ir;
        let version = format!("{major}.{minor} IR {ir_major}.{ir_minor} debug {debug_major}.{debug_minor}");
        Ok(Self { functions, version })
    }

    fn version(&self) -> String {
        self.version.clone()
    }

    fn compile(&self, unit: &Unit<'_>) -> Result<Output, CudaError> {
        let arguments = CStrings::new(unit.arguments.iter().map(String::as_bytes), "an option")?;
        let program = Program::new(self, unit)?;
        program.add(self.functions.add, unit.name, &unit.texts.source)?;
        for (name, source) in unit.program.extra_sources() {
            program.add(self.functions.add, name, source.as_bytes())?;
        }
        if let Some(libdevice) = unit.libdevice {
            // Lazily: only what the program calls.
            program.add(self.functions.add_lazily, "libdevice", libdevice)?;
        }
        // What is invalid has crashed compilers that were not asked to verify it first.
        for (call, name) in
            [(self.functions.verify, "nvvmVerifyProgram"), (self.functions.compile, "nvvmCompileProgram")]
        {
            // SAFETY: there are as many pointers as is said, each to a text, and they last for the call.
            let status = unsafe { call(program.handle, arguments.len()?, arguments.as_ptr()) };
            program.check(status, name)?;
        }
        let binary = program.binary()?;
        if binary.is_empty() {
            return Err(unit.empty(Part::Nvvm));
        }
        Ok(Output { binary, log: program.log(), lowered_names: Vec::new() })
    }
}

/// A program in NVVM, destroyed when dropped.
struct Program<'a> {
    nvvm: &'a Nvvm,
    unit: &'a Unit<'a>,
    handle: Handle,
}

impl<'a> Program<'a> {
    fn new(nvvm: &'a Nvvm, unit: &'a Unit<'a>) -> Result<Self, CudaError> {
        let mut program = Self { nvvm, unit, handle: null_mut() };
        // SAFETY: it points to a handle.
        let status = unsafe { (nvvm.functions.create)(&raw mut program.handle) };
        program.check(status, "nvvmCreateProgram")?;
        Ok(program)
    }

    fn add(
        &self,
        add: unsafe extern "C" fn(Handle, *const c_char, usize, *const c_char) -> Status,
        name: &str,
        source: &[u8],
    ) -> Result<(), CudaError> {
        let name = c_string(name.as_bytes(), "the name of a module")?;
        // SAFETY: the program is there, the source has as many bytes as is said, and the name is a text.
        let status = unsafe { add(self.handle, source.as_ptr().cast(), source.len(), name.as_ptr()) };
        self.check(status, "nvvmAddModuleToProgram")
    }

    fn binary(&self) -> Result<Vec<u8>, CudaError> {
        let functions = &self.nvvm.functions;
        let result = Bytes { size: functions.result_size, get: functions.result };
        let check = |status| self.check(status, "nvvmGetCompiledResult");
        // SAFETY: the program is there, and these are the two functions of its result.
        let binary = unsafe { result.read(self.handle, Part::Nvvm, check) }?;
        Ok(if self.unit.program.target() == TargetType::Ptx { without_nul(binary) } else { binary })
    }

    /// Empty if there is none.
    fn log(&self) -> String {
        if self.handle.is_null() {
            return String::new();
        }
        let functions = &self.nvvm.functions;
        let log = Bytes { size: functions.log_size, get: functions.log };
        // SAFETY: the program is there, and these are the two functions of its log.
        unsafe { log.log(self.handle) }
    }

    fn check(&self, status: Status, call: &'static str) -> Result<(), CudaError> {
        if status == SUCCESS {
            return Ok(());
        }
        let log = self.log();
        Err(match status {
            OUT_OF_MEMORY => CudaError::new(CudaProblem::OutOfMemory(Part::Nvvm.name())),
            INVALID_OPTION if log.contains("-arch=") => self.unit.unknown_architecture(Part::Nvvm, &[], &log),
            IR_VERSION_MISMATCH | INVALID_INPUT | INVALID_IR | INVALID_OPTION | COMPILATION => {
                self.unit.rejected(Part::Nvvm, if log.trim().is_empty() { name(status) } else { &log })
            }
            _ => CudaError::new(CudaProblem::Failed {
                compiler: Part::Nvvm.name(),
                call,
                status: name(status).into(),
                log,
            }),
        })
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the program is there, and nothing of it is used any more. That it fails changes nothing.
            let _ = unsafe { (self.nvvm.functions.destroy)(&raw mut self.handle) };
        }
    }
}

fn name(status: Status) -> &'static str {
    match status {
        2 => "the program cannot be created",
        IR_VERSION_MISMATCH => "the version of the IR does not match",
        INVALID_INPUT => "invalid input",
        5 => "invalid program",
        INVALID_IR => "invalid IR",
        INVALID_OPTION => "invalid option",
        8 => "no module in the program",
        COMPILATION => "compilation",
        10 => "cancelled",
        _ => "a status without a name",
    }
}
