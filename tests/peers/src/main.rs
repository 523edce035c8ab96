//! `cargo xtask bench peers`: warmstart against what others keep artifacts with.
//!
//! Both sides of a row do the same job in one run and in turns: same keys, same values, same order. What one of them does
//! beyond that, or leaves out, the row says.

mod cap;
mod crash;
mod crew;
mod cuda_core;
mod document;
mod duel;
mod eight;
mod in_memory;
mod open;
mod peer;
mod persistent;
mod plot;
mod value;

use std::{error::Error, fs, path::PathBuf, process::ExitCode, time::Duration};

use clap::Parser;
use warmstart_tests::{measure::Plan, medium::Medium};

use duel::Duel;

/// Measures warmstart against its peers.
#[derive(Debug, Parser)]
#[command(name = "peers", bin_name = "cargo xtask bench peers")]
struct Arguments {
    /// Writes the rows to this file too.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Takes fewer samples of fewer rows.
    #[arg(long)]
    quick: bool,
    /// Fails if a row is lost to a peer that leaves nothing out.
    #[arg(long)]
    strict: bool,
    /// Writes the rows into docs/: the tables, the plot and the figures.
    #[arg(long)]
    doc: bool,
    /// Takes the rows from this file instead of measuring them.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Is one of several processes of a row: for the benchmark itself.
    #[arg(long, hide = true)]
    worker: Option<String>,
}

/// The measurements, and their thoroughness.
pub(crate) struct Bench {
    pub(crate) plan: Plan,
    pub(crate) quick: bool,
    /// The file system of stores that need not survive a loss of power.
    pub(crate) quiet: Medium,
    pub(crate) disk: Medium,
}

/// There are hundreds of rows, so each gets less time than a row of `stores`.
const FULL: Plan = Plan::QUICK.with_rounds(31).with_warm_up(Duration::from_millis(60));

/// Rows, or why there are none.
type Duels = Result<Vec<Duel>, Box<dyn Error>>;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    if let Some(task) = &arguments.worker {
        crew::serve(&serde_json::from_str(task)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if cfg!(debug_assertions) {
        eprintln!("warning: built without optimisations, so the numbers mean nothing");
    }
    let duels = match &arguments.from {
        Some(file) => duel::read(&fs::read_to_string(file)?)?,
        None => measure(arguments.quick)?,
    };
    println!("{}", duel::table(&duels));
    if let Some(file) = &arguments.json {
        fs::write(file, duel::json(&duels)?)?;
    }
    if arguments.doc {
        document::write(&duels)?;
    }
    let failed = arguments.strict && duels.iter().any(Duel::is_lost_to_an_equal);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn measure(quick: bool) -> Duels {
    let disk = Medium::disk()?;
    let quiet = Medium::tmpfs()?.map_or_else(Medium::disk, Ok)?;
    let bench = Bench { plan: if quick { Plan::QUICK } else { FULL }, quick, quiet, disk };
    let mut duels = Vec::new();
    for part in [in_memory::rows, persistent::rows, open::rows, cap::rows, eight::rows, cuda_core::rows] {
        duels.extend(part(&bench)?);
    }
    Ok(duels)
}
