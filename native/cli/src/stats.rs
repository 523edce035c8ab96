//! `warmstart stats`: what is stored, and what all processes have counted.

use std::{collections::BTreeMap, io::Write};

use serde::Serialize;
use warmstart::{
    ReasonCounts,
    store::{Kept, Totals},
};

use crate::{
    Verdict,
    arguments::Stats,
    failure::Failure,
    prometheus,
    screen::{Screen, Tone},
    store::{Access, Head, Opened, Opener},
    table::{Cell, Table},
    units::{ago, bytes, counted, nanos, percent, time},
};

#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    head: Head,
    entries: u64,
    bytes: u64,
    #[serde(flatten)]
    counted: Counted,
}

#[derive(Serialize)]
struct Counted {
    since_unix_ms: Option<u64>,
    resets: u64,
    hits: u64,
    misses: Reasons,
    hit_rate: Option<f64>,
    builds: u64,
    shared: u64,
    refusals: Reasons,
    bytes_read: u64,
    bytes_written: u64,
    evictions: u64,
    build_nanos: u64,
    saved_nanos: u64,
    last_miss_unix_ms: Option<u64>,
}

#[derive(Serialize)]
struct Reasons {
    total: u64,
    by_reason: BTreeMap<&'static str, u64>,
}

impl Reasons {
    fn new(counts: &ReasonCounts) -> Self {
        let by_reason = counts.iter().map(|(reason, n)| (reason.as_str(), n)).collect();
        Self { total: counts.total(), by_reason }
    }
}

impl Counted {
    fn new(kept: &Kept) -> Self {
        let (tally, statistics) = (&kept.tally, kept.tally.statistics());
        let known = |time: u64| (time > 0).then_some(time);
        let lookups = statistics.hits.saturating_add(statistics.misses.total());
        Self {
            since_unix_ms: known(tally.since_unix_ms()),
            resets: tally.resets(),
            hits: statistics.hits,
            misses: Reasons::new(&statistics.misses),
            hit_rate: (lookups > 0).then(|| statistics.hits as f64 / lookups as f64),
            builds: statistics.builds,
            shared: statistics.shared,
            refusals: Reasons::new(&statistics.refusals),
            bytes_read: statistics.bytes_read,
            bytes_written: statistics.bytes_written,
            evictions: statistics.evictions,
            build_nanos: statistics.build_nanos,
            saved_nanos: statistics.saved_nanos,
            last_miss_unix_ms: kept.last_miss.as_ref().and_then(|miss| known(miss.unix_ms)),
        }
    }
}

pub(crate) fn run(arguments: &Stats, opener: &Opener, screen: &mut Screen) -> Result<Verdict, Failure> {
    let opened = opener.open(&arguments.store, Access::Look)?;
    let kept = opened.store.kept().map_err(|reason| opened.cannot("read the statistics of", reason))?;
    let held = opened.store.totals().map_err(|reason| opened.cannot("read", reason))?;

    if arguments.prometheus {
        screen.write_all(prometheus::text(held, &kept, arguments.label.as_deref()).as_bytes())?;
    } else if screen.json {
        let Totals { entries, bytes } = held;
        screen.json(&Answer { head: opened.head(), entries, bytes, counted: Counted::new(&kept) })?;
    } else {
        show(&opened, held, &kept, screen)?;
    }
    Ok(Verdict::Good)
}

fn show(opened: &Opened, held: Totals, kept: &Kept, screen: &mut Screen) -> Result<(), Failure> {
    writeln!(
        screen,
        "{} {}",
        screen.paint.apply(Tone::Heading, opened.path()),
        screen.paint.apply(Tone::Faint, format!("({})", opened.kind.noun()))
    )?;
    writeln!(screen, "{}, {}", counted(held.entries, "entry", "entries"), bytes(held.bytes))?;

    let (tally, statistics) = (&kept.tally, kept.tally.statistics());
    if tally.resets() > 0 {
        let resets = counted(tally.resets(), "time", "times");
        let line = format!("the statistics were damaged {resets}: what was counted before is lost");
        writeln!(screen, "\n{}", screen.paint.apply(Tone::Bad, line))?;
    }
    let Some(since) = time(tally.since_unix_ms()) else {
        writeln!(screen, "\nnothing was counted yet")?;
        return Ok(());
    };
    let ago = ago(tally.since_unix_ms(), screen.now).unwrap_or_default();
    writeln!(screen, "\n{}", screen.paint.apply(Tone::Heading, format!("Counted since {since} ({ago})")))?;

    let lookups = statistics.hits.saturating_add(statistics.misses.total());
    let share = |n: u64| Cell::from(percent(n, lookups).unwrap_or_default());
    let none = Cell::default;
    let mut table = Table::without_header(&["", ">", ">", ""]);
    table.row(["look-ups".into(), lookups.to_string().into(), none(), none()]);
    let saved = match statistics.saved_nanos {
        0 => none(),
        saved => Cell::new(Tone::Good, format!("saved {} of building", nanos(saved))),
    };
    table.row(["  hits".into(), statistics.hits.to_string().into(), share(statistics.hits), saved]);
    let misses = statistics.misses.total();
    table.row(["  misses".into(), misses.to_string().into(), share(misses), none()]);
    reasons(&mut table, &statistics.misses);
    let took = (statistics.builds > 0).then(|| format!("took {}", nanos(statistics.build_nanos)));
    table.row([
        "built".into(),
        statistics.builds.to_string().into(),
        none(),
        took.unwrap_or_default().into(),
    ]);
    if statistics.shared > 0 {
        let by = "built by another thread or process meanwhile";
        table.row([
            "shared".into(),
            statistics.shared.to_string().into(),
            none(),
            Cell::new(Tone::Faint, by),
        ]);
    }
    let refusals = statistics.refusals.total();
    if refusals > 0 {
        table.row(["not stored".into(), refusals.to_string().into(), none(), none()]);
        reasons(&mut table, &statistics.refusals);
    }
    table.row(["evicted".into(), statistics.evictions.to_string().into(), none(), none()]);
    table.row(["read".into(), bytes(statistics.bytes_read).into(), none(), none()]);
    table.row(["written".into(), bytes(statistics.bytes_written).into(), none(), none()]);
    table.write(screen)?;
    Ok(())
}

fn reasons(table: &mut Table, counts: &ReasonCounts) {
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    for (reason, n) in counts {
        table.row([
            format!("    {}", reason.as_str()).into(),
            n.to_string().into(),
            Cell::default(),
            Cell::new(Tone::Faint, reason.explanation()),
        ]);
    }
}
