//! nvJitLink, which links PTX and LTO-IR.

use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    ptr::null_mut,
};

use warmstart_core::program::{CodeType, TargetType};

use super::{
    error::{CudaError, CudaProblem},
    library::{Bytes, CStrings, Handle, Loaded, Status, c_string, functions, without_nul},
    toolkit::search::Part,
    unit::{Compile, Output, Unit},
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

const SUCCESS: Status = 0;
const UNRECOGNIZED_OPTION: Status = 1;
const MISSING_ARCH: Status = 2;
const UNRECOGNIZED_ARCH: Status = 16;
const UNSUPPORTED_ARCH: Status = 17;

const INPUT_PTX: c_int = 2;
const INPUT_LTO_IR: c_int = 3;

const OLDEST: c_uint = 12;
/// No release has had so many minor versions.
const MAX_MINOR: c_uint = 64;

/// nvJitLink, loaded. Its functions may be called by several threads, each with a handle of its own.
#[derive(Debug)]
pub(super) struct NvJitLink {
    functions: Functions,
    version: (c_uint, c_uint),
}

impl Compile for NvJitLink {
    const PART: Part = Part::NvJitLink;

    unsafe fn bind(library: &Loaded) -> Result<Self, CudaError> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: in every version that has the function, it has this type.
        let version: unsafe extern "C" fn(*mut c_uint, *mut c_uint) -> Status =
            unsafe { library.function("nvJitLinkVersion") }?;
        // SAFETY: both point to an `unsigned int`.
        let status = unsafe { version(&raw mut major, &raw mut minor) };
        if status != SUCCESS {
            return Err(library.unusable(format!("does not say its version ({})", name(status))));
        }
        if major < OLDEST {
            return Err(library.too_old(format!("is version {major}.{minor}")));
        }
        // A release has the interfaces of those before it too, each under names of its own.
        let spelt = |minor: c_uint, name: &str| format!("__nvJitLink{name}_{major}_{minor}");
        let newest = (0..=minor.min(MAX_MINOR)).rev().find(|minor| {
            // SAFETY: what is found is not called.
            unsafe { library.find::<unsafe extern "C" fn()>(&spelt(*minor, "Create")) }.is_some()
        });
        let newest = newest.ok_or_else(|| library.unusable(format!("has no {}", spelt(minor, "Create"))))?;
        // SAFETY: since the first version that has such names, all have these types.
        let functions = unsafe { Functions::of(library, |name| spelt(newest, name)) }?;
        Ok(Self { functions, version: (major, minor) })
    }

    fn version(&self) -> String {
        format!("{}.{}", self.version.0, self.version.1)
    }

    fn compile(&self, unit: &Unit<'_>) -> Result<Output, CudaError> {
        let kind = if unit.program.code() == CodeType::LtoIr { INPUT_LTO_IR } else { INPUT_PTX };
        let linking = Linking::new(self, unit)?;
        let own = (unit.name, &unit.texts.source[..]);
        let others = unit.program.extra_sources().iter().map(|(name, source)| (&**name, source.as_bytes()));
        for (name, source) in [own].into_iter().chain(others) {
            linking.add(kind, name, source)?;
        }
        // SAFETY: the handle is there.
        linking.check(unsafe { (self.functions.complete)(linking.handle) }, "nvJitLinkComplete")?;
        let binary = linking.binary()?;
        if binary.is_empty() {
            return Err(unit.empty(Part::NvJitLink));
        }
        Ok(Output { binary, log: linking.info_log(), lowered_names: Vec::new() })
    }
}

/// A handle of nvJitLink, destroyed when dropped.
struct Linking<'a> {
    library: &'a NvJitLink,
    unit: &'a Unit<'a>,
    handle: Handle,
}

impl<'a> Linking<'a> {
    fn new(library: &'a NvJitLink, unit: &'a Unit<'a>) -> Result<Self, CudaError> {
        let arguments = CStrings::new(unit.arguments.iter().map(String::as_bytes), "an option")?;
        let mut linking = Self { library, unit, handle: null_mut() };
        let len = u32::try_from(arguments.len()?).unwrap_or(u32::MAX);
        // SAFETY: there are as many pointers as is said, each to a text, and they last for the call.
        let status = unsafe { (library.functions.create)(&raw mut linking.handle, len, arguments.as_ptr()) };
        // A handle that was made all the same has the log, and is destroyed.
        linking.check(status, "nvJitLinkCreate")?;
        Ok(linking)
    }

