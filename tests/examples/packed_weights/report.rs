//! The report: a table and bars, or a line of JSON.

use std::{
    error::Error,
    fmt::Write as _,
    io::{self, Write as _},
};

use comfy_table::{CellAlignment, LineStyle, Table, presets};
use serde::Serialize;
use warmstart_tests::weights::COUNT;

use crate::{
    Packer,
    steps::{Outcome, Step},
};

/// The longest bar, in characters.
const BAR: usize = 40;

/// The line for programs. What this system cannot tell is null.
#[derive(Serialize)]
struct Line {
    packer: &'static str,
    entries: usize,
    cold_ms: f64,
    warm_ms: f64,
    warm_packs: usize,
    anon_bytes: Option<u64>,
    pss_sum_ratio: Option<f64>,
    growth_bytes: i64,
    verified: bool,
}

/// Prints the report; with `json` it goes to standard error, and one line of JSON to standard output.
pub(crate) fn print(outcome: &Outcome, json: bool) -> Result<(), Box<dyn Error>> {
    let text = text(outcome)?;
    if json {
        let rounded = |number: f64| (number * 1e3).round() / 1e3;
        let line = Line {
            packer: outcome.packer.name(),
            entries: COUNT,
            cold_ms: rounded(outcome.cold.millis()),
            warm_ms: rounded(outcome.warm.millis()),
            warm_packs: outcome.warm_packs(),
            anon_bytes: outcome.in_turn.anon_bytes,
            pss_sum_ratio: shared(outcome, &outcome.at_once).map(rounded),
            growth_bytes: outcome.growth,
            verified: outcome.is_verified(),
        };
        io::stderr().write_all(text.as_bytes())?;
        writeln!(io::stdout(), "{}", serde_json::to_string(&line)?)?;
    } else {
        io::stdout().write_all(text.as_bytes())?;
    }
    Ok(())
}

/// Returns the memory of the file in all processes, with shared pages divided among them, over the size of the file.
fn shared(outcome: &Outcome, step: &Step) -> Option<f64> {
    Some(step.sum(|mapped| mapped.proportional)? as f64 / outcome.file as f64)
}

fn text(outcome: &Outcome) -> Result<String, std::fmt::Error> {
    let packer = match outcome.packer {
        Packer::Xnnpack => "XNNPACK",
        Packer::Plain => "a plain packer (`cargo xtask runtimes --xnnpack` fetches XNNPACK)",
    };
    let mut text = String::new();
    writeln!(text, "{COUNT} layers of 256 x 512, packed by {packer}: a file of {}.", bytes(outcome.file))?;
    writeln!(
        text,
        "Cold is open, pack, finalise and save. Warm is open, look up and {}.",
        match outcome.packer {
            Packer::Xnnpack => "run every operator once",
            Packer::Plain => "touch every line of the cache",
        }
    )?;
    writeln!(text, "\n{}\n", table(outcome))?;

    bars(&mut text, "time", outcome, |step| Some(step.millis()), milliseconds)?;
    bars(
        &mut text,
        "anonymous memory, of one process",
        outcome,
        |step| Some(step.anonymous()? as f64),
        |value| bytes(value as u64),
    )?;
    bars(
        &mut text,
        "pages of the file, mapped by all processes of a row",
        outcome,
        |step| Some(step.sum(|mapped| mapped.resident)? as f64),
        |value| bytes(value as u64),
    )?;
    bars(
        &mut text,
        "the same, each page counted once",
        outcome,
        |step| Some(step.sum(|mapped| mapped.proportional)? as f64),
        |value| bytes(value as u64),
    )?;
    if let Some(anonymous) = outcome.in_turn.anon_bytes {
        writeln!(
            text,
            "Of its anonymous memory, a warm process needs {} to look all weights up and touch them{}.",
            bytes(anonymous),
            match outcome.packer {
                Packer::Xnnpack => ";\nthe rest are XNNPACK's operators",
                Packer::Plain => "",
            }
        )?;
    }
    writeln!(
        text,
        "Ten times loaded and unloaded: {} packed, the file grew by {} bytes and was{} written to.",
        outcome.cycles.packed,
        outcome.growth,
        if outcome.is_touched { "" } else { " not" },
    )?;
    writeln!(
        text,
        "{}",
        match (outcome.is_verified(), outcome.packer) {
            (true, Packer::Xnnpack) =>
                "Every checksum matches, and every operator computed the same warm and cold, bit for bit.",
            (true, Packer::Plain) => "Every checksum matches, and every weight is the one that was packed.",
            (false, _) =>
                "WRONG: a checksum does not match, or a result differs from that of the cold process.",
        }
    )?;
    Ok(text)
}

fn table(outcome: &Outcome) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none())).set_header([
        "",
        "Time",
        "Open",
        "Look up",
        "Use or save",
        "Packed",
        "Anonymous",
        "Shared",
    ]);
    for (name, step) in outcome.steps() {
        let slowest = step.reports.iter().max_by(|one, other| one.millis.total_cmp(&other.millis));
        let slowest = slowest.copied().unwrap_or_default();
        table.add_row([
            name.to_owned(),
            milliseconds(slowest.millis),
            milliseconds(slowest.open_millis),
            milliseconds(slowest.use_millis),
            milliseconds(slowest.last_millis),
            step.reports.iter().map(|report| report.packed).sum::<usize>().to_string(),
            step.anonymous().map_or_else(|| "-".to_owned(), bytes),
            shared(outcome, step).map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3} x file")),
        ]);
    }
    for column in 1..8 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// A bar for each step of which there is a number.
fn bars(
    text: &mut String,
    title: &str,
    outcome: &Outcome,
    of: impl Fn(&Step) -> Option<f64>,
    show: impl Fn(f64) -> String,
) -> std::fmt::Result {
    let values: Vec<_> =
        outcome.steps().into_iter().filter_map(|(name, step)| Some((name, of(step)?))).collect();
    if values.is_empty() {
        return Ok(());
    }
    let longest = values.iter().map(|(_, value)| *value).fold(1.0, f64::max);
    writeln!(text, "{title}")?;
    for (name, value) in values {
        writeln!(text, "  {name:>15} {} {}", bar(value / longest), show(value))?;
    }
    writeln!(text)
}

/// A bar of eighths of a character; what is more than nothing is at least one.
fn bar(share: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = ((share * BAR as f64 * 8.0).round() as usize).max(usize::from(share > 0.0));
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

fn milliseconds(millis: f64) -> String {
    let decimals = match millis {
        ..10.0 => 2,
        10.0..100.0 => 1,
        _ => 0,
    };
    format!("{millis:.decimals$} ms")
}

fn bytes(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{} kB", bytes / 1000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}
