//! Which entries were used, until it is written down.

use std::{
    borrow::Borrow,
    collections::HashMap,
    hash::Hash,
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

use foldhash::fast::RandomState;

/// So many uses of different entries are collected before a hit writes them down.
const BATCH: usize = 1024;

/// If they cannot be written down for long, no more than this are kept.
const MOST: usize = 8 * BATCH;

/// The uses of entries since the last flush. Of several uses of one entry the last counts.
#[derive(Debug)]
pub(super) struct Recency<K> {
    uses: Mutex<Uses<K>>,
}

#[derive(Debug)]
struct Uses<K> {
    order: u64,
    last: HashMap<K, u64, RandomState>,
}

impl<K: Hash + Eq> Recency<K> {
    /// Notes a use; says whether it is time to write the uses down. Takes memory only for the first use of an entry.
    pub(super) fn note<Q: Hash + Eq + ?Sized>(&self, name: &Q, own: impl FnOnce(&Q) -> K) -> bool
    where
        K: Borrow<Q>,
    {
        let mut uses = self.lock();
        uses.order += 1;
        let order = uses.order;
        if let Some(last) = uses.last.get_mut(name) {
            *last = order;
            return false;
        }
        if uses.last.len() < MOST {
            uses.last.insert(own(name), order);
        }
        uses.last.len().is_multiple_of(BATCH)
    }

    /// Whether nothing is to be written down.
    #[cfg(feature = "sqlite")]
    pub(super) fn is_empty(&self) -> bool {
        self.lock().last.is_empty()
    }

    /// Takes the uses, the earliest first.
    pub(super) fn take(&self) -> Vec<K> {
        let last = mem::take(&mut self.lock().last);
        let mut uses: Vec<(u64, K)> = last.into_iter().map(|(name, order)| (order, name)).collect();
        uses.sort_unstable_by_key(|(order, _)| *order);
        uses.into_iter().map(|(_, name)| name).collect()
    }

    /// Takes uses back that could not be written down, as if they were older than those noted since.
    pub(super) fn give_back(&self, names: Vec<K>) {
        let mut uses = self.lock();
        for name in names {
            uses.last.entry(name).or_insert(0);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Uses<K>> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K> Default for Recency<K> {
    fn default() -> Self {
        Self { uses: Mutex::new(Uses { order: 0, last: HashMap::default() }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(recency: &Recency<usize>, n: usize) -> bool {
        recency.note(&n, |n| *n)
    }

    #[test]
    fn the_last_use_counts() {
        let recency = Recency::default();
        for n in [1, 2, 3, 1] {
            assert!(!note(&recency, n));
        }
        assert_eq!(recency.take(), [2, 3, 1]);
        assert!(recency.take().is_empty());
    }

    #[test]
    fn a_batch_is_due_when_it_is_full_and_memory_is_bounded() {
        let recency = Recency::default();
        let due = (0..2 * MOST).filter(|n| note(&recency, *n)).count();
        assert!(due >= MOST / BATCH);
        assert_eq!(recency.take().len(), MOST);
    }
}
