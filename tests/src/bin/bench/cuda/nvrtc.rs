//! NVRTC without a cache: five calls, and the library that they are in.

use std::{
    error::Error,
    ffi::{CStr, CString, c_char, c_int},
    path::Path,
    ptr,
};

use libloading::{Library, Symbol};

/// `nvrtcProgram`: whatever it points to is NVRTC's own.
type Handle = *mut std::ffi::c_void;

type Create = unsafe extern "C" fn(
    *mut Handle,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Handle, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Handle, *mut usize) -> c_int;
type Bytes = unsafe extern "C" fn(Handle, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Handle) -> c_int;

/// NVRTC as it was loaded, and what it is asked for at every compile.
pub(super) struct Nvrtc {
    create: Symbol<'static, Create>,
    compile: Symbol<'static, Compile>,
    size: Symbol<'static, Size>,
    cubin: Symbol<'static, Bytes>,
    destroy: Symbol<'static, Destroy>,
    options: Vec<CString>,
}

impl Nvrtc {
    /// Loads the library in this folder. It stays loaded.
    pub(super) fn load(folder: &Path, options: &[String]) -> Result<Self, Box<dyn Error>> {
        // SAFETY: it is NVRTC, whose initialisers ask nothing of who loads it.
        let library: &'static Library =
            Box::leak(Box::new(unsafe { Library::new(folder.join("libnvrtc.so.13"))? }));
        let options = options.iter().map(|option| CString::new(option.as_str())).collect::<Result<_, _>>()?;
        // SAFETY: the types are those of nvrtc.h, major version 13.
        unsafe {
            Ok(Self {
                create: library.get(c"nvrtcCreateProgram")?,
                compile: library.get(c"nvrtcCompileProgram")?,
                size: library.get(c"nvrtcGetCUBINSize")?,
                cubin: library.get(c"nvrtcGetCUBIN")?,
                destroy: library.get(c"nvrtcDestroyProgram")?,
                options,
            })
        }
    }

    /// Compiles to a CUBIN.
    pub(super) fn cubin(&self, source: &CStr) -> Result<Vec<u8>, Box<dyn Error>> {
        let pointers: Vec<_> = self.options.iter().map(|option| option.as_ptr()).collect();
        let count = c_int::try_from(pointers.len())?;
        let (mut handle, mut size) = (ptr::null_mut(), 0);
        // SAFETY: all that is pointed to lives as long as the calls. There are no headers, so their lists may be null.
        // The buffer is as long as NVRTC said, and the program is destroyed once.
        unsafe {
            check(
                "nvrtcCreateProgram",
                (self.create)(
                    &raw mut handle,
                    source.as_ptr(),
                    c"scale.cu".as_ptr(),
                    0,
                    ptr::null(),
                    ptr::null(),
                ),
            )?;
            check("nvrtcCompileProgram", (self.compile)(handle, count, pointers.as_ptr()))?;
            check("nvrtcGetCUBINSize", (self.size)(handle, &raw mut size))?;
            let mut binary = vec![0; size];
            check("nvrtcGetCUBIN", (self.cubin)(handle, binary.as_mut_ptr().cast()))?;
            check("nvrtcDestroyProgram", (self.destroy)(&raw mut handle))?;
            Ok(binary)
        }
    }
}

fn check(call: &str, status: c_int) -> Result<(), Box<dyn Error>> {
    if status == 0 { Ok(()) } else { Err(format!("{call} failed with {status}").into()) }
}
