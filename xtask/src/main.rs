//! The contributor's commands: `cargo xtask test`, `cargo xtask bench NAME`, `cargo xtask capi` and more.

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
use xshell::{Cmd, Shell, cmd};

/// A result whose error is a message for people.
type Result<T = (), E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

const HELP: &str = "\
cargo xtask COMMAND, from any folder of the repository

test        run everything that must hold before a change is merged
  --deep, --only STEP   include the long steps; run only this step (may be repeated)
  --list, --preflight   list the steps with what they need; report what is missing. Neither runs anything
  --install, --no-fail-fast    install missing packages by apt, as does CI=true; continue after a failed step
bench NAME  run a benchmark: stores, weights, cuda, launch, together, remote, peers, web, python or damage
  --quick, --strict     take fewer samples; fail if a bound does not hold
  --json FILE           write the rows to a file, which --from FILE reads again (peers)
  --doc                 write figures and pictures of docs/ (damage, peers, together)
capi        build the C library under target/capi/; --header writes the C header from the sources instead
fuzz [SECONDS]          run each fuzz target for 60 seconds, or for this many
  --target NAME         run only this target; may be repeated. --minimise adds the inputs that were found to the corpus
hosts --jax DIR         run JAX's own tests over its cache and ours; DIR is a checkout of jax-ml/jax
package     build the npm package: target/package/warmstart-VERSION.tgz
runtimes    install the libraries that tests and benchmarks use, under target/runtimes/; --list lists the packages
  --xnnpack --models --cuda --node --words --peers --engines    install only these
web         test the npm package in Chromium, with the options of tests/web/run.mjs, such as --deep and --only NAME
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
        "hosts" => {
            status(cmd!(sh, "bash python/check.sh tests/python/jax_tests.py").args(parser.raw_args()?))
        }
        "package" => web::package(sh, parser),
        "runtimes" => runtimes::run(sh, parser),
        "web" => web::run(sh, parser),
        "help" => {
            print!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        _ => Err(format!("there is no command {command}: run cargo xtask help for a list").into()),
    }
}

/// Returns a shell in the folder that holds the workspace's `Cargo.toml`.
fn shell() -> Result<Shell> {
    let sh = Shell::new()?;
    // Cargo sets the package's folder at run time; a binary that is started by hand uses that of its build.
    let package = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    sh.change_dir(Path::new(&package).join(".."));
    Ok(sh)
}

/// Runs a command with its output shown, and returns its exit status.
fn status(command: Cmd<'_>) -> Result<ExitCode> {
    eprintln!("$ {command}");
    let code = Command::from(command).status()?.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Finds a program on the `PATH`, as a shell does.
fn on_path(name: &str) -> Option<PathBuf> {
    let file = format!("{name}{}", env::consts::EXE_SUFFIX);
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(&file)).find(|path| path.is_file())
}
