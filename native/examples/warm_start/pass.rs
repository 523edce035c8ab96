//! One pass over a store: every kernel from its description to its callable function, and then run and checked.

use std::{
    error::Error,
    ffi::c_void,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use warmstart::{
    Cache, Store,
    target::cpu::{Compiler, CpuTarget, Loaded},
};

use warmstart_tests::kernels::cpu::{CASES, Case};

/// What a pass found. A pass in a process of its own hands this to its parent.
#[derive(Serialize, Deserialize)]
pub(crate) struct Pass {
    /// From the descriptions to the callable functions, all kernels added up; what finding the compiler takes is in it.
    pub(crate) millis: f64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// What building took that this pass did not have to do.
    pub(crate) saved_millis: f64,
    /// What the hits read.
    pub(crate) bytes_read: u64,
    /// How often each reason made a look-up miss.
    pub(crate) reasons: Vec<(String, u64)>,
    /// The kernels that could not be had or gave something else than the reference, and how.
    pub(crate) failures: Vec<(String, String)>,
}

/// Runs a pass, with a progress bar if standard error is a terminal. The kernel numbered `changed`, from 1 on, has a flag
/// more than it usually has.
pub(crate) fn run<S: Store>(
    cache: &Cache<S>,
    title: &str,
    changed: Option<usize>,
) -> Result<Pass, Box<dyn Error>> {
    let progress = progress_bar(title);
    let mut failures = Vec::new();

    let started = Instant::now();
    let target = CpuTarget::new(Compiler::find()?);
    let mut elapsed = started.elapsed();
    for (number, case) in (1..).zip(CASES) {
        progress.set_message(case.name);
        let (loaded, took) = load(&target, cache, case, changed == Some(number));
        elapsed += took;
        if let Err(problem) = loaded.and_then(|loaded| (case.check)(loaded.library())) {
            failures.push((case.name.to_owned(), problem));
        }
        progress.inc(1);
    }
    progress.finish_and_clear();

    let statistics = cache.statistics();
    Ok(Pass {
        millis: elapsed.as_secs_f64() * 1e3,
        hits: statistics.hits,
        misses: statistics.misses.total(),
        saved_millis: statistics.saved_nanos as f64 / 1e6,
        bytes_read: statistics.bytes_read,
        reasons: statistics.misses.iter().map(|(reason, n)| (reason.to_string(), n)).collect(),
        failures,
    })
}

/// From the description to the callable function, and how long that took.
fn load<S: Store>(
    target: &CpuTarget,
    cache: &Cache<S>,
    case: &Case,
    is_changed: bool,
) -> (Result<Loaded, String>, Duration) {
    let started = Instant::now();
    let loaded = target.load(cache, &case.describe(is_changed)).map_err(|error| error.to_string()).and_then(
        |loaded| {
            // SAFETY: the address is not called; the check looks the function up again with its type.
            let found = unsafe { loaded.library().symbol::<*const c_void>(case.entry) };
            found.map(drop).map_err(|error| error.to_string())?;
            Ok(loaded)
        },
    );
    (loaded, started.elapsed())
}

fn progress_bar(title: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:>11} {bar:32.cyan/dim} {pos:>2}/{len} {wide_msg}")
        .expect("the template is well formed")
        .progress_chars("━╸─");
    ProgressBar::new(CASES.len() as u64).with_style(style).with_prefix(title.to_owned())
}
