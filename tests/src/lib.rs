//! What the tests and benchmarks of warmstart share.

pub mod faulty;
pub mod mount;
pub mod payload;
