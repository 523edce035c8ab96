//! The report: a table and bars, and a line of JSON.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, presets};
use serde::Serialize;

use crate::{
    figures::{bar, milliseconds, three_digits},
    kernels::{KERNELS, SPECS},
    measure::{Loop, millis},
};

/// The longest time of all hits of the launch memo together, in milliseconds, and the largest share of all its launches in the time
/// of the deep copy.
const MOST_OF_HITS: f64 = 0.5;
const MOST_OF_DEEP_COPY: f64 = 0.01;

/// The results of all designs. Times are medians.
pub(crate) struct Outcome {
    pub(crate) no_memo: Loop,
    pub(crate) deep_copy: Loop,
    pub(crate) copied_map: Loop,
    pub(crate) ours: Loop,
    /// The kernel and task of the stack that would have overflowed.
    pub(crate) overflow: String,
}

impl Outcome {
    /// Returns whether every answer was right and no hit allocated memory.
    pub(crate) fn is_good(&self) -> bool {
        self.wrong() == 0 && self.ours.allocations_on_hit == 0
    }

    fn wrong(&self) -> usize {
        self.designs().iter().map(|(_, design)| design.wrong).sum()
    }

    fn designs(&self) -> [(&str, &Loop); 4] {
        let [deep_copy, copied_map, ours] = self.memos();
        [("no memo", &self.no_memo), deep_copy, copied_map, ours]
    }

    fn memos(&self) -> [(&str, &Loop); 3] {
        [("deep copy", &self.deep_copy), ("copied map", &self.copied_map), ("launch memo", &self.ours)]
    }

    /// Returns the time of a design without that of its reducers, in milliseconds.
    fn rest(&self, design: &Loop) -> f64 {
        design.rest(self.no_memo.a_reducer())
    }
}

/// The line of JSON.
#[derive(Serialize)]
struct Line {
    launches: usize,
    checked: usize,
    wrong: usize,
    results_per_map: usize,
    /// The mean number of distinct dependencies of a launch.
    dependencies: usize,
    memo_ms: f64,
    deep_copy_ms: f64,
    allocations_on_hit: u64,
    /// The time of all hits of the launch memo.
    hits_ms: f64,
}

pub(crate) fn line(outcome: &Outcome) -> serde_json::Result<String> {
    let ours = &outcome.ours;
    let microseconds = |millis: f64| (millis * 1e3).round() / 1e3;
    serde_json::to_string(&Line {
        launches: ours.launches,
        checked: ours.checked,
        wrong: outcome.wrong(),
        results_per_map: ours.results / ours.launches,
        dependencies: mean(ours.dependencies, ours.launches),
        memo_ms: microseconds(outcome.rest(ours)),
        deep_copy_ms: microseconds(outcome.rest(&outcome.deep_copy)),
        allocations_on_hit: ours.allocations_on_hit,
        hits_ms: microseconds(millis(ours.hit_time)),
    })
}

pub(crate) fn text(outcome: &Outcome, width: usize) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    let ours = &outcome.ours;
    let launches = ours.launches;
    let tasks: usize = KERNELS.iter().map(|(_, tasks)| tasks).sum();
    writeln!(
        text,
        "{launches} launches of {} kernels, {} tasks and {} reducers each on average.",
        KERNELS.len(),
        three_digits(tasks as f64 / KERNELS.len() as f64),
        ours.results / launches,
    )?;
    let asked = launches * SPECS;
    writeln!(
        text,
        "Per spec {:.2} % hit: of {asked} results {} are of a reducer that was run.\n",
        100.0 * (1.0 - ours.evaluated as f64 / asked as f64),
        ours.evaluated,
    )?;
    writeln!(text, "{}\n", table(outcome, width))?;
    writeln!(text, "Theirs: the time of the reducers that ran, each as long as without a memo.")?;
    writeln!(text, "Rest: all other time, which a dispatcher pays. It is compared.\n")?;
    writeln!(text, "Deep copy: a launch copies its tasks' descriptions, and its map once a task.")?;
    writeln!(text, "Copied map: only the map. Both look up each reducer and check what it read.\n")?;
    bars(&mut text, outcome, width)?;

    let (hits, misses) = (ours.hits, launches - ours.hits);
    let missed = millis(ours.time.saturating_sub(ours.hit_time));
    writeln!(
        text,
        "\n{hits} launches hit, {} ns each; {misses} missed, {} each, and ran {} reducers.",
        three_digits(millis(ours.hit_time) * 1e6 / hits.max(1) as f64),
        milliseconds(missed / misses.max(1) as f64),
        ours.evaluated,
    )?;
    writeln!(
        text,
        "A hit checks {} dependencies on average. Hits allocated memory {} times.",
        mean(ours.dependencies, launches),
        ours.allocations_on_hit
    )?;
    writeln!(text, "{}", outcome.overflow)?;
    match outcome.wrong() {
        0 => writeln!(text, "All answers equal those of the reducers without a memo.\n")?,
        _ => {
            for (name, design) in outcome.designs() {
                writeln!(text, "{name}: {} answers are wrong.", design.wrong)?;
            }
            writeln!(text)?;
        }
    }
    bounds(&mut text, outcome)?;
    Ok(text)
}

