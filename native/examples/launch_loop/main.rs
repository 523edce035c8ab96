//! Runs the launches of a training loop, and measures what it costs to know the results of its reducers at each launch.
//!
//! ```text
//! cargo run --release --example launch_loop            # a table and bars
//! cargo run --release --example launch_loop -- --json  # and one line for programs, the last
//! ```
//!
//! Five kernels of 600 reducers each are launched 2008 times. A reducer is the maximum of an expression over a range: of trip
//! counts, ragged rows, pairs. Before a few of the launches an input of reducers is written, swapped or reshaped; every launch
//! writes arrays that they do not read. Four designs answer each launch, over the same launches and changes: all reducers run
//! each time, two memos as they were before Quadrants #671, and the launch memo for threads. Every answer is compared with the
//! reducers run by another interpreter; the answers of the launch memo are held until the end, and compared then.
//!
//! All launches count, also the first one of each kernel. The figure is the time of all answers less that of the reducers that
//! were run for them, each as long as one takes without a memo: so the 290 ms of #671 were measured, whose reducers ran elsewhere.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "the numbers of this example are small"
)]

mod afresh;
mod allocations;
mod designs;
mod expression;
#[path = "../warm_start/figures.rs"]
mod figures;
mod kernels;
mod measure;
mod ours;
mod overflow;
mod random;
mod report;
mod scene;

use std::{
    error::Error,
    io::{self, Write as _},
    process::ExitCode,
};

use clap::Parser;
use console::Term;

use crate::{
    designs::{NoMemo, PerSpec},
    measure::{Expected, median, run},
    ours::{AsItIs, Ours},
    report::Outcome,
};

#[global_allocator]
static ALLOCATOR: allocations::Counting = allocations::Counting;

/// Launches five kernels 2008 times, and compares four ways to know the results of their reducers.
///
/// The figure is the time of all answers less that of the reducers that were run for them, each as long as one takes without a memo:
/// the cost for a dispatcher.
#[derive(Parser)]
#[command(name = "launch_loop")]
struct Options {
    /// Prints the result as the last line, in JSON; the report goes to standard error.
    #[arg(long)]
    json: bool,

    /// The number of loops of each design; the median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// Succeeds only if every answer was right and no hit allocated memory. The times are not judged.
fn main() -> ExitCode {
    let options = Options::parse();
    let outcome = measure(options.rounds);
    if let Err(error) = print(&outcome, options.json) {
        eprintln!("launch_loop: {error}");
        return ExitCode::FAILURE;
    }
    if outcome.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs all designs in turns, so that other work of the machine affects all alike.
fn measure(rounds: u32) -> Outcome {
    let expected = Expected::new();
    let mut loops = [const { Vec::new() }; 4];
    for _ in 0..rounds {
        loops[0].push(run(|_| NoMemo::default(), &expected));
        loops[1].push(run(|_| PerSpec::new(true), &expected));
        loops[2].push(run(|_| PerSpec::new(false), &expected));
        loops[3].push(run(Ours::<AsItIs>::new, &expected));
    }
    let [no_memo, deep_copy, copied_map, ours] = loops.map(median);
    let overflow = overflow::message(&expected);
    Outcome { no_memo, deep_copy, copied_map, ours, overflow }
}

/// Prints the report; with `json` it goes to standard error, and one line of JSON to standard output.
fn print(outcome: &Outcome, json: bool) -> Result<(), Box<dyn Error>> {
    let terminal = if json { Term::stderr() } else { Term::stdout() };
    let width = terminal.size_checked().map_or(80, |(_, columns)| usize::from(columns)).clamp(60, 120);
    let text = report::text(outcome, width)?;
    if json {
        io::stderr().write_all(text.as_bytes())?;
        writeln!(io::stdout(), "{}", report::line(outcome)?)?;
    } else {
        io::stdout().write_all(text.as_bytes())?;
    }
    Ok(())
}
