//! `cuda`: what keys, hits and misses of CUDA programs cost. Nothing here needs a GPU.
//!
//! Each build compiles a small kernel that includes a header to a CUBIN for sm_90. Files are on a disk, and in the page
//! cache.

mod hit;
mod key;
mod miss;
mod nvrtc;
mod peer;
pub(crate) mod stampede;

use std::{
    error::Error,
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use warmstart::{
    Cache, Store,
    target::cuda::{Compiled, CudaTarget, Program, Toolkit},
};
use warmstart_tests::{measure::Plan, medium::Medium, runtimes};

use crate::{Rows, row::Row};

const ARCH: &str = "sm_90";

const HEADER: &str = "\
#pragma once

template <typename T>
__device__ __forceinline__ T scaled(T value, T factor) {
    return value * factor;
}
";

const INCLUDE: &str = "#include \"scale.cuh\"\n";

const KERNEL: &str = "
extern \"C\" __global__ void scale(float* values, float factor, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) values[i] = scaled(values[i], factor);
}
";

/// The time until a file's times are trusted; a younger file is read at each call.
const SETTLING: Duration = Duration::from_millis(2100);

/// The locations of the compilers, the header and the caches.
struct Place {
    disk: Medium,
    compilers: PathBuf,
    include: PathBuf,
    source: String,
}

/// All rows of the benchmark.
pub(crate) fn run(plan: &Plan) -> Rows {
    let mut rows = key::rows(plan)?;
    let Some(compilers) = runtimes::cuda_libraries() else {
        eprintln!("the compilers are not there: their rows are missing (cargo xtask runtimes --cuda)");
        return Ok(rows);
    };
    let place = Place::new(compilers)?;
    // First, for a library is loaded once in a process.
    let on_disk = miss::rows(plan, &place)?
        .into_iter()
        .chain(hit::rows(plan, &place)?)
        .chain(stampede::rows(plan, &place)?)
        .map(|row: Row| row.on(place.disk.name));
    rows.extend(on_disk);
    Ok(rows)
}

impl Place {
    fn new(compilers: PathBuf) -> io::Result<Self> {
        let disk = Medium::disk()?;
        let include = disk.path("include");
        fs::create_dir_all(&include)?;
        fs::write(include.join("scale.cuh"), HEADER)?;
        thread::sleep(SETTLING);
        Ok(Self { disk, compilers, include, source: format!("{INCLUDE}{KERNEL}") })
    }

    /// A target that has loaded nothing yet.
    fn target(&self) -> Result<CudaTarget, Box<dyn Error>> {
        target(&self.compilers)
    }

    /// Describes the kernel, as a program does at every call.
    fn program(&self) -> Program {
        program(&self.source, &self.include)
    }

    /// The same options for NVRTC alone.
    fn options(&self) -> [String; 2] {
        [format!("--gpu-architecture={ARCH}"), format!("--include-path={}", self.include.display())]
    }

    /// Looks the kernel up, from its description to its bytes.
    fn call<S: Store>(&self, target: &CudaTarget, cache: &Cache<S>) -> Result<Compiled, Box<dyn Error>> {
        Ok(target.compile(cache, &self.program())?)
    }
}

fn target(compilers: &Path) -> Result<CudaTarget, Box<dyn Error>> {
    Ok(CudaTarget::new(Toolkit::at(compilers)?))
}

fn program(source: &str, include: &Path) -> Program {
    Program::cxx("scale.cu", source).arch(ARCH).include_dir(include)
}

/// Returns the time of one of so many calls.
fn each(calls: u32, mut call: impl FnMut()) -> Duration {
    let start = Instant::now();
    (0..calls).for_each(|_| call());
    start.elapsed() / calls
}
