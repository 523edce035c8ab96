//! Eight processes at one store.

use std::path::Path;

use crate::{
    Bench, Duels,
    crash::Bout,
    crew::{Crew, Task, Verb},
    duel::{Duel, Outcome},
    persistent::pairs,
};

pub(crate) const PROCESSES: usize = 8;

/// The number of operations of each process between two orders.
const AT_ONCE: u64 = 64;

pub(crate) fn rows(bench: &Bench) -> Duels {
    let entries: u64 = if bench.quick { 1000 } else { 10_000 };
    let mut duels = Vec::new();
    for (ours, peer) in pairs() {
        let jobs = ["hit", "put"].map(|job| format!("{job} by 8 processes/1KiB/{entries}"));
        if let Some(why) = peer.missing.or(peer.no_shared) {
            duels.extend(jobs.iter().map(|job| Duel::missing(job, bench.quiet.name, (ours, peer), why)));
            continue;
        }
        let task = |kind: &crate::peer::Kind, path: &Path| Task {
            kind: kind.name.to_owned(),
            path: path.to_owned(),
            size: 1 << 10,
            durable: false,
            shared: true,
            max_bytes: None,
        };
        let bout = Bout {
            jobs: &jobs,
            medium: bench.quiet.name,
            ours: ours.name,
            peer: peer.name,
            leaves_out: peer.leaves_out,
            roots: ["ours", "peer"].map(|name| bench.quiet.path(name)),
        };
        duels.extend(bout.rows(|roots, outcomes| {
            let (our_task, peer_task) = (task(ours, &roots[0]), task(peer, &roots[1]));
            // One process makes the store, so that eight do not make it at once.
            for task in [&our_task, &peer_task] {
                Crew::of_ours(1, task)?.work(Verb::Fill, 0, entries);
            }
            let mut our = Crew::of_ours(PROCESSES, &our_task)?;
            let mut their = Crew::of_ours(PROCESSES, &peer_task)?;
            for verb in [Verb::Hit, Verb::Put] {
                let start = |call: u64| call * AT_ONCE % (entries - AT_ONCE);
                let found = bench.plan.compare(
                    |call| our.work(verb, start(call), AT_ONCE),
                    |call| their.work(verb, start(call), AT_ONCE),
                );
                outcomes.push(Outcome::of_many(found, AT_ONCE * PROCESSES as u64));
            }
            Ok(())
        })?);
    }
    Ok(duels)
}
