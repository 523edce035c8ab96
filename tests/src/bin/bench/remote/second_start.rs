//! The start of a machine with an empty disk, when another one has compiled.

use std::error::Error;

use warmstart::{Cache, Store, cache::ManyOptions};
use warmstart_tests::{kernels::cpu::CASES, medium::Medium, servers::Server};

use super::{PATIENT, files, fleet, sealed};
use crate::{
    Rows,
    measure::Plan,
    row::{Row, Sense},
    together::kernels::{load_many, right},
};

pub(super) fn rows(plan: &Plan, disk: &Medium) -> Rows {
    let runs = if plan.is_quick() { 1 } else { 5 };
    let server = Server::redis(&[]);
    let remote = || sealed(&format!("redis://127.0.0.1:{}", server.port));
    let first = Cache::new(fleet(disk, "first", remote()?)?);
    start(&first)?;
    first.store().wait_for_uploads(PATIENT);
    let (mut ratios, mut warm, mut cold) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..runs {
        let compiling = start(&Cache::new(files(disk, &format!("compiling-{run}"))?))?;
        let second = Cache::new(fleet(disk, &format!("second-{run}"), remote()?)?);
        let finding = start(&second)?;
        if second.statistics().builds > 0 {
            return Err("the second machine compiles".into());
        }
        ratios.push(finding / compiling);
        warm.push(finding);
        cold.push(compiling);
    }
    let [ratio, warm, cold] = [ratios, warm, cold].map(warmstart_tests::measure::median);
    Ok(vec![
        Row::bounded("second_start/38_kernels", (ratio, "ratio"), "compiling", Sense::AtMost, 0.05)
            .on(disk.name),
        Row::note("second_start/38_kernels/warmstart", (warm, "ms"), "none").on(disk.name),
        Row::note("second_start/38_kernels/compiling", (cold, "ms"), "none").on(disk.name),
    ])
}

/// Loads all kernels, and returns the milliseconds that it took.
fn start<S: Store>(cache: &Cache<S>) -> Result<f64, Box<dyn Error>> {
    let started = std::time::Instant::now();
    let loaded = load_many(cache, ManyOptions::default())?;
    let took = started.elapsed().as_secs_f64() * 1e3;
    if right(&loaded) != CASES.len() {
        return Err("a kernel computes something else".into());
    }
    Ok(took)
}
