//! The memory of packed weights, in one process and in several.

use std::{env, io, path::Path, process::Command};

use warmstart_tests::{
    measure::median,
    smaps::FileMappings,
    weights::process::{Process, Report, Role, stamp},
};

use super::{Sizes, failed};
use crate::{
    Rows,
    row::{Row, Sense},
};

/// Processes that have the weights in memory at once.
const AT_ONCE: usize = 4;

/// Packs all weights in a process of its own and saves them; the rows of what it has mapped then.
pub(super) fn cold(path: &Path, sizes: Sizes) -> Rows {
    let mut process = start(Role::Cold, path, sizes)?;
    process.go()?;
    let report = process.report()?;
    if report.packed != sizes.layers {
        return Err(failed("cold", "not every weight was packed").into());
    }
    let mapped = process.mapped(path);
    process.end()?;
    let mut rows = vec![Row::note("cold/593MB", (report.millis, "ms"), "none")];
    if let Some(mapped) = mapped {
        let count = (mapped.count as f64, "mappings");
        rows.push(Row::bounded("mappings/593MB", count, "limit", Sense::AtMost, 16.0));
        let dirty = (mapped.dirty as f64, "bytes");
        rows.push(Row::bounded("dirty_after_save/593MB", dirty, "limit", Sense::AtMost, 0.0));
    }
    rows.extend(anonymous("cold/593MB/anon_bytes", &report, None));
    Ok(rows)
}

/// The rows of processes that find all weights packed.
pub(super) fn warm(path: &Path, sizes: Sizes) -> Rows {
    // With a live writer, the file is longer by what is reserved and not saved.
    let saved = stamp(path)?.0;
    let mut rows = shared("pss_sum_ratio", path, saved, sizes)?;
    let mut writer = start(Role::Writer, path, sizes)?;
    writer.go()?;
    if writer.report()?.packed != 1 {
        return Err(failed("writer", "the weight went to the heap").into());
    }
    rows.extend(shared("pss_sum_ratio/live_writer", path, saved, sizes)?);
    writer.end()?;
    rows.extend(cycles(path, sizes)?);
    Ok(rows)
}

/// The rows of loading and unloading ten times.
fn cycles(path: &Path, sizes: Sizes) -> Rows {
    let before = stamp(path)?;
    let mut rows = Vec::new();
    let mut cycles = start(Role::Cycles, path, sizes)?;
    cycles.go()?;
    let report = cycles.report()?;
    cycles.end()?;
    let (len, modified) = stamp(path)?;
    let growth = ((len as f64 - before.0 as f64).abs(), "bytes");
    rows.push(Row::bounded("ten_cycles/growth", growth, "limit", Sense::AtMost, 0.0));
    let moved = (f64::from(u8::from(modified != before.1)), "changes");
    rows.push(Row::bounded("ten_cycles/mtime", moved, "limit", Sense::AtMost, 0.0));
    rows.push(Row::bounded(
        "ten_cycles/packed",
        (report.packed as f64, "weights"),
        "limit",
        Sense::AtMost,
        0.0,
    ));
    rows.extend(anonymous("ten_cycles/anon_bytes", &report, None));
    Ok(rows)
}

