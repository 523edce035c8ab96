//! The report: tables and bars, and a line of JSON.

use std::{
    error::Error,
    fmt::Write as _,
    io::{self, Write as _},
};

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, presets};
use console::Term;
use serde::Serialize;

use warmstart_tests::kernels::cuda::{CASES, HEADER, with_header};

use crate::{
    figures::{bar, milliseconds, three_digits},
    launches::Launches,
    phase::Phase,
};

/// The results of all phases.
pub(crate) struct Outcome {
    /// The architectures of all phases but the last, and those of the last.
    pub(crate) architectures: &'static [&'static str],
    pub(crate) another: &'static str,
    pub(crate) cold: Phase,
    pub(crate) warm: Phase,
    pub(crate) edited: Phase,
    pub(crate) changed: Phase,
    pub(crate) launches: Launches,
}

impl Outcome {
    /// Returns whether the warm binaries equal those of a compiler without a cache.
    pub(crate) fn is_verified(&self) -> bool {
        self.warm.differing.as_ref().is_some_and(Vec::is_empty)
    }

    /// Returns whether, besides, exactly the expected look-ups missed, and all launches agree with the
    /// reference.
    pub(crate) fn is_good(&self) -> bool {
        let has_unwanted = self.phases().iter().any(|(_, phase, wanted)| phase.misses() != *wanted);
        self.is_verified() && !has_unwanted && self.launches.are_good()
    }

    /// Returns the number of kernels times that of architectures.
    fn pairs(&self) -> usize {
        CASES.len() * self.architectures.len()
    }

    /// The phases, each with its name and the number of expected misses.
    fn phases(&self) -> [(&str, &Phase, usize); 4] {
        [
            ("cold", &self.cold, self.pairs()),
            ("warm", &self.warm, 0),
            ("header edited", &self.edited, with_header() * self.architectures.len()),
            (self.another, &self.changed, CASES.len()),
        ]
    }
}

/// Prints the report; with `json` it goes to standard error, and one line of JSON to standard output.
pub(crate) fn print(outcome: &Outcome, json: bool) -> Result<(), Box<dyn Error>> {
    let terminal = if json { Term::stderr() } else { Term::stdout() };
    let width = terminal.size_checked().map_or(80, |(_, columns)| usize::from(columns)).clamp(60, 120);
    let text = text(outcome, width)?;
    if json {
        io::stderr().write_all(text.as_bytes())?;
        writeln!(io::stdout(), "{}", serde_json::to_string(&Line::new(outcome))?)?;
    } else {
        io::stdout().write_all(text.as_bytes())?;
    }
    Ok(())
}

/// The line of JSON.
#[derive(Serialize)]
struct Line<'a> {
    /// Pairs of a kernel and an architecture.
    kernels: usize,
    cold_ms: f64,
    warm_ms: f64,
    warm_misses: usize,
    header_edit_misses: usize,
    arch_change_misses: usize,
    gpu: Option<LineGpu<'a>>,
    verified: bool,
}

#[derive(Serialize)]
struct LineGpu<'a> {
    name: &'a str,
    checked: usize,
}

impl<'a> Line<'a> {
    fn new(outcome: &'a Outcome) -> Self {
        let microseconds = |millis: f64| (millis * 1e3).round() / 1e3;
        Self {
            kernels: outcome.pairs(),
            cold_ms: microseconds(outcome.cold.millis),
            warm_ms: microseconds(outcome.warm.millis),
            warm_misses: outcome.warm.misses(),
            header_edit_misses: outcome.edited.misses(),
            arch_change_misses: outcome.changed.misses(),
            gpu: match &outcome.launches {
                Launches::Skipped(_) => None,
                Launches::Done { name, checked, .. } => Some(LineGpu { name, checked: *checked }),
            },
            verified: outcome.is_verified(),
        }
    }
}

fn text(outcome: &Outcome, width: usize) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    let architectures = outcome.architectures.join(" and ");
    writeln!(text, "{} CUDA kernels for {architectures}, compiled by NVRTC.", CASES.len())?;
    writeln!(text, "Each phase asks for all at once; its time is from descriptions to binaries.\n")?;
    writeln!(text, "{}\n", kernel_table(outcome, width))?;
    writeln!(text, "{}\n", phase_table(outcome, width))?;

    let longest = outcome.phases().map(|(_, phase, _)| phase.millis).into_iter().fold(0.0, f64::max);
    for (name, phase, _) in outcome.phases() {
        let bar = bar(phase.millis / longest, width.saturating_sub(27));
        writeln!(text, "{name:>14} {bar} {}", milliseconds(phase.millis))?;
    }

    let speed_up = three_digits(outcome.cold.millis / outcome.warm.millis);
    writeln!(text, "\nThe warm phase is a process of its own, and {speed_up}x as fast as the cold one.")?;
    writeln!(text, "The edited header is {HEADER}; {} of the kernels include it.", with_header())?;
    match &outcome.warm.differing {
        Some(differing) if differing.is_empty() => {
            writeln!(text, "The warm binaries are, byte for byte, what the compiler makes without a cache.")?;
        }
        differing => {
            let differing = differing.as_ref().map_or_else(|| "all".to_owned(), |names| names.join(", "));
            writeln!(text, "Different from the compiler without a cache: {differing}.")?;
        }
    }
    launches(&mut text, &outcome.launches)?;
    for (name, phase, wanted) in outcome.phases() {
        if phase.misses() != wanted {
            let reasons: Vec<String> = phase.reasons.iter().map(|(why, n)| format!("{n} {why}")).collect();
            let why = if reasons.is_empty() { "none said why".to_owned() } else { reasons.join(", ") };
            writeln!(text, "{name}: {} misses, expected {wanted} ({why}).", phase.misses())?;
        }
    }
    Ok(text)
}

