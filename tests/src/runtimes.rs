//! What `cargo xtask runtimes` fetches, and what a test does without it.

use std::{
    env,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

/// Where `cargo xtask runtimes` keeps what it fetches.
#[must_use]
pub fn folder() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).join("target").join("runtimes")
}

/// Whether a test that finds no runtime fails: `cargo xtask test` asks for this by `WARMSTART_RUNTIMES=required`.
#[must_use]
pub fn are_required() -> bool {
    env::var_os("WARMSTART_RUNTIMES").is_some_and(|value| value == "required")
}

/// Says on standard error that `what` is not there and which command fetches it.
///
/// # Panics
///
/// If it [is required](are_required) and can be fetched on this platform.
pub fn missing(what: &str, command: &str, can_be_fetched: bool) {
    assert!(!(are_required() && can_be_fetched), "{what} is not there: run {command}");
    let how = if can_be_fetched { command } else { "there is none for this platform" };
    // Not by a macro: what a test prints by those is not shown if it passes. At once, so that lines are not mixed.
    let line = format!("SKIPPED: {what} is not there, so this is not tested ({how})\n");
    let _ = io::stderr().write_all(line.as_bytes());
}
