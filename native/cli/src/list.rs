//! `warmstart ls`: the entries.

use std::{cmp::Reverse, io::Write};

use console::style;
use serde_json::json;
use warmstart::{MissReason, Seal};

use crate::{
    arguments::{List, Order},
    failure::Failure,
    screen::Screen,
    store::{Access, Summary, open},
    table::{Table, known},
    text::{short, visible},
    units::{age, bytes, counted, entries as count_of, nanos},
};

pub(crate) fn run(arguments: &List, seal: Option<&Seal>, screen: &mut Screen) -> Result<bool, Failure> {
    let opened = open(&arguments.store, seal, Access::Look)?;
    let mut entries = Vec::new();
    opened.entries(|entry| entries.push(Summary::new(&entry)))?;
    sort(&mut entries, arguments);

    let size = entries.iter().map(|entry| entry.size).fold(0, u64::saturating_add);
    if screen.json {
        let list = json!({ "entries": entries, "count": entries.len(), "bytes": size });
        screen.write_json([opened.head(), list])?;
        return Ok(true);
    }
    if entries.is_empty() {
        writeln!(screen, "no entries")?;
        return Ok(true);
    }
    write_table(&entries, arguments, screen)?;

    let built = entries.iter().filter_map(|entry| entry.build_nanos).fold(0, u64::saturating_add);
    let took = if built > 0 { format!("; building took {}", nanos(built)) } else { String::new() };
    writeln!(screen, "\n{}, {}{took}", count_of(entries.len() as u64), bytes(size))?;
    let unread = entries.iter().filter(|entry| entry.problem.is_some()).count();
    if unread > 0 {
        let unread = counted(unread as u64, "head", "heads");
        let line = format!("{unread} could not be read; `warmstart verify` lists the damaged ones");
        writeln!(screen, "{}", style(line).red())?;
    }
    Ok(true)
}

/// Sorts the entries, which the store lists in the order of use, the last one last.
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

fn write_table(entries: &[Summary], arguments: &List, screen: &mut Screen) -> Result<(), Failure> {
    let mut table = Table::new(["NAME", ">SIZE", ">AGE", ">USED", ">BUILD", "DOMAIN", "LABEL"]);
    for entry in entries {
        let name = if arguments.full { &entry.name } else { short(&entry.name) };
        let size = if arguments.bytes { entry.size.to_string() } else { bytes(entry.size) };
        let since = |time: Option<u64>| known(time.and_then(|time| age(time, screen.now)));
        let label = match entry.problem.and_then(MissReason::from_name) {
            Some(reason) => style(reason.explanation()).red().to_string(),
            None => known(entry.label.as_deref().map(visible)),
        };
        table.row([
            &style(name).yellow(),
            &size,
            &since(entry.created_unix_ms),
            &since(entry.used_unix_ms),
            &known(entry.build_nanos.map(nanos)),
            &known(entry.domain.as_deref().map(visible)),
            &label,
        ]);
    }
    Ok(table.write(screen)?)
}
