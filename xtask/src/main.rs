//! What a contributor runs: `cargo xtask test`, `cargo xtask bench NAME`, `cargo xtask capi` and more.

mod bench;
mod capi;
mod fuzz;
mod node;
mod process;
mod runtimes;
mod test;
mod tools;
mod web;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What a contributor to warmstart runs. Works from any folder of the repository.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Everything that must hold before a change is merged.
    Test(test::Arguments),
    /// Runs a benchmark.
    Bench(bench::Arguments),
    /// Builds the C library under target/capi/.
    Capi(capi::Arguments),
    /// Runs the fuzz targets.
    Fuzz(fuzz::Arguments),
    /// Builds the npm package: target/package/warmstart-VERSION.tgz.
    Package(web::package::Arguments),
    /// Tests the npm package in a browser.
    Web(web::Arguments),
    /// Installs what tests and benchmarks run against, under target/.
    Runtimes(runtimes::Arguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().task {
        Task::Test(arguments) => test::run(&arguments),
        Task::Bench(arguments) => bench::run(&arguments),
        Task::Capi(arguments) => capi::run(&arguments),
        Task::Fuzz(arguments) => fuzz::run(&arguments),
        Task::Package(arguments) => web::package::run(&arguments),
        Task::Web(arguments) => web::run(&arguments),
        Task::Runtimes(arguments) => runtimes::run(&arguments),
    };
    done.unwrap_or_else(|failure| {
        eprintln!("error: {failure}");
        ExitCode::FAILURE
    })
}
