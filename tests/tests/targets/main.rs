//! The targets that compile: C kernels for this machine, CUDA programs for GPUs that need not be there.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "every function here is part of a test")]

mod cpu {
    //! The CPU target.

    mod compiler;
    mod example;
    mod headers;
    mod inputs;
    mod keys;
    mod library;
    mod meanwhile;
    mod processes;
    mod random;
    mod store;
    mod together;
    mod uncacheable;
}
mod cuda {
    //! The CUDA target.

    mod adversary;
    #[cfg(target_os = "linux")]
    mod compilers;
    mod example;
    #[cfg(target_os = "linux")]
    mod headers;
    mod inputs;
    mod shortcomings;
    mod together;
}
