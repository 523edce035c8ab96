//! `cargo xtask package`, `web` and `bench web`: build, test and measure the npm package.

use std::{env, path::PathBuf, process::ExitCode};

use xshell::{Cmd, Shell};

use crate::{Result, node::Node, on_path, status};

/// The names of the programs of Chromium and of Firefox.
const CHROMIUM: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const FIREFOX: [&str; 2] = ["firefox-esr", "firefox"];

/// Whether Node and a browser can be fetched for this platform.
pub(crate) const CAN_FETCH: bool = cfg!(all(target_os = "linux", target_arch = "x86_64"));

/// Builds the npm package and leaves its tarball in `target/package`.
pub(crate) fn package(sh: &Shell, mut parser: lexopt::Parser) -> Result<ExitCode> {
    if let Some(other) = parser.next()? {
        return Err(other.unexpected().into());
    }
    npm(sh)?.args(["run", "package"]).run()?;
    Ok(ExitCode::SUCCESS)
}

/// Builds the npm package, and runs its tests in a browser. Returns their exit status, which is 3 without the browser.
pub(crate) fn run(sh: &Shell, mut parser: lexopt::Parser) -> Result<ExitCode> {
    status(npm(sh)?.args(["test", "--"]).args(parser.raw_args()?.filter(|argument| argument != "--")))
}

/// Returns the command that builds the npm package and measures it in Chromium, without its arguments.
pub(crate) fn bench(sh: &Shell) -> Result<Cmd<'_>> {
    Ok(npm(sh)?.args(["run", "bench", "--"]))
}

/// Returns the browser of a Debian package that `CHROMIUM` or `FIREFOX` names, or the one that is installed on the
/// machine or under `target/`.
pub(crate) fn browser(sh: &Shell, package: &str) -> Option<PathBuf> {
    let (variable, names): (_, &[&str]) =
        if package == "chromium" { ("CHROMIUM", &CHROMIUM) } else { ("FIREFOX", &FIREFOX) };
    let named = env::var_os(variable).filter(|named| !named.is_empty()).map(PathBuf::from);
    let fetched = sh.current_dir().join("target").join(package).join(package);
    named
        .or_else(|| names.iter().find_map(|name| on_path(name)))
        .or_else(|| fetched.is_file().then_some(fetched))
}

/// Returns npm in the folder of the package.
fn npm(sh: &Shell) -> Result<Cmd<'_>> {
    Ok(Node::ensure(sh)?.npm(sh).args(["--prefix", "wasm/npm"]))
}