    fn add(&self, kind: c_int, name: &str, source: &[u8]) -> Result<(), CudaError> {
        let name = c_string(name.as_bytes(), "the name of the program")?;
        // PTX is read as a text of C, whatever length is given: it has to end with a NUL, and that is part of it.
        let ptx = match kind {
            INPUT_PTX => Some(c_string(&without_nul(source.to_vec()), "the source")?),
            _ => None,
        };
        let source = ptx.as_deref().map_or(source, CStr::to_bytes_with_nul);
        // SAFETY: the handle is there, the source has as many bytes as is said, and the name is a text.
        let status = unsafe {
            (self.library.functions.add)(
                self.handle,
                kind,
                source.as_ptr().cast(),
                source.len(),
                name.as_ptr(),
            )
        };
        self.check(status, "nvJitLinkAddData")
    }

    fn binary(&self) -> Result<Vec<u8>, CudaError> {
        let functions = &self.library.functions;
        let target = self.unit.program.target();
        let (size, get, call) = match target {
            TargetType::Ptx => (functions.ptx_size, functions.ptx, "nvJitLinkGetLinkedPtx"),
            TargetType::Cubin => (functions.cubin_size, functions.cubin, "nvJitLinkGetLinkedCubin"),
            TargetType::LtoIr => return Ok(Vec::new()),
        };
        let check = |status| self.check(status, call);
        // SAFETY: the handle is there, and each pair is of one kind of output.
        let binary = unsafe { Bytes { size, get }.read(self.handle, Part::NvJitLink, check) }?;
        Ok(if target == TargetType::Ptx { without_nul(binary) } else { binary })
    }

    fn check(&self, status: Status, call: &'static str) -> Result<(), CudaError> {
        if status == SUCCESS {
            return Ok(());
        }
        let log = self.error_log();
        Err(match status {
            UNRECOGNIZED_ARCH | UNSUPPORTED_ARCH => {
                self.unit.unknown_architecture(Part::NvJitLink, &[], &log)
            }
            UNRECOGNIZED_OPTION | MISSING_ARCH => {
                self.unit.rejected(Part::NvJitLink, if log.is_empty() { name(status) } else { &log })
            }
            // What it says of a program comes under a dozen numbers, the one of internal errors among them.
            _ if !log.trim().is_empty() => self.unit.rejected(Part::NvJitLink, &log),
            _ => CudaError::new(CudaProblem::Failed {
                compiler: Part::NvJitLink.name(),
                call,
                status: name(status).into(),
                log,
            }),
        })
    }

    fn error_log(&self) -> String {
        let functions = &self.library.functions;
        self.log(Bytes { size: functions.error_log_size, get: functions.error_log })
    }

    fn info_log(&self) -> String {
        let functions = &self.library.functions;
        self.log(Bytes { size: functions.info_log_size, get: functions.info_log })
    }

    /// Empty if there is none.
    fn log(&self, log: Bytes) -> String {
        if self.handle.is_null() {
            return String::new();
        }
        // SAFETY: the handle is there, and these are two functions of one log.
        unsafe { log.log(self.handle) }
    }
}

impl Drop for Linking<'_> {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the handle is there, and nothing of it is used any more. That it fails changes nothing.
            let _ = unsafe { (self.library.functions.destroy)(&raw mut self.handle) };
        }
    }
}

fn name(status: Status) -> &'static str {
    match status {
        UNRECOGNIZED_OPTION => "unrecognized option",
        MISSING_ARCH => "no architecture is given",
        3 => "invalid input",
        4 => "PTX does not compile",
        5 => "NVVM IR does not compile",
        6 => "internal error",
        7 => "no threads",
        8 => "unrecognized input",
        9 => "finalizer error",
        10 => "no input",
        11 => "incompatible options",
        12 => "incorrect type of input",
        13 => "the architectures do not match",
        14 => "outdated library",
        15 => "missing fatbin",
        UNRECOGNIZED_ARCH => "unrecognized architecture",
        UNSUPPORTED_ARCH => "unsupported architecture",
        18 => "link time optimization is not enabled",
        _ => "a status without a name",
    }
}
