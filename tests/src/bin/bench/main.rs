//! Benchmarks: `cargo xtask bench NAME`.
//!
//! A row compares what warmstart does with a floor that does the least that the job needs, or with a peer that does the
//! same job. Both are timed in turns in one run, so that a busy or slow machine moves both.

mod cuda;
mod launch;
mod preimage;
mod row;
mod stores;
mod weights;

use std::{error::Error, fs, io, path::PathBuf, process::ExitCode};

use clap::{Parser, builder::PossibleValuesParser};

use row::Row;
use warmstart_tests::{
    counting::Counting,
    measure::{self, Plan},
    weights::process::Role,
};

/// It adds to two counters of the thread, a small part of what it costs to ask for memory.
#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs a benchmark of warmstart.
#[derive(Debug, Parser)]
#[command(name = "bench", bin_name = "cargo xtask bench")]
struct Arguments {
    /// Which benchmark.
    #[arg(value_parser = PossibleValuesParser::new(BENCHES.map(|bench| bench.name)))]
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
    /// What this program starts itself as.
    #[command(flatten)]
    child: Option<Child>,
    #[command(flatten)]
    stampede: Option<Stampede>,
}

/// What a process does that a benchmark started.
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

/// One of many processes that compile the same.
#[derive(Clone, Debug, clap::Args)]
#[group(requires_all = ["cache", "include", "compilers"])]
struct Stampede {
    /// The directory of the cache.
    #[arg(long, hide = true, required = false)]
    cache: PathBuf,
    /// Where the headers are.
    #[arg(long, hide = true, required = false)]
    include: PathBuf,
    /// Where the compilers are.
    #[arg(long, hide = true, required = false)]
    compilers: PathBuf,
}

/// A benchmark: a name and what finds its rows.
struct Bench {
    name: &'static str,
    run: fn(&Plan) -> Rows,
}

/// What a benchmark found, or why it could not be run.
type Rows = Result<Vec<Row>, Box<dyn Error>>;

const BENCHES: [Bench; 4] = [
    Bench { name: "cuda", run: cuda::run },
    Bench { name: "launch", run: launch::run },
    Bench { name: "stores", run: stores::run },
    Bench { name: "weights", run: weights::run },
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
    let Some(bench) = BENCHES.into_iter().find(|bench| bench.name == arguments.name) else {
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
    if cfg!(debug_assertions) {
        eprintln!("warning: built without optimisations, so the numbers mean nothing");
    }
    let rows = (bench.run)(if arguments.quick { &Plan::QUICK } else { &Plan::FULL })?;
    println!("{}", row::table(&rows));
    if let Some(file) = &arguments.json {
        fs::write(file, row::json(bench.name, &rows)?)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))?;
    }
    let failed = arguments.strict && rows.iter().any(|row| !row.holds());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
