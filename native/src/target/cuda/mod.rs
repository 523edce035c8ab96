//! The CUDA target: programs compiled by NVRTC, nvJitLink and NVVM, which are loaded at run time.

#[doc(hidden)]
pub mod headers;
