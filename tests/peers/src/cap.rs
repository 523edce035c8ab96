//! Puts of stores that persist and are full, so that each evicts what was not used for longest.

use crate::{
    Bench, Duels,
    duel::Duel,
    peer::{OURS, PEERS},
};

/// Every peer that persists lacks a quota, but cuda-core's, which has [a module of its own](crate::cuda_core).
pub(crate) fn rows(bench: &Bench) -> Duels {
    let why = |peer: &crate::peer::Kind| peer.no_cap.unwrap_or("is not measured");
    Ok(PEERS
        .iter()
        .map(|peer| Duel::missing("put at the cap/1KiB/50000", bench.quiet.name, (&OURS[0], peer), why(peer)))
        .collect())
}
