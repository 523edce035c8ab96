//! Benchmarks: `cargo xtask bench NAME`.
//!
//! A row compares what warmstart does with a floor that does the least that the job needs, or with a peer that does the
//! same job. Both are timed in turns in one run, so that a busy or slow machine moves both.

mod row;
mod stores;

use std::{error::Error, fs, io, path::PathBuf, process::ExitCode};

use clap::{Parser, builder::PossibleValuesParser};

use row::Row;
use warmstart_tests::measure::{self, Plan};

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
}

/// A benchmark: a name and what finds its rows.
struct Bench {
    name: &'static str,
    run: fn(&Plan) -> Rows,
}

/// What a benchmark found, or why it could not be run.
type Rows = Result<Vec<Row>, Box<dyn Error>>;

const BENCHES: [Bench; 1] = [Bench { name: "stores", run: stores::run }];

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
