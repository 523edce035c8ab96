//! `warmstart stats`: the size of the store, and the counters of all processes.

use std::{
    collections::BTreeMap,
    fmt::{Display, Write as _},
    io::Write,
};

use console::style;
use serde_json::{Value, json};
use warmstart::{MissReason, PersistedStats, ReasonCounts, Seal, store::Totals};

use crate::{
    arguments::Stats,
    failure::Failure,
    screen::Screen,
    store::{Access, Opened, open},
    table::Table,
    units::{bytes, counted, entries, nanos, when},
};

pub(crate) fn run(arguments: &Stats, seal: Option<&Seal>, screen: &mut Screen) -> Result<bool, Failure> {
    let opened = open(&arguments.store, seal, Access::Look)?;
    let stats = opened.look("read the statistics of", |inspect| inspect.stats())?;
    let held = opened.look("read", |inspect| inspect.totals())?;

    if arguments.prometheus {
        screen.write_all(prometheus(held, &stats, arguments.label.as_deref()).as_bytes())?;
    } else if screen.json {
        screen.write_json([opened.head(), answer(held, &stats)])?;
    } else {
        show(&opened, held, &stats, screen)?;
    }
    Ok(true)
}

fn answer(held: Totals, stats: &PersistedStats) -> Value {
    let statistics = &stats.counted;
    let known = |time: u64| (time > 0).then_some(time);
    let reasons = |counts: &ReasonCounts| {
        let by_reason: BTreeMap<_, _> = counts.iter().map(|(reason, n)| (reason.as_str(), n)).collect();
        json!({ "total": counts.total(), "by_reason": by_reason })
    };
    let lookups = statistics.hits.saturating_add(statistics.misses.total());
    json!({
        "entries": held.entries,
        "bytes": held.bytes,
        "since_unix_ms": known(stats.since_unix_ms),
        "resets": stats.resets,
        "hits": statistics.hits,
        "misses": reasons(&statistics.misses),
        "hit_rate": (lookups > 0).then(|| statistics.hits as f64 / lookups as f64),
        "builds": statistics.builds,
        "shared": statistics.shared,
        "wait_nanos": statistics.wait_nanos,
        "refusals": reasons(&statistics.refusals),
        "bytes_read": statistics.bytes_read,
        "bytes_written": statistics.bytes_written,
        "evictions": statistics.evictions,
        "build_nanos": statistics.build_nanos,
        "saved_nanos": statistics.saved_nanos,
        "last_miss_unix_ms": stats.last_miss.as_ref().and_then(|miss| known(miss.unix_ms)),
    })
}

fn show(opened: &Opened, held: Totals, stats: &PersistedStats, screen: &mut Screen) -> Result<(), Failure> {
    let kind = style(format!("({})", opened.kind.noun())).dim();
    writeln!(screen, "{} {kind}", style(opened.path()).bold())?;
    writeln!(screen, "{}, {}", entries(held.entries), bytes(held.bytes))?;

    let statistics = &stats.counted;
    if stats.resets > 0 {
        let resets = counted(stats.resets, "time", "times");
        let line = format!("the statistics were damaged {resets}: earlier counts are lost");
        writeln!(screen, "\n{}", style(line).red())?;
    }
    let Some(since) = when(stats.since_unix_ms, screen.now) else {
        writeln!(screen, "\nnothing was counted yet")?;
        return Ok(());
    };
    writeln!(screen, "\n{}", style(format!("Counted since {since}")).bold())?;

    let [misses, refusals] = [&statistics.misses, &statistics.refusals].map(ReasonCounts::total);
    let lookups = statistics.hits.saturating_add(misses);
    let share = |n: u64| match lookups {
        0 => String::new(),
        _ => format!("{:.1} %", n as f64 / lookups as f64 * 100.0),
    };
    let saved = match statistics.saved_nanos {
        0 => style(String::new()),
        saved => style(format!("saved {} of building", nanos(saved))).green(),
    };
    let took = (statistics.builds > 0).then(|| format!("took {}", nanos(statistics.build_nanos)));
    let mut table = Table::new(["", ">", ">", ""]);
    table.row([&"look-ups", &lookups, &"", &""]);
    table.row([&"  hits", &statistics.hits, &share(statistics.hits), &saved]);
    table.row([&"  misses", &misses, &share(misses), &""]);
    reasons(&mut table, &statistics.misses);
    table.row([&"built", &statistics.builds, &"", &took.unwrap_or_default()]);
    if statistics.shared > 0 {
        let by = format!("built by another thread or process, waited {}", nanos(statistics.wait_nanos));
        table.row([&"shared", &statistics.shared, &"", &style(by).dim()]);
    }
    if refusals > 0 {
        table.row([&"not stored", &refusals, &"", &""]);
        reasons(&mut table, &statistics.refusals);
    }
    table.row([&"evicted", &statistics.evictions, &"", &""]);
    table.row([&"read", &bytes(statistics.bytes_read), &"", &""]);
    table.row([&"written", &bytes(statistics.bytes_written), &"", &""]);
    Ok(table.write(screen)?)
}

