//! Shared by the tests and benchmarks of warmstart.
//!
//! | module | holds |
//! |---|---|
//! | [`built`] | where the programs are that cargo built before the tests |
//! | [`calls`] | any program of XNNPACK's calls, run on a provider and on a model |
//! | [`mod@conformance`] | the suite that every store passes |
//! | [`mod@counting`] | what a thread asks the allocator for |
//! | `cpu` | kernels, targets and what they are asked to be (Unix only) |
//! | [`cuda`] | the real NVRTC, nvJitLink and NVVM |
//! | [`executorch`] | files of packed weights as ExecuTorch writes them |
//! | [`faulty`] | a disk that fails when it is told to |
//! | `kernels` | the kernels of the examples, and what each must compute (feature `kernels`) |
//! | [`launching`] | kernels whose code writes ids, and whose launches need a result |
//! | [`map_backend`] | disks for packs that stop, are full, or have no mappings |
//! | [`measure`] | timing two operations against each other |
//! | [`medium`] | where the files of a benchmark are: a tmpfs or a disk |
//! | `minilm` | the fully-connected layers of a real model (feature `xnnpack`) |
//! | [`model`] | any program of operations, run on a store and on a model |
//! | [`mount`] | media that are full or read-only |
//! | [`mod@noise`] | numbers that are the same at each call |
//! | [`mod@own_process`] | tests in processes of their own |
//! | [`packed`] | packed weights that prove which they are |
//! | [`proof`] | artifacts that prove under which key they were written, and a clock that tells what it is told |
//! | [`runtimes`] | where `cargo xtask runtimes` installed XNNPACK, a model and the CUDA compilers |
//! | [`mod@scenario`] | the part of the suite that is told as data, for a browser too |
//! | [`servers`] | Redis, nginx, and moto, which speaks S3 |
//! | [`simulation`] | a fleet of machines that start together, simulated with a seed |
//! | [`smaps`] | what of a process is in memory |
//! | `weights` | the weights of a large model, and what is done with them in other processes (feature `programs`) |
//! | [`whole`] | how many entries of a store are whole |
//! | `xnnpack` | the real XNNPACK, loaded (feature `xnnpack`) |

pub mod built;
pub mod calls;
#[expect(clippy::unwrap_used, reason = "what it holds are tests, which clippy cannot tell")]
pub mod conformance;
pub mod counting;
#[cfg(unix)]
#[expect(clippy::unwrap_used, reason = "what it holds are parts of tests")]
pub mod cpu;
pub mod cuda;
pub mod executorch;
pub mod faulty;
#[cfg(feature = "kernels")]
pub mod kernels;
pub mod launching;
pub mod map_backend;
pub mod measure;
pub mod medium;
#[cfg(feature = "xnnpack")]
pub mod minilm;
pub mod model;
pub mod mount;
pub mod noise;
pub mod own_process;
pub mod packed;
pub mod proof;
pub mod runtimes;
#[expect(clippy::unwrap_used, reason = "what it plays are tests")]
pub mod scenario;
#[expect(clippy::unwrap_used, reason = "what it holds are parts of tests")]
pub mod servers;
pub mod simulation;
pub mod smaps;
#[cfg(feature = "programs")]
pub mod weights;
pub mod whole;
#[cfg(feature = "xnnpack")]
pub mod xnnpack;

/// Compiles the examples of the documents.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../README.md")]
    mod readme {}
    #[doc = include_str!("../../SECURITY.md")]
    mod security {}
    #[doc = include_str!("../../docs/cuda.md")]
    mod cuda {}
    #[doc = include_str!("../../docs/launches.md")]
    mod launches {}
    #[doc = include_str!("../../docs/packs.md")]
    mod packs {}
    #[doc = include_str!("../../docs/together.md")]
    mod together {}
}
