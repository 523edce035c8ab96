//! Hits, misses and puts of stores that persist, one process on each side.

use std::{fs, time::Duration};

use crate::{
    Bench, Duels,
    crash::Bout,
    duel::{Duel, Outcome},
    peer::{self, Kind, Settings},
    value::{Key, Values, key},
};

/// The sizes of payload and the numbers of entries that are measured, by name.
pub(crate) const SHAPES: [Shape; 6] = [
    Shape { label: "1KiB/100", size: 1 << 10, entries: 100 },
    Shape { label: "1KiB/10000", size: 1 << 10, entries: 10_000 },
    Shape { label: "16KiB/100", size: 16 << 10, entries: 100 },
    Shape { label: "16KiB/10000", size: 16 << 10, entries: 10_000 },
    Shape { label: "256KiB/100", size: 256 << 10, entries: 100 },
    Shape { label: "4MiB/100", size: 4 << 20, entries: 100 },
];

/// After so many bytes the keys of puts repeat: the first entries are then replaced.
const PUT_BYTES: usize = 256 << 20;

#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) label: &'static str,
    pub(crate) size: usize,
    pub(crate) entries: u64,
}

impl Shape {
    /// Returns how many keys puts use before they repeat.
    pub(crate) const fn put_keys(&self) -> u64 {
        (PUT_BYTES / self.size) as u64
    }
}

pub(crate) fn rows(bench: &Bench) -> Duels {
    let mut duels = Vec::new();
    for shape in SHAPES.into_iter().filter(|shape| !bench.quick || shape.entries == 100) {
        for (ours, peer) in pairs() {
            duels.extend(reads_and_puts(bench, shape, ours, peer)?);
        }
    }
    for shape in SHAPES.into_iter().filter(|shape| shape.entries == 100) {
        for (ours, peer) in pairs() {
            duels.extend(durable_put(bench, shape, ours, peer)?);
        }
    }
    Ok(duels)
}

/// Our file store against all, and our SQLite store against what is SQL too.
pub(crate) fn pairs() -> impl Iterator<Item = (&'static Kind, &'static Kind)> {
    let sql = |peer: &Kind| peer.name.starts_with("rusqlite") || peer.name.starts_with("cubecl");
    let files = peer::PEERS.iter().map(|peer| (&peer::OURS[0], peer));
    files.chain(peer::PEERS.iter().filter(move |peer| sql(peer)).map(|peer| (&peer::OURS[1], peer)))
}

/// The number of an entry, far from the order in which they were stored. The stride has no factor in common with the
/// numbers of entries, so all of them take their turn.
pub(crate) const fn rotate(call: u64, entries: u64) -> usize {
    (call.wrapping_mul(619) % entries) as usize
}

/// Keys that no entry of [`Peer::fill`](peer::Peer::fill) has.
pub(crate) fn other_keys(many: u64) -> Vec<Key> {
    (0..many).map(|n| key(n + (1 << 40))).collect()
}

pub(crate) fn reads_and_puts(bench: &Bench, shape: Shape, ours: &'static Kind, peer: &'static Kind) -> Duels {
    let jobs = ["hit", "miss", "put"].map(|job| format!("{job}/{}", shape.label));
    if let Some(why) = peer.missing {
        return Ok(jobs.map(|job| Duel::missing(&job, bench.quiet.name, (ours, peer), why)).into());
    }
    let bout = Bout {
        jobs: &jobs,
        medium: bench.quiet.name,
        ours: ours.name,
        peer: peer.name,
        leaves_out: peer.leaves_out,
        roots: ["ours", "peer"].map(|name| bench.quiet.path(name)),
    };
    bout.rows(|roots, outcomes| {
        let values = Values::new(shape.size);
        let (our, their) =
            ((ours.open)(&roots[0], Settings::default()), (peer.open)(&roots[1], Settings::default()));
        our.fill(shape.entries, &values);
        their.fill(shape.entries, &values);

        let keys: Vec<Key> = (0..shape.entries).map(key).collect();
        for (kind, store) in [(ours, &our), (peer, &their)] {
            for key in &keys {
                assert!(store.get(key, &mut |_| {}), "{}: an entry was not kept", kind.name);
            }
        }
        let at = |call| &keys[rotate(call, shape.entries)];
        let look = |bytes: &[u8]| {
            std::hint::black_box(bytes.len());
        };
        let hit = bench
            .plan
            .compare(|call| our.get(at(call), &mut { look }), |call| their.get(at(call), &mut { look }));
        outcomes.push(Outcome::of(hit));

        let others = other_keys(shape.put_keys());
        let other = |call: u64| &others[(call % others.len() as u64) as usize];
        let miss = bench.plan.compare(
            |call| our.get(other(call), &mut { look }),
            |call| their.get(other(call), &mut { look }),
        );
        outcomes.push(Outcome::of(miss));
        let put = bench.plan.with_warm_up(Duration::from_millis(50)).compare(
            |call| our.put(other(call), values.of(call)),
            |call| their.put(other(call), values.of(call)),
        );
        outcomes.push(Outcome::of(put));
        Ok(())
    })
}

/// A put that survives a loss of power.
fn durable_put(bench: &Bench, shape: Shape, ours: &'static Kind, peer: &'static Kind) -> Duels {
    let job = format!("durable put/{}", shape.label);
    if let Some(why) = peer.missing.or(peer.no_durable) {
        return Ok(vec![Duel::missing(&job, bench.disk.name, (ours, peer), why)]);
    }
    let bout = Bout {
        jobs: &[job],
        medium: bench.disk.name,
        ours: ours.name,
        peer: peer.name,
        leaves_out: peer.leaves_out,
        roots: ["ours", "peer"].map(|name| bench.disk.path(name)),
    };
    bout.rows(|roots, outcomes| {
        let values = Values::new(shape.size);
        let settings = Settings { durable: true, ..Settings::default() };
        let (our, their) = ((ours.open)(&roots[0], settings), (peer.open)(&roots[1], settings));
        let others = other_keys(shape.put_keys());
        let other = |call: u64| &others[(call % others.len() as u64) as usize];
        let rounds = if bench.quick { 7 } else { 41 };
        let put = bench.plan.with_rounds(rounds).with_warm_up(Duration::from_millis(20)).compare(
            |call| our.put(other(call), values.of(call)),
            |call| their.put(other(call), values.of(call)),
        );
        outcomes.push(Outcome::of(put));
        Ok(())
    })
}

/// Removes what a side kept, which is a file, a directory, or files beside one.
pub(crate) fn remove(path: &std::path::Path) -> std::io::Result<()> {
    if path.is_dir() {
        return fs::remove_dir_all(path);
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    for entry in fs::read_dir(folder)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(&*name.to_string_lossy()) {
            fs::remove_file(entry.path()).or_else(|_| fs::remove_dir_all(entry.path()))?;
        }
    }
    Ok(())
}