/// Has processes find all weights and touch them, and sums up what they have in memory of the file, of which so many bytes
/// were saved.
fn shared(name: &str, path: &Path, saved: u64, sizes: Sizes) -> Rows {
    let mut processes =
        (0..AT_ONCE).map(|_| start(Role::Warm, path, sizes)).collect::<io::Result<Vec<_>>>()?;
    processes.iter_mut().try_for_each(Process::go)?;
    let reports = processes.iter_mut().map(Process::report).collect::<io::Result<Vec<_>>>()?;
    // Each has reported and waits, so that all is mapped now.
    let mapped: Vec<_> = processes.iter().filter_map(|process| process.mapped(path)).collect();
    let proofs = processes.into_iter().map(Process::end).collect::<io::Result<Vec<_>>>()?;
    if reports.iter().any(|report| report.packed > 0) {
        return Err(failed(name, "a warm process packed").into());
    }
    if proofs.iter().any(|proof| *proof != proofs[0] || proof.proved != sizes.layers as u64) {
        return Err(failed(name, "a payload is not what was packed").into());
    }
    let mut rows = Vec::new();
    if mapped.len() == AT_ONCE {
        let len = saved as f64;
        let sum = |of: fn(&FileMappings) -> u64| mapped.iter().map(of).sum::<u64>() as f64;
        let ratio = (sum(|mapped| mapped.proportional) / len, "ratio");
        rows.push(Row::bounded(name, ratio, "size of the file", Sense::AtMost, 1.05));
        let resident = (sum(|mapped| mapped.resident) / len, "ratio");
        rows.push(Row::note(format!("{name}/resident_sum"), resident, "size of the file"));
    }
    let worst = reports.iter().max_by_key(|report| report.anon_bytes).copied().unwrap_or_default();
    let anon = format!("anon_bytes{}", name.strip_prefix("pss_sum_ratio").unwrap_or_default());
    rows.extend(anonymous(&anon, &worst, Some(2e6)));
    Ok(rows)
}

fn anonymous(name: &str, report: &Report, bound: Option<f64>) -> Option<Row> {
    let value = (report.anon_bytes? as f64, "bytes");
    Some(match bound {
        Some(bound) => Row::bounded(name, value, "limit", Sense::AtMost, bound),
        None => Row::note(name, value, "none"),
    })
}

/// The rows of the real XNNPACK, where it was fetched: a cold and a warm start, and what the warm one needs of memory.
pub(super) fn xnnpack(path: &Path, sizes: Sizes) -> Rows {
    if !super::has_xnnpack() {
        eprintln!("XNNPACK is not there: its rows are missing (cargo xtask runtimes --xnnpack)");
        return Ok(Vec::new());
    }
    let run = |role| -> io::Result<(Report, _)> {
        let mut process = start_with(role, path, sizes, true)?;
        process.go()?;
        let report = process.report()?;
        Ok((report, process.end()?))
    };
    let (cold, computed_cold) = run(Role::Cold)?;
    let mut warm = Vec::new();
    for _ in 0..sizes.slow_rounds {
        let (report, computed_warm) = run(Role::Warm)?;
        if computed_warm != computed_cold || computed_warm.proved != sizes.layers as u64 {
            return Err(
                failed("xnnpack", "an operator computed something else than in the cold start").into()
            );
        }
        warm.push(report);
    }
    let (in_turn, _) = run(Role::WarmInTurn)?;
    let packed = warm.iter().chain([&in_turn]).map(|report| report.packed).sum::<usize>();
    if cold.packed != sizes.layers {
        return Err(failed("xnnpack", "not every weight was packed").into());
    }
    let millis = |of: fn(&Report) -> f64| (median(warm.iter().map(of).collect()), "ms");
    let mut rows = vec![
        Row::note("xnnpack/cold", (cold.millis, "ms"), "none"),
        Row::note("xnnpack/warm", millis(|report| report.millis), "none"),
        Row::note("xnnpack/warm/create_operators", millis(|report| report.use_millis), "none"),
        Row::note("xnnpack/warm/first_run", millis(|report| report.last_millis), "none"),
        Row::bounded("xnnpack/warm_packs", (packed as f64, "weights"), "limit", Sense::AtMost, 0.0),
    ];
    rows.extend(anonymous("xnnpack/warm/anon_bytes_with_operators", &warm[0], None));
    rows.extend(anonymous("anon_bytes/xnnpack", &in_turn, Some(2e6)));
    Ok(rows)
}

fn start(role: Role, path: &Path, sizes: Sizes) -> io::Result<Process> {
    start_with(role, path, sizes, false)
}

fn start_with(role: Role, path: &Path, sizes: Sizes, xnnpack: bool) -> io::Result<Process> {
    let role = clap::ValueEnum::to_possible_value(&role).ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(env::current_exe()?);
    command.args(["weights", "--child", role.get_name(), "--layers", &sizes.layers.to_string(), "--path"]);
    Process::start(command.arg(path).args(xnnpack.then_some("--xnnpack")))
}
