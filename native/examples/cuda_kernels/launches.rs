//! Launches the cached binaries on the GPU, if there is one, and checks their results.

use std::{collections::HashMap, error::Error};

use serde::{Deserialize, Serialize};
use warmstart::{
    Cache, Store,
    target::cuda::{CudaTarget, Toolkit},
};
use warmstart_tests::kernels::cuda::{CASES, Case, sources};

use crate::{gpu::Gpu, phase::progress_bar};

/// The outcome of the launches.
#[derive(Serialize, Deserialize)]
pub(crate) enum Launches {
    /// The reason why nothing was launched.
    Skipped(String),
    Done {
        /// The GPU's name.
        name: String,
        architecture: String,
        /// The number of binaries that were in the cache.
        hits: usize,
        /// The number of kernels that agree with the reference.
        checked: usize,
        /// The other kernels, and what was wrong.
        failures: Vec<(String, String)>,
    },
}

impl Launches {
    /// Returns whether nothing was wrong.
    pub(crate) fn are_good(&self) -> bool {
        match self {
            Self::Skipped(_) => true,
            Self::Done { checked, .. } => *checked == CASES.len(),
        }
    }
}

/// Loads, launches and checks every kernel. Compiles those that the cache does not hold for the GPU's
/// architecture.
pub(crate) fn run<S: Store>(cache: &Cache<S>, toolkit: Toolkit) -> Result<Launches, Box<dyn Error>> {
    let gpu = match Gpu::find() {
        Ok(gpu) => gpu,
        Err(why) => return Ok(Launches::Skipped(why)),
    };
    let target = CudaTarget::new(toolkit);
    let (mut hits, mut checked, mut failures) = (0, 0, Vec::new());
    let progress = progress_bar("launched", CASES.len());
    for case in CASES {
        progress.set_message(case.name);
        match launch(&gpu, &target, cache, case) {
            Ok(is_hit) => {
                hits += usize::from(is_hit);
                checked += 1;
            }
            Err(problem) => failures.push((case.name.to_owned(), problem)),
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(Launches::Done {
        name: gpu.name.clone(),
        architecture: gpu.architecture.clone(),
        hits,
        checked,
        failures,
    })
}

/// Returns whether the binary was in the cache.
fn launch<S: Store>(gpu: &Gpu, target: &CudaTarget, cache: &Cache<S>, case: &Case) -> Result<bool, String> {
    let architecture = &gpu.architecture;
    let program = case.describe(sources(), architecture).map_err(|error| error.to_string())?;
    let compiled = target.compile(cache, &program).map_err(|error| format!("{architecture}: {error}"))?;
    let lowered: HashMap<_, _> =
        case.expressions().filter_map(|name| Some((name, compiled.lowered_name(name)?.to_owned()))).collect();
    let loaded = gpu.load(compiled.binary().to_vec(), lowered)?;
    (case.check)(&loaded)?;
    Ok(compiled.is_hit())
}
