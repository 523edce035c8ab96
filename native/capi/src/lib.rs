//! The C library: what `include/warmstart.h` declares.
//!
//! Every function checks what it is given, turns what went wrong into a status and a message of the thread, and lets no panic
//! out. The header is made from this, comments and all, by `cargo xtask capi --header`.
#![allow(non_camel_case_types, reason = "the names are C's")]

pub mod model;
pub mod pack;
pub mod provider;
pub mod status;

mod sized;
