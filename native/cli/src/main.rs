//! `warmstart`: looks into a cache. docs/command.md of the repository describes every sub-command.

mod arguments;
mod entry;
mod explain;
mod failure;
mod inspect;
mod launch;
mod list;
mod pack;
mod prometheus;
mod recognise;
mod screen;
mod shrink;
mod stats;
mod store;
mod table;
mod text;
mod units;
mod verify;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::Parser;

use arguments::{Arguments, Command, Global};
use failure::Failure;
use screen::Screen;
use store::Opener;

/// What a sub-command found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Good,
    Damage,
}

fn main() -> ExitCode {
    let Arguments { global, command } = Arguments::parse();
    let mut screen = Screen::new(&global);
    let done = run(command, &global, &mut screen).and_then(|verdict| {
        screen.flush()?;
        Ok(verdict)
    });
    match done {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Damage) => ExitCode::FAILURE,
        // Whoever read the output has seen enough.
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            // What cannot be said does not change the exit code.
            let _ = writeln!(io::stderr(), "warmstart: {failure}");
            if screen.json {
                let _ = failure.write_json(&mut screen).and_then(|()| screen.flush());
            }
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command, global: &Global, screen: &mut Screen) -> Result<Verdict, Failure> {
    let opener = &Opener::new(global.seal_key.as_deref())?;
    match command {
        Command::Ls(arguments) => list::run(&arguments, opener, screen),
        Command::Inspect(arguments) => inspect::run(&arguments, opener, screen),
        Command::Verify(arguments) => verify::run(&arguments, opener, screen),
        Command::Stats(arguments) => stats::run(&arguments, opener, screen),
        Command::Prune(arguments) => shrink::prune(&arguments, opener, screen),
        Command::Clear(arguments) => shrink::clear(&arguments, opener, screen),
        Command::Explain(arguments) => explain::run(&arguments, opener, screen),
        Command::Compact(arguments) => pack::compact(&arguments, screen),
        Command::Convert(arguments) => pack::convert(&arguments, screen),
    }
}
