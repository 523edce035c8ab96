//! `cargo xtask fuzz [SECONDS]`: builds the fuzz targets, runs them on all cores, and reports the findings.

use std::{
    process::{Command, ExitCode},
    sync::Mutex,
    thread,
};

use lexopt::prelude::*;
use xshell::{Cmd, Shell};

use crate::{
    Result,
    needs::{self, Need},
    shell,
};

/// The folder of the fuzz targets and their committed corpus.
const PACKAGE: &str = "tests/fuzz";

/// Limits of memory in MiB and of time. All inputs are short, so an allocation above the second limit trusts a length
/// in the input. No input takes 20 seconds.
const LIMITS: [&str; 4] =
    ["-rss_limit_mb=2048", "-malloc_limit_mb=16", "-timeout=20", "-print_final_stats=1"];

/// The requirements of building and running the targets.
pub(crate) const NEEDS: [Need; 3] = [
    Need::Program { name: "c++", debian: "g++" },
    Need::Nightly(&["rust-src"]),
    Need::Tool { name: "cargo-fuzz", version: "0.13.2" },
];

/// The arguments of `cargo xtask fuzz`.
#[derive(Debug)]
pub(crate) struct Arguments {
    seconds: u64,
    targets: Vec<String>,
    minimise: bool,
}

impl Arguments {
    /// Parses the arguments after `fuzz`.
    pub(crate) fn parse(mut parser: lexopt::Parser) -> Result<Self> {
        let mut arguments = Self { seconds: 60, targets: Vec::new(), minimise: false };
        while let Some(argument) = parser.next()? {
            match argument {
                Long("target") => arguments.targets.push(parser.value()?.string()?),
                Long("minimise") => arguments.minimise = true,
                Value(seconds) => arguments.seconds = seconds.parse()?,
                other => return Err(other.unexpected().into()),
            }
        }
        Ok(arguments)
    }
}

/// Runs the targets and prints the findings.
pub(crate) fn run(sh: &Shell, arguments: &Arguments) -> Result<ExitCode> {
    needs::preflight(sh, &NEEDS, false)?;
    NEEDS.into_iter().try_for_each(|need| need.ensure(sh))?;
    let listed = fuzz(sh, "list").quiet().read()?;
    let mut targets: Vec<String> = listed.lines().map(str::to_owned).collect();
    targets.retain(|name| arguments.targets.is_empty() || arguments.targets.contains(name));
    if targets.is_empty() {
        return Err(format!("there is no such fuzz target; there are:\n{listed}").into());
    }
    // cargo-fuzz builds one target or all.
    let only = targets.first().filter(|_| targets.len() == 1);
    fuzz(sh, "build").arg("--target-dir=target/fuzz").args(only).run()?;
    if arguments.minimise {
        for target in &targets {
            let [corpus, committed] = corpora(sh, target)?;
            // Counting which code is reached, but not how often, keeps a few dozen inputs.
            start(sh, target)
                .args([&committed, &corpus])
                .args(["--", "-merge=1", "-use_counters=0"])
                .run()?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let findings = run_all(&targets, arguments.seconds)?;
    findings.iter().for_each(|finding| println!("\n{finding}"));
    println!("\n{} fuzz targets, {} findings", targets.len(), findings.len());
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn fuzz<'a>(sh: &'a Shell, command: &str) -> Cmd<'a> {
    let cargo_fuzz = needs::tool(sh, "cargo-fuzz").env("RUSTUP_TOOLCHAIN", "nightly");
    cargo_fuzz.args([command, "--fuzz-dir", PACKAGE])
}

fn start<'a>(sh: &'a Shell, target: &str) -> Cmd<'a> {
    fuzz(sh, "run").args(["--target-dir=target/fuzz", target])
}

/// Runs the targets, one per core at a time, and returns the findings.
fn run_all(targets: &[String], seconds: u64) -> Result<Vec<String>> {
    let (queue, findings) = (Mutex::new(targets.iter()), Mutex::new(Vec::new()));
    let work = || -> Result {
        let sh = shell()?;
        loop {
            let next = queue.lock().expect("no thread panics while it takes a target").next();
            let Some(target) = next else { return Ok(()) };
            if let Some(finding) = run_one(&sh, target, seconds)? {
                findings.lock().expect("no thread panics while it adds a finding").push(finding);
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })?;
    Ok(findings.into_inner().expect("no thread has panicked"))
}

/// Runs one target and returns its finding. New inputs go into a separate corpus; the committed one is only read.
fn run_one(sh: &Shell, target: &str, seconds: u64) -> Result<Option<String>> {
    let command = start(sh, target).args(corpora(sh, target)?).arg("--").args(LIMITS);
    let output = Command::from(command.arg(format!("-max_total_time={seconds}"))).output()?;
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    let runs = |line: &&str| line.starts_with("stat::number_of_executed_units");
    println!("{target}: {}", printed.lines().find(runs).unwrap_or("it ended without statistics"));
    Ok((!output.status.success()).then(|| finding(&start(sh, target).to_string(), target, &printed)))
}

/// Returns the growing corpus of this machine, and the committed one.
fn corpora(sh: &Shell, target: &str) -> Result<[String; 2]> {
    let corpora = [format!("target/fuzz/corpus/{target}"), format!("{PACKAGE}/corpus/{target}")];
    corpora.iter().try_for_each(|folder| sh.create_dir(folder).map(drop))?;
    Ok(corpora)
}

/// Returns the output from the first line of the failure on, and the command that reproduces it.
fn finding(start: &str, target: &str, printed: &str) -> String {
    let says_nothing = |line: &&str| !line.contains("panicked at") && !line.contains("ERROR: ");
    let told: Vec<&str> = printed.lines().skip_while(says_nothing).take(150).collect();
    format!(
        "{}\n\n{target} found something. The input is in {PACKAGE}/artifacts/{target}/; to see it again:\n\
         RUSTUP_TOOLCHAIN=nightly {start} {PACKAGE}/artifacts/{target}/FILE",
        told.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_says_what_was_found_and_how_to_see_it_again() {
        let text = finding("cargo-fuzz run recipe", "recipe", "INFO: seed\nthread panicked at\nwhy\n");
        assert!(text.starts_with("thread panicked at\nwhy\n\nrecipe found"), "{text}");
        assert!(text.ends_with("cargo-fuzz run recipe tests/fuzz/artifacts/recipe/FILE"), "{text}");
    }
}
