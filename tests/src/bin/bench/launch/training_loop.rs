//! The launches of a training loop, as their own report has them.

use std::{error::Error, process::Command};

use serde::Deserialize;
use warmstart_tests::built;

use crate::{
    Rows,
    measure::median,
    row::{Row, Sense},
};

/// Runs of the whole loop. Each measures every design in turns, and reports medians.
const RUNS: usize = 3;

#[derive(Deserialize)]
struct Report {
    launches: u32,
    checked: u32,
    wrong: u32,
    memo_ms: f64,
    deep_copy_ms: f64,
    allocations_on_hit: u64,
    hits_ms: f64,
}

impl Report {
    fn is_good(&self) -> bool {
        self.launches > 0 && self.checked == self.launches && self.wrong == 0 && self.allocations_on_hit == 0
    }
}

/// The rows of the loop: what all its hits take together, and what all its launches take beside their reducers, the first one of each kernel
/// too, against the design that copies the descriptions of tasks.
pub(super) fn rows() -> Rows {
    let reports = (0..RUNS).map(|_| report()).collect::<Result<Vec<_>, _>>()?;
    if !reports.iter().all(Report::is_good) {
        return Err("training_loop: an answer was wrong or not checked, or a hit allocated".into());
    }
    let of = |what: fn(&Report) -> f64| median(reports.iter().map(what).collect());
    let ratio = of(|report| report.memo_ms / report.deep_copy_ms);
    Ok(vec![
        Row::bounded("training_loop", (of(|report| report.hits_ms), "ms"), "none", Sense::AtMost, 0.5),
        Row::bounded("training_loop/of_deep_copy", (ratio, "ratio"), "deep copy", Sense::AtMost, 0.01),
        Row::note("training_loop/deep_copy", (of(|report| report.deep_copy_ms), "ms"), "none"),
    ])
}

/// Returns the last line that `cargo run --release --example launch_loop -- --json` prints.
fn report() -> Result<Report, Box<dyn Error>> {
    let output = Command::new(built::example("launch_loop")).arg("--json").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().ok_or_else(|| {
        format!("training_loop: the example failed: {}", String::from_utf8_lossy(&output.stderr).trim())
    })?;
    Ok(serde_json::from_str(last)?)
}
