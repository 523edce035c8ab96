//! A compiler's library, loaded and never unloaded.

use std::{
    ffi::{CString, c_char, c_int, c_void},
    mem::ManuallyDrop,
    path::{Path, PathBuf},
};

use cfg_if::cfg_if;

use super::{
    error::{CudaError, CudaProblem},
    toolkit::part::Part,
};

cfg_if! {
    if #[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))] {
        mod gnu;
        use gnu as platform;
    } else {
        mod other;
        use other as platform;
    }
}

pub(super) use platform::build_id_by_name;

/// A loaded library.
#[derive(Debug)]
pub(super) struct Loaded {
    part: Part,
    path: PathBuf,
    handle: ManuallyDrop<libloading::Library>,
    build_id: Option<Vec<u8>>,
}

/// The status that a library's functions return: a C enumeration, which may have any value.
pub(super) type Status = c_int;

/// The oldest major version of a library that says its version first.
const OLDEST: c_int = 12;

/// The most bytes of a log that are kept. Its beginning matters most.
const MAX_LOG: usize = 1 << 20;

impl Loaded {
    /// Loads the library at `path`.
    ///
    /// # Safety
    /// The code that runs while it is loaded is sound.
    pub(super) unsafe fn open(part: Part, path: &Path) -> Result<Self, CudaError> {
        // SAFETY: the caller vouches for the library.
        let (handle, build_id) = unsafe { platform::open(path) }.map_err(|error| {
            let said =
                std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            CudaError::new(CudaProblem::Unusable {
                part,
                path: path.into(),
                why: format!("cannot be loaded ({said})"),
                source: Some(error.into()),
            })
        })?;
        // Not unloaded once it was called: it may have threads, and data of threads that end later.
        Ok(Self { part, path: path.into(), handle: ManuallyDrop::new(handle), build_id })
    }

    /// Unloads the library again, because it is not the expected one.
    ///
    /// # Safety
    /// None of its functions was called.
    pub(super) unsafe fn discard(self) {
        drop(ManuallyDrop::into_inner(self.handle));
    }

    /// Returns the build id in memory, which may differ from that of the file. `None` if there is none, or the system's loader
    /// does not tell.
    pub(super) fn build_id(&self) -> Option<&[u8]> {
        self.build_id.as_deref()
    }

    /// Returns the function of this name, if there is one.
    ///
    /// # Safety
    /// `F` is the type of that function.
    pub(super) unsafe fn find<F: Copy>(&self, name: &str) -> Option<F> {
        // SAFETY: the caller vouches for the type, and the library is never unloaded.
        unsafe { self.handle.get::<F>(name) }.ok().map(|symbol| *symbol)
    }

    /// Returns the function of this name.
    ///
    /// # Errors
    /// [`CudaProblem::TooOld`] if there is none.
    ///
    /// # Safety
    /// `F` is the type of that function.
    pub(super) unsafe fn function<F: Copy>(&self, name: &str) -> Result<F, CudaError> {
        // SAFETY: the caller vouches for the type.
        unsafe { self.find(name) }.ok_or_else(|| self.too_old(format!("has no function {name}")))
    }

    /// Returns the version that the function of this name writes.
    ///
    /// # Errors
    /// [`CudaProblem::TooOld`] if it is older than the oldest that has the functions of all compilers.
    ///
    /// # Safety
    /// The function takes two places for an integer.
    pub(super) unsafe fn version(&self, name: &str) -> Result<(c_int, c_int), CudaError> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the caller vouches for the type. A version is as well an `int` as an `unsigned int`.
        let version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> Status = unsafe { self.function(name) }?;
        // SAFETY: both point to an `int`.
        let status = unsafe { version(&raw mut major, &raw mut minor) };
        if status != 0 {
            return Err(self.unusable(format!("does not say its version (status {status})")));
        }
        // Checked first: the error of a function that an older library lacks would not say that it is too old.
        if major < OLDEST {
            return Err(self.too_old(format!("is version {major}.{minor}")));
        }
        Ok((major, minor))
    }

    /// Returns the error that the library is too old. `why` completes "the file ...".
    fn too_old(&self, why: String) -> CudaError {
        CudaError::new(CudaProblem::TooOld { part: self.part, path: self.path.clone(), why })
    }

    /// Returns the error that the library does not work. `why` completes "the file ...".
    pub(super) fn unusable(&self, why: String) -> CudaError {
        CudaError::new(CudaProblem::Unusable { part: self.part, path: self.path.clone(), why, source: None })
    }
}

/// Declares a table of functions that answer with a [`Status`], and how it is filled from a library.
macro_rules! functions {
    ($($field:ident = $name:literal: fn($($argument:ty),* $(,)?);)+) => {
        #[derive(Clone, Copy, Debug)]
        struct Functions {
            $($field: unsafe extern "C" fn($($argument),*) -> $crate::target::cuda::library::Status,)+
        }

        impl Functions {
            /// Looks up all functions, each by the name that `spelt` returns.
            ///
            /// # Safety
            /// Under those names the library has functions of these types.
            unsafe fn of(
                library: &$crate::target::cuda::library::Loaded,
                spelt: impl Fn(&str) -> String,
            ) -> Result<Self, $crate::target::cuda::error::CudaError> {
                Ok(Self {
                    // SAFETY: the caller vouches for the types.
                    $($field: unsafe { library.function(&spelt($name))? },)+
                })
            }
        }
    };
}

