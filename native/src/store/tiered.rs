//! A memory store in front of a persistent store.

mod changes;

use std::ops::ControlFlow;

use warmstart_core::{
    artifact::Artifact,
    lru::Limits,
    miss::Miss,
    reason::MissReason,
    recipe::Recipe,
    statistics::{PersistedStats, Statistics},
};

use super::{Claims, Entry, Inspect, MemoryStore, Proof, Store, Totals, get_each, recency::Recency};
use changes::Changes;

/// A [`MemoryStore`] in front of another store. The other store reads an artifact at most once while memory keeps it.
///
/// A hit in memory does not ask the other store. What another process replaced or removed there is still a hit until memory
/// evicts it; since a key determines its artifact, it is still the right artifact. Uses of entries in memory reach the
/// other store in batches, so that it keeps the entries that are hot here.
///
/// Once a remove, clear or put through this store has returned, no look-up finds the earlier artifact, not even one that was in
/// progress. After concurrent puts of one key, memory and the other store hold the same artifact. Changes of
/// one key therefore wait for each other. A look-up never waits for a change.
///
/// An artifact that the other store refuses because its medium is full, read-only, busy, missing or in use by a newer version
/// is still served from memory: [`put`](Store::put) returns the reason, and [`contains`](Store::contains) returns `true`. An
/// artifact that exceeds the other store's cap or the limits of the format is not kept in memory either.
///
/// ```
/// use warmstart::{Artifact, Limits, Store, store::{FileStore, StoreOptions, TieredStore}};
///
/// let directory = tempfile::tempdir()?;
/// let files = FileStore::open(directory.path().join("cache"), StoreOptions::default())?;
/// let store = TieredStore::new(Limits::bytes(1 << 20), files);
/// store.put(b"k", &Artifact::new(vec![1]))?;
/// assert!(store.contains(b"k")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TieredStore<S: Store> {
    front: MemoryStore,
    back: S,
    /// Uses that the other store has not been told.
    unseen: Recency<Box<[u8]>>,
    changes: Changes,
}

impl<S: Store> TieredStore<S> {
    /// Creates a memory store with these limits in front of `back`.
    #[must_use]
    pub fn new(memory: Limits, back: S) -> Self {
        Self {
            front: MemoryStore::new(memory),
            back,
            unseen: Recency::default(),
            changes: Changes::default(),
        }
    }

    /// Returns the store behind the memory.
    #[must_use]
    pub const fn back(&self) -> &S {
        &self.back
    }

    /// Returns the inspection of the store behind.
    fn behind(&self) -> Result<&dyn Inspect, MissReason> {
        self.back.inspect().ok_or(MissReason::Unavailable)
    }

    fn get_from_front(&self, key: &[u8]) -> Option<Artifact> {
        let artifact = self.front.get(key).ok()?;
        if self.unseen.note(key, |key| key.into()) {
            self.pass_uses_on();
        }
        Some(artifact)
    }

    fn get_by(
        &self,
        key: &[u8],
        get: impl FnOnce(&S, &[u8]) -> Result<Artifact, MissReason>,
    ) -> Result<Artifact, MissReason> {
        if let Some(artifact) = self.get_from_front(key) {
            return Ok(artifact);
        }
        let before = self.changes.count(key);
        let found = get(&self.back, key);
        self.keep_in_front(key, before, &found);
        found
    }

    /// Copies an artifact of the store behind into memory, unless its key has changed since the count was `before`.
    fn keep_in_front(&self, key: &[u8], before: u64, found: &Result<Artifact, MissReason>) {
        if let Ok(artifact) = found
            && let Some(_unchanged) = self.changes.none_since(key, before)
        {
            // An artifact that is too large for memory is still in the store behind.
            let _ = self.front.put(key, artifact);
        }
    }

    fn pass_uses_on(&self) {
        let uses = self.unseen.take();
        let keys: Vec<&[u8]> = uses.iter().map(|(_, key)| &**key).collect();
        self.back.record_access(&keys);
    }
}

impl<S: Store> Store for TieredStore<S> {
    fn get(&self, key: &[u8]) -> Result<Artifact, MissReason> {
        self.get_by(key, S::get)
    }

    fn get_to_build(&self, key: &[u8]) -> Result<Artifact, MissReason> {
        self.get_by(key, S::get_to_build)
    }

