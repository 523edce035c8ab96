//! `cargo xtask capi`: builds the C library in its installed layout; `--header` writes the C header.

use std::{ffi::OsStr, path::Path, process::ExitCode};

use lexopt::prelude::*;
use xshell::{Shell, cmd};

use crate::Result;

const HEADER: &str = "native/capi/include/warmstart.h";

/// Runs `cargo xtask capi`.
pub(crate) fn run(sh: &Shell, mut parser: lexopt::Parser) -> Result<ExitCode> {
    match parser.next()? {
        None => lay_out(sh)?,
        Some(Long("header")) => sh.write_file(HEADER, header(sh)?)?,
        Some(other) => return Err(other.unexpected().into()),
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks that the committed header matches the sources.
pub(crate) fn check_header(sh: &Shell) -> Result {
    if sh.read_file(HEADER)? == header(sh)? {
        return Ok(());
    }
    Err(format!("{HEADER} does not match the sources: run cargo xtask capi --header").into())
}

fn lay_out(sh: &Shell) -> Result {
    cmd!(sh, "cargo build --release --package warmstart-capi").run()?;
    for folder in ["include", "lib/pkgconfig"] {
        sh.create_dir(format!("target/capi/{folder}"))?;
    }
    sh.copy_file(HEADER, "target/capi/include")?;
    for library in sh.read_dir("target/release")?.iter().filter(|path| is_library(path)) {
        sh.copy_file(library, "target/capi/lib")?;
    }
    let described =
        sh.read_file("native/capi/warmstart.pc.in")?.replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    let described = described.replace("@PRIVATE@", &static_libraries(sh)?);
    sh.write_file("target/capi/lib/pkgconfig/warmstart.pc", described)?;
    println!("the C library is in target/capi");
    Ok(())
}

/// Returns whether a file is the library, under any of the names that platforms give it.
fn is_library(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default().trim_start_matches("lib");
    matches!(name.strip_prefix("warmstart."), Some("so" | "dylib" | "a" | "dll" | "dll.lib" | "lib"))
}

/// Returns the system libraries that a program must link beside the static library.
fn static_libraries(sh: &Shell) -> Result<String> {
    let ask = cmd!(sh, "cargo rustc --release --package warmstart-capi --crate-type staticlib").args([
        "--",
        "--print",
        "native-static-libs",
    ]);
    let printed = ask.read_stderr()?;
    let libraries = printed.lines().find_map(|line| line.split_once("native-static-libs: "));
    let (_, libraries) = libraries.ok_or_else(|| format!("rustc names no libraries:\n{printed}"))?;
    Ok(libraries.trim().to_owned())
}

/// Generates the header from the sources.
fn header(sh: &Shell) -> Result<String> {
    let run = ["run", "--quiet", "--package", "warmstart-tools", "--profile", "tool"];
    let printed = cmd!(sh, "cargo {run...} --features header --bin header -- native/capi").read()?;
    Ok(printed + "\n")
}
