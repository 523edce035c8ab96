//! NVVM, which compiles NVVM IR.

use std::{
    ffi::{c_char, c_int},
    sync::Arc,
};

use super::{
    error::{CudaError, CudaProblem},
    library::{Bytes, CStrings, Handle, Loaded, Status, c_string, functions},
    toolkit::part::Part,
    unit::{Bound, Compile, Output, Session, Unit},
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

/// Looks up the functions of NVVM.
///
/// # Safety
/// It is that library, and is never unloaded.
pub(super) unsafe fn bind(library: &Loaded) -> Result<Bound, CudaError> {
    // SAFETY: since the first version, what it has of these has these types.
    let functions = unsafe { Functions::of(library, |name| name.into()) }?;
    let (mut major, mut minor) = (0, 0);
    let mut ir = [0; 4];
    let [a, b, c, d] = &mut ir;
    // SAFETY: all point to an `int`.
    let statuses =
        unsafe { [(functions.version)(&raw mut major, &raw mut minor), (functions.ir_version)(a, b, c, d)] };
    if let Some(status) = statuses.into_iter().find(|status| *status != SUCCESS) {
        return Err(library.unusable(format!("does not say its version (status {status})")));
    }
    let [ir_major, ir_minor, debug_major, debug_minor] = ir;
    let version = format!("{major}.{minor} IR {ir_major}.{ir_minor} debug {debug_major}.{debug_minor}");
    Ok((Arc::new(functions), version))
}

/// NVVM. Its functions may be called by several threads, each with a program of its own.
impl Compile for Functions {
    fn compile(&self, unit: &Unit<'_>) -> Result<Output, CudaError> {
        let arguments = CStrings::new(unit.arguments.iter().map(String::as_bytes), "an option")?;
        let judge = |status, log: &str| judge(unit, status, log);
        let log = Bytes { size: self.log_size, get: self.log };
        // SAFETY: all these functions are of one library.
        let mut session = unsafe { Session::new(Part::Nvvm, unit, self.destroy, log, &judge) };
        // SAFETY: it points to a handle.
        let status = unsafe { (self.create)(&raw mut session.handle) };
        session.check(status, "nvvmCreateProgram")?;

        let extra = unit.description.extra_sources.iter();
        let extra = extra.map(|(name, source)| (self.add, &**name, &**source));
        // Lazily: only the functions that the program calls are linked.
        let libdevice = unit.libdevice.map(|libdevice| (self.add_lazily, "libdevice", libdevice));
        let own = [(self.add, &*unit.texts.name, &unit.texts.source[..])];
        for (add, name, source) in own.into_iter().chain(extra).chain(libdevice) {
            let name = c_string(name.as_bytes(), "the name of a module")?;
            // SAFETY: the program is there, the source has as many bytes as is said, and the name is a text.
            let status = unsafe { add(session.handle, source.as_ptr().cast(), source.len(), name.as_ptr()) };
            session.check(status, "nvvmAddModuleToProgram")?;
        }
        // Verified first, because invalid programs have crashed compilers.
        for (call, name) in [(self.verify, "nvvmVerifyProgram"), (self.compile, "nvvmCompileProgram")] {
            // SAFETY: there are as many pointers as is said, each to a text, and they last for the call.
            let status = unsafe { call(session.handle, arguments.len(), arguments.as_ptr()) };
            session.check(status, name)?;
        }
        let result = Bytes { size: self.result_size, get: self.result };
        // SAFETY: these are the two functions of the result.
        let binary = unsafe { session.binary(result, "nvvmGetCompiledResult") }?;
        Ok(Output { binary, log: session.log(), lowered_names: Vec::new() })
    }
}

fn judge(unit: &Unit<'_>, status: Status, log: &str) -> Option<CudaError> {
    let said = if log.trim().is_empty() { "it is no NVVM IR that this NVVM reads" } else { log };
    match status {
        OUT_OF_MEMORY => Some(CudaError::new(CudaProblem::OutOfMemory(Part::Nvvm))),
        INVALID_OPTION if log.contains("-arch=") => Some(unit.unknown_architecture(Part::Nvvm, &[], log)),
        IR_VERSION_MISMATCH | INVALID_INPUT | INVALID_IR | INVALID_OPTION | COMPILATION => {
            Some(unit.rejected(Part::Nvvm, said))
        }
        _ => None,
    }
}
