//! The C kernels of the examples, compiled by one process or by two.

use std::error::Error;

use warmstart::{
    Cache, Store,
    cache::ManyOptions,
    target::cpu::{Compiler, CpuTarget, Kernel, Loaded},
};
use warmstart_tests::{kernels::cpu::CASES, measure::Plan, medium::Medium};

use super::{
    in_turns,
    process::{StoreKind, Task, Team},
    wall,
};
use crate::{
    Rows,
    row::{Row, Sense},
};

/// The rows of real kernels against one process that loads them one after the other.
pub(super) fn rows(plan: &Plan, disk: &Medium) -> Rows {
    let runs = if plan.is_quick() { 1 } else { 5 };
    let mut rows = Vec::new();
    for (name, processes, workers) in [("kernels/two_processes", 2, 1), ("kernels/two_workers", 1, 2)] {
        let play = |label: &str, run, processes, task, workers| -> Result<f64, Box<dyn Error>> {
            let path = disk.path(&format!("{}-{label}-{run}", name.replace('/', "-")));
            let reports = Team::start(processes, StoreKind::Files, &path, task, workers)?.play()?;
            if !reports.iter().all(|report| report.right == CASES.len()) {
                return Err(format!("{name}: a process lacks kernels, or has wrong ones").into());
            }
            Ok(wall(&reports))
        };
        let [ratio, ours, loop_of_one] = in_turns(
            runs,
            |run| play("many", run, processes, Task::ManyKernels, workers),
            |run| play("single", run, 1, Task::SingleKernels, 1),
        )?;
        rows.push(Row::bounded(name, (ratio, "ratio"), "single calls", Sense::AtMost, 0.62).on(disk.name));
        rows.push(Row::note(format!("{name}/warmstart"), (ours, "ms"), "none").on(disk.name));
        rows.push(Row::note(format!("{name}/single_calls"), (loop_of_one, "ms"), "none").on(disk.name));
    }
    Ok(rows)
}

/// Loads all kernels in one call.
pub(crate) fn load_many<S: Store>(
    cache: &Cache<S>,
    options: ManyOptions<'_>,
) -> Result<Vec<Loaded>, Box<dyn Error>> {
    let target = CpuTarget::new(Compiler::find()?);
    let kernels: Vec<Kernel> = CASES.iter().map(|case| case.describe(false)).collect();
    Ok(target.load_many(cache, &kernels, options).into_iter().collect::<Result<_, _>>()?)
}

/// Loads all kernels, one after the other.
pub(super) fn load_each<S: Store>(cache: &Cache<S>) -> Result<Vec<Loaded>, Box<dyn Error>> {
    let target = CpuTarget::new(Compiler::find()?);
    CASES.iter().map(|case| Ok(target.load(cache, &case.describe(false))?)).collect()
}

/// Counts the kernels that compute what they should.
pub(crate) fn right(loaded: &[Loaded]) -> usize {
    CASES.iter().zip(loaded).filter(|(case, loaded)| (case.check)(loaded.library()).is_ok()).count()
}
