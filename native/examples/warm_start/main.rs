//! What a warm start is worth: compiles a few dozen real kernels, loads, runs and checks them, once with an empty cache
//! and once with what the first time left there.
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
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Parser, ValueEnum};
use warmstart::{
    Cache, Limits,
    store::MemoryStore,
    target::cpu::{CompileError, Compiler, CpuTarget, Kernel},
};

use crate::{
    processes::{StoreKind, Temperature, parse_number, run_changed, run_child, run_pass, spawn_pass},
    report::{Changed, Outcome},
};

/// Compiles, loads, runs and checks real kernels, with a cold cache and with a warm one.
#[derive(Parser)]
#[command(name = "warm_start")]
struct Arguments {
    /// Print the result as one line of JSON, the last one; the report goes to standard error.
    #[arg(long)]
    json: bool,

    /// Keep the caches in this directory instead of a temporary one. The cold pass empties them first.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,

    /// Only this store; may be given again.
    #[arg(long, value_name = "STORE")]
    store: Vec<StoreKind>,

    /// Only a warm pass over the caches that --keep has kept, with one more flag for kernel N, counted from 1: it misses, and
    /// the others hit.
    #[arg(long, value_name = "N", requires = "keep", value_parser = parse_number)]
    change_flag: Option<usize>,

    /// One pass over one store, in this process; prints what it found as JSON. This is how the program starts itself.
    #[arg(long, hide = true, requires_all = ["keep", "store"])]
    pass: Option<Temperature>,
}

/// Success only if every kernel was right and every look-up of a warm pass a hit; 2 if there is no compiler that works.
fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.pass {
        Some(temperature) => {
            run_child(arguments.keep.as_deref(), &arguments.store, temperature, arguments.change_flag)
                .map(|()| true)
        }
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

/// Where the compiler is that every pass will find. It is tried once, so that what is wrong with it is said once.
fn working_compiler() -> Result<PathBuf, CompileError> {
    let target = CpuTarget::new(Compiler::find()?);
    let _ =
        target.compile(&Cache::new(MemoryStore::new(Limits::NONE)), &Kernel::new("trial", "int trial;"))?;
    Ok(target.compiler().path().to_path_buf())
}

/// Both passes over every store, then the report. Says whether every kernel was right and every warm look-up a hit.
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
        let outcomes = run_changed(kinds, directory, number)?;
        report::print_changed(&outcomes, number, arguments.json)?;
        return Ok(outcomes.iter().all(Changed::is_good));
    }

    let mut outcomes = Vec::new();
    for kind in kinds {
        let (cold, warm) = match kind {
            StoreKind::Files | StoreKind::Sqlite => (
                spawn_pass(*kind, Temperature::Cold, directory, None)?,
                spawn_pass(*kind, Temperature::Warm, directory, None)?,
            ),
            // Memory does not outlive its process.
            StoreKind::Memory => {
                let store = kind.open(directory)?;
                (
                    run_pass(*kind, Temperature::Cold, &store, None)?,
                    run_pass(*kind, Temperature::Warm, &store, None)?,
                )
            }
        };
        outcomes.push(Outcome {
            store: kind.name(),
            processes: if *kind == StoreKind::Memory { 1 } else { 2 },
            cold,
            warm,
        });
    }

    report::print(&outcomes, compiler, arguments.json)?;
    Ok(outcomes.iter().all(Outcome::is_good))
}
