//! Shows machines that share one cache: what one has compiled, the next one finds, and two that start together divide the work.
//!
//! ```text
//! cargo run --release -p warmstart-remote --example fleet            # says what happens
//! cargo run --release -p warmstart-remote --example fleet -- --json  # and one line for programs, the last
//! ```
//!
//! Starts a Redis of its own on the loopback interface. Each start of a "machine", which is a directory here, is a process of its own:
//! this program, started again with `--machine`. A C compiler is needed.

mod machine;

use std::{
    env,
    error::Error,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
};

use clap::Parser;
use serde::Serialize;
use warmstart_tests::{
    kernels::cpu::CASES,
    servers::{self, Server},
};

use machine::Start;

/// Compiles real kernels on machines that share a cache.
#[derive(Parser)]
#[command(name = "fleet")]
struct Arguments {
    /// Prints the result as the last line, in JSON; what happens goes to standard error.
    #[arg(long)]
    json: bool,

    /// Starts the machine of this directory, and prints what it did as JSON. The program starts itself so.
    #[arg(long, hide = true, requires_all = ["url", "secret"])]
    machine: Option<PathBuf>,

    /// The remote.
    #[arg(long, hide = true)]
    url: Option<String>,

    /// The file with the secret of the fleet.
    #[arg(long, hide = true)]
    secret: Option<PathBuf>,
}

/// The last line of the output.
#[derive(Serialize)]
struct Summary {
    engine: &'static str,
    first_builds: u64,
    second_hits: u64,
    together_builds: u64,
    after_kill_errors: u64,
    verified: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match (&arguments.machine, &arguments.url, &arguments.secret) {
        (Some(directory), Some(url), Some(secret)) => machine::run(directory, url, secret).map(|()| true),
        _ => play(arguments.json),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("fleet: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Plays all starts. Returns whether each did what it should.
fn play(is_json: bool) -> Result<bool, Box<dyn Error>> {
    let folder = tempfile::Builder::new().prefix("fleet-").tempdir()?;
    let secret = folder.path().join("secret");
    machine::write_secret(&secret)?;
    if servers::program("redis-server").is_none() {
        return Err(
            "there is no redis-server: install it (`apt-get install redis-server`, `brew install redis`), \
                    or run `cargo xtask runtimes --engines`"
                .into(),
        );
    }
    let redis = Server::redis(&[]);
    let url = |database: u32| format!("redis://127.0.0.1:{}/{database}", redis.port);
    let all = CASES.len() as u64;
    let start = |machine: &str, url: &str| spawn(&folder.path().join(machine), url, &secret);
    // Another number of the database is an empty cache.
    let (shared, empty) = (url(0), url(1));

    let first = result(start("one", &shared)?)?;
    eprintln!("one starts:          {first}");
    let second = result(start("two", &shared)?)?;
    eprintln!("two starts:          {second}");
    let [three, four] = [start("three", &empty)?, start("four", &empty)?].map(result);
    let (three, four) = (three?, four?);
    eprintln!("three and four:      {three}");
    eprintln!("  start together:    {four}");
    redis.stop();
    let third = result(start("two", &shared)?)?;
    eprintln!("two, without Redis:  {third}");

    let starts = [&first, &second, &three, &four, &third];
    let is_verified = starts.iter().all(|start| start.failures.is_empty());
    for failure in starts.iter().flat_map(|start| &start.failures) {
        eprintln!("fleet: {failure}");
    }
    let together = three.builds + four.builds;
    let errors = third.failures.len() as u64 + third.builds;
    if is_json {
        let summary = Summary {
            engine: "redis",
            first_builds: first.builds,
            second_hits: second.hits,
            together_builds: together,
            after_kill_errors: errors,
            verified: is_verified,
        };
        let line = serde_json::to_string(&summary)?;
        println!("{line}");
    }
    Ok(is_verified && (first.builds, second.hits, together, errors) == (all, all, all, 0))
}

/// Starts a machine as a process.
fn spawn(directory: &Path, url: &str, secret: &Path) -> Result<Child, Box<dyn Error>> {
    let mut command = Command::new(env::current_exe()?);
    command.arg("--machine").arg(directory).args(["--url", url]).arg("--secret").arg(secret);
    Ok(command.stdout(Stdio::piped()).spawn()?)
}

/// Waits for a machine, and returns what it did.
fn result(machine: Child) -> Result<Start, Box<dyn Error>> {
    let output = machine.wait_with_output()?;
    if !output.status.success() {
        return Err(format!("a machine ended with {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
