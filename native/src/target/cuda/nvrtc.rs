//! NVRTC, which compiles CUDA C++.

use std::{
    ffi::{CStr, c_char, c_int, c_uint},
    path::Path,
    ptr::{null, null_mut},
};

use warmstart_core::program::TargetType;

use super::{
    error::{CudaError, CudaProblem},
    library::{Bytes, CStrings, Handle, Loaded, Status, c_string, functions, without_nul},
    toolkit::search::Part,
    unit::{Compile, Output, Unit},
};

functions! {
    number_of_architectures = "nvrtcGetNumSupportedArchs": fn(*mut c_int);
    architectures = "nvrtcGetSupportedArchs": fn(*mut c_int);
    create = "nvrtcCreateProgram": fn(
        *mut Handle, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char,
    );
    destroy = "nvrtcDestroyProgram": fn(*mut Handle);
    compile = "nvrtcCompileProgram": fn(Handle, c_int, *const *const c_char);
    ptx_size = "nvrtcGetPTXSize": fn(Handle, *mut usize);
    ptx = "nvrtcGetPTX": fn(Handle, *mut c_char);
    cubin_size = "nvrtcGetCUBINSize": fn(Handle, *mut usize);
    cubin = "nvrtcGetCUBIN": fn(Handle, *mut c_char);
    lto_ir_size = "nvrtcGetLTOIRSize": fn(Handle, *mut usize);
    lto_ir = "nvrtcGetLTOIR": fn(Handle, *mut c_char);
    log_size = "nvrtcGetProgramLogSize": fn(Handle, *mut usize);
    log = "nvrtcGetProgramLog": fn(Handle, *mut c_char);
    add_name_expression = "nvrtcAddNameExpression": fn(Handle, *const c_char);
    lowered_name = "nvrtcGetLoweredName": fn(Handle, *const c_char, *mut *const c_char);
}

const SUCCESS: Status = 0;
const OUT_OF_MEMORY: Status = 1;
const INVALID_OPTION: Status = 5;
const COMPILATION: Status = 6;
const NAME_EXPRESSION_NOT_VALID: Status = 10;

/// The oldest major version: it has LTO-IR.
const OLDEST: c_int = 12;
/// A library that lists more architectures than this is not asked for them.
const MAX_ARCHITECTURES: c_int = 1024;

/// NVRTC, loaded. All of its functions may be called by several threads, each with a program of its own.
#[derive(Debug)]
pub(super) struct Nvrtc {
    functions: Functions,
    version: (c_int, c_int),
    /// What older ones do not have.
    install_headers: Option<InstallHeaders>,
}

/// `nvrtcInstallBundledHeaders`: where to, how, and where the address of a text is put that says what went wrong.
type InstallHeaders = unsafe extern "C" fn(*const c_char, c_uint, *mut *const c_char) -> Status;

/// Wait for others that do the same, and leave headers of this version as they are.
const UNLESS_THERE: c_uint = 0;

impl Compile for Nvrtc {
    const PART: Part = Part::Nvrtc;

