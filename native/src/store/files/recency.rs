//! Which entries were used, until it is written down.

use std::{
    collections::HashMap,
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

use foldhash::fast::RandomState;
use warmstart_core::key::Key;

/// So many uses of different entries are collected before a hit writes them down.
const BATCH: usize = 1024;

/// If they cannot be written down for long, no more than this are kept.
const MOST: usize = 8 * BATCH;

/// The uses since the last flush. Of several uses of one entry the last counts.
#[derive(Debug, Default)]
pub(super) struct Recency {
    uses: Mutex<Uses>,
}

#[derive(Debug, Default)]
struct Uses {
    order: u64,
    last: HashMap<Key, u64, RandomState>,
}

impl Recency {
    /// Notes a use; says whether it is time to write the uses down.
    pub(super) fn note(&self, name: Key) -> bool {
        let mut uses = self.lock();
        uses.order += 1;
        let order = uses.order;
        if uses.last.len() < MOST || uses.last.contains_key(&name) {
            uses.last.insert(name, order);
        }
        uses.last.len().is_multiple_of(BATCH) && uses.last.len() >= BATCH
    }

    /// Takes the uses, the earliest first.
    pub(super) fn take(&self) -> Vec<Key> {
        let last = mem::take(&mut self.lock().last);
        let mut uses: Vec<(u64, Key)> = last.into_iter().map(|(name, order)| (order, name)).collect();
        uses.sort_unstable_by_key(|(order, _)| *order);
        uses.into_iter().map(|(_, name)| name).collect()
    }

    /// Takes uses back that could not be written down, as if they were older than those noted since.
    pub(super) fn give_back(&self, names: Vec<Key>) {
        let mut uses = self.lock();
        for name in names {
            uses.last.entry(name).or_insert(0);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Uses> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(n: usize) -> Key {
        Key::digest(&n.to_le_bytes())
    }

    #[test]
    fn the_last_use_counts() {
        let recency = Recency::default();
        for n in [1, 2, 3, 1] {
            assert!(!recency.note(name(n)));
        }
        assert_eq!(recency.take(), [name(2), name(3), name(1)]);
        assert_eq!(recency.take(), []);
    }

    #[test]
    fn a_batch_is_due_when_it_is_full_and_memory_is_bounded() {
        let recency = Recency::default();
        let due = (0..2 * MOST).filter(|n| recency.note(name(*n))).count();
        assert!(due >= MOST / BATCH);
        assert_eq!(recency.take().len(), MOST);
    }
}
