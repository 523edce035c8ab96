//! The kernels of the examples, and what each must compute: for the CPU in C, for GPUs in CUDA.
#![allow(missing_docs, missing_debug_implementations, reason = "the names of kernels say what they are")]

mod compare;
pub mod cpu;
pub mod cuda;
mod reference;
