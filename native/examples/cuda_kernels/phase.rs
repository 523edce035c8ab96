//! One phase: every kernel from its description to its binary, out of one cache.

use std::{
    error::Error,
    path::Path,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use warmstart::{
    Cache, Limits, Store,
    store::MemoryStore,
    target::cuda::{Compiled, CudaError, CudaTarget, Toolkit},
};

use warmstart_tests::kernels::cuda::{CASES, Case};

/// What a phase found. It hands this to the process that started it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Phase {
    pub(crate) calls: Vec<Call>,
    /// What loading the compiler's libraries took, which is in no call's time.
    pub(crate) load_millis: f64,
    /// How often each reason made a look-up miss.
    pub(crate) reasons: Vec<(String, u64)>,
    /// The binaries that are not what a compiler without a cache makes, if they were compared.
    pub(crate) differing: Option<Vec<String>>,
}

/// A kernel for an architecture.
#[derive(Serialize, Deserialize)]
pub(crate) struct Call {
    /// Its place among the kernels.
    pub(crate) case: usize,
    /// From the description to the binary.
    pub(crate) millis: f64,
    pub(crate) is_hit: bool,
    pub(crate) bytes: usize,
}

impl Phase {
    pub(crate) fn millis(&self) -> f64 {
        self.calls.iter().map(|call| call.millis).sum()
    }

    pub(crate) fn hits(&self) -> usize {
        self.calls.iter().filter(|call| call.is_hit).count()
    }

    pub(crate) fn misses(&self) -> usize {
        self.calls.len() - self.hits()
    }
}

/// Whether a phase compiles everything again, without the cache, to compare.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compare {
    No,
    WithFresh,
}

/// Runs a phase over the kernels below `sources`, with a progress bar if standard error is a terminal.
pub(crate) fn run<S: Store>(
    cache: &Cache<S>,
    toolkit: &dyn Fn() -> Result<Toolkit, CudaError>,
    sources: &Path,
    architectures: &[&str],
    compare: Compare,
    title: &str,
) -> Result<Phase, Box<dyn Error>> {
    let target = CudaTarget::new(toolkit()?);
    let mut calls = Vec::new();
    let mut kept = Vec::new();
    let progress = progress_bar(title, CASES.len() * architectures.len());
    for architecture in architectures {
        for (number, case) in CASES.iter().enumerate() {
            progress.set_message(format!("{} {architecture}", case.name));
            let (compiled, took) = compile(&target, cache, case, sources, architecture)
                .map_err(|error| format!("{}, {architecture}: {error}", case.name))?;
            calls.push(Call {
                case: number,
                millis: took.as_secs_f64() * 1e3,
                is_hit: compiled.is_hit(),
                bytes: compiled.binary().len(),
            });
            kept.push((case, *architecture, compiled));
            progress.inc(1);
        }
    }
    progress.finish_and_clear();

    let differing = match compare {
        Compare::No => None,
        Compare::WithFresh => Some(differing(&kept, toolkit()?, sources)?),
    };
    Ok(Phase {
        calls,
        load_millis: target.toolkit().load_time().as_secs_f64() * 1e3,
        reasons: cache.statistics().misses.iter().map(|(reason, n)| (reason.to_string(), n)).collect(),
        differing,
    })
}

/// From the description to the binary, and how long that took without the loading of libraries.
pub(crate) fn compile<S: Store>(
    target: &CudaTarget,
    cache: &Cache<S>,
    case: &Case,
    sources: &Path,
    architecture: &str,
) -> Result<(Compiled, Duration), Box<dyn Error>> {
    let loaded_before = target.toolkit().load_time();
    let started = Instant::now();
    let compiled = target.compile(cache, &case.describe(sources, architecture)?)?;
    let took = started.elapsed();
    Ok((compiled, took.saturating_sub(target.toolkit().load_time() - loaded_before)))
}

/// Compiles all of it with a target of its own and an empty cache, and says what came out different.
fn differing(
    kept: &[(&Case, &str, Compiled)],
    toolkit: Toolkit,
    sources: &Path,
) -> Result<Vec<String>, Box<dyn Error>> {
    let target = CudaTarget::new(toolkit);
    let progress = progress_bar("fresh", kept.len());
    let mut differing = Vec::new();
    for (case, architecture, compiled) in kept {
        progress.set_message(format!("{} {architecture}", case.name));
        let nothing = Cache::new(MemoryStore::new(Limits::NONE));
        let (fresh, _) = compile(&target, &nothing, case, sources, architecture)?;
        let is_fresh = !fresh.is_hit();
        let has_same_names =
            case.expressions().all(|name| fresh.lowered_name(name) == compiled.lowered_name(name));
        if !is_fresh || !has_same_names || fresh.binary() != compiled.binary() {
            differing.push(format!("{} for {architecture}", case.name));
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(differing)
}

pub(crate) fn progress_bar(title: &str, length: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:>13} {bar:32.cyan/dim} {pos:>2}/{len} {wide_msg}")
        .expect("the template is well formed")
        .progress_chars("━╸─");
    ProgressBar::new(length as u64).with_style(style).with_prefix(title.to_owned())
}
