//! The library, and what it says about itself.

use std::{error::Error as _, ffi::CStr, fmt, path::Path, ptr, slice};

use libloading::Library as Loaded;
use warmstart::target::xnnpack::{FingerprintFn, abi::Fingerprint};

use super::{
    Error, Status,
    abi::{Answer, Functions},
};
use crate::runtimes::XNNPACK_FILE;

/// The libraries that it needs, each after its own dependencies.
const NEEDED: [&str; 2] = ["libexecutorch.so", "libexecutorch_threadpool.so"];

/// An XNNPACK that was loaded and initialised. It stays loaded.
pub struct Library {
    pub(super) functions: Functions,
}

impl Library {
    /// Loads and initialises the one in this folder.
    ///
    /// # Errors
    ///
    /// If it, or a function in it, is not found, and if XNNPACK cannot run on this machine.
    ///
    /// # Safety
    ///
    /// The libraries in the folder are an XNNPACK of the pinned release and what it needs. Loading runs their code.
    pub unsafe fn load(folder: &Path) -> Result<Self, Error> {
        let load = |file: &str| {
            let path = folder.join(file);
            // SAFETY: the caller vouches for what is in the folder.
            unsafe { open(&path) }.map_err(|error| failed(&path.to_string_lossy(), &error))
        };
        for needed in NEEDED {
            // By name they are found again once they are loaded, wherever XNNPACK looks for them.
            std::mem::forget(load(needed)?);
        }
        let library = load(XNNPACK_FILE)?;
        // SAFETY: the caller vouches for the release, and it is forgotten below, which keeps it loaded.
        let functions = unsafe { Functions::of(&library) }.map_err(|error| failed(XNNPACK_FILE, &error))?;
        std::mem::forget(library);
        // SAFETY: null asks for XNNPACK's own allocator.
        check("xnn_initialize", unsafe { (functions.initialize)(ptr::null()) })?;
        Ok(Self { functions })
    }

    /// The identity of this set of kernels.
    #[must_use]
    pub fn build_identifier(&self) -> &'static [u8] {
        // SAFETY: the two functions have no conditions. What they tell of is a constant in a library that stays loaded.
        unsafe {
            slice::from_raw_parts(
                (self.functions.experimental_get_build_identifier_data)(),
                (self.functions.experimental_get_build_identifier_size)(),
            )
        }
    }

    /// The fingerprint, if an operator that has it was created in this process.
    #[must_use]
    pub fn fingerprint(&self, id: u32) -> Option<Fingerprint> {
        // SAFETY: any number may be asked for. The answer is null or leads into a table that stays, whose entry for a
        // fingerprint is written once, before it is found.
        unsafe { (self.functions.get_fingerprint)(id).as_ref().copied() }
    }

    /// Returns the function that a weights cache asks for fingerprints.
    #[must_use]
    pub fn fingerprint_function(&self) -> FingerprintFn {
        self.functions.get_fingerprint
    }

    /// Makes the fingerprint of a fully-connected operator known, by packing a small one.
    ///
    /// # Errors
    ///
    /// If no such operator has this identifier, or not on this machine.
    pub fn compute_fingerprint(&self, id: u32) -> Result<(), Error> {
        // SAFETY: any number may be given: those that are not known are refused.
        check("xnn_fingerprint_fully_connected_nc", unsafe {
            (self.functions.fingerprint_fully_connected_nc)(id)
        })
    }

    /// Whether weights that were packed when the fingerprint had this value can be used.
    ///
    /// # Errors
    ///
    /// With what XNNPACK answers otherwise.
    pub fn check_fingerprint(&self, fingerprint: Fingerprint) -> Result<(), Error> {
        // SAFETY: any two numbers may be given.
        check("xnn_check_fingerprint", unsafe { (self.functions.check_fingerprint)(fingerprint) })
    }

    /// Returns XNNPACK's name of the fingerprint with this identifier.
    #[must_use]
    pub fn fingerprint_name(&self, id: u32) -> String {
        // SAFETY: any number may be given; the answer is a constant that ends with a zero, or null.
        let name = unsafe { (self.functions.fingerprint_id_to_string_u32)(id) };
        if name.is_null() {
            return String::new();
        }
        // SAFETY: it was just seen not to be null.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").finish_non_exhaustive()
    }
}

/// The call as an error, unless it was done.
pub(super) fn check(call: &'static str, answer: Answer) -> Result<(), Error> {
    Status::from(answer).check(call)
}

/// Loads a library, with its symbols for those that are loaded later.
///
/// # Safety
///
/// Loading runs code of the library, which must be sound.
#[cfg(unix)]
unsafe fn open(path: &Path) -> Result<Loaded, libloading::Error> {
    use libloading::os::unix;

    // SAFETY: the caller vouches for the library.
    unsafe { unix::Library::open(Some(path), unix::RTLD_NOW | unix::RTLD_GLOBAL) }.map(Loaded::from)
}

/// Loads a library.
///
/// # Safety
///
/// Loading runs code of the library, which must be sound.
#[cfg(not(unix))]
unsafe fn open(path: &Path) -> Result<Loaded, libloading::Error> {
    // SAFETY: the caller vouches for the library.
    unsafe { Loaded::new(path) }
}

fn failed(what: &str, error: &libloading::Error) -> Error {
    let mut reason = error.to_string();
    if let Some(source) = error.source() {
        reason = format!("{reason}: {source}");
    }
    Error::Load { what: what.to_owned(), reason }
}
