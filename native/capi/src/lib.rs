//! The C library, as declared in `include/warmstart.h`.
//!
//! Every function checks its arguments, turns a failure into a status and a message of the thread, and catches panics. `cargo xtask
//! capi --header` generates the header from this crate and its comments.
#![allow(non_camel_case_types, reason = "the names are C's")]

pub mod model;
pub mod pack;
pub mod provider;
pub mod status;
