//! Memory in front of a persistent store.

mod changes;

use std::{ops::ControlFlow, path::Path};

use warmstart_core::{artifact::Artifact, lru::Limits, reason::Reason, recipe::Recipe};

use super::{
    Entry, Kept, Lookup, MemoryStore, Proof, Pruned, Report, Store, Stored, Totals, Verified,
    recency::Recency,
};
use changes::Changes;

/// A [`MemoryStore`] in front of another store: what was read or stored once is read no more.
///
/// The memory answers without asking the other store: what another process replaced or removed there meanwhile is still
/// found until it leaves the memory. An artifact is what its key says, so it is still the right one. Uses of what is in
/// memory reach the other store in batches, so that it does not evict what is hot here.
///
/// What is removed, cleared or replaced through this store is not found any more once that has returned, whatever look-ups
/// were under way; and of several puts of one key at once, memory and the other store keep the same artifact. Changes of
/// one key therefore wait for each other. A look-up never waits for a change.
///
/// An artifact that the other store could not keep, because its medium is full, read-only, busy, gone or a newer version's,
/// is still served from memory: [`put`](Store::put) says why, and [`contains`](Store::contains) says that it is found. What
/// is larger than that store's cap, or longer than the format allows, is kept nowhere. [`len`](Store::len) counts what the
/// other store holds.
///
/// ```
/// use warmstart::{Artifact, Limits, Store, store::{FileOptions, FileStore, TieredStore}};
///
/// let directory = tempfile::tempdir()?;
/// let files = FileStore::open(directory.path().join("cache"), FileOptions::default())?;
/// let store = TieredStore::new(Limits::bytes(1 << 20), files);
/// store.put(b"k", &Artifact::new(vec![1]))?;
/// assert!(store.contains(b"k")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TieredStore<S: Store> {
    front: MemoryStore,
    back: S,
    /// Uses that the store behind has not seen.
    unseen: Recency<Box<[u8]>>,
    changes: Changes,
}

impl<S: Store> TieredStore<S> {
    /// Puts memory of these limits in front of `back`.
    #[must_use]
    pub fn new(memory: Limits, back: S) -> Self {
        Self {
            front: MemoryStore::new(memory),
            back,
            unseen: Recency::default(),
            changes: Changes::default(),
        }
    }

    /// The store behind the memory.
    #[must_use]
    pub const fn back(&self) -> &S {
        &self.back
    }

    fn pass_uses_on(&self) {
        let uses = self.unseen.take();
        let keys: Vec<&[u8]> = uses.names().map(|key| &**key).collect();
        self.back.touch(&keys);
    }
}

impl<S: Store> Store for TieredStore<S> {
    fn get(&self, key: &[u8]) -> Lookup {
        if let Lookup::Hit(artifact) = self.front.get(key) {
            if self.unseen.note(key, |key| key.into()) {
                self.pass_uses_on();
            }
            return Lookup::Hit(artifact);
        }
        let before = self.changes.count(key);
        let found = self.back.get(key);
        if let Lookup::Hit(artifact) = &found
            && let Some(_unchanged) = self.changes.none_since(key, before)
        {
            // Too large for the memory is no loss: the store behind has it.
            let _ = self.front.put(key, artifact);
        }
        found
    }

    fn put(&self, key: &[u8], artifact: &Artifact) -> Result<Stored, Reason> {
        let _change = self.changes.begin(key);
        // The front first drops what it had, so that a refusal behind leaves no older artifact in front.
        self.front.remove(key)?;
        self.pass_uses_on();
        let stored = self.back.put(key, artifact);
        if !matches!(stored, Err(Reason::Closed | Reason::Oversize | Reason::TooLong)) {
            let _ = self.front.put(key, artifact);
        }
        stored
    }

    fn remove(&self, key: &[u8]) -> Result<bool, Reason> {
        let _change = self.changes.begin(key);
        let front = self.front.remove(key)?;
        Ok(self.back.remove(key)? || front)
    }

    fn contains(&self, key: &[u8]) -> Result<bool, Reason> {
        Ok(self.front.contains(key)? || self.back.contains(key)?)
    }

    fn len(&self) -> Result<u64, Reason> {
        self.back.len()
    }

    fn verify_each(&self, visit: &mut dyn FnMut(&Proof)) -> Result<Verified, Reason> {
        self.back.verify_each(visit)
    }

    fn entries(&self, visit: &mut dyn FnMut(Entry) -> ControlFlow<()>) -> Result<(), Reason> {
        self.pass_uses_on();
        self.back.entries(visit)
    }