fn table(outcome: &Outcome, width: usize) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none()))
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(width).unwrap_or(u16::MAX))
        .set_header(["Design", "All", "Reducers", "Theirs", "Rest", "A launch", "Ratio"]);
    let ours = outcome.rest(&outcome.ours);
    let a_reducer = outcome.no_memo.a_reducer();
    for (name, design) in outcome.designs() {
        let rest = outcome.rest(design);
        // Without a memo there is no rest, by its definition.
        let rests = if std::ptr::eq(design, &outcome.no_memo) {
            [const { String::new() }; 3].map(|_| "-".to_owned())
        } else {
            [
                milliseconds(rest),
                format!("{} µs", three_digits(rest * 1e3 / design.launches as f64)),
                format!("{}x", three_digits(rest / ours)),
            ]
        };
        let whole = [
            name.to_owned(),
            milliseconds(millis(design.time)),
            design.evaluated.to_string(),
            milliseconds(design.reducers(a_reducer)),
        ];
        table.add_row(whole.into_iter().chain(rests));
    }
    for column in 1..7 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Draws the remaining times of the memos as bars, which begin at a power of ten below the shortest.
fn bars(text: &mut String, outcome: &Outcome, width: usize) -> std::fmt::Result {
    let rests = outcome.memos().map(|(_, design)| outcome.rest(design).max(1e-6));
    let (least, most) = rests.iter().fold((f64::MAX, 0.0_f64), |(a, b), &x| (a.min(x), b.max(x)));
    let begin = least.log10().ceil() - 1.0;
    let decades = (most.log10().ceil() - begin).max(1.0);
    writeln!(text, "The rest, logarithmic: a bar has {decades} parts, each for ten times the time.")?;
    for ((name, _), rest) in outcome.memos().into_iter().zip(rests) {
        let bar = bar((rest.log10() - begin) / decades, width.saturating_sub(23));
        writeln!(text, "{name:>11} {bar} {}", milliseconds(rest))?;
    }
    Ok(())
}

fn bounds(text: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let (ours, deep_copy) = (outcome.rest(&outcome.ours), outcome.rest(&outcome.deep_copy));
    let hits = millis(outcome.ours.hit_time);
    let holds = |is_so: bool| if is_so { "holds" } else { "does not hold" };
    writeln!(
        text,
        "All hits:     {}, bound {}: {}.",
        milliseconds(hits),
        milliseconds(MOST_OF_HITS),
        holds(hits <= MOST_OF_HITS)
    )?;
    writeln!(
        text,
        "Of deep copy: 1/{}, bound 1/{}: {}.",
        three_digits(deep_copy / ours),
        three_digits(1.0 / MOST_OF_DEEP_COPY),
        holds(ours <= MOST_OF_DEEP_COPY * deep_copy)
    )
}

fn mean(sum: usize, count: usize) -> usize {
    (sum + count / 2) / count
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn design(micros: u64, evaluated: u64) -> Loop {
        let time = Duration::from_micros(micros);
        Loop {
            launches: 2008,
            hits: 2000,
            time,
            hit_time: time * 4 / 19,
            evaluated,
            checked: 2008,
            results: 2008 * 600,
            dependencies: 2008 * 94 + 3,
            ..Loop::default()
        }
    }

    /// Returns an outcome in which a reducer takes 250 ns, and the reducers that the memos ran take a millisecond.
    fn outcome() -> Outcome {
        Outcome {
            no_memo: design(301_200, 1_204_800),
            deep_copy: design(501_000, 4000),
            copied_map: design(61_000, 4000),
            ours: design(1900, 4000),
            overflow: "Nothing overflows.".to_owned(),
        }
    }

    #[test]
    fn the_line_has_the_promised_fields_in_their_order() {
        assert_eq!(
            line(&outcome()).unwrap(),
            "{\"launches\":2008,\"checked\":2008,\"wrong\":0,\"results_per_map\":600,\"dependencies\":94,\
             \"memo_ms\":0.9,\"deep_copy_ms\":500.0,\"allocations_on_hit\":0,\"hits_ms\":0.4}"
        );
    }

    #[test]
    fn report_with_wrong_answer_or_allocating_hit_is_not_good() {
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
    fn the_report_says_whether_the_bounds_hold() {
        let good = text(&outcome(), 80).unwrap();
        assert!(good.contains("0.40 ms, bound 0.50 ms: holds."), "{good}");
        assert!(good.contains("1/556, bound 1/100: holds."), "{good}");

        let slow = Outcome { ours: design(7000, 4000), ..outcome() };
        assert!(slow.is_good(), "how fast the machine is decides nothing");
        let slow = text(&slow, 80).unwrap();
        assert!(slow.contains("1.47 ms, bound 0.50 ms: does not hold."), "{slow}");
        assert!(slow.contains("1/83.3, bound 1/100: does not hold."), "{slow}");
    }

    #[test]
    fn the_report_fits_a_terminal_of_eighty_columns() {
        let text = text(&outcome(), 80).unwrap();
        assert!(text.lines().map(console::measure_text_width).max() <= Some(80), "{text}");
        assert!(text.contains("99.67 %"), "{text}");
    }
}
