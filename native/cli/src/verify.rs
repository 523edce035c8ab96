//! `warmstart verify`: reads every entry to its end.

use std::io::Write;

use console::style;
use serde_json::json;
use warmstart::{MissReason, Seal, store::Proof};

use crate::{
    arguments::Verify,
    failure::Failure,
    screen::{self, Screen},
    store::{Access, is_pack, open},
    table::Table,
    text::short,
    units::{bytes, entries},
};

pub(crate) fn run(arguments: &Verify, seal: Option<&Seal>, screen: &mut Screen) -> Result<bool, Failure> {
    if is_pack(&arguments.store) {
        return crate::pack::verify(arguments, screen);
    }
    let access = if arguments.remove { Access::Change } else { Access::Look };
    let opened = open(&arguments.store, seal, access)?;
    let total = opened.look("count", |inspect| inspect.totals()).map(|totals| totals.entries).ok();
    let progress = screen::progress("verifying", total);
    let (mut whole, mut removed, mut read) = (0, 0, 0_u64);
    let mut problems = Vec::new();
    let mut visit = |proof: &Proof| {
        screen::step(&progress);
        read = read.saturating_add(proof.size);
        removed += u64::from(arguments.remove && proof.is_removed);
        match proof.result {
            Ok(()) => whole += 1,
            Err(reason) => problems.push((reason, proof.digest.to_string(), proof.size)),
        }
    };
    opened.look("verify", |inspect| inspect.verify(&mut visit))?;
    drop(progress);
    problems.sort_by(|one, other| (one.0.as_str(), &one.1).cmp(&(other.0.as_str(), &other.1)));

    let count =
        |is: fn(MissReason) -> bool| problems.iter().filter(|(reason, ..)| is(*reason)).count() as u64;
    let damaged = count(MissReason::is_damage);
    let forged = count(|reason| matches!(reason, MissReason::Forged | MissReason::Unsealed));
    let sealed = count(|reason| reason == MissReason::Sealed);
    let newer = count(|reason| reason == MissReason::NewerVersion);
    let unreadable = problems.len() as u64 - damaged - forged - sealed - newer;
    // An entry that could not be verified is not whole, either.
    let is_good = problems.len() as u64 == newer;
    if screen.json {
        let list = problems
            .iter()
            .map(|(reason, name, size)| json!({ "name": name, "size": size, "reason": reason.as_str() }));
        let answer = json!({
            "whole": whole,
            "damaged": damaged,
            "forged": forged,
            "sealed": sealed,
            "newer": newer,
            "unreadable": unreadable,
            "removed": removed,
            "problems": list.collect::<Vec<_>>(),
        });
        screen.write_json([opened.head(), answer])?;
        return Ok(is_good);
    }
    if !problems.is_empty() {
        let mut table = Table::new(["NAME", ">SIZE", "REASON", "MEANING"]);
        for (reason, name, size) in &problems {
            let [name, code] = [style(short(name)).yellow(), style(reason.as_str()).red()];
            table.row([&name, &bytes(*size), &code, &reason.explanation()]);
        }
        table.write(screen)?;
        writeln!(screen)?;
    }
    let mut line = format!("{} whole", entries(whole));
    let left = if arguments.remove { damaged.saturating_sub(removed) } else { 0 };
    let counts = [
        (damaged, "damaged"),
        (removed, "removed"),
        (left, "could not be removed"),
        (forged, "not sealed with this secret"),
        (sealed, "sealed, which `--seal-key` can check"),
        (newer, "of a newer version"),
        (unreadable, "not read"),
    ];
    for (n, what) in counts.iter().filter(|(n, _)| *n > 0) {
        line += &format!(", {n} {what}");
    }
    let line = if is_good { style(line).green() } else { style(line).red() };
    writeln!(screen, "{line}; {} read", bytes(read))?;
    if damaged > 0 && !arguments.remove {
        writeln!(screen, "a damaged entry is a miss; the next look-up or `verify --remove` removes it")?;
    }
    Ok(is_good)
}
