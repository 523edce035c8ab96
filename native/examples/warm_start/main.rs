//! Shows what a warm start saves: compiles a few dozen real kernels, loads, runs and checks them, once with an empty cache
//! and once with the cache of the first pass.
//!
//! ```text
//! cargo run --release --example warm_start            # a table and bars
//! cargo run --release --example warm_start -- --json  # and one line for programs, the last
//! cargo run --release --example warm_start -- --keep DIR                   # keeps the caches, and with a flag of one
//! cargo run --release --example warm_start -- --keep DIR --change-flag 3   # kernel changed, that one misses
//! ```
//!
//! A pass over files or SQLite is a process of its own: this program, started again with `--pass`. Over memory, both
//! passes are in one process. A C compiler is needed.

mod figures;
mod pass;
mod processes;
mod report;

use std::{
    error::Error,
    fs,
    num::NonZero,
    path::{Path, PathBuf},
    process::ExitCode,
};

use crate::{
    pass::working_compiler,
    processes::{StoreKind, Temperature, cores, parse_number, run_both, run_changed, run_child},
    report::{Changed, Outcome},
};
use clap::{Parser, ValueEnum};

/// Compiles, loads, runs and checks real kernels, with a cold cache and with a warm one.
#[derive(Parser)]
#[command(name = "warm_start")]
struct Arguments {
    /// Prints the result as the last line, in JSON; the report goes to standard error.
    #[arg(long)]
    json: bool,

    /// Keeps the caches in this directory instead of a temporary one. The cold pass empties them first.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,

    /// Uses only this store; may be repeated.
    #[arg(long, value_name = "STORE")]
    store: Vec<StoreKind>,

    /// Compiles with N threads; by default with as many as there are cores.
    #[arg(long, value_name = "N", default_value_t = cores(), hide_default_value = true)]
    workers: NonZero<usize>,

    /// Runs only a warm pass over the caches that --keep has kept, with one more flag for kernel N, counted from 1: it misses, and
    /// the others hit.
    #[arg(long, value_name = "N", requires = "keep", value_parser = parse_number)]
    change_flag: Option<usize>,

    /// Runs one pass over one store in this process, and prints its result as JSON. The program starts itself so.
    #[arg(long, hide = true, requires_all = ["keep", "store"])]
    pass: Option<Temperature>,
}

/// Succeeds only if every kernel was right and every look-up of a warm pass a hit; 2 if no compiler works.
fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.pass {
        Some(temperature) => run_child(
            arguments.keep.as_deref(),
            &arguments.store,
            temperature,
            arguments.workers.get(),
            arguments.change_flag,
        )
        .map(|()| true),
        None => match working_compiler() {
            Ok(compiler) => run_all(&arguments, &compiler),
            Err(error) => {
                eprintln!("warm_start: {error}");
                return ExitCode::from(2);
            }
        },
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("warm_start: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs both passes over every store and prints the report. Returns whether every kernel was right and every warm look-up a hit.
fn run_all(arguments: &Arguments, compiler: &Path) -> Result<bool, Box<dyn Error>> {
    let temporary = tempfile::Builder::new()
        .prefix("warm_start-")
        .tempdir()
        .map_err(|error| format!("{error}; set TMPDIR to a directory that can be written"))?;
    let directory = match &arguments.keep {
        Some(directory) => {
            fs::create_dir_all(directory).map_err(|error| {
                format!("cannot make {}: {error}; name a directory that can be written", directory.display())
            })?;
            directory
        }
        None => temporary.path(),
    };
    let kinds = if arguments.store.is_empty() { StoreKind::value_variants() } else { &arguments.store };
    if let Some(number) = arguments.change_flag {
        let outcomes = run_changed(kinds, directory, arguments.workers.get(), number)?;
        report::print_changed(&outcomes, number, arguments.json)?;
        return Ok(outcomes.iter().all(Changed::is_good));
    }

    let (workers, mut outcomes) = (arguments.workers.get(), Vec::new());
    for kind in kinds {
        outcomes.push(run_both(*kind, directory, workers)?);
    }

    report::print(&outcomes, compiler, workers, arguments.json)?;
    Ok(outcomes.iter().all(Outcome::is_good))
}
