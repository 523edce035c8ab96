//! What the tests and benchmarks of warmstart share.
//!
//! | module | holds |
//! |---|---|
//! | [`conformance`] | the suite that every store passes |
//! | [`faulty`] | a disk that fails when it is told to |
//! | [`mount`] | small file systems: full ones and read-only ones |
//! | [`proof`] | artifacts that prove under which key they were written, and a clock that tells what it is told |

// What is here runs in tests alone.
#![allow(clippy::unwrap_used)]

pub mod conformance;
pub mod faulty;
pub mod mount;
pub mod proof;
