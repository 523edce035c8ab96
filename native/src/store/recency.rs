//! Which entries were used, until it is written down.

use std::{borrow::Borrow, collections::HashMap, hash::Hash, mem};

use crate::os::fork::{Mutex, MutexGuard};

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

/// Uses that were taken to be written down, the earliest first.
#[derive(Debug)]
pub(super) struct Batch<K>(Vec<(u64, K)>);

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
        if uses.last.len() >= MOST {
            return false;
        }
        uses.last.insert(own(name), order);
        uses.last.len().is_multiple_of(BATCH)
    }

    /// Whether nothing is to be written down.
    #[cfg(feature = "sqlite")]
    pub(super) fn is_empty(&self) -> bool {
        self.lock().last.is_empty()
    }

    /// Takes the uses.
    pub(super) fn take(&self) -> Batch<K> {
        let last = mem::take(&mut self.lock().last);
        let mut uses: Vec<(u64, K)> = last.into_iter().map(|(name, order)| (order, name)).collect();
        uses.sort_unstable_by_key(|(order, _)| *order);
        Batch(uses)
    }

    /// Takes uses back that could not be written down. A use noted since counts instead of an earlier one.
    pub(super) fn give_back(&self, batch: Batch<K>) {
        let mut uses = self.lock();
        for (order, name) in batch.0 {
            if uses.last.len() < MOST {
                uses.last.entry(name).or_insert(order);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Uses<K>> {
        self.uses.lock()
    }
}

impl<K> Batch<K> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names of what was used, the earliest use first.
    pub(super) fn names(&self) -> impl Iterator<Item = &K> {
        self.0.iter().map(|(_, name)| name)
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

    fn taken(recency: &Recency<usize>) -> Vec<usize> {
        recency.take().names().copied().collect()
    }

    #[test]
    fn the_last_use_counts() {
        let recency = Recency::default();
        for n in [1, 2, 3, 1] {
            assert!(!note(&recency, n));
        }
        assert_eq!(taken(&recency), [2, 3, 1]);
        assert!(taken(&recency).is_empty());
    }

    #[test]
    fn what_is_given_back_keeps_its_order_behind_later_uses() {
        let recency = Recency::default();
        for n in [1, 2, 3] {
            note(&recency, n);
        }
        let batch = recency.take();
        note(&recency, 2);
        note(&recency, 4);
        recency.give_back(batch);
        assert_eq!(taken(&recency), [1, 3, 2, 4]);
    }

    #[test]
    fn a_batch_is_due_when_it_has_filled_and_never_while_memory_is_full() {
        let recency = Recency::default();
        let due = (0..MOST).filter(|n| note(&recency, *n)).count();
        assert_eq!(due, MOST / BATCH);
        assert!((0..2 * MOST).all(|n| !note(&recency, n)), "a full list is not written down at every use");
        assert_eq!(taken(&recency).len(), MOST);
    }
}
