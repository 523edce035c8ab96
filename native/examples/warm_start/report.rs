//! The report: a table and bars, or a line of JSON.

use std::{
    error::Error,
    fmt::Write as _,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, presets};
use console::Term;
use serde::Serialize;
use serde_json::json;
use warmstart_tests::kernels::cpu::CASES;

use crate::{
    figures::{bar, milliseconds, three_digits},
    pass::Pass,
};

/// Both passes over a store.
pub(crate) struct Outcome {
    pub(crate) store: &'static str,
    /// The number of processes of the two passes.
    pub(crate) processes: usize,
    pub(crate) cold: Pass,
    pub(crate) warm: Pass,
    /// The time of two processes that start together over one empty cache, in milliseconds, where it was measured.
    pub(crate) two_processes_cold_ms: Option<f64>,
}

impl Outcome {
    /// Returns whether every kernel agreed with the reference, in both passes.
    pub(crate) fn is_verified(&self) -> bool {
        self.cold.failures.is_empty() && self.warm.failures.is_empty()
    }

    /// Returns whether, besides, every look-up of the warm pass was a hit.
    pub(crate) fn is_good(&self) -> bool {
        self.is_verified() && self.warm.misses == 0 && self.warm.hits == CASES.len() as u64
    }
}

/// The warm pass over a kept store, in which a flag of one kernel was changed.
pub(crate) struct Changed {
    pub(crate) store: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) warm: Pass,
}

impl Changed {
    /// Returns whether every kernel agreed with the reference, and all hit but the changed one. That one hits, too,
    /// if an earlier run has made the same change.
    pub(crate) fn is_good(&self) -> bool {
        let warm = &self.warm;
        warm.failures.is_empty() && warm.misses <= 1 && warm.hits + warm.misses == CASES.len() as u64
    }
}

/// Prints the effect of the change, and the command that explains the miss.
pub(crate) fn print_changed(outcomes: &[Changed], number: usize, json: bool) -> Result<(), Box<dyn Error>> {
    let mut text = format!("Kernel {number}, {}, has one more flag.\n\n", CASES[number - 1].name);
    for Changed { store, path, warm } in outcomes {
        writeln!(text, "{store}: {} hits, {} misses.", warm.hits, warm.misses)?;
        match warm.misses {
            0 => writeln!(text, "  An earlier run did so too: run once with --keep alone to start over.")?,
            _ => writeln!(text, "  warmstart explain {} --last-miss", path.display())?,
        }
        for (kernel, problem) in &warm.failures {
            writeln!(text, "  {kernel}: {problem}")?;
        }
    }
    if json {
        io::stderr().write_all(text.as_bytes())?;
        let stores = outcomes.iter().map(|Changed { store, warm, .. }| {
            let verified = warm.failures.is_empty();
            json!({ "store": store, "hits": warm.hits, "misses": warm.misses, "verified": verified })
        });
        let stores: Vec<_> = stores.collect();
        writeln!(io::stdout(), "{}", json!({ "changed": CASES[number - 1].name, "stores": stores }))?;
    } else {
        io::stdout().write_all(text.as_bytes())?;
    }
    Ok(())
}

/// Prints the report; with `json` it goes to standard error, and one line of JSON to standard output.
pub(crate) fn print(
    outcomes: &[Outcome],
    compiler: &Path,
    workers: usize,
    json: bool,
) -> Result<(), Box<dyn Error>> {
    let terminal = if json { Term::stderr() } else { Term::stdout() };
    let width = terminal.size_checked().map_or(80, |(_, columns)| usize::from(columns)).clamp(60, 120);
    let text = text(outcomes, compiler, workers, width)?;
    if json {
        io::stderr().write_all(text.as_bytes())?;
        writeln!(io::stdout(), "{}", serde_json::to_string(&Line::new(outcomes, workers))?)?;
    } else {
        io::stdout().write_all(text.as_bytes())?;
    }
    Ok(())
}

