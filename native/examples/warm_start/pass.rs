//! One pass over a store: gets every kernel from its description to its callable function, then runs and checks it.

use std::{error::Error, ffi::c_void, path::PathBuf, time::Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use warmstart::{
    Cache, Limits, Store,
    cache::{Fetched, ManyOptions},
    store::MemoryStore,
    target::cpu::{CompileError, Compiler, CpuTarget, Kernel, Loaded},
};

use warmstart_tests::kernels::cpu::{CASES, Case};

/// The result of a pass, which a separate process prints for its parent.
#[derive(Serialize, Deserialize)]
pub(crate) struct Pass {
    /// The time from the descriptions to the callable functions, of all kernels together, with finding the compiler.
    pub(crate) millis: f64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// The build time that this pass saved.
    pub(crate) saved_millis: f64,
    /// The bytes that the hits read.
    pub(crate) bytes_read: u64,
    /// The misses by reason.
    pub(crate) reasons: Vec<(String, u64)>,
    /// The kernels that failed, or that differ from the reference, and how.
    pub(crate) failures: Vec<(String, String)>,
}

/// Returns the compiler of all passes. It is tried once, so that its failure is reported once.
pub(crate) fn working_compiler() -> Result<PathBuf, CompileError> {
    let target = CpuTarget::new(Compiler::find()?);
    let _ =
        target.compile(&Cache::new(MemoryStore::new(Limits::NONE)), &Kernel::new("trial", "int trial;"))?;
    Ok(target.compiler().path().to_path_buf())
}

/// Runs a pass: asks for all kernels at once, with a progress bar if standard error is a terminal and a title is given. The kernel
/// numbered `changed`, from 1 on, has a flag more than it usually has.
pub(crate) fn run<S: Store>(
    cache: &Cache<S>,
    title: Option<String>,
    workers: usize,
    changed: Option<usize>,
) -> Result<Pass, Box<dyn Error>> {
    let describe = |(number, case): (usize, &Case)| case.describe(changed == Some(number));
    let kernels: Vec<Kernel> = (1..).zip(CASES).map(describe).collect();
    let progress = title.map_or_else(ProgressBar::hidden, progress_bar);
    let on_ready = |index: usize, _: &Fetched| {
        progress.set_message(CASES[index].name);
        progress.inc(1);
    };
    let options = ManyOptions::default().with_workers(workers).with_on_ready(&on_ready);

    let started = Instant::now();
    let target = CpuTarget::new(Compiler::find()?);
    let loaded = target.load_many(cache, &kernels, options).into_iter().zip(CASES).map(|(loaded, case)| {
        let loaded = loaded.map_err(|error| error.to_string())?;
        // SAFETY: the address is not called; the check looks the function up again with its type.
        let found = unsafe { loaded.library().symbol::<*const c_void>(case.entry) };
        found.map(drop).map_err(|error| error.to_string())?;
        Ok(loaded)
    });
    let loaded: Vec<Result<Loaded, String>> = loaded.collect();
    let elapsed = started.elapsed();
    progress.finish_and_clear();

    let mut failures = Vec::new();
    for (loaded, case) in loaded.into_iter().zip(CASES) {
        if let Err(problem) = loaded.and_then(|loaded| (case.check)(loaded.library())) {
            failures.push((case.name.to_owned(), problem));
        }
    }
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

fn progress_bar(title: String) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:>11} {bar:32.cyan/dim} {pos:>2}/{len} {wide_msg}")
        .expect("the template is well formed")
        .progress_chars("━╸─");
    ProgressBar::new(CASES.len() as u64).with_style(style).with_prefix(title)
}
