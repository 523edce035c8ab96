//! The steps' requirements, checked before any step runs, so that no step fails late because one is missing.
//!
//! Packages of registries are installed under `target/`, targets and components by rustup. System packages are
//! installed only with consent: `--install`, or `CI=true`.

use std::{collections::BTreeSet, env, fmt};

use xshell::{Cmd, Shell, cmd};

use crate::{Result, node::Node, on_path, runtimes, web};

/// The browser of the quick tests.
pub(crate) const CHROMIUM: Need = Need::Browser("chromium");

/// A requirement of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// A program on the `PATH`.
    Program {
        name: &'static str,
        /// The Debian package that contains it.
        debian: &'static str,
    },
    /// Python 3 that can run pip.
    Pip,
    /// Node with npm: installed, or from a wheel.
    Node,
    /// A browser by its Debian package: installed, or Chromium from an npm package.
    Browser(&'static str),
    /// A component of the active toolchain.
    Component(&'static str),
    /// The standard library of the active toolchain for a target.
    Target(&'static str),
    /// A nightly toolchain with these components.
    Nightly(&'static [&'static str]),
    /// A program of this version that cargo builds under `target/tools`.
    Tool { name: &'static str, version: &'static str },
    /// A group of `cargo xtask runtimes`.
    Runtimes(&'static str),
}

/// Checks all requirements and reports the missing ones; installs those if `install`.
///
/// Returns the requirements that stay missing, which can only be browsers.
///
/// # Errors
/// If any other requirement is missing.
pub(crate) fn preflight(sh: &Shell, needs: &[Need], install: bool) -> Result<Vec<Need>> {
    let has_apt = on_path("apt-get").is_some();
    let missing = look(sh, needs, install && has_apt);
    if missing.is_empty() {
        return Ok(missing);
    }
    let names: Vec<String> = missing.iter().map(Need::to_string).collect();
    let packages: BTreeSet<&str> = missing.iter().flat_map(|need| need.debian().split(' ')).collect();
    let packages = packages.into_iter().collect::<Vec<_>>().join(" ");
    let is_root = cmd!(sh, "id -u").quiet().read().is_ok_and(|user| user == "0");
    let sudo = if is_root { "" } else { "sudo " };
    let apt =
        format!("{sudo}apt-get update && {sudo}apt-get install --yes --no-install-recommends {packages}");
    let how = if has_apt {
        format!("install with\n    {apt}\nor run this again with --install")
    } else {
        format!("install what Debian has in the packages {packages}")
    };
    let advice = format!("missing: {}\n{how}", names.join(", "));
    if install && has_apt {
        println!("{advice}\n");
        cmd!(sh, "sh -c {apt}").env("DEBIAN_FRONTEND", "noninteractive").run()?;
        let left = look(sh, &missing, true);
        return if left.is_empty() { Ok(left) } else { Err("apt-get did not install all of it".into()) };
    }
    if missing.iter().all(|need| matches!(need, Need::Browser(_))) {
        println!("{advice}\nthe other steps run without it");
        return Ok(missing);
    }
    Err(advice.into())
}

/// Prints the state of each requirement; returns the missing system packages. If apt is available, they include the
/// browsers.
fn look(sh: &Shell, needs: &[Need], has_apt: bool) -> Vec<Need> {
    let mut missing = Vec::new();
    for need in needs {
        let is_fetched = need.debian().is_empty() || *need == CHROMIUM && web::CAN_FETCH && !has_apt;
        if need.is_met(sh) {
            println!("{need}: found");
        } else if is_fetched {
            println!("{need}: will be installed, by rustup or under target/");
        } else {
            println!("{need}: MISSING");
            missing.push(*need);
        }
    }
    missing
}

impl Need {
    fn is_met(self, sh: &Shell) -> bool {
        let succeeds = |command: Cmd<'_>| command.quiet().ignore_stdout().ignore_stderr().run().is_ok();
        match self {
            Self::Program { name, .. } => on_path(name).is_some(),
            Self::Pip => succeeds(cmd!(sh, "python3 -c 'import pip'")),
            Self::Node => Node::find(sh).is_some(),
            Self::Browser(name) => web::browser(sh, name).is_some(),
            Self::Component(name) => {
                has_component(&lines(cmd!(sh, "rustup component list --installed")), name)
            }
            Self::Target(name) => {
                lines(cmd!(sh, "rustup target list --installed")).iter().any(|target| target == name)
            }
            Self::Nightly(components) => {
                let installed = lines(cmd!(sh, "rustup component list --installed --toolchain nightly"));
                has_nightly(sh) && components.iter().all(|component| has_component(&installed, component))
            }
            Self::Tool { name, version } => sh.read_file(version_file(name)).is_ok_and(|is| is == version),
            Self::Runtimes(group) => runtimes::is_installed(sh, group),
        }
    }

    /// Installs a missing requirement that needs no change of the system.
    pub(crate) fn ensure(self, sh: &Shell) -> Result {
        if self.is_met(sh) {
            return Ok(());
        }
        match self {
            // Checked before.
            Self::Program { .. } | Self::Pip => {}
            // Of browsers, npm has Chromium only.
            Self::Browser(_) => Node::ensure(sh)?.script(sh, "tests/web/chromium.mjs".as_ref()).run()?,
            Self::Node => Node::ensure(sh).map(drop)?,
            Self::Component(name) => cmd!(sh, "rustup component add {name}").run()?,
            Self::Target(name) => cmd!(sh, "rustup target add {name}").run()?,
            Self::Nightly(components) if has_nightly(sh) => {
                cmd!(sh, "rustup component add --toolchain nightly {components...}").run()?;
            }
            // In one command, so that rustup picks the newest nightly with all components.
            Self::Nightly(components) => {
                let components = components.join(",");
                cmd!(sh, "rustup toolchain install nightly --profile minimal --component {components}")
                    .run()?;
            }
            Self::Tool { name, version } => {
                let package = format!("{name}@{version}");
                let into = ["--root", "target/tools", "--target-dir", "target/tools"];
                // They run for seconds and compile for longer, so a debug build is fastest overall.
                cmd!(sh, "cargo install --debug --locked --quiet {into...} {package}").run()?;
                sh.write_file(version_file(name), version)?;
            }
            Self::Runtimes(group) => runtimes::ensure(sh, group)?,
        }
        Ok(())
    }

    /// Returns the Debian packages of the requirement; empty if it has another source.
    fn debian(self) -> &'static str {
        match self {
            Self::Program { debian, .. } => debian,
            Self::Pip => "python3-pip",
            Self::Browser(name) => name,
            // Other platforms have no wheel.
            Self::Node if !web::CAN_FETCH => "nodejs npm",
            _ => "",
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program { name, .. } | Self::Browser(name) => f.write_str(name),
            Self::Component(name) | Self::Target(name) => f.write_str(name),
            Self::Pip => f.write_str("Python 3 with pip"),
            Self::Node => f.write_str("Node with npm"),
            Self::Nightly(components) => write!(f, "nightly with {}", components.join(" and ")),
            Self::Tool { name, version } => write!(f, "{name} {version}"),
            Self::Runtimes(group) => write!(f, "runtimes {group}"),
        }
    }
}

/// Returns the command of a program in `target/tools`.
pub(crate) fn tool<'a>(sh: &'a Shell, name: &str) -> Cmd<'a> {
    sh.cmd(sh.current_dir().join("target/tools/bin").join(name))
}