    unsafe fn bind(library: &Loaded) -> Result<Self, CudaError> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: in every version of NVRTC the function has this type.
        let version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> Status =
            unsafe { library.function("nvrtcVersion") }?;
        // SAFETY: both point to an `int`.
        let status = unsafe { version(&raw mut major, &raw mut minor) };
        if status != SUCCESS {
            return Err(library.unusable(format!("does not say its version ({})", name(status))));
        }
        // First of all, for what an older one lacks would be a riddle.
        if major < OLDEST {
            return Err(library.too_old(format!("is version {major}.{minor}")));
        }
        // SAFETY: from version 12 on, all have these types.
        let functions = unsafe { Functions::of(library, |name| name.into()) }?;
        // SAFETY: this is its type in every version that has it.
        let install_headers = unsafe { library.find("nvrtcInstallBundledHeaders") };
        Ok(Self { functions, version: (major, minor), install_headers })
    }

    fn version(&self) -> String {
        format!("{}.{}", self.version.0, self.version.1)
    }

    fn builtins(version: &str) -> Option<String> {
        Some(if cfg!(windows) {
            format!("nvrtc-builtins64_{}.dll", version.replace('.', ""))
        } else {
            format!("libnvrtc-builtins.so.{version}")
        })
    }

    fn compile(&self, unit: &Unit<'_>) -> Result<Output, CudaError> {
        let name_expressions: Vec<_> = unit
            .program
            .name_expressions()
            .iter()
            .map(|expression| c_string(expression.as_bytes(), "a name expression"))
            .collect::<Result<_, _>>()?;
        let arguments = CStrings::new(unit.arguments.iter().map(String::as_bytes), "an option")?;
        let program = Program::new(self, unit)?;
        for expression in &name_expressions {
            // SAFETY: the program is there, and copies the text.
            let status = unsafe { (self.functions.add_name_expression)(program.handle, expression.as_ptr()) };
            check(status, "nvrtcAddNameExpression", "")?;
        }
        // SAFETY: there are as many pointers as is said, each to a text, and they last for the call.
        let status =
            unsafe { (self.functions.compile)(program.handle, arguments.len()?, arguments.as_ptr()) };
        let log = program.log();
        self.check_compiled(status, unit, &log)?;
        let binary = program.binary(unit.program.target())?;
        if binary.is_empty() {
            return Err(unit.empty(Part::Nvrtc));
        }
        let lowered_names = name_expressions.iter().map(|text| program.lowered_name(text, &log));
        let lowered_names = lowered_names.collect::<Result<_, _>>()?;
        Ok(Output { binary, log, lowered_names })
    }
}

impl Nvrtc {
    fn check_compiled(&self, status: Status, unit: &Unit<'_>, log: &str) -> Result<(), CudaError> {
        match status {
            SUCCESS => Ok(()),
            INVALID_OPTION if log.contains("--gpu-architecture") => {
                Err(unit.unknown_architecture(Part::Nvrtc, &self.architectures(), log))
            }
            COMPILATION | INVALID_OPTION | NAME_EXPRESSION_NOT_VALID => Err(unit.rejected(Part::Nvrtc, log)),
            _ => check(status, "nvrtcCompileProgram", log),
        }
    }

    /// Those that it compiles for, as options name them. None if it does not say.
    fn architectures(&self) -> Vec<String> {
        let mut len = 0;
        // SAFETY: it points to an `int`.
        let status = unsafe { (self.functions.number_of_architectures)(&raw mut len) };
        if status != SUCCESS || !(1..=MAX_ARCHITECTURES).contains(&len) {
            return Vec::new();
        }
        let mut numbers = vec![0; usize::try_from(len).unwrap_or(0)];
        // SAFETY: there are as many as the library writes.
        let status = unsafe { (self.functions.architectures)(numbers.as_mut_ptr()) };
        if status != SUCCESS {
            return Vec::new();
        }
        numbers.iter().map(|number| format!("sm_{number}")).collect()
    }
}

impl Nvrtc {
    /// Writes the headers that it brings along to a folder.
    pub(super) fn install_headers(&self, folder: &Path) -> Result<(), CudaError> {
        let Some(install) = self.install_headers else {
            return Err(CudaError::new(CudaProblem::NoHeaders(self.version())));
        };
        let path = c_string(folder.as_os_str().as_encoded_bytes(), "the name of the folder")?;
        let mut said = null();
        // SAFETY: the path is a text, and the other points to a pointer.
        let status = unsafe { install(path.as_ptr(), UNLESS_THERE, &raw mut said) };
        let log = if said.is_null() {
            String::new()
        } else {
            // SAFETY: it is a text that stays until this thread calls NVRTC again.
            unsafe { CStr::from_ptr(said) }.to_string_lossy().into_owned()
        };
        check(status, "nvrtcInstallBundledHeaders", &log)
    }
}

/// A program in NVRTC, destroyed when dropped.
struct Program<'a> {
    nvrtc: &'a Nvrtc,
    handle: Handle,
}

