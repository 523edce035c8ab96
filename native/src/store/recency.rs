//! Uses of entries that are not written to the store yet.

use std::{borrow::Borrow, collections::HashMap, hash::Hash, mem};

use crate::os::fork::Mutex;

use foldhash::fast::RandomState;

/// The number of different used entries after which a hit writes them to the store.
const BATCH: usize = 1024;

/// The most uses that are kept while they cannot be written.
const MOST: usize = 8 * BATCH;

/// The uses of entries since the last flush. Only the last use of each entry counts.
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
    /// Records a use, and returns whether a batch is full. Allocates only for the first use of an entry.
    pub(super) fn note<Q: Hash + Eq + ?Sized>(&self, key: &Q, own: impl FnOnce(&Q) -> K) -> bool
    where
        K: Borrow<Q>,
    {
        let mut uses = self.uses.lock();
        uses.order += 1;
        let order = uses.order;
        if let Some(last) = uses.last.get_mut(key) {
            *last = order;
            return false;
        }
        if uses.last.len() >= MOST {
            return false;
        }
        uses.last.insert(own(key), order);
        uses.last.len().is_multiple_of(BATCH)
    }

    /// Returns whether there is nothing to write.
    #[cfg(feature = "sqlite")]
    pub(super) fn is_empty(&self) -> bool {
        self.uses.lock().last.is_empty()
    }

    /// Takes all uses out to be written: each entry with the number of its last use, the earliest first.
    pub(super) fn take(&self) -> Vec<(u64, K)> {
        let last = mem::take(&mut self.uses.lock().last);
        let mut uses: Vec<(u64, K)> = last.into_iter().map(|(key, order)| (order, key)).collect();
        uses.sort_unstable_by_key(|(order, _)| *order);
        uses
    }

    /// Puts uses back that could not be written. A use recorded since then is later than these.
    pub(super) fn give_back(&self, batch: Vec<(u64, K)>) {
        let mut uses = self.uses.lock();
        for (order, key) in batch {
            if uses.last.len() < MOST {
                uses.last.entry(key).or_insert(order);
            }
        }
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
        recency.take().into_iter().map(|(_, n)| n).collect()
    }

    #[test]
    fn last_of_several_uses_counts() {
        let recency = Recency::default();
        for n in [1, 2, 3, 1] {
            assert!(!note(&recency, n));
        }
        assert_eq!(taken(&recency), [2, 3, 1]);
        assert!(taken(&recency).is_empty());
    }

    #[test]
    fn returned_uses_keep_their_order_before_later_uses() {
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
    fn batch_is_due_when_it_is_full_and_never_at_the_bound() {
        let recency = Recency::default();
        let due = (0..MOST).filter(|n| note(&recency, *n)).count();
        assert_eq!(due, MOST / BATCH);
        assert!((0..2 * MOST).all(|n| !note(&recency, n)), "a full list is not written down at every use");
        assert_eq!(taken(&recency).len(), MOST);
    }
}
