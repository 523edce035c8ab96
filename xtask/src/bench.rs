//! `cargo xtask bench NAME`: builds what is measured with optimisations and runs one benchmark.

use std::{
    path::{self, PathBuf},
    process::ExitCode,
};

use crate::{
    process::{Failure, Invocation},
    web,
};

/// What `cargo xtask bench` is asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Which benchmark: `peers`, `web`, or another. One that does not exist is answered with the names of those that do.
    name: String,
    /// Writes the rows to this file too.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Takes fewer samples: to try a benchmark out.
    #[arg(long)]
    quick: bool,
    /// Fails if a bound does not hold.
    #[arg(long)]
    strict: bool,
    /// Of `peers`: writes docs/compare.md, its plot and its figures too.
    #[arg(long)]
    doc: bool,
    /// Of `peers`: takes the rows from a file that --json wrote instead of measuring them.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
}

/// The benchmark with a workspace of its own. Its dependencies are built where all else is.
const PEERS: &str = "cargo run --release --manifest-path tests/peers/Cargo.toml --target-dir target --";

/// Runs the benchmark; the exit status is its own.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let status = command(arguments)?.status()?;
    Ok(match status.code().map(u8::try_from) {
        Some(Ok(code)) => code.into(),
        _ => ExitCode::FAILURE,
    })
}

fn command(arguments: &Arguments) -> Result<Invocation, Failure> {
    let mut command = match arguments.name.as_str() {
        "peers" => Invocation::new(PEERS),
        "web" => web::bench()?,
        name => {
            Invocation::new("cargo run --release --package warmstart-tests --bin bench --").argument(name)
        }
    };
    for (file, flag) in [(&arguments.json, "--json"), (&arguments.from, "--from")] {
        if let Some(file) = file {
            // The benchmark runs in the root of the workspace; the name is meant where the caller is.
            let file = path::absolute(file).map_err(|error| {
                Failure::new(format!("{} is no name for a file: {error}", file.display()))
            })?;
            command = command.argument(flag).argument(file);
        }
    }
    let flags = [(arguments.quick, "--quick"), (arguments.strict, "--strict"), (arguments.doc, "--doc")];
    for (asked, flag) in flags {
        if asked {
            command = command.argument(flag);
        }
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env;

    #[test]
    fn the_file_is_meant_where_the_caller_is() {
        let arguments = Arguments {
            name: "stores".to_owned(),
            json: Some("rows.json".into()),
            quick: false,
            strict: true,
            doc: false,
            from: None,
        };
        let here = env::current_dir().unwrap().join("rows.json");
        let expected = format!(" --bin bench -- stores --json {} --strict", here.display());
        let shown = command(&arguments).unwrap().to_string();
        assert!(shown.ends_with(&expected), "{shown}");
    }
}
