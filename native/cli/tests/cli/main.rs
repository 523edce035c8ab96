//! The command `warmstart`, as a program of its own.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy cannot tell")]

mod bad_input;
mod explain;
mod launch;
mod packs;
mod remote;
mod sealed;
mod support;
mod texts;
mod writers;
