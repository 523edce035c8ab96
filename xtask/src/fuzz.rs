//! `cargo xtask fuzz [SECONDS]`: builds the fuzz targets, runs each for a while, and says what was found.

use std::{
    fs,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use crate::{
    process::{Failure, Invocation, workspace_root},
    tools::{self, Tool},
};

/// Where the fuzz targets are, and their committed corpus.
const PACKAGE: &str = "tests/fuzz";

/// What is built, and the corpus that grows with each run.
const WORK: &str = "target/fuzz";

/// Memory in MiB. All inputs are short, so a single allocation above the second is one that an input only claimed.
const LIMITS: [&str; 2] = ["-rss_limit_mb=2048", "-malloc_limit_mb=16"];

/// No input takes so many seconds.
const TIMEOUT: &str = "-timeout=20";

const TOOLS: [Tool; 2] = [Tool::Nightly(&[]), Tool::Program { name: "cargo-fuzz", package: "cargo-fuzz" }];

/// What `cargo xtask fuzz` is asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How long each target runs.
    #[arg(default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Runs this target alone; may be given more than once.
    #[arg(long, value_name = "NAME")]
    target: Vec<String>,
    /// Puts what the runs have found to be worth keeping into the committed corpus, as little of it as reaches all.
    #[arg(long)]
    minimise: bool,
}

/// How the run of a target went.
#[derive(Debug)]
struct Outcome {
    target: String,
    runs: u64,
    took: Duration,
    corpus: usize,
    /// What the fuzzer printed, if it found something.
    finding: Option<String>,
}