/// Returns the file that records the installed version of a tool.
fn version_file(name: &str) -> String {
    format!("target/tools/{name}.version")
}

fn has_nightly(sh: &Shell) -> bool {
    lines(cmd!(sh, "rustup toolchain list")).iter().any(|name| is_nightly(name))
}

/// Returns whether `+nightly` selects this toolchain, and not one that is pinned to a day.
fn is_nightly(toolchain: &str) -> bool {
    let date = |host: &str| host.starts_with(|c: char| c.is_ascii_digit());
    toolchain == "nightly" || toolchain.strip_prefix("nightly-").is_some_and(|host| !date(host))
}

/// Components of a host are listed with the host behind their name.
fn has_component(installed: &[String], component: &str) -> bool {
    let is_it = |rest: &str| rest.is_empty() || rest.starts_with('-');
    installed.iter().any(|name| name.strip_prefix(component).is_some_and(is_it))
}

/// Returns the first word of each line of a command's output; none if it fails.
fn lines(command: Cmd<'_>) -> Vec<String> {
    let printed = command.quiet().ignore_stderr().read().unwrap_or_default();
    printed.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// Returns whether system packages may be installed without asking.
pub(crate) fn is_ci() -> bool {
    env::var_os("CI").is_some_and(|value| value == "true")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nightly_of_a_day_is_not_the_nightly() {
        assert!(is_nightly("nightly-x86_64-unknown-linux-gnu"));
        assert!(is_nightly("nightly"));
        assert!(!is_nightly("nightly-2026-05-19-x86_64-unknown-linux-gnu"));
        assert!(!is_nightly("stable-x86_64-unknown-linux-gnu"));
    }

    #[test]
    fn components_are_found_with_and_without_a_host() {
        let installed = ["rust-src", "miri-x86_64-unknown-linux-gnu"].map(str::to_owned);
        assert!(has_component(&installed, "rust-src"));
        assert!(has_component(&installed, "miri"));
        assert!(!has_component(&installed, "mir"));
        assert!(!has_component(&installed, "clippy"));
    }

    #[test]
    fn a_missing_program_is_a_failure_that_names_its_package() {
        let need = Need::Program { name: "no-such-program-at-all", debian: "some-package" };
        let failure = preflight(&Shell::new().unwrap(), &[need], false).unwrap_err().to_string();
        assert!(failure.contains("no-such-program-at-all") && failure.contains("some-package"), "{failure}");
    }
}
