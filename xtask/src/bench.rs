//! `cargo xtask bench NAME`: runs one benchmark, built with optimisations.

use std::{env, ffi::OsString, process::ExitCode};

use lexopt::prelude::*;
use xshell::{Shell, cmd};

use crate::{Result, status, web};

/// The arguments of `cargo xtask bench`.
#[derive(Debug)]
pub(crate) struct Arguments {
    name: String,
    /// Flags and files, as the benchmark takes them.
    flags: Vec<OsString>,
}

impl Arguments {
    /// Parses the arguments after `bench`.
    pub(crate) fn parse(mut parser: lexopt::Parser) -> Result<Self> {
        let (mut name, mut flags) = (None, Vec::new());
        while let Some(argument) = parser.next()? {
            match argument {
                Value(value) if name.is_none() => name = Some(value.string()?),
                Long(flag @ ("json" | "from")) => {
                    flags.push(format!("--{flag}").into());
                    // The benchmark runs in the root of the workspace; a relative path counts from the caller's directory.
                    flags.push(env::current_dir()?.join(parser.value()?).into());
                }
                Long(flag @ ("quick" | "strict" | "doc")) => flags.push(format!("--{flag}").into()),
                other => return Err(other.unexpected().into()),
            }
        }
        Ok(Self { name: name.ok_or("name a benchmark: cargo xtask help lists them")?, flags })
    }
}

/// Runs the benchmark and returns its exit status.
pub(crate) fn run(sh: &Shell, Arguments { name, flags }: Arguments) -> Result<ExitCode> {
    let command = match name.as_str() {
        // The peers are a workspace of their own, built into the same target folder.
        "peers" => cmd!(sh, "cargo run -r --manifest-path tests/peers/Cargo.toml --target-dir target --"),
        "web" => web::bench(sh)?,
        "python" => cmd!(sh, "bash python/check.sh tests/python/bench.py"),
        "damage" => cmd!(sh, "bash python/check.sh tests/python/damage.py"),
        "remote" => cmd!(sh, "cargo run -r -p warmstart-tests --features remote --bin bench -- remote"),
        name => {
            cmd!(sh, "cargo build --release --package warmstart-examples --examples").run()?;
            cmd!(sh, "cargo run --release --package warmstart-tests --bin bench -- {name}")
        }
    };
    status(command.args(flags))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path;

    #[test]
    fn files_are_relative_to_the_callers_folder() {
        let arguments = ["stores", "--json", "rows.json", "--strict"];
        let parsed = Arguments::parse(lexopt::Parser::from_args(arguments)).unwrap();
        let file = path::absolute("rows.json").unwrap();
        assert_eq!(parsed.flags, ["--json".into(), file.into_os_string(), OsString::from("--strict")]);
    }
}
