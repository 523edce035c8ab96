//! `cargo xtask package`: the npm package `warmstart`, as `npm pack` makes it.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use super::{engine, size, stamp::Stamp};
use crate::{
    node::Node,
    process::{Failure, workspace_root},
};

/// Where the tarball is left.
const LEFT: &str = "target/package";

/// What `cargo xtask package` is asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Builds wasm/npm/engine and wasm/npm/dist, and no tarball.
    #[arg(long)]
    engine: bool,
}

/// Builds the package.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let node = Node::ensure()?;
    if arguments.engine {
        compile(&node)?;
    } else {
        let tarball = build(&node)?;
        println!("the package is {}", tarball.display());
    }
    size::inspect()?;
    Ok(ExitCode::SUCCESS)
}

/// Builds the package; where its tarball is.
pub(super) fn build(node: &Node) -> Result<PathBuf, Failure> {
    compile(node)?;
    let tarball = workspace_root().join(LEFT).join(format!("warmstart-{}.tgz", env!("CARGO_PKG_VERSION")));
    let staged = stage().map_err(|error| Failure::new(error.to_string()))?;
    let stamp = Stamp::of(&[&staged])?;
    let at = tarball.with_extension("made-from");
    if !(tarball.is_file() && stamp.is_at(&at)) {
        node.npm("pack --ignore-scripts --loglevel=error --pack-destination")
            .argument(LEFT)
            .argument(format!("./{LEFT}/npm"))
            .run()?;
        if !tarball.is_file() {
            return Err(Failure::new(format!(
                "{} is not there: its version has to be the workspace's",
                tarball.display()
            )));
        }
        stamp.write(&at)?;
    }
    Ok(tarball)
}

/// Builds the engine, and compiles the TypeScript over it.
fn compile(node: &Node) -> Result<(), Failure> {
    engine::build(node)?;
    node.install(engine::PACKAGE)?;
    let package = workspace_root().join(engine::PACKAGE);
    let mut sources = ["src", "tsconfig.json", "package-lock.json"].map(|name| package.join(name)).to_vec();
    sources.extend(engine::MODULES.map(engine::Module::types));
    let stamp = Stamp::of(&sources.iter().map(PathBuf::as_path).collect::<Vec<_>>())?;
    let dist = package.join("dist");
    let at = dist.join(".made-from");
    if stamp.is_at(&at) {
        println!("the TypeScript is compiled");
        return Ok(());
    }
    if dist.exists() {
        fs::remove_dir_all(&dist).map_err(|error| Failure::new(format!("{}: {error}", dist.display())))?;
    }
    node.invocation(format!("{}/node_modules/typescript/bin/tsc", engine::PACKAGE))
        .arguments(&format!("--project {}", engine::PACKAGE))
        .run()?;
    stamp.write(&at)
}

/// Lays out what is published, the licences of the repository with it.
fn stage() -> io::Result<PathBuf> {
    let (root, package) = (workspace_root(), workspace_root().join(engine::PACKAGE));
    let staged = root.join(LEFT).join("npm");
    if staged.exists() {
        fs::remove_dir_all(&staged)?;
    }
    copy(&root.join("LICENSE-APACHE"), &staged.join("LICENSE-APACHE"))?;
    copy(&root.join("LICENSE-MIT"), &staged.join("LICENSE-MIT"))?;
    for name in ["package.json", "README.md", "dist", "engine"] {
        copy(&package.join(name), &staged.join(name))?;
    }
    Ok(staged)
}

/// A file, or a folder without what begins with a dot.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if from.is_dir() {
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            if !name.to_string_lossy().starts_with('.') {
                copy(&from.join(&name), &to.join(&name))?;
            }
        }
        return Ok(());
    }
    to.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::copy(from, to)
        .map(drop)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", from.display())))
}
