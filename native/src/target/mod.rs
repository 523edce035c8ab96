//! What makes artifacts.

#[cfg(feature = "cpu")]
pub mod cpu;
