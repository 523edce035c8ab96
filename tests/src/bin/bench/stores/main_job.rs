//! The main job, cold and warm, as its own report has it.

use std::{error::Error, process::Command};

use serde::Deserialize;
use warmstart_tests::built;

use crate::{
    Rows,
    measure::median,
    row::{Row, Sense},
};

/// Runs of the whole job.
const RUNS: usize = 3;

#[derive(Deserialize)]
struct Report {
    stores: Vec<Pass>,
}

#[derive(Deserialize)]
struct Pass {
    store: String,
    cold_ms: f64,
    warm_ms: f64,
    misses: u64,
    verified: bool,
}

/// The rows of the main job.
pub(super) fn rows() -> Rows {
    let mut passes = Vec::new();
    for _ in 0..RUNS {
        passes.extend(report()?.stores);
    }
    if let Some(pass) = passes.iter().find(|pass| !pass.verified || pass.misses > 0) {
        return Err(format!("main_job/{}: a kernel was wrong, or a warm pass missed", pass.store).into());
    }
    let mut rows = Vec::new();
    for (store, bound) in [("files", Some(0.02)), ("sqlite", Some(0.02)), ("memory", None)] {
        let of_store = || passes.iter().filter(|pass| pass.store == store);
        let ratio = median(of_store().map(|pass| pass.warm_ms / pass.cold_ms).collect());
        let name = format!("main_job/{store}");
        rows.push(match bound {
            Some(bound) => Row::bounded(&name, (ratio, "ratio"), "cold", Sense::AtMost, bound),
            None => Row::note(&name, (ratio, "ratio"), "cold"),
        });
        let cold = median(of_store().map(|pass| pass.cold_ms).collect());
        let warm = median(of_store().map(|pass| pass.warm_ms).collect());
        rows.push(Row::note(format!("{name}/cold"), (cold, "ms"), "none"));
        rows.push(Row::note(format!("{name}/warm"), (warm, "ms"), "none"));
    }
    Ok(rows)
}

/// Returns the last line that `cargo run --release --example warm_start -- --json` prints.
fn report() -> Result<Report, Box<dyn Error>> {
    let output = Command::new(built::example("warm_start")).arg("--json").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().ok_or_else(|| {
        format!("main_job: the example failed: {}", String::from_utf8_lossy(&output.stderr).trim())
    })?;
    Ok(serde_json::from_str(last)?)
}
