//! The CUDA target: programs compiled by NVRTC, nvJitLink and NVVM, which are loaded at run time.

mod error;
mod library;
mod nvjitlink;
mod nvrtc;
mod nvvm;
mod toolkit;
mod unit;

pub use error::CudaError;
pub use toolkit::Toolkit;
