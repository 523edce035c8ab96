//! Statistics as they are counted, by any number of threads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use warmstart_core::{
    artifact::Artifact,
    reason::Reason,
    statistics::{ReasonCounts, Statistics},
};

use crate::store::Stored;

/// Each counter is exact; a snapshot taken while others count is of no single instant.
#[derive(Debug, Default)]
pub(super) struct Counters {
    hits: AtomicU64,
    bytes_read: AtomicU64,
    saved_nanos: AtomicU64,
    shared: AtomicU64,
    builds: AtomicU64,
    build_nanos: AtomicU64,
    bytes_written: AtomicU64,
    evictions: AtomicU64,
    misses: [AtomicU64; Reason::COUNT],
    refusals: [AtomicU64; Reason::COUNT],
}

impl Counters {
    pub(super) fn hit(&self, artifact: &Artifact) {
        self.hits.fetch_add(1, Relaxed);
        self.bytes_read.fetch_add(artifact.payload().len() as u64, Relaxed);
        add(&self.saved_nanos, artifact.provenance().build_nanos);
    }

    pub(super) fn missed(&self, reason: Reason) {
        self.misses[reason.index()].fetch_add(1, Relaxed);
    }

    pub(super) fn shared(&self) {
        self.shared.fetch_add(1, Relaxed);
    }

    pub(super) fn built(&self, nanos: u64) {
        self.builds.fetch_add(1, Relaxed);
        add(&self.build_nanos, nanos);
    }

    pub(super) fn stored(&self, artifact: &Artifact, stored: Result<Stored, Reason>) {
        match stored {
            Ok(stored) => {
                self.bytes_written.fetch_add(artifact.payload().len() as u64, Relaxed);
                self.evictions.fetch_add(stored.evicted, Relaxed);
            }
            Err(reason) => {
                self.refusals[reason.index()].fetch_add(1, Relaxed);
            }
        }
    }

    pub(super) fn snapshot(&self) -> Statistics {
        let mut statistics = Statistics::default();
        statistics.hits = self.hits.load(Relaxed);
        statistics.misses = reasons(&self.misses);
        statistics.refusals = reasons(&self.refusals);
        statistics.builds = self.builds.load(Relaxed);
        statistics.shared = self.shared.load(Relaxed);
        statistics.bytes_read = self.bytes_read.load(Relaxed);
        statistics.bytes_written = self.bytes_written.load(Relaxed);
        statistics.evictions = self.evictions.load(Relaxed);
        statistics.build_nanos = self.build_nanos.load(Relaxed);
        statistics.saved_nanos = self.saved_nanos.load(Relaxed);
        statistics
    }
}

fn reasons(counts: &[AtomicU64; Reason::COUNT]) -> ReasonCounts {
    let mut snapshot = ReasonCounts::default();
    for (reason, count) in Reason::ALL.iter().zip(counts) {
        snapshot.add(*reason, count.load(Relaxed));
    }
    snapshot
}

/// Adds what an entry claims, which can be anything. What would overflow stays at the largest number.
fn add(counter: &AtomicU64, n: u64) {
    if counter.fetch_add(n, Relaxed).checked_add(n).is_none() {
        counter.store(u64::MAX, Relaxed);
    }
}
