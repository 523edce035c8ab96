//! What is made for browsers: `cargo xtask package` makes the npm package, `cargo xtask web` tests it in one.

pub(crate) mod package;
pub(crate) mod stamp;

mod engine;
mod size;

use std::{env, path::PathBuf, process::ExitCode};

use crate::{
    node::{self, Node},
    process::{Failure, Invocation},
};

/// Where the tests are.
const TESTS: &str = "tests/web";

/// Names under which the browser is installed.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// What `cargo xtask web` is asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Runs one file of tests/web/suite or tests/web/cases; may be given more than once.
    #[arg(long, value_name = "FILE")]
    only: Vec<String>,
    /// What the runner is told besides: see tests/web/README.md.
    #[arg(last = true)]
    rest: Vec<String>,
}

/// Makes the package, and runs its tests in Chromium.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let browser = browser()?;
    let node = Node::ensure()?;
    let tarball = package::build(&node)?;
    size::inspect()?;
    node.install(TESTS)?;
    let mut command = node.invocation(format!("{TESTS}/run.mjs"));
    for only in &arguments.only {
        command = command.argument("--only").argument(only);
    }
    command = arguments.rest.iter().fold(command, Invocation::argument);
    let status = command
        .variable("CHROMIUM", browser)
        .variable("WARMSTART_TARBALL", tarball)
        .variable("WARMSTART_NPM", node.npm_script())
        .status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The browser that `CHROMIUM` names, or the one that is installed.
fn browser() -> Result<PathBuf, Failure> {
    let named = env::var_os("CHROMIUM").map(PathBuf::from);
    named.or_else(|| BROWSERS.iter().find_map(|name| node::on_path(name))).ok_or_else(|| {
        Failure::new(
            "Chromium is missing: install it (on Debian: apt-get install chromium), or name one by CHROMIUM",
        )
    })
}
