//! What makes artifacts.

#[cfg(feature = "cpu")]
pub mod cpu;
#[cfg(feature = "packs")]
pub mod xnnpack;