fn reasons(table: &mut Table<4>, counts: &ReasonCounts) {
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    for (reason, n) in counts {
        let name = format!("    {}", reason.as_str());
        table.row([&name, &n, &"", &style(reason.explanation()).dim()]);
    }
}

/// The samples of a family, each with its reason if it has one.
type Samples = Vec<(Option<MissReason>, String)>;

/// Returns the statistics in Prometheus' text exposition format, version 0.0.4. Every reason has its sample from the start, so that
/// rates are known from the first occurrence on.
fn prometheus(held: Totals, stats: &PersistedStats, label: Option<&str>) -> String {
    let counted = &stats.counted;
    let by_reason = |counts: &ReasonCounts| {
        let sample = |reason: &MissReason| (Some(*reason), counts.of(*reason).to_string());
        MissReason::ALL.iter().map(sample).collect()
    };
    let one = |value: &dyn Display| vec![(None, value.to_string())];
    let mut families: Vec<(&str, &str, Samples)> = vec![
        ("entries", "Entries that are stored.", one(&held.entries)),
        ("stored_bytes", "Bytes of the entries, as counted against the cap.", one(&held.bytes)),
        ("hits_total", "Look-ups that found an artifact.", one(&counted.hits)),
        ("misses_total", "Look-ups that found none, by reason.", by_reason(&counted.misses)),
        ("refusals_total", "Artifacts that were not stored, by reason.", by_reason(&counted.refusals)),
        ("builds_total", "Artifacts that were built.", one(&counted.builds)),
        ("shared_total", "Misses that another thread or process built.", one(&counted.shared)),
        ("wait_seconds_total", "Time that these misses waited.", one(&seconds(counted.wait_nanos))),
        ("read_bytes_total", "Payload bytes that hits handed out.", one(&counted.bytes_read)),
        ("written_bytes_total", "Payload bytes that were stored.", one(&counted.bytes_written)),
        ("evictions_total", "Entries that were evicted to make room.", one(&counted.evictions)),
        ("build_seconds_total", "Time spent building.", one(&seconds(counted.build_nanos))),
        ("saved_seconds_total", "Time that hits saved.", one(&seconds(counted.saved_nanos))),
        ("resets_total", "Times that the counters were lost to damage.", one(&stats.resets)),
    ];
    let since = stats.since_unix_ms;
    if since > 0 {
        let since = format!("{}.{:03}", since / 1000, since % 1000);
        families.push(("since_timestamp_seconds", "When counting began.", one(&since)));
    }
    let label = label.map(|label| format!("store=\"{}\"", escaped(label)));
    let mut text = String::new();
    for (name, help, samples) in families {
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        let _ = writeln!(text, "# HELP warmstart_{name} {help}\n# TYPE warmstart_{name} {kind}");
        for (reason, value) in samples {
            let reason = reason.map(|reason| format!("reason=\"{}\"", reason.as_str()));
            let labels: Vec<&str> = label.as_deref().into_iter().chain(reason.as_deref()).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(text, "warmstart_{name}{labels} {value}");
        }
    }
    text
}

/// Escapes the value of a label: three characters have an escape.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Formats a duration in seconds with all digits, of which a float would lose some.
fn seconds(nanos: u64) -> String {
    format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_escaped_and_stands_in_every_sample() {
        let text = prometheus(Totals::default(), &PersistedStats::default(), Some("a\"b\\c\nd"));
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(samples.len() > 2 * MissReason::COUNT);
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
