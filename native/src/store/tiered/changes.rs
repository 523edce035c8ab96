//! Which keys are being changed, and how often they were.

use std::{
    hash::BuildHasher,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::os::fork::{Mutex, MutexGuard};

use foldhash::fast::RandomState;

/// Counts the changes of keys, so that a look-up learns whether what it found behind is still so. Keys share counters: at
/// worst a look-up takes another key's change for one of its own, and leaves the memory as it is.
#[derive(Debug)]
pub(super) struct Changes {
    counters: [Counter; 64],
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Counter {
    /// Held for as long as a change is under way.
    under_way: Mutex<()>,
    done: AtomicU64,
}

/// A change that is under way; it is counted when it ends, however it ends.
#[derive(Debug)]
pub(super) struct Change<'a> {
    counter: &'a Counter,
    _under_way: MutexGuard<'a, ()>,
}

impl Changes {
    /// How many changes there were of the keys that share the counter of `key`.
    pub(super) fn count(&self, key: &[u8]) -> u64 {
        self.counter(key).done.load(Ordering::Acquire)
    }

    /// Keeps changes off while what is returned lives. Nothing if there was one since the count was `before`, or if one is
    /// under way.
    pub(super) fn none_since(&self, key: &[u8], before: u64) -> Option<MutexGuard<'_, ()>> {
        let counter = self.counter(key);
        let guard = counter.under_way.try_lock()?;
        (counter.done.load(Ordering::Acquire) == before).then_some(guard)
    }

    pub(super) fn begin(&self, key: &[u8]) -> Change<'_> {
        self.counter(key).begin()
    }

    /// Of all keys. In the order of the counters, so that two of them do not wait for each other.
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
        // It guards no data: a change that panicked is counted like any other.
        let under_way = self.under_way.lock();
        Change { counter: self, _under_way: under_way }
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        // While the lock is still held: fields are dropped after this.
        self.counter.done.fetch_add(1, Ordering::Release);
    }
}