impl<'a> Program<'a> {
    fn new(nvrtc: &'a Nvrtc, unit: &Unit<'_>) -> Result<Self, CudaError> {
        let source = c_string(&unit.texts.source, "the source")?;
        let name = c_string(unit.name.as_bytes(), "the name of the program")?;
        let names = CStrings::new(
            unit.texts.headers.iter().map(|(name, _)| name.as_bytes()),
            "the name of a header",
        )?;
        let texts = CStrings::new(unit.texts.headers.iter().map(|(_, text)| text.as_slice()), "a header")?;
        let mut handle = null_mut();
        // SAFETY: all point to texts, and the arrays have as many as is said. The program copies what it keeps.
        let status = unsafe {
            (nvrtc.functions.create)(
                &raw mut handle,
                source.as_ptr(),
                name.as_ptr(),
                names.len()?,
                texts.as_ptr(),
                names.as_ptr(),
            )
        };
        check(status, "nvrtcCreateProgram", "")?;
        Ok(Self { nvrtc, handle })
    }

    /// Empty if there is none.
    fn log(&self) -> String {
        let functions = &self.nvrtc.functions;
        let log = Bytes { size: functions.log_size, get: functions.log };
        // SAFETY: the program is there, and these are the two functions of its log.
        unsafe { log.log(self.handle) }
    }

    fn binary(&self, target: TargetType) -> Result<Vec<u8>, CudaError> {
        let functions = &self.nvrtc.functions;
        let (size, get, call) = match target {
            TargetType::Ptx => (functions.ptx_size, functions.ptx, "nvrtcGetPTX"),
            TargetType::Cubin => (functions.cubin_size, functions.cubin, "nvrtcGetCUBIN"),
            TargetType::LtoIr => (functions.lto_ir_size, functions.lto_ir, "nvrtcGetLTOIR"),
        };
        // SAFETY: the program is there, and each pair is of one kind of output.
        let binary =
            unsafe { Bytes { size, get }.read(self.handle, Part::Nvrtc, |status| check(status, call, "")) }?;
        Ok(if target == TargetType::Ptx { without_nul(binary) } else { binary })
    }

    fn lowered_name(&self, expression: &CStr, log: &str) -> Result<String, CudaError> {
        let mut name = null();
        // SAFETY: the program is there, the text is one, and the last points to a pointer.
        let status =
            unsafe { (self.nvrtc.functions.lowered_name)(self.handle, expression.as_ptr(), &raw mut name) };
        if status == NAME_EXPRESSION_NOT_VALID || (status == SUCCESS && name.is_null()) {
            let expression = expression.to_string_lossy().into_owned();
            return Err(CudaError::new(CudaProblem::NameExpression { expression, log: log.into() }));
        }
        check(status, "nvrtcGetLoweredName", log)?;
        // SAFETY: it is a text of the program's, and is copied before the program is destroyed.
        Ok(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: the program is there, and nothing of it is used any more. That it fails changes nothing.
        let _ = unsafe { (self.nvrtc.functions.destroy)(&raw mut self.handle) };
    }
}

fn check(status: Status, call: &'static str, log: &str) -> Result<(), CudaError> {
    match status {
        SUCCESS => Ok(()),
        OUT_OF_MEMORY => Err(CudaError::new(CudaProblem::OutOfMemory(Part::Nvrtc.name()))),
        _ => Err(CudaError::new(CudaProblem::Failed {
            compiler: Part::Nvrtc.name(),
            call,
            status: name(status),
            log: log.into(),
        })),
    }
}

fn name(status: Status) -> String {
    let name = match status {
        2 => "program creation failure",
        3 => "invalid input",
        4 => "invalid program",
        INVALID_OPTION => "invalid option",
        COMPILATION => "compilation",
        7 => "builtin operation failure",
        11 => "internal error",
        16 => "cancelled",
        18 => "busy",
        _ => return format!("status {status}"),
    };
    format!("{name} (status {status})")
}
