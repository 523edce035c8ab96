//! `cargo xtask test`: a list of named steps with their commands.

mod memory;
mod steps;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use lexopt::prelude::*;
use xshell::{Cmd, Shell};

use crate::{
    Result,
    needs::{self, Need},
};

/// The exit status if all steps that ran passed, and one could not run.
const INCOMPLETE: u8 = 3;

/// The arguments of `cargo xtask test`.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    deep: bool,
    only: Vec<String>,
    list: bool,
    preflight: bool,
    install: bool,
    no_fail_fast: bool,
}

/// A step: it passes if all of its work succeeds.
#[derive(Debug)]
struct Step<'a> {
    name: &'static str,
    /// What it proves.
    about: &'static str,
    /// Whether it takes long, and runs only with `--deep`.
    deep: bool,
    needs: Vec<Need>,
    work: Vec<Work<'a>>,
}

#[derive(Debug)]
enum Work<'a> {
    Command(Cmd<'a>),
    Check(fn(&Shell) -> Result),
}

/// The outcome of a step.
#[derive(Debug)]
struct Outcome {
    name: &'static str,
    took: Duration,
    end: End,
}

#[derive(Debug)]
enum End {
    Passed,
    Failed(String),
    /// A requirement of the step is missing.
    NotRun(Need),
}

impl Arguments {
    /// Parses the arguments after `test`.
    pub(crate) fn parse(mut parser: lexopt::Parser) -> Result<Self> {
        let mut arguments = Self { install: needs::is_ci(), ..Self::default() };
        while let Some(argument) = parser.next()? {
            match argument {
                Long("deep") => arguments.deep = true,
                Long("only") => arguments.only.push(parser.value()?.string()?),
                Long("list") => arguments.list = true,
                Long("preflight") => arguments.preflight = true,
                Long("install") => arguments.install = true,
                Long("no-fail-fast") => arguments.no_fail_fast = true,
                other => return Err(other.unexpected().into()),
            }
        }
        Ok(arguments)
    }
}

/// Runs the steps in order and prints a table of them.
pub(crate) fn run(sh: &Shell, arguments: &Arguments) -> Result<ExitCode> {
    let mut steps = steps::all(sh, arguments.deep);
    let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
    if let Some(unknown) = arguments.only.iter().find(|only| !names.contains(&only.as_str())) {
        return Err(format!("there is no step {unknown}; there are: {}", names.join(", ")).into());
    }
    if arguments.list {
        print!("{}", list(&steps));
        return Ok(ExitCode::SUCCESS);
    }
    steps.retain(|step| match arguments.only.as_slice() {
        [] => arguments.deep || !step.deep,
        only => only.iter().any(|name| name == step.name),
    });
    let mut needs: Vec<Need> = Vec::new();
    for need in steps.iter().flat_map(|step| &step.needs) {
        if !needs.contains(need) {
            needs.push(*need);
        }
    }
    let started = Instant::now();
    let mut missing = needs::preflight(sh, &needs, arguments.install && !arguments.preflight)?;
    if arguments.preflight {
        return Ok(if missing.is_empty() { ExitCode::SUCCESS } else { INCOMPLETE.into() });
    }
    needs.retain(|need| !missing.contains(need));
    for need in needs {
        match need.ensure(sh) {
            // If its package cannot be fetched, the other steps run without it.
            Err(error) if need == needs::CHROMIUM => {
                eprintln!("{error}");
                missing.push(need);
            }
            ended => ended?,
        }
    }
    steps::fetch(sh, arguments.deep)?;
    // The deep run uses the disk.
    if !arguments.deep {
        memory::use_memory(sh);
    }
    let mut outcomes = vec![Outcome { name: "install", took: started.elapsed(), end: End::Passed }];
    for step in &steps {
        println!("\n== {}: {}", step.name, step.about);
        let started = Instant::now();
        let end = step.run(sh, &missing);
        let took = started.elapsed();
        println!("== {}: {} after {}", step.name, end.verdict(), seconds(took));
        let stop = matches!(end, End::Failed(_)) && !arguments.no_fail_fast;
        outcomes.push(Outcome { name: step.name, took, end });
        if stop {
            break;
        }
    }
    print!("\n{}", report(&steps, &outcomes));
    let any = |is: fn(&End) -> bool| outcomes.iter().any(|outcome| is(&outcome.end));
    Ok(if any(|end| matches!(end, End::Failed(_))) {
        ExitCode::FAILURE
    } else if any(|end| matches!(end, End::NotRun(_))) {
        INCOMPLETE.into()
    } else {
        ExitCode::SUCCESS
    })
}

