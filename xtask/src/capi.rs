//! `cargo xtask capi`: builds the C library and lays it out as it is installed; with `--header` it writes the header anew.

use std::{fs, path::Path, process::ExitCode};

use crate::process::{Failure, Invocation, workspace_root};

/// Where the package is.
const PACKAGE: &str = "native/capi";

/// The header, within the package.
const HEADER: &str = "include/warmstart.h";

/// Where all is laid out.
const LAID_OUT: &str = "target/capi";

/// What `cargo xtask capi` is asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Writes the header anew, and builds nothing.
    #[arg(long)]
    header: bool,
}

/// Builds the libraries, or writes the header.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    if arguments.header {
        write(&workspace_root().join(PACKAGE).join(HEADER), &header()?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let private = build()?;
    let (from, to) = (workspace_root().join(PACKAGE), workspace_root().join(LAID_OUT));
    copy(&from.join(HEADER), &to.join(HEADER))?;
    let built = workspace_root().join("target/release");
    let names = [
        "libwarmstart.so",
        "libwarmstart.dylib",
        "libwarmstart.a",
        "warmstart.dll",
        "warmstart.dll.lib",
        "warmstart.lib",
    ];
    for library in names.iter().filter(|name| built.join(name).is_file()) {
        copy(&built.join(library), &to.join("lib").join(library))?;
    }
    let template = read(&from.join("warmstart.pc.in"))?;
    let described = template.replace("@VERSION@", env!("CARGO_PKG_VERSION")).replace("@PRIVATE@", &private);
    write(&to.join("lib/pkgconfig/warmstart.pc"), &described)?;
    println!("the C library is in {LAID_OUT}");
    Ok(ExitCode::SUCCESS)
}

/// Whether the committed header is what the sources say now; what is wrong with it, if it is not.
pub(crate) fn inspect_header() -> Result<Vec<String>, Failure> {
    let committed = read(&workspace_root().join(PACKAGE).join(HEADER))?;
    let is_current = committed == header()?;
    let stale = format!("{PACKAGE}/{HEADER} is not what the sources say: run cargo xtask capi --header");
    Ok(if is_current { Vec::new() } else { vec![stale] })
}

/// Builds both libraries, and returns what a program that links the static one needs besides.
fn build() -> Result<String, Failure> {
    Invocation::new("cargo build --release --package warmstart-capi").run()?;
    let ask =
        "cargo rustc --release --package warmstart-capi --crate-type staticlib -- --print native-static-libs";
    let (status, printed) = Invocation::new(ask).transcript()?;
    let libraries = printed.lines().find_map(|line| line.split_once("native-static-libs: "));
    match libraries {
        Some((_, libraries)) if status.success() => Ok(libraries.trim().to_owned()),
        _ => Err(Failure::new(format!("{status}: {ask}\n{printed}"))),
    }
}

/// The header that the sources say.
fn header() -> Result<String, Failure> {
    let command = format!(
        "cargo run --quiet --package warmstart-tools --profile tool --features header --bin header -- {PACKAGE}"
    );
    let written = Invocation::new(&command).output()?;
    Ok(String::from_utf8_lossy(&written).into_owned())
}

fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    make_room(to)?;
    fs::copy(from, to).map(drop).map_err(|error| failed(from, &error))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    make_room(path)?;
    fs::write(path, text).map_err(|error| failed(path, &error))
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| failed(path, &error))
}

fn make_room(path: &Path) -> Result<(), Failure> {
    path.parent().map_or(Ok(()), fs::create_dir_all).map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}
