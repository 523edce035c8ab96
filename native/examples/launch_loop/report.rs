//! The report: a table and bars, and a line of JSON.

use std::{fmt::Write as _, time::Duration};

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, presets};
use serde::Serialize;

use crate::{
    figures::{bar, milliseconds, three_digits},
    kernels::KERNELS,
    measure::Loop,
};

/// What every design did. Times are medians.
pub(crate) struct Outcome {
    pub(crate) no_memo: Loop,
    pub(crate) deep_copy: Loop,
    pub(crate) copied_map: Loop,
    pub(crate) ours: Loop,
    /// Who would have overflowed.
    pub(crate) overflow: String,
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
            ("deep copy", &self.deep_copy),
            ("copied map", &self.copied_map),
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
    writeln!(text, "Deep copy: a launch copies what describes its tasks, and its map once a task.")?;
    writeln!(text, "Copied map: only the map. Both look up each reducer and check what it read.\n")?;

    let all = outcome.designs().map(|(_, design)| millis(design.rest.time).max(1e-6));
    let (least, most) = all.iter().fold((f64::MAX, 0.0_f64), |(a, b), &x| (a.min(x), b.max(x)));
    // The bars begin at a power of ten below the shortest.
    let begin = least.log10().ceil() - 1.0;
    let decades = (most.log10().ceil() - begin).max(1.0);
    writeln!(text, "Logarithmic: a bar has {decades} parts, and each stands for ten times the time.")?;
    for ((name, _), time) in outcome.designs().into_iter().zip(all) {
        let bar = bar((time.log10() - begin) / decades, width.saturating_sub(23));
        writeln!(text, "{name:>11} {bar} {}", milliseconds(time))?;
    }

    let ratio = three_digits(millis(outcome.deep_copy.rest.time) / millis(ours.rest.time));
    writeln!(text, "\nThe launch memo takes 1/{ratio} of what the copies of the tasks take.")?;
    let (hits, misses) = (ours.rest.hits, launches - ours.rest.hits);
    let missed = millis(ours.rest.time.saturating_sub(ours.rest.hit_time));
    writeln!(
        text,
        "{hits} launches hit, {} ns each; {misses} missed, {} each, and ran {} reducers.",
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
    writeln!(text, "{}", outcome.overflow)?;
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
        .set_header(["Design", "First", "Loop", "A launch", "Reducers", "Their time", "Ratio"]);
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

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Part;

    fn design(micros: u64, evaluated: u64) -> Loop {
        let time = Duration::from_micros(micros);
        let rest = Part { launches: 2008, hits: 2000, time, hit_time: time / 2, evaluated };
        let first = Part { launches: 10, ..Part::default() };
        Loop {
            first,
            rest,
            checked: 2008,
            results: 2008 * 600,
            dependencies: 2008 * 94 + 3,
            ..Loop::default()
        }
    }

    fn outcome() -> Outcome {
        Outcome {
            no_memo: design(300_000, 1_204_800),
            deep_copy: design(500_000, 500),
            copied_map: design(60_000, 500),
            ours: design(900, 500),
            overflow: "Nothing overflows.".to_owned(),
        }
    }

    #[test]
    fn the_line_has_the_promised_fields_in_their_order() {
        assert_eq!(
            line(&outcome()).unwrap(),
            "{\"launches\":2008,\"checked\":2008,\"wrong\":0,\"results_per_map\":600,\"dependencies\":94,\
             \"memo_ms\":0.9,\"deep_copy_ms\":500.0,\"allocations_on_hit\":0}"
        );
    }

    #[test]
    fn a_wrong_answer_of_any_design_and_a_hit_that_allocates_are_not_good() {
        assert!(outcome().is_good());
        let wrong = Loop { wrong: 1, ..design(1, 1) };
        assert!(!Outcome { no_memo: wrong.clone(), ..outcome() }.is_good());
        let outcome_of_wrong = Outcome { ours: wrong, ..outcome() };
        assert!(!outcome_of_wrong.is_good());
        assert!(text(&outcome_of_wrong, 80).unwrap().contains("launch memo: 1 answers are wrong."));
        let ours = Loop { allocations_on_hit: 1, ..design(1, 1) };
        assert!(!Outcome { ours, ..outcome() }.is_good());
    }

    #[test]
    fn the_report_fits_a_terminal_of_eighty_columns() {
        let text = text(&outcome(), 80).unwrap();
        assert!(text.lines().map(console::measure_text_width).max() <= Some(80), "{text}");
        assert!(text.contains("1/556 of"), "{text}");
    }
}