    fn totals(&self) -> Result<Totals, Reason> {
        self.back.totals()
    }

    fn nearest(&self, recipe: &Recipe) -> Result<Option<Entry>, Reason> {
        self.back.nearest(recipe)
    }

    /// What goes from the store behind is in memory no longer either.
    fn prune(&self, limits: Limits) -> Result<Pruned, Reason> {
        let _changes = self.changes.begin_all();
        self.pass_uses_on();
        self.front.clear()?;
        self.back.prune(limits)
    }

    fn report(&self, report: &Report) -> Result<(), Reason> {
        self.back.report(report)
    }

    fn kept(&self) -> Result<Kept, Reason> {
        self.back.kept()
    }

    fn flush(&self) -> Result<(), Reason> {
        self.pass_uses_on();
        self.back.flush()
    }

    fn clear(&self) -> Result<(), Reason> {
        let _changes = self.changes.begin_all();
        self.front.clear()?;
        self.back.clear()
    }

    fn touch(&self, keys: &[&[u8]]) {
        self.front.touch(keys);
        self.pass_uses_on();
        self.back.touch(keys);
    }

    fn close(&self) -> Result<(), Reason> {
        self.pass_uses_on();
        self.front.close()?;
        self.back.close()
    }

    fn lock_directory(&self) -> Option<&Path> {
        self.back.lock_directory()
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

    /// A store in memory that refuses if it is told to, and where somebody else does something just after a look-up found
    /// its artifact, or after a put.
    #[derive(Debug)]
    struct Behind {
        inner: MemoryStore,
        refuses: Option<Reason>,
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
        fn get(&self, key: &[u8]) -> Lookup {
            let found = self.inner.get(key);
            self.after_get.run();
            found
        }
        fn put(&self, key: &[u8], artifact: &Artifact) -> Result<Stored, Reason> {
            let stored = self.refuses.map_or_else(|| self.inner.put(key, artifact), Err);
            self.after_put.run();
            stored
        }
        fn remove(&self, key: &[u8]) -> Result<bool, Reason> {
            self.inner.remove(key)
        }
        fn contains(&self, key: &[u8]) -> Result<bool, Reason> {
            self.inner.contains(key)
        }
        fn len(&self) -> Result<u64, Reason> {
            self.inner.len()
        }
        fn clear(&self) -> Result<(), Reason> {
            self.inner.clear()
        }
        fn close(&self) -> Result<(), Reason> {
            self.inner.close()
        }
    }

    fn tiered(refuses: Option<Reason>) -> Arc<TieredStore<Behind>> {
        let inner = MemoryStore::new(Limits::NONE);
        let (after_get, after_put) = (Hook::default(), Hook::default());
        Arc::new(TieredStore::new(Limits::NONE, Behind { inner, refuses, after_get, after_put }))
    }

    fn payload_of(store: &impl Store) -> Option<u8> {
        store.get(b"k").hit().map(|artifact| artifact.payload()[0])
    }

    #[test]
    fn what_changes_during_a_look_up_does_not_come_back_into_memory() {
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
    fn a_look_up_during_a_change_waits_for_nobody_and_leaves_nothing_stale() {
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
    fn of_two_puts_memory_and_the_store_behind_keep_the_same() {
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
            // It is not done before the put that this is in the middle of.
            let _ = when_put.recv_timeout(Duration::from_millis(200));
        });
        store.put(b"k", &Artifact::new(vec![1])).unwrap();
        when_done.recv().unwrap();
        assert_eq!((payload_of(&store.front), payload_of(store.back())), (Some(2), Some(2)));
    }

    #[test]
    fn memory_serves_what_the_medium_refuses_and_not_what_no_store_may_keep() {
        use Reason::{Busy, Closed, NewerVersion, NoSpace, Oversize, ReadOnly, TooLong, Unavailable};

        let of_the_medium = [Busy, NewerVersion, NoSpace, ReadOnly, Unavailable].map(|reason| (reason, true));
        let of_the_artifact = [Closed, Oversize, TooLong].map(|reason| (reason, false));
        for (reason, is_kept) in of_the_medium.into_iter().chain(of_the_artifact) {
            let store = tiered(Some(reason));
            let before = Artifact::new(vec![1]);
            store.front.put(b"k", &before).unwrap();
            assert_eq!(store.put(b"k", &Artifact::new(vec![2])), Err(reason));
            assert_eq!(store.contains(b"k"), Ok(is_kept), "{reason:?}");
            assert_eq!(payload_of(&*store), is_kept.then_some(2), "{reason:?}");
            assert_eq!(store.len(), Ok(0), "{reason:?}");
        }
    }
}
