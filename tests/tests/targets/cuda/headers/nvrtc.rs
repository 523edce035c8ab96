//! As much of NVRTC as shows which files it reads and its result.

use std::{
    ffi::{CString, c_char, c_int, c_void},
    ptr,
    sync::OnceLock,
};

use libloading::{Library, Symbol};
use warmstart_tests::cuda;

/// The real NVRTC. It looks for headers in the current directory too; that of these tests is their package, which has none.
pub(crate) fn nvrtc() -> &'static Nvrtc {
    static NVRTC: OnceLock<Nvrtc> = OnceLock::new();
    let file = || cuda::libraries().join("libnvrtc.so.13");
    // SAFETY: its initialisers ask nothing of us.
    NVRTC.get_or_init(|| Nvrtc(unsafe { Library::new(file()) }.unwrap()))
}

pub(crate) struct Nvrtc(pub(crate) Library);

type Program = *mut c_void;

impl Nvrtc {
    /// The PTX, or the log of what is wrong.
    pub(crate) fn ptx(
        &self,
        name: &str,
        source: &[u8],
        headers: &[(String, Vec<u8>)],
        options: &[String],
    ) -> Result<Vec<u8>, String> {
        let text = |text: &[u8]| CString::new(text).unwrap();
        let texts: Vec<CString> = headers.iter().map(|(_, header)| text(header)).collect();
        let names: Vec<CString> = headers.iter().map(|(name, _)| text(name.as_bytes())).collect();
        let options: Vec<CString> = options.iter().map(|option| text(option.as_bytes())).collect();
        let pointers = |strings: &[CString]| strings.iter().map(|string| string.as_ptr()).collect::<Vec<_>>();
        let (source, name) = (text(source), text(name.as_bytes()));
        let mut program = ptr::null_mut();
        // SAFETY: the functions have these types, and all that is pointed to lives until they return.
        unsafe {
            type Create = unsafe extern "C" fn(
                *mut Program,
                *const c_char,
                *const c_char,
                c_int,
                *const *const c_char,
                *const *const c_char,
            ) -> c_int;
            type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
            let create: Symbol<'_, Create> = self.0.get(b"nvrtcCreateProgram").unwrap();
            let compile: Symbol<'_, Compile> = self.0.get(b"nvrtcCompileProgram").unwrap();
            let destroy: Symbol<'_, unsafe extern "C" fn(*mut Program) -> c_int> =
                self.0.get(b"nvrtcDestroyProgram").unwrap();
            let count = c_int::try_from(texts.len()).unwrap();
            let (texts, names) = (pointers(&texts), pointers(&names));
            let created =
                create(&mut program, source.as_ptr(), name.as_ptr(), count, texts.as_ptr(), names.as_ptr());
            assert_eq!(created, 0);
            let arguments = pointers(&options);
            let compiled = compile(program, c_int::try_from(arguments.len()).unwrap(), arguments.as_ptr());
            let result = if compiled == 0 {
                Ok(self.output(program, "PTX"))
            } else {
                Err(String::from_utf8_lossy(&self.output(program, "ProgramLog")).into_owned())
            };
            destroy(&mut program);
            result
        }
    }

    /// # Safety
    /// `program` is one.
    unsafe fn output(&self, program: Program, what: &str) -> Vec<u8> {
        // SAFETY: the functions have these types, and the buffer is as long as asked for.
        unsafe {
            let size: Symbol<'_, unsafe extern "C" fn(Program, *mut usize) -> c_int> =
                self.0.get(format!("nvrtcGet{what}Size").as_bytes()).unwrap();
            let get: Symbol<'_, unsafe extern "C" fn(Program, *mut u8) -> c_int> =
                self.0.get(format!("nvrtcGet{what}").as_bytes()).unwrap();
            let mut length = 0;
            assert_eq!(size(program, &mut length), 0);
            let mut bytes = vec![0; length];
            assert_eq!(get(program, bytes.as_mut_ptr()), 0);
            bytes
        }
    }
}
