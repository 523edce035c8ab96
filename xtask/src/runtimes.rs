//! `cargo xtask runtimes`: what some rows of the benchmarks compare with and no Rust package brings, kept under `target/`.

use std::process::ExitCode;

use crate::process::{Failure, Invocation, workspace_root};

/// What `cargo xtask runtimes` is asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The caches of other projects, for `cargo xtask bench peers`.
    #[arg(long)]
    peers: bool,
    /// Names what would be installed, and installs nothing.
    #[arg(long)]
    list: bool,
}

/// A Python environment of its own.
struct Environment {
    name: &'static str,
    /// Of these versions, so that everybody measures the same.
    packages: &'static [&'static str],
    /// What can be imported if it is whole.
    proof: &'static str,
}

/// cuda-core does not say that it needs cuda-bindings. Neither needs a GPU or a driver for its caches.
const PEERS: Environment = Environment {
    name: "peers",
    packages: &["cuda-core==1.2.2", "cuda-bindings==13.5.0"],
    proof: "import cuda.core.utils",
};

/// Installs what is missing of what is asked for, or of all where nothing is.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let environments = [(arguments.peers, PEERS)];
    let all = environments.iter().all(|(asked, _)| !asked);
    for (_, environment) in environments.into_iter().filter(|(asked, _)| *asked || all) {
        if arguments.list {
            println!("{}: {}", environment.name, environment.packages.join(" "));
        } else {
            environment.ensure()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl Environment {
    fn ensure(&self) -> Result<(), Failure> {
        let folder = workspace_root().join("target").join("runtimes").join(self.name);
        let python = folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
        let in_it = |line: &str| Invocation::program(python.to_string_lossy()).arguments(line);
        if python.exists() && in_it("-c").argument(self.proof).status()?.success() {
            println!("{}: is there", self.name);
            return Ok(());
        }
        Invocation::new("python3 -m venv --clear").argument(&folder).run()?;
        self.packages
            .iter()
            .fold(in_it("-m pip install --quiet --disable-pip-version-check"), |command, package| {
                command.argument(*package)
            })
            .run()?;
        in_it("-c").argument(self.proof).run()
    }
}