/// Returns the table of kernels: a row for each, over all architectures.
fn kernel_table(outcome: &Outcome, width: usize) -> Table {
    let mut table = new_table(width, &["Kernel", "Functions", "Header", "Size"]);
    for (number, case) in CASES.iter().enumerate() {
        let sizes = outcome.warm.binaries.iter().skip(number).step_by(CASES.len());
        let bytes: usize = sizes.map(|(_, bytes)| bytes).sum();
        table.add_row([
            case.name.to_owned(),
            case.functions.len().to_string(),
            if case.has_header { "yes" } else { "" }.to_owned(),
            format!("{} KiB", bytes.div_ceil(1024)),
        ]);
    }
    align_right(&mut table, [1, 3]);
    table
}

fn phase_table(outcome: &Outcome, width: usize) -> Table {
    let mut table = new_table(width, &["Phase", "Look-ups", "Hits", "Misses", "Time", "Loading libraries"]);
    for (name, phase, _) in outcome.phases() {
        table.add_row([
            name.to_owned(),
            phase.binaries.len().to_string(),
            phase.hits().to_string(),
            phase.misses().to_string(),
            milliseconds(phase.millis),
            if phase.load_millis > 0.0 { milliseconds(phase.load_millis) } else { "none loaded".to_owned() },
        ]);
    }
    align_right(&mut table, 1..6);
    table
}

fn new_table(width: usize, header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none()))
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(width).unwrap_or(u16::MAX))
        .set_header(header);
    table
}

fn align_right(table: &mut Table, columns: impl IntoIterator<Item = usize>) {
    for column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

fn launches(text: &mut String, launches: &Launches) -> std::fmt::Result {
    match launches {
        Launches::Skipped(why) => writeln!(text, "GPU: {why}: launches are skipped."),
        Launches::Done { name, architecture, hits, checked, failures } => {
            let all = CASES.len();
            writeln!(text, "GPU: {name} ({architecture}): {hits} of {all} binaries were in the cache.")?;
            writeln!(text, "GPU: {checked} of {all} kernels agree with the CPU.")?;
            for (kernel, problem) in failures {
                writeln!(text, "GPU: {kernel}: {problem}")?;
            }
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(hits: usize, misses: usize) -> Phase {
        Phase {
            binaries: (0..hits + misses).map(|n| (n < hits, 1000)).collect(),
            millis: 0.5 * (hits + misses) as f64,
            load_millis: 0.0,
            reasons: Vec::new(),
            differing: None,
        }
    }

    fn outcome() -> Outcome {
        Outcome {
            architectures: &["sm_80", "sm_90"],
            another: "sm_100",
            cold: phase(0, 24),
            warm: Phase { differing: Some(Vec::new()), ..phase(24, 0) },
            edited: phase(16, 8),
            changed: phase(0, 12),
            launches: Launches::Skipped("no NVIDIA driver".to_owned()),
        }
    }

    fn done(checked: usize) -> Launches {
        Launches::Done {
            name: "a GPU".to_owned(),
            architecture: "sm_90".to_owned(),
            hits: 12,
            checked,
            failures: Vec::new(),
        }
    }

    #[test]
    fn the_line_has_the_promised_fields_in_their_order() {
        let line = |outcome: &Outcome| serde_json::to_string(&Line::new(outcome)).unwrap();
        let mut outcome = outcome();
        assert_eq!(
            line(&outcome),
            "{\"kernels\":24,\"cold_ms\":12.0,\"warm_ms\":12.0,\"warm_misses\":0,\"header_edit_misses\":8,\
             \"arch_change_misses\":12,\"gpu\":null,\"verified\":true}"
        );
        outcome.launches = done(12);
        assert!(line(&outcome).contains("\"gpu\":{\"name\":\"a GPU\",\"checked\":12},"));
    }

    #[test]
    fn only_what_was_asked_for_is_good() {
        assert!(outcome().is_good());
        assert!(Outcome { launches: done(12), ..outcome() }.is_good());
        assert!(!Outcome { launches: done(11), ..outcome() }.is_good());
        assert!(!Outcome { cold: phase(1, 23), ..outcome() }.is_good());
        assert!(!Outcome { warm: phase(24, 0), ..outcome() }.is_good());
        let different = Some(vec!["softmax for sm_80".to_owned()]);
        assert!(!Outcome { warm: Phase { differing: different, ..phase(24, 0) }, ..outcome() }.is_good());
        let warm = Phase { differing: Some(Vec::new()), ..phase(23, 1) };
        assert!(!Outcome { warm, ..outcome() }.is_good());
        assert!(!Outcome { edited: phase(17, 7), ..outcome() }.is_good());
        assert!(!Outcome { changed: phase(1, 11), ..outcome() }.is_good());
    }

    #[test]
    fn the_report_fits_a_terminal_of_eighty_columns() {
        let text = text(&outcome(), 80).unwrap();
        let longest = text.lines().map(console::measure_text_width).max();
        assert!(longest <= Some(80), "{text}");
        assert!(text.contains("no NVIDIA driver: launches are skipped"));
    }

    #[test]
    fn the_report_names_the_phase_that_missed_too_often() {
        assert!(!text(&outcome(), 80).unwrap().contains("are right"));
        let edited = Phase { reasons: vec![("absent".to_owned(), 9)], ..phase(15, 9) };
        let text = text(&Outcome { edited, ..outcome() }, 80).unwrap();
        assert!(text.contains("header edited: 9 misses, expected 8 (9 absent)."), "{text}");
    }
}
