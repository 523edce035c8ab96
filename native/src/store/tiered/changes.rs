//! Counts and serialises changes of keys.

use std::{
    hash::BuildHasher,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::os::fork::{Mutex, MutexGuard};

use foldhash::fast::RandomState;

/// Counts the changes of keys, so that a look-up can tell whether what it found in the store behind is still current. Keys share
/// counters: at worst a look-up mistakes another key's change for one of its own, and does not copy the artifact to memory.
#[derive(Debug)]
pub(super) struct Changes {
    counters: [Counter; 64],
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Counter {
    /// Held for as long as a change is in progress.
    under_way: Mutex<()>,
    done: AtomicU64,
}

/// A change in progress. It is counted when it is dropped, even by a panic.
#[derive(Debug)]
pub(super) struct Change<'a> {
    counter: &'a Counter,
    _under_way: MutexGuard<'a, ()>,
}

impl Changes {
    /// Returns the number of changes of the keys that share a counter with `key`.
    pub(super) fn count(&self, key: &[u8]) -> u64 {
        self.counter(key).done.load(Ordering::Acquire)
    }

    /// Blocks changes of the key while the returned guard lives. Returns `None` if there was a change since the count was `before`,
    /// or if one is in progress.
    pub(super) fn none_since(&self, key: &[u8], before: u64) -> Option<MutexGuard<'_, ()>> {
        let counter = self.counter(key);
        let guard = counter.under_way.try_lock()?;
        (counter.done.load(Ordering::Acquire) == before).then_some(guard)
    }

    pub(super) fn begin(&self, key: &[u8]) -> Change<'_> {
        self.counter(key).begin()
    }

    /// Begins a change of all keys. Locks in the order of the counters, so that two such changes do not deadlock.
    pub(super) fn begin_all(&self) -> Vec<Change<'_>> {
        self.counters.iter().map(Counter::begin).collect()
    }

    fn counter(&self, key: &[u8]) -> &Counter {
        &self.counters[self.hasher.hash_one(key) as usize % self.counters.len()]
    }
}

impl Default for Changes {
    fn default() -> Self {
        Self { counters: std::array::from_fn(|_| Counter::default()), hasher: RandomState::default() }
    }
}

impl Counter {
    fn begin(&self) -> Change<'_> {
        // The lock guards no data: a change that panicked is counted like any other.
        let under_way = self.under_way.lock();
        Change { counter: self, _under_way: under_way }
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        // Counted while the lock is still held: fields are dropped after this.
        self.counter.done.fetch_add(1, Ordering::Release);
    }
}
