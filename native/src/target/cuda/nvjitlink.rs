//! nvJitLink, which links PTX and LTO-IR.

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    sync::Arc,
};

use warmstart_core::program::{CodeType, TargetType};

use super::{
    error::CudaError,
    library::{Bytes, CStrings, Handle, Loaded, Status, c_string, functions, without_nul},
    toolkit::part::Part,
    unit::{Bound, Compile, Output, Session, Unit},
};

functions! {
    create = "Create": fn(*mut Handle, u32, *const *const c_char);
    destroy = "Destroy": fn(*mut Handle);
    add = "AddData": fn(Handle, c_int, *const c_void, usize, *const c_char);
    complete = "Complete": fn(Handle);
    cubin_size = "GetLinkedCubinSize": fn(Handle, *mut usize);
    cubin = "GetLinkedCubin": fn(Handle, *mut c_char);
    ptx_size = "GetLinkedPtxSize": fn(Handle, *mut usize);
    ptx = "GetLinkedPtx": fn(Handle, *mut c_char);
    error_log_size = "GetErrorLogSize": fn(Handle, *mut usize);
    error_log = "GetErrorLog": fn(Handle, *mut c_char);
    info_log_size = "GetInfoLogSize": fn(Handle, *mut usize);
    info_log = "GetInfoLog": fn(Handle, *mut c_char);
}

const UNRECOGNIZED_OPTION: Status = 1;
const MISSING_ARCH: Status = 2;
const UNRECOGNIZED_ARCH: Status = 16;
const UNSUPPORTED_ARCH: Status = 17;

const INPUT_PTX: c_int = 2;
const INPUT_LTO_IR: c_int = 3;

/// A bound on minor versions, which no release has reached.
const MAX_MINOR: c_int = 64;

/// Looks up the functions of nvJitLink.
///
/// # Safety
/// It is that library, and is never unloaded.
pub(super) unsafe fn bind(library: &Loaded) -> Result<Bound, CudaError> {
    // SAFETY: in every version that has the function, it takes two places for an `unsigned int`.
    let (major, minor) = unsafe { library.version("nvJitLinkVersion") }?;
    // A release also has the interfaces of earlier ones, each under its own names.
    let spelt = |minor: c_int, name: &str| format!("__nvJitLink{name}_{major}_{minor}");
    let newest = (0..=minor.min(MAX_MINOR)).rev().find(|minor| {
        // SAFETY: the function is not called.
        unsafe { library.find::<unsafe extern "C" fn()>(&spelt(*minor, "Create")) }.is_some()
    });
    let newest = newest.ok_or_else(|| library.unusable(format!("has no {}", spelt(minor, "Create"))))?;
    // SAFETY: since the first version that has such names, all have these types.
    let functions = unsafe { Functions::of(library, |name| spelt(newest, name)) }?;
    Ok((Arc::new(functions), format!("{major}.{minor}")))
}

/// nvJitLink. Its functions may be called by several threads, each with a handle of its own.
impl Compile for Functions {
    fn compile(&self, unit: &Unit<'_>) -> Result<Output, CudaError> {
        let arguments = CStrings::new(unit.arguments.iter().map(String::as_bytes), "an option")?;
        let len = u32::try_from(arguments.len()).unwrap_or(u32::MAX);
        let judge = |status, log: &str| judge(unit, status, log);
        let log = Bytes { size: self.error_log_size, get: self.error_log };
        // SAFETY: all these functions are of one library.
        let mut session = unsafe { Session::new(Part::NvJitLink, unit, self.destroy, log, &judge) };
        // SAFETY: there are as many pointers as is said, each to a text, and they last for the call.
        let status = unsafe { (self.create)(&raw mut session.handle, len, arguments.as_ptr()) };
        session.check(status, "nvJitLinkCreate")?;

        let kind = if unit.description.code == CodeType::LtoIr { INPUT_LTO_IR } else { INPUT_PTX };
        let own = (&*unit.texts.name, &unit.texts.source[..]);
        let others = unit.description.extra_sources.iter().map(|(name, source)| (&**name, &**source));
        for (name, source) in [own].into_iter().chain(others) {
            let name = c_string(name.as_bytes(), "the name of the program")?;
            // PTX is read as a C string, whatever length is given: it must end with a NUL, which counts.
            let ptx = match kind {
                INPUT_PTX => Some(c_string(&without_nul(source.to_vec()), "the source")?),
                _ => None,
            };
            let source = ptx.as_deref().map_or(source, CStr::to_bytes_with_nul);
            let (bytes, len) = (source.as_ptr().cast(), source.len());
            // SAFETY: the handle is there, the source has as many bytes as is said, and the name is a text.
            let status = unsafe { (self.add)(session.handle, kind, bytes, len, name.as_ptr()) };
            session.check(status, "nvJitLinkAddData")?;
        }
        // SAFETY: the handle is there.
        session.check(unsafe { (self.complete)(session.handle) }, "nvJitLinkComplete")?;
        let (size, get, call) = match unit.description.target {
            TargetType::Ptx => (self.ptx_size, self.ptx, "nvJitLinkGetLinkedPtx"),
            TargetType::Cubin => (self.cubin_size, self.cubin, "nvJitLinkGetLinkedCubin"),
            TargetType::LtoIr => return Err(unit.empty(Part::NvJitLink)),
        };
        // SAFETY: each pair is of one kind of output.
        let binary = unsafe { session.binary(Bytes { size, get }, call) }?;
        let info = Bytes { size: self.info_log_size, get: self.info_log };
        // SAFETY: the handle is there, and these are two functions of one log.
        Ok(Output { binary, log: unsafe { info.log(session.handle) }, lowered_names: Vec::new() })
    }
}

fn judge(unit: &Unit<'_>, status: Status, log: &str) -> Option<CudaError> {
    match status {
        UNRECOGNIZED_ARCH | UNSUPPORTED_ARCH => Some(unit.unknown_architecture(Part::NvJitLink, &[], log)),
        // Errors of a program have a dozen different statuses, the one of internal errors among them.
        _ if !log.trim().is_empty() => Some(unit.rejected(Part::NvJitLink, log)),
        UNRECOGNIZED_OPTION => Some(unit.rejected(Part::NvJitLink, "it does not know one of the options")),
        MISSING_ARCH => Some(unit.rejected(Part::NvJitLink, "no architecture is given")),
        _ => None,
    }
}
