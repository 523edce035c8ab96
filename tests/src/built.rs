//! Programs and libraries that cargo has built beside a test or a benchmark.
//!
//! They are built before: a cargo that a test starts would wait for the one that runs the test, or build what is not asked for.

use std::{
    env,
    path::{Path, PathBuf},
};

/// The example of this name in the package `warmstart`.
///
/// # Panics
/// If it was not built.
#[must_use]
pub fn example(name: &str) -> PathBuf {
    let file = format!("{name}{}", env::consts::EXE_SUFFIX);
    find(&folder().join("examples").join(file), &format!("--package warmstart --example {name}"))
}

/// The command `warmstart`.
///
/// # Panics
/// If it was not built.
#[must_use]
pub fn command() -> PathBuf {
    let file = format!("warmstart{}", env::consts::EXE_SUFFIX);
    find(&folder().join(file), "--package warmstart --features cli --bin warmstart")
}

/// The folder with the C library, of which this is a file.
///
/// # Panics
/// If it was not built.
#[must_use]
pub fn c_library(file: &str) -> PathBuf {
    let library = find(&folder().join(file), "--package warmstart-capi");
    library.parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

/// The worker of the tests of several processes, which is part of this package.
///
/// # Panics
/// If it was not built.
#[must_use]
pub fn worker() -> PathBuf {
    let file = format!("worker{}", env::consts::EXE_SUFFIX);
    find(&folder().join(file), "--package warmstart-tests --bin worker")
}

/// Where cargo puts what it builds as the running program was built. A test is in `deps` there.
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
