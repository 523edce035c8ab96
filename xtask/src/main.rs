//! Runs what a contributor needs: `cargo xtask test`, `cargo xtask bench NAME`, `cargo xtask capi` and more.

mod bench;
mod capi;
mod fuzz;
mod needs;
mod node;
mod runtimes;
mod test;
mod web;

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use lexopt::prelude::*;
use xshell::{Cmd, Shell};

/// The error is for a person to read.
type Result<T = (), E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

const HELP: &str = "\
cargo xtask COMMAND, from any folder of the repository

test        run everything that must hold before a change is merged
  --deep              and what takes long: Miri, loom, fuzzing, all modes of the browser
  --only STEP         this step alone; may be repeated
  --list              name each step, what it proves and what it needs; run nothing
  --preflight         look for what the steps need, say what is missing, run nothing
  --install           let apt install what is missing (so does CI=true)
  --no-fail-fast      go on after a step that failed
bench NAME  run a benchmark: stores, weights, cuda, launch, peers or web
  --quick             take fewer samples
  --strict            fail if a bound does not hold
  --json FILE         write the rows to a file too
  --doc               of peers: write docs/compare.md too
  --from FILE         of peers: take the rows from a file that --json wrote
capi        build the C library under target/capi/
  --header            write the C header from the sources, build nothing
fuzz [SECONDS]  run each fuzz target for 60 seconds, or for this many
  --target NAME       this target alone; may be repeated
  --minimise          put what the runs found into the committed corpus
package     build the npm package: target/package/warmstart-VERSION.tgz
  --engine            build wasm/npm/engine and wasm/npm/dist, no tarball
runtimes    install what tests and benchmarks run against, under target/runtimes/
  --xnnpack --models --cuda --node --peers    these alone
  --list              name what would be installed, install nothing
web         test the npm package in Chromium, in one mode
  --deep              in all modes, with the cases that take long
  --only NAME         one file of tests/web/suite or tests/web/cases; may be repeated
  -- ARGUMENT...      for the runner: see tests/web/README.md
";

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

fn run() -> Result<ExitCode> {
    let mut parser = lexopt::Parser::from_env();
    let command = match parser.next()? {
        Some(Value(command)) => command.string()?,
        Some(Short('h') | Long("help")) | None => String::from("help"),
        Some(other) => return Err(other.unexpected().into()),
    };
    let sh = &shell()?;
    match command.as_str() {
        "test" => test::run(sh, &test::Arguments::parse(parser)?),
        "bench" => bench::run(sh, bench::Arguments::parse(parser)?),
        "capi" => capi::run(sh, parser),
        "fuzz" => fuzz::run(sh, &fuzz::Arguments::parse(parser)?),
        "package" => web::package(sh, parser),
        "runtimes" => runtimes::run(sh, parser),
        "web" => web::run(sh, parser),
        "help" => {
            print!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        _ => Err(format!("there is no command {command}: cargo xtask help lists them").into()),
    }
}

/// Returns a shell in the folder that holds the workspace's `Cargo.toml`.
fn shell() -> Result<Shell> {
    let sh = Shell::new()?;
    // Cargo says at run time where the package is; a binary that is started by hand knows where it was.
    let package = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    sh.change_dir(Path::new(&package).join(".."));
    Ok(sh)
}

/// Runs a command to its end, its output shown; returns its exit status.
fn status(command: Cmd<'_>) -> Result<ExitCode> {
    eprintln!("$ {command}");
    let code = Command::from(command).status()?.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Returns the program of this name that a shell would run.
fn on_path(name: &str) -> Option<PathBuf> {
    let file = format!("{name}{}", env::consts::EXE_SUFFIX);
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(&file)).find(|path| path.is_file())
}
