//! Measures the time from opening a store of many entries to the first hit.

use std::time::Instant;

use crate::{
    Bench, Duels,
    crash::Bout,
    duel::{Duel, Outcome},
    peer::Settings,
    persistent::pairs,
    value::{Values, key},
};

pub(crate) fn rows(bench: &Bench) -> Duels {
    let entries: u64 = if bench.quick { 2000 } else { 50_000 };
    let values = Values::new(1 << 10);
    let mut duels = Vec::new();
    for (ours, peer) in pairs() {
        let job = format!("open and hit/1KiB/{entries}");
        if let Some(why) = peer.missing {
            duels.push(Duel::missing(&job, bench.quiet.name, (ours, peer), why));
            continue;
        }
        let bout = Bout {
            jobs: &[job],
            medium: bench.quiet.name,
            ours: ours.name,
            peer: peer.name,
            leaves_out: peer.leaves_out,
            roots: ["ours", "peer"].map(|name| bench.quiet.path(name)),
        };
        duels.extend(bout.rows(|roots, outcomes| {
            let settings = Settings::default();
            (ours.open)(&roots[0], settings).fill(entries, &values);
            (peer.open)(&roots[1], settings).fill(entries, &values);
            let first_hit = |kind: &crate::peer::Kind, root, call: u64| {
                let wanted_key = key(call * 619 % entries);
                let start = Instant::now();
                let store = (kind.open)(root, settings);
                assert!(store.get(&wanted_key, &mut |_| {}), "{}: an entry was not kept", kind.name);
                // The cost of closing is not measured.
                start.elapsed()
            };
            let found = bench.plan.compare_timed(
                |call| first_hit(ours, &roots[0], call),
                |call| first_hit(peer, &roots[1], call),
            );
            outcomes.push(Outcome::of(found));
            Ok(())
        })?);
    }
    Ok(duels)
}
