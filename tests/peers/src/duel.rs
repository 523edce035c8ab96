//! A row: what we take for a job, what a peer takes, and what the peer leaves out.

use comfy_table::{CellAlignment, Table, presets};
use serde::{Deserialize, Serialize};
use warmstart_tests::measure::Comparison;

use crate::peer::Kind;

/// One job, done by one of our stores and by one peer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Duel {
    /// The job: what is done, the size of a payload, how many entries there are.
    pub(crate) job: String,
    /// The file system, where there is one.
    pub(crate) medium: String,
    pub(crate) ours: String,
    pub(crate) peer: String,
    /// A guarantee that ours gives and the peer does not.
    pub(crate) leaves_out: String,
    /// A remark on the row.
    pub(crate) remark: String,
    pub(crate) outcome: Outcome,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// Nanoseconds of one operation, medians; and the median of the ratios of neighbouring batches.
    Measured { ours_ns: f64, peer_ns: f64, ratio: f64 },
    /// Why there is no number.
    Missing(String),
    /// The first line of what was said when a side crashed.
    Crashed(String),
}

impl Duel {
    pub(crate) fn missing(job: &str, medium: &str, (ours, peer): (&Kind, &Kind), why: &str) -> Self {
        Self::with(job, medium, (ours.name, peer.name), "", Outcome::Missing(why.to_owned()))
    }

    pub(crate) fn with(
        job: &str,
        medium: &str,
        (ours, peer): (&str, &str),
        leaves_out: &str,
        outcome: Outcome,
    ) -> Self {
        Self {
            job: job.to_owned(),
            medium: medium.to_owned(),
            ours: ours.to_owned(),
            peer: peer.to_owned(),
            leaves_out: leaves_out.to_owned(),
            remark: String::new(),
            outcome,
        }
    }

    pub(crate) fn remarking(mut self, remark: &str) -> Self {
        remark.clone_into(&mut self.remark);
        self
    }

    /// Our time in the peer's: below 1 we lead.
    pub(crate) const fn ratio(&self) -> Option<f64> {
        match self.outcome {
            Outcome::Measured { ratio, .. } => Some(ratio),
            Outcome::Missing(_) | Outcome::Crashed(_) => None,
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.ratio().is_some_and(|ratio| ratio > 1.0)
    }

    /// Whether a peer that leaves nothing out is quicker.
    pub(crate) fn is_lost_to_an_equal(&self) -> bool {
        self.is_lost() && self.leaves_out.is_empty()
    }

    fn verdict(&self) -> &'static str {
        match self.ratio() {
            None if matches!(self.outcome, Outcome::Crashed(_)) => "CRASHED",
            None => "missing",
            Some(_) if !self.is_lost() => "ours leads",
            Some(_) if self.leaves_out.is_empty() => "PEER LEADS",
            Some(_) => "peer leads, and leaves out",
        }
    }
}

impl Outcome {
    pub(crate) fn of(found: Comparison) -> Self {
        Self::Measured { ours_ns: found.subject_ns, peer_ns: found.floor_ns, ratio: found.ratio() }
    }

    /// The same per operation, where `operations` were timed as one.
    pub(crate) fn of_many(found: Comparison, operations: u64) -> Self {
        let per = operations as f64;
        Self::Measured {
            ours_ns: found.subject_ns / per,
            peer_ns: found.floor_ns / per,
            ratio: found.ratio(),
        }
    }
}

/// The rows for a person.
pub(crate) fn table(duels: &[Duel]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_header([
        "job",
        "on",
        "ours",
        "peer",
        "ours takes",
        "peer takes",
        "ratio",
        "",
        "leaves out",
    ]);
    for duel in duels {
        let numbers = match &duel.outcome {
            Outcome::Measured { ours_ns, peer_ns, ratio } => {
                [time(*ours_ns), time(*peer_ns), format!("{ratio:.3}")]
            }
            Outcome::Missing(_) | Outcome::Crashed(_) => ["-", "-", "-"].map(str::to_owned),
        };
        let [ours, theirs, ratio] = numbers;
        let mut rest = match &duel.outcome {
            Outcome::Measured { .. } => duel.leaves_out.clone(),
            Outcome::Missing(why) | Outcome::Crashed(why) => why.clone(),
        };
        if !duel.remark.is_empty() {
            rest = format!("{rest}; {}", duel.remark).trim_start_matches("; ").to_owned();
        }
        table.add_row([
            duel.job.as_str(),
            &duel.medium,
            &duel.ours,
            &duel.peer,
            &ours,
            &theirs,
            &ratio,
            duel.verdict(),
            &rest,
        ]);
    }
    for column in 4..7 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// A time in the unit that suits it.
pub(crate) fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        n if n < 1e3 => format!("{n:.0} ns"),
        n if n < 1e4 => format!("{:.2} µs", n / 1e3),
        n if n < 1e6 => format!("{:.0} µs", n / 1e3),
        n if n < 1e7 => format!("{:.2} ms", n / 1e6),
        n => format!("{:.0} ms", n / 1e6),
    }
}

/// The rows for a program: a row a line.
pub(crate) fn json(duels: &[Duel]) -> serde_json::Result<String> {
    let lines: Result<Vec<String>, _> = duels.iter().map(serde_json::to_string).collect();
    Ok(format!("[\n{}\n]\n", lines?.join(",\n")))
}

/// Reads the output of [`json`].
pub(crate) fn read(text: &str) -> serde_json::Result<Vec<Duel>> {
    serde_json::from_str(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn duel(ratio: f64, leaves_out: &str) -> Duel {
        let outcome = Outcome::Measured { ours_ns: ratio * 1500.0, peer_ns: 1500.0, ratio };
        Duel::with("hit/1KiB/100", "tmpfs", ("files", "peer"), leaves_out, outcome)
    }

    #[test]
    fn only_a_peer_that_leaves_nothing_out_is_an_equal() {
        assert!(duel(1.1, "").is_lost_to_an_equal());
        assert!(!duel(1.1, "quota").is_lost_to_an_equal());
        assert!(!duel(0.9, "").is_lost_to_an_equal());
    }

    #[test]
    fn a_peer_that_is_missing_or_crashed_is_in_the_table() {
        let row = |outcome| Duel::with("put", "", ("files", "peer"), "", outcome);
        let missing = row(Outcome::Missing("has no quota".to_owned()));
        let text = table(&[missing, row(Outcome::Crashed("no such page".to_owned()))]).to_string();
        for cell in ["missing", "has no quota", "CRASHED", "no such page"] {
            assert!(text.contains(cell), "{text}");
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let crashed = Outcome::Crashed("no such page".to_owned());
        let crashed = Duel::with("put", "", ("files", "peer"), "", crashed);
        let text = json(&[duel(0.5, "quota"), duel(2.0, ""), crashed]).unwrap();
        let found = read(&text).unwrap();
        assert_eq!(json(&found).unwrap(), text);
        assert_eq!(found[1].ratio(), Some(2.0));
    }
}
