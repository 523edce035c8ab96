//! The CPU target: C kernels compiled by the machine's compiler, loaded and called.
