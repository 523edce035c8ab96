//! `warmstart ls`: the entries.

use std::{cmp::Reverse, io::Write};

use serde::Serialize;
use warmstart::Reason;

use crate::{
    Verdict,
    arguments::{List, Order},
    entry::Summary,
    failure::Failure,
    screen::{Screen, Tone},
    store::{Access, Head, Opener},
    table::{Cell, Table},
    text::visible,
    units::{age, bytes, counted, nanos},
};

#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    head: Head,
    entries: &'a [Summary],
    count: usize,
    bytes: u64,
}

pub(crate) fn run(arguments: &List, opener: &Opener, screen: &mut Screen) -> Result<Verdict, Failure> {
    let opened = opener.open(&arguments.store, Access::Look)?;
    let mut entries = Vec::new();
    opened.entries(|entry| entries.push(Summary::new(&entry)))?;
    sort(&mut entries, arguments);

    let size = entries.iter().map(|entry| entry.size).fold(0, u64::saturating_add);
    if screen.json {
        let count = entries.len();
        screen.json(&Listed { head: opened.head(), entries: &entries, count, bytes: size })?;
        return Ok(Verdict::Good);
    }
    if entries.is_empty() {
        writeln!(screen, "no entries")?;
        return Ok(Verdict::Good);
    }
    table(&entries, arguments, screen.now).write(screen)?;

    let built = entries.iter().filter_map(|entry| entry.build_nanos).fold(0, u64::saturating_add);
    write!(screen, "\n{}, {}", counted(entries.len() as u64, "entry", "entries"), bytes(size))?;
    if built > 0 {
        write!(screen, "; building took {}", nanos(built))?;
    }
    writeln!(screen)?;
    let unread = entries.iter().filter(|entry| entry.problem.is_some()).count();
    if unread > 0 {
        let unread = counted(unread as u64, "head", "heads");
        let line = format!("{unread} could not be read; `warmstart verify` tells what is damaged");
        writeln!(screen, "{}", screen.paint.apply(Tone::Bad, line))?;
    }
    Ok(Verdict::Good)
}

/// The store gives them in the order of use, the last at last.
fn sort(entries: &mut [Summary], arguments: &List) {
    match arguments.sort {
        Order::Used => entries.reverse(),
        Order::Age => entries.sort_by_key(|entry| Reverse(entry.created_unix_ms)),
        Order::Size => entries.sort_by_key(|entry| Reverse(entry.size)),
        Order::Build => entries.sort_by_key(|entry| Reverse(entry.build_nanos)),
    }
    if arguments.reverse {
        entries.reverse();
    }
}

fn table(entries: &[Summary], arguments: &List, now: u64) -> Table {
    let mut table = Table::new(&["NAME", ">SIZE", ">AGE", ">USED", ">BUILD", "DOMAIN", "LABEL"]);
    for entry in entries {
        let name = if arguments.full { entry.name() } else { entry.short_name() };
        let size = if arguments.bytes { entry.size.to_string() } else { bytes(entry.size) };
        let known = |text: &Option<String>| text.as_deref().map(|text| visible(text).into_owned());
        table.row([
            Cell::new(Tone::Name, name),
            size.into(),
            Cell::known(entry.created_unix_ms.and_then(|time| age(time, now))),
            Cell::known(entry.used_unix_ms.and_then(|time| age(time, now))),
            Cell::known(entry.build_nanos.map(nanos)),
            Cell::known(known(&entry.domain)),
            match entry.problem.and_then(Reason::from_name) {
                Some(reason) => Cell::new(Tone::Bad, reason.explanation()),
                None => Cell::known(known(&entry.label)),
            },
        ]);
    }
    table
}
