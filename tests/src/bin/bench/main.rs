//! Benchmarks: `cargo xtask bench NAME`.
//!
//! A row compares what warmstart does with a floor that does the least that the job needs, or with a peer that does the
//! same job. Both are timed in turns in one run, so that a busy or slow machine moves both.

mod cuda;
mod launch;
mod preimage;
#[cfg(feature = "remote")]
mod remote;
mod row;
mod servant;
mod stores;
mod together;
mod weights;

use std::{error::Error, fs, io, path::PathBuf, process::ExitCode};

use clap::{Parser, builder::PossibleValuesParser};

use row::Row;
use warmstart_tests::{
    counting::Counting,
    measure::{self, Plan},
    weights::process::Role,
};

/// Counts allocations in two counters of the thread, which costs little compared with the allocation.
#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs a benchmark of warmstart.
#[derive(Debug, Parser)]
#[command(name = "bench", bin_name = "cargo xtask bench")]
struct Arguments {
    /// The benchmark to run.
    #[arg(value_parser = PossibleValuesParser::new(BENCHES.iter().map(|bench| bench.name)))]
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
    /// Draws the picture of the documents, of `together`.
    #[arg(long)]
    doc: bool,
    /// The role in which this program starts itself.
    #[command(flatten)]
    child: Option<Child>,
    #[command(flatten)]
    stampede: Option<Stampede>,
    #[command(flatten)]
    process: Option<together::Process>,
}

/// The role of a process that a benchmark started.
#[derive(Clone, Debug, clap::Args)]
#[group(requires_all = ["role", "path", "layers"])]
struct Child {
    #[arg(long = "child", hide = true, required = false)]
    role: Role,
    #[arg(long, hide = true, required = false)]
    path: PathBuf,
    #[arg(long, hide = true, required = false)]
    layers: usize,
    #[arg(long, hide = true)]
    xnnpack: bool,
}

/// The arguments of one of many processes that compile the same programs.
#[derive(Clone, Debug, clap::Args)]
#[group(requires_all = ["cache", "include", "compilers"])]
struct Stampede {
    /// The directory of the cache.
    #[arg(long, hide = true, required = false)]
    cache: PathBuf,
    /// The folder of the headers.
    #[arg(long, hide = true, required = false)]
    include: PathBuf,
    /// The folder of the compilers.
    #[arg(long, hide = true, required = false)]
    compilers: PathBuf,
}

/// A benchmark: a name and what finds its rows.
struct Bench {
    name: &'static str,
    run: fn(&Plan, &Arguments) -> Rows,
}

/// The rows of a benchmark, or the reason why it could not run.
type Rows = Result<Vec<Row>, Box<dyn Error>>;

const BENCHES: &[Bench] = &[
    Bench { name: "cuda", run: |plan, _| cuda::run(plan) },
    Bench { name: "launch", run: |plan, _| launch::run(plan) },
    #[cfg(feature = "remote")]
    Bench { name: "remote", run: |plan, _| remote::run(plan) },
    Bench { name: "stores", run: |plan, _| stores::run(plan) },
    Bench { name: "together", run: |plan, arguments| together::run(plan, arguments.doc) },
    Bench { name: "weights", run: |plan, _| weights::run(plan) },
];

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
    let Some(bench) = BENCHES.iter().find(|bench| bench.name == arguments.name) else {
        return Err(format!("there is no benchmark {}", arguments.name).into());
    };
    if let Some(child) = &arguments.child {
        weights::child(child)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(stampede) = &arguments.stampede {
        cuda::stampede::child(stampede)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(process) = &arguments.process {
        together::child(process)?;
        return Ok(ExitCode::SUCCESS);
    }
    if cfg!(debug_assertions) {
        eprintln!("warning: built without optimisations, so the numbers mean nothing");
    }
    let rows = (bench.run)(if arguments.quick { &Plan::QUICK } else { &Plan::FULL }, arguments)?;
    println!("{}", row::table(&rows));
    if let Some(file) = &arguments.json {
        fs::write(file, row::json(bench.name, &rows)?)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))?;
    }
    let failed = arguments.strict && rows.iter().any(|row| !row.holds());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
