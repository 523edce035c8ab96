//! Targets: compilers and packers whose output is cached as artifacts.

#[cfg(feature = "cpu")]
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "packs")]
pub mod xnnpack;

#[cfg(any(feature = "cpu", feature = "cuda"))]
mod files;
