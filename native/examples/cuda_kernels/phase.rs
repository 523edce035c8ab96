//! One phase: gets every kernel from its description to its binary, through one cache.

use std::{error::Error, path::Path, time::Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use warmstart::{
    Cache, Limits, Store,
    cache::{Fetched, ManyOptions},
    store::MemoryStore,
    target::cuda::{Compiled, CudaError, CudaTarget, Toolkit},
};

use warmstart_tests::kernels::cuda::{CASES, Case};

/// The result of a phase, which its process prints for its parent.
#[derive(Serialize, Deserialize)]
pub(crate) struct Phase {
    /// Whether the binary was in the cache, and its length in bytes; kernel by kernel for each architecture.
    pub(crate) binaries: Vec<(bool, usize)>,
    /// The time from the descriptions to all binaries, without that to load libraries.
    pub(crate) millis: f64,
    /// The time to load the compiler's libraries.
    pub(crate) load_millis: f64,
    /// The misses by reason.
    pub(crate) reasons: Vec<(String, u64)>,
    /// The binaries that differ from those of a compiler without a cache, if they were compared.
    pub(crate) differing: Option<Vec<String>>,
}

impl Phase {
    pub(crate) fn hits(&self) -> usize {
        self.binaries.iter().filter(|(is_hit, _)| *is_hit).count()
    }

    pub(crate) fn misses(&self) -> usize {
        self.binaries.len() - self.hits()
    }
}

/// Whether a phase also compiles everything without the cache, to compare.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compare {
    No,
    WithFresh,
}

/// Runs a phase over the kernels below `sources`: asks for all at once, with a progress bar if standard error is a terminal.
pub(crate) fn run<S: Store>(
    cache: &Cache<S>,
    toolkit: &dyn Fn() -> Result<Toolkit, CudaError>,
    sources: &Path,
    architectures: &[&str],
    compare: Compare,
    title: &str,
) -> Result<Phase, Box<dyn Error>> {
    let target = CudaTarget::new(toolkit()?);
    let of_all = |architecture| CASES.iter().map(move |case| (case, architecture));
    let pairs: Vec<(&Case, &str)> = architectures.iter().copied().flat_map(of_all).collect();
    let programs = pairs.iter().map(|(case, architecture)| case.describe(sources, architecture));
    let programs = programs.collect::<Result<Vec<_>, _>>()?;

    let progress = progress_bar(title, programs.len());
    let on_ready = |index: usize, _: &Fetched| {
        let (case, architecture) = pairs[index];
        progress.set_message(format!("{} {architecture}", case.name));
        progress.inc(1);
    };
    let started = Instant::now();
    let compiled = target.compile_many(cache, &programs, ManyOptions::default().with_on_ready(&on_ready));
    let (took, loading) = (started.elapsed(), target.toolkit().load_time());
    progress.finish_and_clear();

    let mut kept = Vec::new();
    for ((case, architecture), compiled) in pairs.into_iter().zip(compiled) {
        let compiled = compiled.map_err(|error| format!("{}, {architecture}: {error}", case.name))?;
        kept.push((case, architecture, compiled));
    }
    let differing = match compare {
        Compare::No => None,
        Compare::WithFresh => Some(differing(&kept, toolkit()?, sources)?),
    };
    Ok(Phase {
        binaries: kept.iter().map(|(_, _, compiled)| (compiled.is_hit(), compiled.binary().len())).collect(),
        millis: took.saturating_sub(loading).as_secs_f64() * 1e3,
        load_millis: loading.as_secs_f64() * 1e3,
        reasons: cache.statistics().misses.iter().map(|(reason, n)| (reason.to_string(), n)).collect(),
        differing,
    })
}

/// Compiles all kernels with a separate target and an empty cache, and returns those that differ.
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
        let fresh = target.compile(&nothing, &case.describe(sources, architecture)?)?;
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