impl Step<'_> {
    fn run(&self, sh: &Shell, missing: &[Need]) -> End {
        if let Some(need) = self.needs.iter().find(|need| missing.contains(need)) {
            return End::NotRun(*need);
        }
        match self.work.iter().try_for_each(|work| work.run(sh)) {
            Ok(()) => End::Passed,
            Err(failure) => End::Failed(failure.to_string()),
        }
    }
}

impl Work<'_> {
    fn run(&self, sh: &Shell) -> Result {
        match self {
            Self::Command(command) => Ok(command.run()?),
            Self::Check(check) => check(sh),
        }
    }
}

impl End {
    fn verdict(&self) -> String {
        match self {
            Self::Passed => String::from("passed"),
            Self::Failed(_) => String::from("FAILED"),
            Self::NotRun(need) => format!("not run, no {need}"),
        }
    }
}

/// Returns the list of the steps with what each proves and needs.
fn list(steps: &[Step<'_>]) -> String {
    let mut text = String::new();
    for step in steps {
        let needs: Vec<String> = step.needs.iter().map(Need::to_string).collect();
        let needs = if needs.is_empty() { String::from("cargo alone") } else { needs.join(", ") };
        let deep = if step.deep { " (--deep)" } else { "" };
        text += &format!("{:10} {}{deep}\n{:10} needs {needs}\n", step.name, step.about, "");
    }
    text
}

/// Returns the table of the steps with their times, followed by each failure and the command that repeats it.
fn report(steps: &[Step<'_>], outcomes: &[Outcome]) -> String {
    let total = outcomes.iter().map(|outcome| outcome.took).sum();
    let mut rows: Vec<(&str, String)> = outcomes
        .iter()
        .map(|outcome| (outcome.name, format!("{:>8}  {}", seconds(outcome.took), outcome.end.verdict())))
        .collect();
    let unreached = |step: &&Step<'_>| !outcomes.iter().any(|outcome| outcome.name == step.name);
    rows.extend(steps.iter().filter(unreached).map(|step| (step.name, format!("{:>8}  not run", "-"))));
    rows.push(("all", format!("{:>8}", seconds(total))));
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text: String = rows.iter().map(|(name, rest)| format!("{name:width$}  {rest}\n")).collect();
    for outcome in outcomes {
        if let Outcome { name, end: End::Failed(failure), .. } = outcome {
            text +=
                &format!("\nstep {name} failed\n{failure}\nrun it again: cargo xtask test --only {name}\n");
        }
    }
    text
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step<'a>(name: &'static str, work: Vec<Work<'a>>) -> Step<'a> {
        Step { name, about: "proves", deep: false, needs: vec![needs::CHROMIUM], work }
    }

    #[test]
    fn report_names_failures_and_how_to_run_them_again() {
        let steps = ["one", "second", "web", "third"].map(|name| step(name, Vec::new()));
        let outcome = |name, end| Outcome { name, took: Duration::from_millis(1500), end };
        let outcomes = [
            outcome("one", End::Passed),
            outcome("web", End::NotRun(needs::CHROMIUM)),
            outcome("second", End::Failed("exit status: 1: cargo fmt".to_owned())),
        ];
        assert_eq!(
            report(&steps, &outcomes),
            "one        1.5 s  passed\n\
             web        1.5 s  not run, no chromium\n\
             second     1.5 s  FAILED\n\
             third          -  not run\n\
             all        4.5 s\n\
             \n\
             step second failed\n\
             exit status: 1: cargo fmt\n\
             run it again: cargo xtask test --only second\n"
        );
    }

    #[test]
    fn step_fails_with_any_of_its_work_and_needs_its_requirements() {
        let sh = Shell::new().unwrap();
        let command = |program| Work::Command(sh.cmd(program));
        let verdict = |work, missing: &[Need]| step("step", work).run(&sh, missing).verdict();
        assert_eq!(verdict(vec![command("true"), command("true")], &[]), "passed");
        assert_eq!(verdict(vec![command("true"), command("false")], &[]), "FAILED");
        assert_eq!(verdict(vec![Work::Check(|_| Err("wrong".into()))], &[]), "FAILED");
        assert_eq!(verdict(vec![command("false")], &[needs::CHROMIUM]), "not run, no chromium");
    }
}