    fn get_many(&self, keys: &[&[u8]]) -> Vec<Result<Artifact, MissReason>> {
        let mut all: Vec<Result<Artifact, MissReason>> =
            keys.iter().map(|key| self.get_from_front(key).ok_or(MissReason::Absent)).collect();
        let missing: Vec<usize> = (0..keys.len()).filter(|index| all[*index].is_err()).collect();
        let missing_keys: Vec<&[u8]> = missing.iter().map(|index| keys[*index]).collect();
        let before: Vec<_> = missing_keys.iter().map(|key| self.changes.count(key)).collect();
        let found = get_each(&self.back, &missing_keys);
        for ((index, before), found) in missing.into_iter().zip(before).zip(found) {
            self.keep_in_front(keys[index], before, &found);
            all[index] = found;
        }
        all
    }

    fn put(&self, key: &[u8], artifact: &Artifact) -> Result<u64, MissReason> {
        let _change = self.changes.begin(key);
        // The front drops its artifact first, so that a refusal by the store behind leaves no older artifact in front.
        self.front.remove(key)?;
        self.pass_uses_on();
        let stored = self.back.put(key, artifact);
        if !matches!(stored, Err(MissReason::Closed | MissReason::Oversize | MissReason::TooLong)) {
            let _ = self.front.put(key, artifact);
        }
        stored
    }

    fn remove(&self, key: &[u8]) -> Result<bool, MissReason> {
        let _change = self.changes.begin(key);
        let front = self.front.remove(key)?;
        Ok(self.back.remove(key)? || front)
    }

    fn contains(&self, key: &[u8]) -> Result<bool, MissReason> {
        Ok(self.front.contains(key)? || self.back.contains(key)?)
    }

    fn flush(&self) -> Result<(), MissReason> {
        self.pass_uses_on();
        self.back.flush()
    }

    fn clear(&self) -> Result<(), MissReason> {
        let _changes = self.changes.begin_all();
        self.front.clear()?;
        self.back.clear()
    }

    fn record_access(&self, keys: &[&[u8]]) {
        self.front.record_access(keys);
        self.pass_uses_on();
        self.back.record_access(keys);
    }

    fn close(&self) -> Result<(), MissReason> {
        self.pass_uses_on();
        self.front.close()?;
        self.back.close()
    }

    fn inspect(&self) -> Option<&dyn Inspect> {
        self.back.inspect().map(|_| self as &dyn Inspect)
    }

    fn claims(&self) -> Option<&dyn Claims> {
        self.back.claims()
    }
}

/// Inspects the store behind.
impl<S: Store> Inspect for TieredStore<S> {
    fn entries(&self, visit: &mut dyn FnMut(Entry) -> ControlFlow<()>) -> Result<(), MissReason> {
        self.pass_uses_on();
        self.behind()?.entries(visit)
    }

    fn totals(&self) -> Result<Totals, MissReason> {
        self.behind()?.totals()
    }

    fn verify(&self, visit: &mut dyn FnMut(&Proof)) -> Result<u64, MissReason> {
        self.behind()?.verify(visit)
    }

    fn is_sealed(&self) -> bool {
        self.back.inspect().is_some_and(Inspect::is_sealed)
    }

    fn nearest(&self, recipe: &Recipe) -> Result<Option<Entry>, MissReason> {
        self.pass_uses_on();
        self.behind()?.nearest(recipe)
    }

    /// Entries that the store behind evicts leave memory too.
    fn prune(&self, limits: Limits) -> Result<Totals, MissReason> {
        let _changes = self.changes.begin_all();
        self.pass_uses_on();
        self.front.clear()?;
        self.behind()?.prune(limits)
    }

    fn report(&self, counted: &Statistics, last_miss: Option<&Miss>) -> Result<(), MissReason> {
        self.behind()?.report(counted, last_miss)
    }

    fn stats(&self) -> Result<PersistedStats, MissReason> {
        self.behind()?.stats()
    }
}

