//! Finds programs and libraries that cargo built before a test or a benchmark.
//!
//! None is built from here: a cargo that a test starts would wait for the lock of the one that runs the test, or build with
//! other features.

use std::{
    env,
    path::{Path, PathBuf},
};

/// Returns the example of this name.
///
/// # Panics
/// If it was not built.
#[must_use]
pub fn example(name: &str) -> PathBuf {
    let file = format!("{name}{}", env::consts::EXE_SUFFIX);
    find(&folder().join("examples").join(file), &format!("--package warmstart-examples --example {name}"))
}

/// Returns the command `warmstart`.
///
/// # Panics
/// If it was not built.
#[must_use]
pub fn command() -> PathBuf {
    let file = format!("warmstart{}", env::consts::EXE_SUFFIX);
    find(&folder().join(file), "--package warmstart-cli")
}

/// Returns the folder of the C library that contains this file.
///
/// # Panics
/// If it was not built.
#[must_use]
pub fn c_library(file: &str) -> PathBuf {
    let library = find(&folder().join(file), "--package warmstart-capi");
    library.parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

/// Returns the worker, which tests of several processes start.
///
/// # Panics
/// If it was not built.
#[must_use]
pub fn worker() -> PathBuf {
    let file = format!("worker{}", env::consts::EXE_SUFFIX);
    find(&folder().join(file), "--package warmstart-tests --bin worker")
}

/// Returns the folder of the profile that the running program was built with, such as `target/debug`. Tests are in its `deps`.
fn folder() -> PathBuf {
    let program = env::current_exe().expect("a running program has a path");
    let folder = program.parent().unwrap_or(&program);
    let parent = folder.parent().filter(|_| folder.ends_with("deps") || folder.ends_with("examples"));
    parent.unwrap_or(folder).to_path_buf()
}

fn find(path: &Path, what: &str) -> PathBuf {
    let release = if cfg!(debug_assertions) { "" } else { " --release" };
    assert!(path.is_file(), "{} is not there: run cargo build{release} {what}", path.display());
    path.to_path_buf()
}
