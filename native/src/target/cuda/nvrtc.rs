//! NVRTC, which compiles CUDA C++.

use std::{
    ffi::{CStr, c_char, c_int},
    ptr::null,
    sync::Arc,
};

use warmstart_core::program::TargetType;

use super::{
    error::{CudaError, CudaProblem},
    library::{Bytes, CStrings, Handle, Loaded, Status, c_string, functions},
    toolkit::part::Part,
    unit::{Bound, Compile, Output, Session, Unit},
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

/// The most architectures that are read from a library; a library that has more is not asked for them.
const MAX_ARCHITECTURES: c_int = 1024;

/// Looks up the functions of NVRTC.
///
/// # Safety
/// It is that library, and is never unloaded.
pub(super) unsafe fn bind(library: &Loaded) -> Result<Bound, CudaError> {
    // SAFETY: in every version of NVRTC the function has this type.
    let (major, minor) = unsafe { library.version("nvrtcVersion") }?;
    // SAFETY: from version 12 on, which has LTO-IR, all have these types.
    let functions = unsafe { Functions::of(library, |name| name.into()) }?;
    Ok((Arc::new(functions), format!("{major}.{minor}")))
}

/// NVRTC. All of its functions may be called by several threads, each with a program of its own.
impl Compile for Functions {
    fn compile(&self, unit: &Unit<'_>) -> Result<Output, CudaError> {
        let expressions = unit.description.name_expressions.iter();
        let expressions = expressions.map(|expression| c_string(expression.as_bytes(), "a name expression"));
        let expressions: Vec<_> = expressions.collect::<Result<_, _>>()?;
        let arguments = CStrings::new(unit.arguments.iter().map(String::as_bytes), "an option")?;
        let source = c_string(&unit.texts.source, "the source")?;
        let name = c_string(unit.texts.name.as_bytes(), "the name of the program")?;
        let headers = || unit.texts.headers.iter();
        let names = CStrings::new(headers().map(|(name, _)| name.as_bytes()), "the name of a header")?;
        let texts = CStrings::new(headers().map(|(_, text)| text.as_slice()), "a header")?;

        let judge = |status, log: &str| self.judge(unit, status, log);
        let log = Bytes { size: self.log_size, get: self.log };
        // SAFETY: all these functions are of one library.
        let mut session = unsafe { Session::new(Part::Nvrtc, unit, self.destroy, log, &judge) };
        // SAFETY: all point to texts, and the arrays have as many as is said. The program copies what it keeps.
        let status = unsafe {
            (self.create)(
                &raw mut session.handle,
                source.as_ptr(),
                name.as_ptr(),
                names.len(),
                texts.as_ptr(),
                names.as_ptr(),
            )
        };
        session.check(status, "nvrtcCreateProgram")?;
        for expression in &expressions {
            // SAFETY: the program is there, and copies the text.
            let status = unsafe { (self.add_name_expression)(session.handle, expression.as_ptr()) };
            session.check(status, "nvrtcAddNameExpression")?;
        }
        // SAFETY: there are as many pointers as is said, each to a text, and they last for the call.
        let status = unsafe { (self.compile)(session.handle, arguments.len(), arguments.as_ptr()) };
        session.check(status, "nvrtcCompileProgram")?;
        let (size, get, call) = match unit.description.target {
            TargetType::Ptx => (self.ptx_size, self.ptx, "nvrtcGetPTX"),
            TargetType::Cubin => (self.cubin_size, self.cubin, "nvrtcGetCUBIN"),
            TargetType::LtoIr => (self.lto_ir_size, self.lto_ir, "nvrtcGetLTOIR"),
        };
        // SAFETY: each pair is of one kind of output.
        let binary = unsafe { session.binary(Bytes { size, get }, call) }?;
        let lowered_names = expressions.iter().map(|expression| self.lowered_name(&session, expression));
        Ok(Output { binary, lowered_names: lowered_names.collect::<Result<_, _>>()?, log: session.log() })
    }
}

impl Functions {
    fn judge(&self, unit: &Unit<'_>, status: Status, log: &str) -> Option<CudaError> {
        match status {
            OUT_OF_MEMORY => Some(CudaError::new(CudaProblem::OutOfMemory(Part::Nvrtc))),
            INVALID_OPTION if log.contains("--gpu-architecture") => {
                Some(unit.unknown_architecture(Part::Nvrtc, &self.architectures(), log))
            }
            COMPILATION | INVALID_OPTION | NAME_EXPRESSION_NOT_VALID => Some(unit.rejected(Part::Nvrtc, log)),
            _ => None,
        }
    }

    fn lowered_name(&self, session: &Session<'_>, expression: &CStr) -> Result<String, CudaError> {
        let mut name = null();
        // SAFETY: the program is there, the text is one, and the last points to a pointer.
        let status = unsafe { (self.lowered_name)(session.handle, expression.as_ptr(), &raw mut name) };
        if status == NAME_EXPRESSION_NOT_VALID || (status == SUCCESS && name.is_null()) {
            let expression = expression.to_string_lossy().into_owned();
            return Err(CudaError::new(CudaProblem::NameExpression { expression, log: session.log() }));
        }
        session.check(status, "nvrtcGetLoweredName")?;
        // SAFETY: it is a text of the program's, and is copied before the program is destroyed.
        Ok(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
    }

    /// Returns the supported architectures as options name them. Empty if the library does not list them.
    fn architectures(&self) -> Vec<String> {
        let mut len = 0;
        // SAFETY: it points to an `int`.
        let status = unsafe { (self.number_of_architectures)(&raw mut len) };
        if status != SUCCESS || !(1..=MAX_ARCHITECTURES).contains(&len) {
            return Vec::new();
        }
        let mut numbers = vec![0; usize::try_from(len).unwrap_or(0)];
        // SAFETY: there are as many as the library writes.
        let status = unsafe { (self.architectures)(numbers.as_mut_ptr()) };
        if status != SUCCESS {
            return Vec::new();
        }
        numbers.iter().map(|number| format!("sm_{number}")).collect()
    }
}