impl<S: Store> Drop for TieredStore<S> {
    fn drop(&mut self) {
        self.pass_uses_on();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, Mutex, mpsc},
        thread,
        time::Duration,
    };

    use super::*;

    /// A memory store that refuses on request, and that runs an action just after a look-up found its artifact, or after a put.
    #[derive(Debug)]
    struct Behind {
        inner: MemoryStore,
        refuses: Option<MissReason>,
        after_get: Hook,
        after_put: Hook,
    }

    #[derive(Default)]
    struct Hook(Mutex<Option<Box<dyn FnOnce() + Send>>>);

    impl std::fmt::Debug for Hook {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Hook")
        }
    }

    impl Hook {
        fn set(&self, action: impl FnOnce() + Send + 'static) {
            *self.0.lock().unwrap() = Some(Box::new(action));
        }

        fn run(&self) {
            let action = self.0.lock().unwrap().take();
            if let Some(action) = action {
                action();
            }
        }
    }

    impl Store for Behind {
        fn get(&self, key: &[u8]) -> Result<Artifact, MissReason> {
            let found = self.inner.get(key);
            self.after_get.run();
            found
        }
        fn put(&self, key: &[u8], artifact: &Artifact) -> Result<u64, MissReason> {
            let stored = self.refuses.map_or_else(|| self.inner.put(key, artifact), Err);
            self.after_put.run();
            stored
        }
        fn remove(&self, key: &[u8]) -> Result<bool, MissReason> {
            self.inner.remove(key)
        }
        fn contains(&self, key: &[u8]) -> Result<bool, MissReason> {
            self.inner.contains(key)
        }
        fn clear(&self) -> Result<(), MissReason> {
            self.inner.clear()
        }
        fn flush(&self) -> Result<(), MissReason> {
            self.inner.flush()
        }
    }

    fn tiered(refuses: Option<MissReason>) -> Arc<TieredStore<Behind>> {
        let inner = MemoryStore::new(Limits::NONE);
        let (after_get, after_put) = (Hook::default(), Hook::default());
        Arc::new(TieredStore::new(Limits::NONE, Behind { inner, refuses, after_get, after_put }))
    }

    fn payload_of(store: &impl Store) -> Option<u8> {
        store.get(b"k").ok().map(|artifact| artifact.payload()[0])
    }

    #[test]
    fn change_during_a_look_up_is_not_undone_in_memory() {
        type Change = fn(&TieredStore<Behind>);
        let changes: [(Change, Option<u8>); 3] = [
            (|store| assert_eq!(store.remove(b"k"), Ok(true)), None),
            (|store| store.clear().unwrap(), None),
            (|store| assert!(store.put(b"k", &Artifact::new(vec![2])).is_ok()), Some(2)),
        ];
        for (change, left) in changes {
            let store = tiered(None);
            store.back().put(b"k", &Artifact::new(vec![1])).unwrap();
            let changer = Arc::clone(&store);
            store.back().after_get.set(move || change(&changer));
            assert_eq!(payload_of(&*store), Some(1), "it was found before it changed");
            assert_eq!((payload_of(&store.front), payload_of(&*store)), (left, left));
        }
    }

    #[test]
    fn look_up_during_a_change_does_not_wait_or_keep_stale_data() {
        let store = tiered(None);
        store.put(b"k", &Artifact::new(vec![1])).unwrap();
        store.front.clear().unwrap();
        let reader = Arc::clone(&store);
        store.back().after_put.set(move || {
            assert_eq!(payload_of(&*reader), Some(2));
            assert_eq!(payload_of(&reader.front), None);
        });
        store.put(b"k", &Artifact::new(vec![2])).unwrap();
        assert_eq!(payload_of(&store.front), Some(2));
    }

    #[test]
    fn concurrent_puts_leave_memory_and_store_behind_equal() {
        let store = tiered(None);
        let other = Arc::clone(&store);
        let (done, when_done) = mpsc::channel();
        store.back().after_put.set(move || {
            let (put, when_put) = mpsc::channel();
            thread::spawn(move || {
                other.put(b"k", &Artifact::new(vec![2])).unwrap();
                let _ = put.send(());
                done.send(()).unwrap();
            });
            // It finishes only after the put that runs it.
            let _ = when_put.recv_timeout(Duration::from_millis(200));
        });
        store.put(b"k", &Artifact::new(vec![1])).unwrap();
        when_done.recv().unwrap();
        assert_eq!((payload_of(&store.front), payload_of(store.back())), (Some(2), Some(2)));
    }

    #[test]
    fn refused_put_is_kept_in_memory_only_if_the_medium_failed() {
        use MissReason::{Busy, Closed, NewerVersion, NoSpace, Oversize, ReadOnly, TooLong, Unavailable};

        let of_the_medium = [Busy, NewerVersion, NoSpace, ReadOnly, Unavailable].map(|reason| (reason, true));
        let of_the_artifact = [Closed, Oversize, TooLong].map(|reason| (reason, false));
        for (reason, is_kept) in of_the_medium.into_iter().chain(of_the_artifact) {
            let store = tiered(Some(reason));
            let before = Artifact::new(vec![1]);
            store.front.put(b"k", &before).unwrap();
            assert_eq!(store.put(b"k", &Artifact::new(vec![2])), Err(reason));
            assert_eq!(store.contains(b"k"), Ok(is_kept), "{reason:?}");
            assert_eq!(payload_of(&*store), is_kept.then_some(2), "{reason:?}");
            assert_eq!(store.back().contains(b"k"), Ok(false), "{reason:?}");
        }
    }
}
