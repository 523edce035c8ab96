//! Node and npm: those of the machine where they are new enough, or else those that `cargo xtask runtimes --node` fetches.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use crate::{
    process::{Failure, Invocation, workspace_root},
    runtimes,
    web::stamp::Stamp,
};

/// The oldest Node that all packages run on: major and minor version.
const OLDEST: (u32, u32) = (20, 19);

/// Where Node and npm are.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    program: PathBuf,
    /// The script that is npm.
    npm: PathBuf,
}

impl Node {
    /// Finds Node with npm, or fetches it.
    pub(crate) fn ensure() -> Result<Self, Failure> {
        if let Some(found) = Self::of_machine() {
            return Ok(found);
        }
        let folder = runtimes::ensure_node()?;
        let fetched =
            Self { program: folder.join("node"), npm: folder.join("node_modules/npm/bin/npm-cli.js") };
        match version(&fetched.program) {
            Some(_) => Ok(fetched),
            None => Err(Failure::new(format!(
                "Node {}.{} or later and npm are missing, and there is none to fetch for this machine: install them",
                OLDEST.0, OLDEST.1
            ))),
        }
    }

    /// A script or an option of Node.
    pub(crate) fn invocation(&self, script: impl Into<OsString>) -> Invocation {
        let invocation = Invocation::program(shown(&self.program).to_string_lossy());
        self.first_on_the_path(invocation).argument(script)
    }

    /// npm with the arguments of `line`.
    pub(crate) fn npm(&self, line: &str) -> Invocation {
        self.invocation(shown(&self.npm)).arguments(line)
    }

    /// The script that is npm, for those who start it by themselves.
    pub(crate) fn npm_script(&self) -> &Path {
        &self.npm
    }

    /// Installs exactly what the lock file of `folder` names, unless that is there.
    pub(crate) fn install(&self, folder: &str) -> Result<(), Failure> {
        let root = workspace_root().join(folder);
        let modules = root.join("node_modules");
        if modules.is_symlink() {
            println!("{folder}/node_modules leads elsewhere, and is taken as it is");
            return Ok(());
        }
        let stamp = Stamp::of(&[&root.join("package-lock.json"), &root.join("package.json")])?;
        let at = modules.join(".installed");
        if stamp.is_at(&at) {
            return Ok(());
        }
        // No script of a package runs: what is needed of them comes without.
        self.npm("ci --ignore-scripts --no-audit --no-fund --loglevel=error --prefix")
            .argument(folder)
            .run()?;
        stamp.write(&at)
    }

    fn of_machine() -> Option<Self> {
        let program = on_path("node")?;
        if version(&program)? < OLDEST {
            return None;
        }
        // On Unix npm is a link to its script, which can be handed to any Node.
        let npm =
            fs::canonicalize(on_path("npm")?).ok().filter(|npm| npm.extension() == Some("js".as_ref()))?;
        Some(Self { program, npm })
    }

    /// So that what a script starts by the name `node` is the same Node.
    fn first_on_the_path(&self, invocation: Invocation) -> Invocation {
        let Some(folder) = self.program.parent() else { return invocation };
        let others = env::var_os("PATH").unwrap_or_default();
        let folders = [folder.to_owned()].into_iter().chain(env::split_paths(&others));
        match env::join_paths(folders) {
            Ok(path) if Some(self.program.as_path()) != on_path("node").as_deref() => {
                invocation.hidden_variable("PATH", path)
            }
            _ => invocation,
        }
    }
}

/// The program of this name that a shell would run.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let file = format!("{name}{}", env::consts::EXE_SUFFIX);
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(&file)).find(|path| path.is_file())
}

fn version(program: &Path) -> Option<(u32, u32)> {
    let printed = Invocation::program(program.to_string_lossy()).argument("--version").output().ok()?;
    parse(&String::from_utf8_lossy(&printed))
}

/// Major and minor version of `v24.19.0`.
fn parse(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.trim().strip_prefix('v')?.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

/// The path as a command shows it: from the root of the workspace, where commands run.
fn shown(path: &Path) -> PathBuf {
    match path.strip_prefix(workspace_root()) {
        Ok(within) => Path::new(".").join(within),
        Err(_) => path.to_owned(),
    }
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