/// Runs the targets and closes with a table of them.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    tools::ensure(&TOOLS)?;
    let targets = chosen(targets()?, &arguments.target)?;
    match targets.as_slice() {
        // Of one, only that is built.
        [target] => cargo_fuzz("build").argument(target).run()?,
        _ => cargo_fuzz("build").run()?,
    }
    if arguments.minimise {
        targets.iter().try_for_each(|target| minimise(target))?;
        return Ok(ExitCode::SUCCESS);
    }
    let outcomes: Vec<Outcome> =
        targets.iter().map(|target| fuzz(target, arguments.seconds)).collect::<Result<_, _>>()?;
    print!("\n{}", report(&outcomes));
    let found = outcomes.iter().any(|outcome| outcome.finding.is_some());
    Ok(if found { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// A command of cargo-fuzz on our package.
fn cargo_fuzz(command: &str) -> Invocation {
    Invocation::new(&format!("cargo +nightly fuzz {command} --fuzz-dir {PACKAGE} --target-dir {WORK}"))
}

/// Those that the package's manifest names.
fn targets() -> Result<Vec<String>, Failure> {
    let listed = Invocation::new(&format!("cargo +nightly fuzz list --fuzz-dir {PACKAGE}")).output()?;
    Ok(String::from_utf8_lossy(&listed).lines().map(str::to_owned).collect())
}

fn chosen(all: Vec<String>, named: &[String]) -> Result<Vec<String>, Failure> {
    if let Some(unknown) = named.iter().find(|name| !all.contains(name)) {
        return Err(Failure::new(format!(
            "there is no fuzz target {unknown}; there are: {}",
            all.join(", ")
        )));
    }
    Ok(if named.is_empty() { all } else { named.to_vec() })
}

/// Runs one target. What it finds worth keeping goes into a corpus of its own; the committed one is only read.
fn fuzz(target: &str, seconds: u64) -> Result<Outcome, Failure> {
    let corpus = corpus(target)?;
    let committed = committed(target)?;
    let command = cargo_fuzz("run")
        .argument(target)
        .argument(&corpus)
        .argument(&committed)
        .argument("--")
        .argument(format!("-max_total_time={seconds}"))
        .argument("-print_final_stats=1")
        .argument(TIMEOUT)
        .argument(LIMITS[0])
        .argument(LIMITS[1]);
    let started = Instant::now();
    let (status, printed) = command.transcript()?;
    let took = started.elapsed();
    let finding = (!status.success()).then(|| printed.clone());
    Ok(Outcome { target: target.to_owned(), runs: runs(&printed), took, corpus: files(&corpus), finding })
}

/// Brings the committed corpus and that of the runs together, and keeps as few files as reach all that they reach.
fn minimise(target: &str) -> Result<(), Failure> {
    let (corpus, committed) = (corpus(target)?, committed(target)?);
    let smallest = workspace_root().join(WORK).join("minimised").join(target);
    if smallest.exists() {
        fs::remove_dir_all(&smallest).map_err(|error| unusable(&smallest, &error))?;
    }
    make(&smallest)?;
    cargo_fuzz("run")
        .argument(target)
        .argument(&smallest)
        .argument(&committed)
        .argument(&corpus)
        .argument("--")
        .argument("-set_cover_merge=1")
        // What is reached counts, and not how often: that keeps a few dozen.
        .argument("-use_counters=0")
        .run()?;
    fs::remove_dir_all(&committed)
        .and_then(|()| fs::rename(&smallest, &committed))
        .map_err(|error| unusable(&committed, &error))
}

/// The corpus that grows with each run.
fn corpus(target: &str) -> Result<PathBuf, Failure> {
    make(&workspace_root().join(WORK).join("corpus").join(target))
}

fn committed(target: &str) -> Result<PathBuf, Failure> {
    make(&workspace_root().join(PACKAGE).join("corpus").join(target))
}

fn make(directory: &std::path::Path) -> Result<PathBuf, Failure> {
    fs::create_dir_all(directory).map_err(|error| unusable(directory, &error))?;
    Ok(directory.to_owned())
}

fn unusable(path: &std::path::Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}

fn files(directory: &std::path::Path) -> usize {
    fs::read_dir(directory).map_or(0, Iterator::count)
}

/// How often the target ran, as libFuzzer says at its end.
fn runs(printed: &str) -> u64 {
    let of_line = |line: &str| line.strip_prefix("stat::number_of_executed_units:")?.trim().parse().ok();
    printed.lines().find_map(of_line).unwrap_or(0)
}

/// The table of the targets; below it, of every finding what was printed and how to see it again.
fn report(outcomes: &[Outcome]) -> String {
    let width = outcomes.iter().map(|outcome| outcome.target.len()).max().unwrap_or(0).max("target".len());
    let mut text =
        format!("{:width$}  {:>10}  {:>8}  {:>6}  findings\n", "target", "runs", "seconds", "corpus");
    for Outcome { target, runs, took, corpus, finding } in outcomes {
        let (seconds, findings) = (took.as_secs_f64(), usize::from(finding.is_some()));
        text += &format!("{target:width$}  {runs:>10}  {seconds:>8.1}  {corpus:>6}  {findings:>8}\n");
    }
    for Outcome { target, finding, .. } in outcomes {
        let Some(printed) = finding else { continue };
        let told = what_went_wrong(printed);
        text += &format!(
            "\n{told}\n\n{target} found something. The input is in {PACKAGE}/artifacts/{target}/; to see it again:\n\
             {} {target} {PACKAGE}/artifacts/{target}/FILE\n",
            cargo_fuzz("run")
        );
    }
    text
}

/// From the first line that says what went wrong, as much as one reads.
fn what_went_wrong(printed: &str) -> String {
    let says_nothing = |line: &&str| !line.contains("panicked at") && !line.contains("ERROR: ");
    let lines: Vec<&str> = printed.lines().skip_while(says_nothing).take(150).collect();
    if lines.is_empty() { printed.to_owned() } else { lines.join("\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_says_how_to_see_a_finding_again() {
        let outcome = |target: &str, finding: Option<&str>| Outcome {
            target: target.to_owned(),
            runs: 1200,
            took: Duration::from_millis(5100),
            corpus: 7,
            finding: finding.map(str::to_owned),
        };
        let text =
            report(&[outcome("key", None), outcome("recipe", Some("INFO: seed\nthread panicked at\nwhy"))]);
        assert!(text.starts_with(
            "target        runs   seconds  corpus  findings\n\
             key           1200       5.1       7         0\n\
             recipe        1200       5.1       7         1\n"
        ));
        let again = "cargo +nightly fuzz run --fuzz-dir tests/fuzz --target-dir target/fuzz recipe \
                     tests/fuzz/artifacts/recipe/FILE\n";
        assert!(text.ends_with(again), "{text}");
        assert!(text.contains("\n\nthread panicked at\nwhy\n"));
    }

    #[test]
    fn the_number_of_runs_is_read_from_the_statistics() {
        let printed = "Done 12 runs\nstat::number_of_executed_units: 4711\nstat::peak_rss_mb: 30\n";
        assert_eq!(runs(printed), 4711);
        assert_eq!(runs(""), 0);
    }

    #[test]
    fn a_target_that_does_not_exist_is_answered_with_those_that_do() {
        let all = || vec!["key".to_owned(), "recipe".to_owned()];
        assert_eq!(chosen(all(), &[]).unwrap(), all());
        assert_eq!(chosen(all(), &["recipe".to_owned()]).unwrap(), ["recipe"]);
        let refused = chosen(all(), &["cake".to_owned()]).unwrap_err().to_string();
        assert!(refused.ends_with("there are: key, recipe"), "{refused}");
    }
}
