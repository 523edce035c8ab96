//! The command `warmstart`.

use std::{env, process::ExitCode};

fn main() -> ExitCode {
    warmstart_cli::run(env::args_os()).into()
}