pub(super) use functions;

/// Converts a text to a C string.
pub(super) fn c_string(bytes: &[u8], what: &'static str) -> Result<CString, CudaError> {
    CString::new(bytes).map_err(|_| CudaError::new(CudaProblem::Nul(what)))
}

/// C strings and an array of pointers to them, which is valid as long as they are.
pub(super) struct CStrings {
    _texts: Vec<CString>,
    pointers: Vec<*const c_char>,
}

impl CStrings {
    pub(super) fn new<'a>(
        texts: impl IntoIterator<Item = &'a [u8]>,
        what: &'static str,
    ) -> Result<Self, CudaError> {
        let texts: Vec<CString> =
            texts.into_iter().map(|text| c_string(text, what)).collect::<Result<_, _>>()?;
        // Moving a `CString` does not move its bytes.
        let pointers = texts.iter().map(|text| text.as_ptr()).collect();
        Ok(Self { _texts: texts, pointers })
    }

    pub(super) fn as_ptr(&self) -> *const *const c_char {
        self.pointers.as_ptr()
    }

    /// Returns the number of texts, as a C integer.
    pub(super) fn len(&self) -> c_int {
        // A list in memory cannot be longer.
        c_int::try_from(self.pointers.len()).unwrap_or(c_int::MAX)
    }
}

/// A library's own pointer to a program or a linker.
pub(super) type Handle = *mut c_void;

/// Two functions of a library that give an output: one returns its size, the other writes it.
#[derive(Clone, Copy)]
pub(super) struct Bytes {
    pub(super) size: unsafe extern "C" fn(Handle, *mut usize) -> Status,
    pub(super) get: unsafe extern "C" fn(Handle, *mut c_char) -> Status,
}

impl Bytes {
    /// Reads a log. Empty if the library does not return it.
    ///
    /// # Safety
    /// As [`read`](Self::read).
    pub(super) unsafe fn log(self, handle: Handle) -> String {
        // SAFETY: the caller vouches for all of it.
        match unsafe { self.read(handle) } {
            Ok(Some(bytes)) => log(&bytes),
            Ok(None) | Err(_) => String::new(),
        }
    }

    /// Reads the bytes. Returns a status that is not zero if that fails, and `None` if there is no memory for them.
    ///
    /// # Safety
    /// The handle is one of the library's and is there, and the second function writes as many bytes as the first says.
    pub(super) unsafe fn read(self, handle: Handle) -> Result<Option<Vec<u8>>, Status> {
        let ok = |status: Status| if status == 0 { Ok(()) } else { Err(status) };
        let mut len = 0;
        // SAFETY: the handle is there, and the other points to a `size_t`.
        ok(unsafe { (self.size)(handle, &raw mut len) })?;
        let Some(mut bytes) = buffer(len) else { return Ok(None) };
        if len > 0 {
            // SAFETY: the buffer has as many bytes as the library says that it writes.
            ok(unsafe { (self.get)(handle, bytes.as_mut_ptr().cast()) })?;
        }
        Ok(Some(bytes))
    }
}

/// Allocates a buffer of the size that a library asks for, if there is memory for it.
fn buffer(len: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).ok()?;
    bytes.resize(len, 0);
    Some(bytes)
}

/// Converts a compiler's log to a text, without the NUL at its end.
fn log(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(&bytes[..end.min(MAX_LOG)]);
    if end > MAX_LOG { format!("{text}\n... and {} bytes more", end - MAX_LOG) } else { text.into_owned() }
}

/// Removes the NUL at the end of PTX, which is text.
pub(super) fn without_nul(mut text: Vec<u8>) -> Vec<u8> {
    if text.last() == Some(&0) {
        text.pop();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_ends_at_its_nul_and_is_bounded() {
        assert_eq!(log(b"a line\n\0rest"), "a line\n");
        assert_eq!(log(b"no end"), "no end");
        assert_eq!(log(b"caf\xe9\0"), "caf\u{fffd}");
        let long = log(&vec![b'x'; MAX_LOG + 5]);
        assert!(long.len() < MAX_LOG + 50 && long.ends_with("and 5 bytes more"));
    }

    #[test]
    fn a_text_with_a_nul_is_no_text_of_c() {
        let error = c_string(b"a\0b", "the source").unwrap_err();
        assert!(error.is_rejected_source() && error.to_string().contains("the source has a NUL byte"));
        assert!(CStrings::new([&b"ok"[..], b"no\0t"], "an option").is_err());
    }

    #[test]
    fn a_size_that_cannot_be_is_an_error() {
        assert_eq!(buffer(usize::MAX), None);
        assert_eq!(buffer(3).unwrap(), [0; 3]);
    }
}
