//! The targets, components and programs that the steps need, installed where they are missing.

use std::collections::BTreeSet;

use crate::process::{Failure, Invocation};

/// Something that rustup or cargo installs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    /// A component of the toolchain in use.
    Component(&'static str),
    /// The standard library for a target, for the toolchain in use.
    Target(&'static str),
    /// A nightly toolchain with these components.
    Nightly(&'static [&'static str]),
    /// A program that cargo builds from the package of this name, for the user.
    Program {
        /// The program.
        name: &'static str,
        /// The package.
        package: &'static str,
    },
}

/// Installs what is missing. Quick if nothing is: it asks rustup for its lists and no more.
pub(crate) fn ensure(tools: &[Tool]) -> Result<(), Failure> {
    for tool in tools {
        match *tool {
            Tool::Component(name) => add_missing_components(None, &[name])?,
            Tool::Target(name) => {
                if !listed("rustup target list --installed")?.contains(name) {
                    Invocation::new("rustup target add").argument(name).run()?;
                }
            }
            Tool::Nightly(components) => {
                if listed("rustup toolchain list")?.iter().any(|name| is_nightly(name)) {
                    add_missing_components(Some("nightly"), components)?;
                } else {
                    // Asked for together, so that rustup takes the newest nightly that has them all.
                    let mut install = Invocation::new(
                        "rustup toolchain install nightly --profile minimal --no-self-update",
                    );
                    if !components.is_empty() {
                        install = install.argument("--component").argument(components.join(","));
                    }
                    install.run()?;
                }
            }
            Tool::Program { name, package } => {
                if Invocation::new(name).argument("--version").output().is_err() {
                    Invocation::new("cargo install --locked").argument(package).run()?;
                }
            }
        }
    }
    Ok(())
}

/// `toolchain` is the one in use unless it is named.
fn add_missing_components(toolchain: Option<&str>, components: &[&str]) -> Result<(), Failure> {
    let of_toolchain = toolchain.map(|name| format!(" --toolchain {name}")).unwrap_or_default();
    let installed = listed(&format!("rustup component list --installed{of_toolchain}"))?;
    let missing: Vec<&str> =
        components.iter().copied().filter(|&component| !has_component(&installed, component)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Invocation::new(&format!("rustup component add{of_toolchain} {}", missing.join(" "))).run()
}

/// The first words of the lines that a command prints.
fn listed(command: &str) -> Result<BTreeSet<String>, Failure> {
    let output = Invocation::new(command).output()?;
    let lines = String::from_utf8_lossy(&output);
    Ok(lines.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect())
}

/// Whether `+nightly` means this toolchain: one that is pinned to a day is another.
fn is_nightly(toolchain: &str) -> bool {
    toolchain == "nightly"
        || toolchain
            .strip_prefix("nightly-")
            .is_some_and(|host| !host.starts_with(|c: char| c.is_ascii_digit()))
}

/// Components of a host are listed with the host behind their name.
fn has_component(installed: &BTreeSet<String>, component: &str) -> bool {
    installed
        .iter()
        .any(|name| name.strip_prefix(component).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')))
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
        let installed = ["rust-src", "miri-x86_64-unknown-linux-gnu"].map(str::to_owned).into();
        assert!(has_component(&installed, "rust-src"));
        assert!(has_component(&installed, "miri"));
        assert!(!has_component(&installed, "mir"));
        assert!(!has_component(&installed, "clippy"));
    }
}
