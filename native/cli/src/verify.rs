//! `warmstart verify`: reads every entry to its end.

use std::io::Write;

use serde::Serialize;
use warmstart::Reason;

use crate::{
    Verdict,
    arguments::Verify,
    failure::Failure,
    screen::{Progress, Screen, Tone},
    store::{Access, Head, Opener},
    table::{Cell, Table},
    units::{bytes, counted},
};

#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    head: Head,
    whole: u64,
    damaged: u64,
    forged: u64,
    sealed: u64,
    newer: u64,
    unreadable: u64,
    /// How many of the damaged ones are gone now.
    removed: u64,
    problems: &'a [Problem],
}

#[derive(Serialize)]
struct Problem {
    name: String,
    size: u64,
    reason: &'static str,
    #[serde(skip)]
    of: Reason,
}

pub(crate) fn run(arguments: &Verify, opener: &Opener, screen: &mut Screen) -> Result<Verdict, Failure> {
    if crate::recognise::is_pack(&arguments.store) {
        return crate::pack::verify(arguments, screen);
    }
    let access = if arguments.remove { Access::Change } else { Access::Look };
    let opened = opener.open(&arguments.store, access)?;
    // Counting would remove some of what is damaged, where that is allowed: then how much is left is not known.
    let total = if arguments.remove { None } else { opened.store.len().ok() };
    let mut progress = Progress::new("verifying", total);
    let (mut whole, mut removed, mut read) = (0, 0, 0_u64);
    let mut problems = Vec::new();
    let verified = opened.store.verify_each(&mut |proof| {
        progress.step();
        read = read.saturating_add(proof.size);
        removed += u64::from(arguments.remove && proof.is_removed);
        match proof.result {
            Ok(()) => whole += 1,
            Err(of) => {
                let name = proof.name.to_string();
                problems.push(Problem { name, size: proof.size, reason: of.as_str(), of });
            }
        }
    });
    drop(progress);
    verified.map_err(|reason| opened.cannot("verify", reason))?;
    problems.sort_by(|one, other| (one.reason, &one.name).cmp(&(other.reason, &other.name)));

    let count = |is: fn(Reason) -> bool| problems.iter().filter(|problem| is(problem.of)).count() as u64;
    let damaged = count(Reason::is_damage);
    let forged = count(|reason| matches!(reason, Reason::Forged | Reason::Unsealed));
    let sealed = count(|reason| reason == Reason::Sealed);
    let newer = count(|reason| reason == Reason::NewerVersion);
    let unreadable = problems.len() as u64 - damaged - forged - sealed - newer;
    // What could not be proved is not right, either.
    let is_good = problems.len() as u64 == newer;
    if screen.json {
        let head = opened.head();
        screen.json(&Answer {
            head,
            whole,
            damaged,
            forged,
            sealed,
            newer,
            unreadable,
            removed,
            problems: &problems,
        })?;
    } else {
        show(&problems, screen)?;
        let tone = if is_good { Tone::Good } else { Tone::Bad };
        let mut line = format!("{} whole", counted(whole, "entry", "entries"));
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
        writeln!(screen, "{}; {} read", screen.paint.apply(tone, line), bytes(read))?;
        if damaged > 0 && !arguments.remove {
            writeln!(
                screen,
                "what is damaged is a miss, and goes when it is looked up, or with `verify --remove`"
            )?;
        }
    }
    Ok(if is_good { Verdict::Good } else { Verdict::Damage })
}

fn show(problems: &[Problem], screen: &mut Screen) -> Result<(), Failure> {
    if problems.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&["NAME", ">SIZE", "REASON", "MEANING"]);
    for problem in problems {
        table.row([
            Cell::new(Tone::Name, &problem.name[..12]),
            bytes(problem.size).into(),
            Cell::new(Tone::Bad, problem.reason),
            problem.of.explanation().into(),
        ]);
    }
    table.write(screen)?;
    writeln!(screen)?;
    Ok(())
}
