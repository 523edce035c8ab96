//! The report: a table and bars, and a line of JSON.

use std::{fmt::Write as _, time::Duration};

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, presets};
use serde::Serialize;

use crate::{
    figures::{bar, three_digits},
    kernels::KERNELS,
    measure::Loop,
};

/// What every design did. Times are medians.
pub(crate) struct Outcome {
    pub(crate) no_memo: Loop,
    pub(crate) deep_copy: Loop,
    pub(crate) copied_map: Loop,
    pub(crate) ours: Loop,
}

impl Outcome {
    /// Whether every answer was right and no hit asked for memory.
    pub(crate) fn is_good(&self) -> bool {
        self.wrong() == 0 && self.ours.allocations_on_hit == 0
    }

    fn wrong(&self) -> usize {
        self.designs().iter().map(|(_, design)| design.wrong).sum()
    }

    fn designs(&self) -> [(&str, &Loop); 4] {
        [
            ("no memo", &self.no_memo),
            ("per spec, tasks copied", &self.deep_copy),
            ("per spec, map copied", &self.copied_map),
            ("launch memo", &self.ours),
        ]
    }

    /// What a reducer takes: without a memo there is nothing else.
    fn a_reducer(&self) -> f64 {
        millis(self.no_memo.rest.time) / self.no_memo.rest.evaluated.max(1) as f64
    }
}

/// The line for programs.
#[derive(Serialize)]
struct Line {
    launches: usize,
    checked: usize,
    wrong: usize,
    results_per_map: usize,
    /// Distinct ones of a launch, the mean.
    dependencies: usize,
    memo_ms: f64,
    deep_copy_ms: f64,
    allocations_on_hit: u64,
}

pub(crate) fn line(outcome: &Outcome) -> serde_json::Result<String> {
    let ours = &outcome.ours;
    let launches = ours.rest.launches;
    let microseconds = |time: Duration| (millis(time) * 1e3).round() / 1e3;
    serde_json::to_string(&Line {
        launches,
        checked: ours.checked,
        wrong: outcome.wrong(),
        results_per_map: ours.results / launches,
        dependencies: (ours.dependencies + launches / 2) / launches,
        memo_ms: microseconds(ours.rest.time),
        deep_copy_ms: microseconds(outcome.deep_copy.rest.time),
        allocations_on_hit: ours.allocations_on_hit,
    })
}

pub(crate) fn text(outcome: &Outcome, width: usize) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    let ours = &outcome.ours;
    let launches = ours.rest.launches;
    let tasks: usize = KERNELS.iter().map(|(_, tasks)| tasks).sum();
    writeln!(
        text,
        "{launches} launches of {} kernels, {} tasks and {} reducers each on average.",
        KERNELS.len(),
        three_digits(tasks as f64 / KERNELS.len() as f64),
        ours.results / launches,
    )?;
    writeln!(text, "Times are of all answers together, after every kernel was launched once.\n")?;
    writeln!(text, "{}\n", table(outcome, width))?;

    writeln!(text, "The same on a logarithmic scale: each third of a bar is ten times as long.")?;
    let all = outcome.designs().map(|(_, design)| millis(design.rest.time).max(1e-6));
    let (least, most) = all.iter().fold((f64::MAX, 0.0_f64), |(a, b), &x| (a.min(x), b.max(x)));
    // The bars begin at a power of ten below the shortest.
    let begin = least.log10().ceil() - 1.0;
    let decades = (most.log10().ceil() - begin).max(1.0);
    let heading = text.rfind("The same").unwrap_or(0);
    text.truncate(heading);
    writeln!(text, "Logarithmic: a bar has {decades} parts, and each stands for ten times the time.")?;
    for ((name, _), time) in outcome.designs().into_iter().zip(all) {
        let bar = bar((time.log10() - begin) / decades, width.saturating_sub(34));
        writeln!(text, "{name:>22} {bar} {}", milliseconds(time))?;
    }

    let ratio = three_digits(millis(outcome.deep_copy.rest.time) / millis(ours.rest.time));
    writeln!(text, "\nThe launch memo takes 1/{ratio} of what the copies of the tasks take.")?;
    let (hits, misses) = (ours.rest.hits, launches - ours.rest.hits);
    let missed = millis(ours.rest.time.saturating_sub(ours.rest.hit_time));
    writeln!(
        text,
        "{hits} launches hit, in {} ns each; {misses} missed, in {} each, and ran {} reducers.",
        three_digits(millis(ours.rest.hit_time) * 1e6 / hits.max(1) as f64),
        milliseconds(missed / misses.max(1) as f64),
        ours.rest.evaluated,
    )?;
    writeln!(
        text,
        "A hit looks at {} dependencies on average. Hits asked for memory {} times.",
        (ours.dependencies + launches / 2) / launches,
        ours.allocations_on_hit
    )?;
    match outcome.wrong() {
        0 => writeln!(text, "All answers are what the reducers give afresh.")?,
        _ => {
            for (name, design) in outcome.designs() {
                writeln!(text, "{name}: {} answers are wrong.", design.wrong)?;
            }
        }
    }
    Ok(text)
}

fn table(outcome: &Outcome, width: usize) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none()))
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(width).unwrap_or(u16::MAX))
        .set_header(["Design", "First", "Loop", "A launch", "Reducers run", "Their time", "Ratio"]);
    let ours = millis(outcome.ours.rest.time);
    for (name, design) in outcome.designs() {
        let time = millis(design.rest.time);
        table.add_row([
            name.to_owned(),
            milliseconds(millis(design.first.time)),
            milliseconds(time),
            format!("{} µs", three_digits(time * 1e3 / design.rest.launches as f64)),
            design.rest.evaluated.to_string(),
            milliseconds(outcome.a_reducer() * design.rest.evaluated as f64),
            format!("{}x", three_digits(time / ours)),
        ]);
    }
    for column in 1..7 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn milliseconds(millis: f64) -> String {
    format!("{} ms", three_digits(millis))
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