/// The line of JSON. Hits and misses are those of the warm pass.
#[derive(Serialize)]
struct Line {
    workers: usize,
    stores: Vec<LineStore>,
}

#[derive(Serialize)]
struct LineStore {
    store: &'static str,
    cold_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    two_processes_cold_ms: Option<f64>,
    warm_ms: f64,
    hits: u64,
    misses: u64,
    verified: bool,
}

impl Line {
    fn new(outcomes: &[Outcome], workers: usize) -> Self {
        let microseconds = |millis: f64| (millis * 1e3).round() / 1e3;
        let stores = outcomes.iter().map(|outcome| LineStore {
            store: outcome.store,
            cold_ms: microseconds(outcome.cold.millis),
            two_processes_cold_ms: outcome.two_processes_cold_ms.map(microseconds),
            warm_ms: microseconds(outcome.warm.millis),
            hits: outcome.warm.hits,
            misses: outcome.warm.misses,
            verified: outcome.is_verified(),
        });
        Self { workers, stores: stores.collect() }
    }
}

fn text(
    outcomes: &[Outcome],
    compiler: &Path,
    workers: usize,
    width: usize,
) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    writeln!(text, "{} kernels, compiled by {}; --workers {workers}.", CASES.len(), compiler.display())?;
    writeln!(text, "Times are from the descriptions to all callable functions.\n")?;
    writeln!(text, "{}\n", table(outcomes, width))?;

    let longest =
        outcomes.iter().map(|outcome| outcome.cold.millis.max(outcome.warm.millis)).fold(0.0, f64::max);
    for outcome in outcomes {
        for (label, pass) in [("cold", &outcome.cold), ("warm", &outcome.warm)] {
            let name = if label == "cold" { outcome.store } else { "" };
            let bar = bar(pass.millis / longest, width.saturating_sub(24));
            writeln!(text, "{name:>7} {label} {bar} {}", milliseconds(pass.millis))?;
        }
    }

    writeln!(text)?;
    for outcome in outcomes {
        let warm = &outcome.warm;
        writeln!(
            text,
            "{}: {} and saved {} of compiling.",
            outcome.store,
            format_args!("the warm pass read {} KiB", warm.bytes_read.div_ceil(1024)),
            milliseconds(warm.saved_millis),
        )?;
        if let Some(millis) = outcome.two_processes_cold_ms {
            let store = outcome.store;
            writeln!(
                text,
                "{store}: two processes that start together, each with as many threads, take {} cold.",
                milliseconds(millis),
            )?;
        }
    }
    if outcomes.iter().any(|outcome| outcome.processes == 1) {
        writeln!(text, "Memory does not outlive its process: its cold and its warm pass ran in one.")?;
    }
    for outcome in outcomes {
        problems(&mut text, outcome)?;
    }
    Ok(text)
}

fn table(outcomes: &[Outcome], width: usize) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none()))
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(width).unwrap_or(u16::MAX))
        .set_header(["Store", "Processes", "Cold", "Warm", "Speed-up", "Hits", "Misses", "Verified"]);
    for outcome in outcomes {
        table.add_row([
            outcome.store.to_owned(),
            outcome.processes.to_string(),
            milliseconds(outcome.cold.millis),
            milliseconds(outcome.warm.millis),
            format!("{}x", three_digits(outcome.cold.millis / outcome.warm.millis)),
            outcome.warm.hits.to_string(),
            outcome.warm.misses.to_string(),
            if outcome.is_verified() { "yes" } else { "no" }.to_owned(),
        ]);
    }
    for column in 1..7 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Lists what went wrong.
fn problems(text: &mut String, outcome: &Outcome) -> std::fmt::Result {
    for (label, pass) in [("cold", &outcome.cold), ("warm", &outcome.warm)] {
        for (kernel, problem) in &pass.failures {
            writeln!(text, "{}, {label}: {kernel}: {problem}", outcome.store)?;
        }
    }
    for (reason, n) in &outcome.warm.reasons {
        writeln!(text, "{}, warm: {n} missed: {reason}", outcome.store)?;
    }
    Ok(())
}
