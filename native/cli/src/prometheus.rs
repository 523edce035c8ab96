//! The statistics as Prometheus' text exposition format, version 0.0.4.

use std::fmt::{Display, Write};

use warmstart::{
    Reason, ReasonCounts,
    store::{Kept, Totals},
};

/// What is held and what was counted. Every reason has its sample from the start, so that rates are known from the first
/// occurrence on.
pub(crate) fn text(held: Totals, kept: &Kept, label: Option<&str>) -> String {
    let (tally, statistics) = (&kept.tally, kept.tally.statistics());
    let mut text =
        Text { text: String::new(), label: label.map(|label| format!("store=\"{}\"", escaped(label))) };
    text.one("entries", "gauge", "Entries that are stored.", held.entries);
    text.one("stored_bytes", "gauge", "What the entries count against the cap.", held.bytes);
    text.one("hits_total", "counter", "Look-ups that found an artifact.", statistics.hits);
    text.reasons("misses_total", "Look-ups that found none, by reason.", &statistics.misses);
    text.reasons("refusals_total", "Artifacts that were not stored, by reason.", &statistics.refusals);
    text.one("builds_total", "counter", "Artifacts that were built.", statistics.builds);
    text.one(
        "shared_total",
        "counter",
        "Misses whose artifact somebody else built meanwhile.",
        statistics.shared,
    );
    text.one("read_bytes_total", "counter", "Payload bytes that hits handed out.", statistics.bytes_read);
    text.one("written_bytes_total", "counter", "Payload bytes that were stored.", statistics.bytes_written);
    text.one("evictions_total", "counter", "Entries that were evicted to make room.", statistics.evictions);
    text.one("build_seconds_total", "counter", "Time spent building.", seconds(statistics.build_nanos));
    text.one("saved_seconds_total", "counter", "Time that hits saved.", seconds(statistics.saved_nanos));
    text.one("resets_total", "counter", "Times that the counters were lost to damage.", tally.resets());
    if tally.since_unix_ms() > 0 {
        let since = tally.since_unix_ms();
        let seconds = format!("{}.{:03}", since / 1000, since % 1000);
        text.one("since_timestamp_seconds", "gauge", "When counting began.", seconds);
    }
    text.text
}

struct Text {
    text: String,
    /// The label that every sample has.
    label: Option<String>,
}

impl Text {
    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.head(name, kind, help);
        self.sample(name, None, value);
    }

    fn reasons(&mut self, name: &str, help: &str, counts: &ReasonCounts) {
        self.head(name, "counter", help);
        for reason in Reason::ALL {
            self.sample(name, Some(*reason), counts.of(*reason));
        }
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP warmstart_{name} {help}\n# TYPE warmstart_{name} {kind}");
    }

    fn sample(&mut self, name: &str, reason: Option<Reason>, value: impl Display) {
        let reason = reason.map(|reason| format!("reason=\"{}\"", reason.as_str()));
        let labels: Vec<&str> = self.label.as_deref().into_iter().chain(reason.as_deref()).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.text, "warmstart_{name}{labels} {value}");
    }
}

/// The value of a label: three characters have an escape.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// All digits: a float would lose some.
fn seconds(nanos: u64) -> String {
    format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_escaped_and_stands_in_every_sample() {
        let text = text(Totals::default(), &Kept::default(), Some("a\"b\\c\nd"));
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(samples.len() > 2 * Reason::COUNT);
        for sample in samples {
            assert!(sample.contains("{store=\"a\\\"b\\\\c\\nd\""), "{sample}");
        }
    }

    #[test]
    fn every_nanosecond_counts() {
        assert_eq!(seconds(1), "0.000000001");
        assert_eq!(seconds(u64::MAX), "18446744073.709551615");
    }
}
