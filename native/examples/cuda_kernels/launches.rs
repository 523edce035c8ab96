//! Launches the cached binaries on the GPU, if there is one, and checks what they give.

use std::{collections::HashMap, error::Error};

use serde::{Deserialize, Serialize};
use warmstart::{
    Cache, Store,
    target::cuda::{CudaTarget, Toolkit},
};
use warmstart_tests::kernels::cuda::{CASES, Case, sources};

use crate::{
    gpu::Gpu,
    phase::{compile, progress_bar},
};

/// What came of the launches.
#[derive(Serialize, Deserialize)]
pub(crate) enum Launches {
    /// Why there were none.
    Skipped(String),
    Done {
        /// The GPU's name.
        name: String,
        architecture: String,
        /// How many binaries were in the cache.
        hits: usize,
        /// How many kernels gave what the reference gives.
        checked: usize,
        /// The others, and what was wrong.
        failures: Vec<(String, String)>,
    },
}

impl Launches {
    /// Whether nothing was wrong.
    pub(crate) fn are_good(&self) -> bool {
        match self {
            Self::Skipped(_) => true,
            Self::Done { checked, .. } => *checked == CASES.len(),
        }
    }
}

/// Loads, launches and checks every kernel. What the cache does not hold for the GPU's architecture is
/// compiled.
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

/// Whether the binary was in the cache.
fn launch<S: Store>(gpu: &Gpu, target: &CudaTarget, cache: &Cache<S>, case: &Case) -> Result<bool, String> {
    let (compiled, _) = compile(target, cache, case, sources(), &gpu.architecture)
        .map_err(|error| format!("{}: {error}", gpu.architecture))?;
    let lowered: HashMap<_, _> =
        case.expressions().filter_map(|name| Some((name, compiled.lowered_name(name)?.to_owned()))).collect();
    let loaded = gpu.load(compiled.binary().to_vec(), lowered)?;
    (case.check)(&loaded)?;
    Ok(compiled.is_hit())
}
