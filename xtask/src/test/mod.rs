//! `cargo xtask test`: a list of named steps, each with the commands that a person would type.

mod hygiene;
mod steps;

use std::{
    env,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::builder::PossibleValuesParser;

use crate::{
    process::{Failure, Invocation},
    tools::{self, Tool},
};

/// What `cargo xtask test` is asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Runs this step alone; may be given more than once.
    #[arg(long, value_name = "STEP", value_parser = PossibleValuesParser::new(steps::all().iter().map(|step| step.name)))]
    only: Vec<String>,
    /// Names the steps and what they prove, and runs none.
    #[arg(long)]
    list: bool,
    /// Goes on after a step that failed.
    #[arg(long)]
    no_fail_fast: bool,
}

/// A step: it holds if all of it succeeds.
#[derive(Debug)]
struct Step {
    name: &'static str,
    /// What it proves.
    about: &'static str,
    tools: Vec<Tool>,
    work: Work,
}

#[derive(Debug)]
enum Work {
    Commands(Vec<Invocation>),
    /// Finds what is wrong, a line each.
    Inspection(fn() -> Result<Vec<String>, Failure>),
}

/// How a step went.
#[derive(Debug)]
struct Outcome {
    name: &'static str,
    took: Duration,
    failure: Option<Failure>,
}

/// Runs the steps in their order and closes with a table of them.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let mut steps = steps::all();
    if arguments.list {
        print!("{}", aligned(steps.iter().map(|step| (step.name, step.about))));
        return Ok(ExitCode::SUCCESS);
    }
    steps.retain(|step| arguments.only.is_empty() || arguments.only.iter().any(|name| name == step.name));
    let mut outcomes = Vec::new();
    for step in &steps {
        println!("\n== {}: {}", step.name, step.about);
        let started = Instant::now();
        let failure = step.run().err();
        let took = started.elapsed();
        println!(
            "== {}: {} after {}",
            step.name,
            if failure.is_some() { "FAILED" } else { "passed" },
            seconds(took)
        );
        let stop = failure.is_some() && !arguments.no_fail_fast;
        outcomes.push(Outcome { name: step.name, took, failure });
        if stop {
            break;
        }
    }
    print!("\n{}", report(&steps, &outcomes));
    let passed = outcomes.iter().all(|outcome| outcome.failure.is_none());
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Step {
    fn run(&self) -> Result<(), Failure> {
        tools::ensure(&self.tools)?;
        match &self.work {
            Work::Commands(commands) => commands.iter().try_for_each(|command| readable(command).run()),
            Work::Inspection(inspect) => {
                let wrong = inspect()?;
                if wrong.is_empty() { Ok(()) } else { Err(Failure::new(wrong.join("\n"))) }
            }
        }
    }
}

/// Where nobody watches, a progress bar is noise in a log.
fn readable(command: &Invocation) -> Invocation {
    let command = command.clone();
    if env::var_os("CI").is_some() { command.variable("CARGO_TERM_PROGRESS_WHEN", "never") } else { command }
}

/// The table of the steps with their times; below it, of every failure what failed and how to run it again.
fn report(steps: &[Step], outcomes: &[Outcome]) -> String {
    let total = outcomes.iter().map(|outcome| outcome.took).sum();
    let mut rows: Vec<(&str, String)> = outcomes
        .iter()
        .map(|outcome| {
            let verdict = if outcome.failure.is_some() { "FAILED" } else { "passed" };
            (outcome.name, format!("{:>8}  {verdict}", seconds(outcome.took)))
        })
        .collect();
    rows.extend(steps[outcomes.len()..].iter().map(|step| (step.name, format!("{:>8}  not run", "-"))));
    rows.push(("all", format!("{:>8}", seconds(total))));
    let mut text = aligned(rows.iter().map(|(name, rest)| (*name, rest.as_str())));
    for outcome in outcomes {
        if let Some(failure) = &outcome.failure {
            let name = outcome.name;
            text += &format!(
                "\nstep {name} failed\n{failure}\nrun the step again: cargo xtask test --only {name}\n"
            );
        }
    }
    text
}

/// Lines of two columns.
fn aligned<'a>(rows: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> String {
    let width = rows.clone().map(|(first, _)| first.len()).max().unwrap_or(0);
    rows.map(|(first, second)| format!("{first:width$}  {second}\n")).collect()
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &'static str) -> Step {
        Step { name, about: "proves", tools: Vec::new(), work: Work::Commands(Vec::new()) }
    }

    #[test]
    fn the_report_names_what_failed_and_how_to_run_it_again() {
        let steps = [step("one"), step("second"), step("third")];
        let outcome = |name, failure| Outcome { name, took: Duration::from_millis(1500), failure };
        let failed = Failure::new("exit status: 1: cargo fmt");
        let text = report(&steps, &[outcome("one", None), outcome("second", Some(failed))]);
        assert_eq!(
            text,
            "one        1.5 s  passed\n\
             second     1.5 s  FAILED\n\
             third          -  not run\n\
             all        3.0 s\n\
             \n\
             step second failed\n\
             exit status: 1: cargo fmt\n\
             run the step again: cargo xtask test --only second\n"
        );
    }

    #[test]
    fn what_an_inspection_finds_fails_the_step() {
        let inspected =
            |work| Step { work, ..step("inspection") }.run().map_err(|failure| failure.to_string());
        assert_eq!(inspected(Work::Inspection(|| Ok(Vec::new()))), Ok(()));
        let wrong = Work::Inspection(|| Ok(vec!["this".to_owned(), "that".to_owned()]));
        assert_eq!(inspected(wrong), Err("this\nthat".to_owned()));
    }
}
