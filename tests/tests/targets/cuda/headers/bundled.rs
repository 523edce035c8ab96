//! The headers of CUDA and of its C++ libraries, which NVRTC brings along.

use std::{
    ffi::{CString, c_char, c_int, c_uint},
    path::{Path, PathBuf},
    ptr,
};

use warmstart::target::cuda::{Program, headers::Headers};

use super::nvrtc::{Nvrtc, nvrtc};

/// With what they include, a thousand headers: conditional, computed, asked for, and pasted together.
const HEADERS: [&str; 10] = [
    "cuda_fp16.h",
    "cuda_bf16.h",
    "cuda_fp8.h",
    "mma.h",
    "cooperative_groups.h",
    "cuda_pipeline.h",
    "cuda/std/type_traits",
    "cuda/atomic",
    "cub/block/block_reduce.cuh",
    "thrust/tuple.h",
];

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn the_headers_of_cuda_are_taken_and_give_what_nvrtc_gives() {
    let nvrtc = nvrtc();
    let directory = tempfile::tempdir().unwrap();
    nvrtc.install_headers(directory.path());
    let includes = [directory.path().to_path_buf(), directory.path().join("cccl")];
    let headers = Headers::default();
    for header in HEADERS {
        let source = format!("#include <{header}>\nextern \"C\" __global__ void f(int *x) {{ x[0] = 1; }}\n");
        let program = includes.iter().fold(Program::cxx("f.cu", source.as_str()), Program::include_dir);
        let (closed, found) = headers.closed(&program).unwrap_or_else(|error| panic!("{header}: {error}"));
        assert!(found.headers.len() > 1, "{header}");
        assert_eq!(headers.found(&program).unwrap(), found, "{header}");
        let ours = options(&[], "-no-source-include");
        let ours = nvrtc.ptx("f.cu", &closed.source, &closed.headers, &ours);
        assert_eq!(ours, nvrtc.ptx("f.cu", source.as_bytes(), &[], &options(&includes, "-w")), "{header}");
        assert!(ours.is_ok(), "{header}: {ours:?}");
    }
}

fn options(includes: &[PathBuf], more: &str) -> Vec<String> {
    let includes = includes.iter().map(|directory| format!("-I{}", directory.display()));
    includes.chain(["-arch=sm_90".into(), more.into()]).collect()
}

impl Nvrtc {
    /// Fills a directory with the headers that lie packed in the library.
    fn install_headers(&self, directory: &Path) {
        type Install = unsafe extern "C" fn(*const c_char, c_uint, *mut *const c_char) -> c_int;

        let path = CString::new(directory.to_str().unwrap()).unwrap();
        // SAFETY: the function has this type, the path lives until it returns, and no log is wanted.
        let status = unsafe {
            let install = self.0.get::<Install>(b"nvrtcInstallBundledHeaders").unwrap();
            install(path.as_ptr(), 0, ptr::null_mut())
        };
        assert_eq!(status, 0);
    }
}
