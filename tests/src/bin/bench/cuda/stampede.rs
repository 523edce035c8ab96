//! Many processes that need the same kernels at once, and find nothing.

use std::{env, error::Error, io, process::Command, time::Instant};

use serde::{Deserialize, Serialize};
use warmstart::{
    Cache,
    store::{FileStore, StoreOptions},
};
use warmstart_tests::measure::{Plan, median};
use xxhash_rust::xxh3::Xxh3Default;

use super::{INCLUDE, Place, program, target};
use crate::{
    Rows, Stampede,
    row::{Row, Sense},
    servant::Servant,
};

const PROCESSES: usize = 8;

const KERNELS: usize = 12;

/// The result of a process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Report {
    /// The number of kernels that it compiled.
    builds: u64,
    /// The number of kernels that it found, at once or after another process had compiled them.
    found: u64,
    /// The digest of all binaries, in order.
    digest: u64,
    /// The time from opening the store to the last binary, in milliseconds.
    millis: f64,
    /// The part of this time that loading the libraries takes.
    load_millis: f64,
}

/// The rows of processes that start together on a directory that is not there yet.
pub(super) fn rows(plan: &Plan, place: &Place) -> Rows {
    let runs = if plan.is_quick() { 1 } else { 3 };
    let (mut most, mut millis, mut load) = (0, Vec::new(), Vec::new());
    for run in 0..runs {
        let reports = stampede(place, run)?;
        let (first, builds) = (reports[0], reports.iter().map(|report| report.builds).sum::<u64>());
        let whole =
            |report: &Report| report.digest == first.digest && report.builds + report.found == KERNELS as u64;
        if builds < KERNELS as u64 || !reports.iter().all(whole) {
            return Err(format!("stampede: not all have the same kernels: {reports:?}").into());
        }
        most = most.max(builds);
        millis.push(reports.iter().map(|report| report.millis).fold(0.0, f64::max));
        load.extend(reports.iter().map(|report| report.load_millis));
    }
    let name = format!("stampede/{PROCESSES}");
    let compiled = (most as f64, "compiles");
    Ok(vec![
        Row::bounded(&name, compiled, "kernels", Sense::AtMost, KERNELS as f64),
        Row::note(format!("{name}/last_done"), (median(millis), "ms"), "none"),
        Row::note(format!("{name}/loading"), (median(load), "ms"), "none"),
    ])
}

fn stampede(place: &Place, run: usize) -> Result<Vec<Report>, Box<dyn Error>> {
    let start = || -> io::Result<Servant> {
        let mut command = Command::new(env::current_exe()?);
        command.arg("cuda").arg("--cache").arg(place.disk.path(&format!("stampede-{run}")));
        command.arg("--include").arg(&place.include).arg("--compilers").arg(&place.compilers);
        Servant::start(&mut command)
    };
    let mut processes = (0..PROCESSES).map(|_| start()).collect::<io::Result<Vec<_>>>()?;
    // All of them run, before the first is told to go.
    processes.iter_mut().try_for_each(|process| process.hear().map(drop))?;
    processes.iter_mut().try_for_each(|process| process.tell("go"))?;
    processes.iter_mut().map(|process| Ok(serde_json::from_str(&process.hear()?)?)).collect()
}

/// Runs one of the processes.
pub(crate) fn child(stampede: &Stampede) -> Result<(), Box<dyn Error>> {
    println!("ready");
    io::stdin().read_line(&mut String::new())?;
    let start = Instant::now();
    let cache = Cache::new(FileStore::open(&stampede.cache, StoreOptions::default())?);
    let target = target(&stampede.compilers)?;
    let mut digest = Xxh3Default::new();
    for n in 0..KERNELS {
        let compiled = target.compile(&cache, &program(&kernel(n), &stampede.include))?;
        digest.update(compiled.binary());
    }
    let millis = start.elapsed().as_secs_f64() * 1e3;
    let counted = cache.statistics();
    let report = Report {
        builds: counted.builds,
        found: counted.hits + counted.shared,
        digest: digest.digest(),
        millis,
        load_millis: target.toolkit().load_time().as_secs_f64() * 1e3,
    };
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

/// Returns the source of a kernel. All kernels differ, and all include the header.
fn kernel(n: usize) -> String {
    format!(
        "{INCLUDE}
extern \"C\" __global__ void scale{n}(float* values, float factor, int count) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) values[i] = scaled(values[i], factor) + {n}.0f;
}}
"
    )
}
