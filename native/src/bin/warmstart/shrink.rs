//! `warmstart prune` and `warmstart clear`: what is not wanted any more goes.

use std::io::Write;

use serde::Serialize;
use warmstart::{Limits, store::Pruned};

use crate::{
    Verdict,
    arguments::{Clear, Prune},
    failure::Failure,
    screen::Screen,
    store::{Access, Head, Opened, Opener},
    units::{bytes, counted},
};

#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    head: Head,
    removed: Amount,
    left: Amount,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Amount {
    entries: u64,
    bytes: u64,
}

pub(crate) fn prune(arguments: &Prune, opener: &Opener, screen: &mut Screen) -> Result<Verdict, Failure> {
    let opened = opener.open(&arguments.store, Access::Change)?;
    let limits = Limits { max_bytes: arguments.max_bytes, max_entries: arguments.max_entries };
    let removed = opened.store.prune(limits).map_err(|reason| opened.cannot("prune", reason))?;
    answer(&opened, removed, screen)
}

pub(crate) fn clear(arguments: &Clear, opener: &Opener, screen: &mut Screen) -> Result<Verdict, Failure> {
    let opened = opener.open(&arguments.store, Access::Change)?;
    // This says what goes. What it cannot do, such as to evict from a database on a full disk, clearing can.
    let all = Limits { max_bytes: Some(0), max_entries: Some(0) };
    let removed = opened.store.prune(all).unwrap_or_default();
    opened.store.clear().map_err(|reason| opened.cannot("clear", reason))?;
    answer(&opened, removed, screen)
}

fn amount(opened: &Opened) -> Result<Amount, Failure> {
    let totals = opened.store.totals().map_err(|reason| opened.cannot("read", reason))?;
    Ok(Amount { entries: totals.entries, bytes: totals.bytes })
}

fn answer(opened: &Opened, removed: Pruned, screen: &mut Screen) -> Result<Verdict, Failure> {
    let removed = Amount { entries: removed.entries, bytes: removed.bytes };
    let left = amount(opened)?;
    opened.store.close().map_err(|reason| opened.cannot("close", reason))?;
    if screen.json {
        screen.json(&Answer { head: opened.head(), removed, left })?;
        return Ok(Verdict::Good);
    }
    let shown =
        |amount: Amount| format!("{}, {}", counted(amount.entries, "entry", "entries"), bytes(amount.bytes));
    if removed.entries == 0 {
        writeln!(screen, "nothing had to go: {}", shown(left))?;
    } else {
        writeln!(screen, "removed {}; {} left", shown(removed), shown(left))?;
    }
    Ok(Verdict::Good)
}
