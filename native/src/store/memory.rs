//! The memory store, which keeps artifacts by reference and serialises nothing.

use std::{
    ops::ControlFlow,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::os::fork::Mutex;

use foldhash::fast::RandomState;
use warmstart_core::{
    artifact::Artifact,
    head::Head,
    key::Key,
    lru::{Limits, Lru},
    miss::Miss,
    reason::MissReason,
    statistics::{PersistedStats, Statistics},
};

use super::{Entry, Inspect, LOOKED_UP_AT_ONCE, Proof, Store, Totals};

/// Keeps artifacts in memory, shared with the callers that look them up. A hit allocates nothing.
///
/// An entry counts the bytes of its key, payload and metadata against the cap. A hit is not verified against a checksum, because
/// it is the artifact that was put.
///
/// ```
/// use warmstart::{Artifact, Limits, Store, store::MemoryStore};
///
/// let store = MemoryStore::new(Limits { max_entries: Some(2), max_bytes: None });
/// for key in [b"a", b"b", b"c"] {
///     store.put(key, &Artifact::new(vec![0]))?;
/// }
/// assert_eq!((store.contains(b"a")?, store.contains(b"c")?), (false, true));
/// # Ok::<(), warmstart::MissReason>(())
/// ```
#[derive(Debug)]
pub struct MemoryStore {
    /// Each call completes, and none runs foreign code except `Drop` of artifacts, so a panic under the lock leaves nothing half
    /// done.
    lru: Mutex<Entries>,
    stats: Mutex<PersistedStats>,
    closed: AtomicBool,
}

type Entries = Lru<Box<[u8]>, Artifact, RandomState>;

impl MemoryStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            lru: Mutex::new(Lru::new(limits, RandomState::default())),
            stats: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    fn check_open(&self) -> Result<(), MissReason> {
        if self.closed.load(Ordering::Relaxed) { Err(MissReason::Closed) } else { Ok(()) }
    }
}

/// Returns the artifact of a key, which is then the most recently used one.
fn find(entries: &mut Entries, key: &[u8]) -> Result<Artifact, MissReason> {
    // `cloned().ok_or(..)` would copy a hit once more.
    match entries.get(key) {
        Some(found) => Ok(found.clone()),
        None => Err(MissReason::Absent),
    }
}

impl Store for MemoryStore {
    fn get(&self, key: &[u8]) -> Result<Artifact, MissReason> {
        self.check_open()?;
        find(&mut self.lru.lock(), key)
    }

    fn get_many(&self, keys: &[&[u8]]) -> Vec<Result<Artifact, MissReason>> {
        if let Err(reason) = self.check_open() {
            return vec![Err(reason); keys.len()];
        }
        let mut all = Vec::with_capacity(keys.len());
        for keys in keys.chunks(LOOKED_UP_AT_ONCE) {
            let mut entries = self.lru.lock();
            all.extend(keys.iter().map(|key| find(&mut entries, key)));
        }
        all
    }

    fn put(&self, key: &[u8], artifact: &Artifact) -> Result<u64, MissReason> {
        self.check_open()?;
        let size = (key.len() + artifact.payload().len() + artifact.encoded_metadata().len()) as u64;
        let mut gone = Vec::new();
        let mut entries = self.lru.lock();
        entries.limits().admit(size)?;
        entries.record_access(key);
        while !entries.fits(key, size) {
            gone.push(entries.pop_oldest());
        }
        let replaced = entries.insert(key.into(), artifact.clone(), size);
        // A dropped artifact may be megabytes, so it is dropped without the lock.
        drop(entries);
        drop(replaced);
        Ok(gone.len() as u64)
    }

    fn remove(&self, key: &[u8]) -> Result<bool, MissReason> {
        self.check_open()?;
        let removed = self.lru.lock().remove(key);
        Ok(removed.is_some())
    }

    fn contains(&self, key: &[u8]) -> Result<bool, MissReason> {
        self.check_open()?;
        Ok(self.lru.lock().peek(key).is_some())
    }

    fn clear(&self) -> Result<(), MissReason> {
        self.check_open()?;
        let gone = self.lru.lock().take();
        // The dropped artifacts may be gigabytes, so they are dropped without the lock.
        drop(gone);
        Ok(())
    }

    /// Writes nothing: all of it is in memory.
    fn flush(&self) -> Result<(), MissReason> {
        Ok(())
    }

    fn record_access(&self, keys: &[&[u8]]) {
        let mut entries = self.lru.lock();
        for key in keys {
            entries.record_access(*key);
        }
    }

    fn close(&self) -> Result<(), MissReason> {
        if !self.closed.swap(true, Ordering::Relaxed) {
            let gone = self.lru.lock().take();
            // As in `clear`: without the lock.
            drop(gone);
        }
        Ok(())
    }

    fn inspect(&self) -> Option<&dyn Inspect> {
        Some(self)
    }
}

impl Inspect for MemoryStore {
    fn entries(&self, visit: &mut dyn FnMut(Entry) -> ControlFlow<()>) -> Result<(), MissReason> {
        self.check_open()?;
        // Cloned by reference and visited without the lock: `visit` may call the store.
        let held: Vec<_> = self
            .lru
            .lock()
            .iter()
            .map(|(key, artifact, size)| (key.clone(), artifact.clone(), size))
            .collect();
        for (key, artifact, size) in held {
            if visit(Entry::new(Key::digest(&key), size, Head::of(&key, &artifact))).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn totals(&self) -> Result<Totals, MissReason> {
        self.check_open()?;
        let held = self.lru.lock();
        Ok(Totals { entries: held.len() as u64, bytes: held.total_bytes() })
    }

    fn verify(&self, visit: &mut dyn FnMut(&Proof)) -> Result<u64, MissReason> {
        let mut whole = 0;
        self.entries(&mut |entry| {
            whole += 1;
            visit(&Proof::new(entry.digest, entry.size, Ok(())));
            ControlFlow::Continue(())
        })?;
        Ok(whole)
    }

    fn prune(&self, limits: Limits) -> Result<Totals, MissReason> {
        self.check_open()?;
        let (mut pruned, mut gone) = (Totals::default(), Vec::new());
        let mut held = self.lru.lock();
        while limits.exceeded_by(held.len() as u64, held.total_bytes()) {
            let Some((_, entry, size)) = held.pop_oldest() else { break };
            pruned.entries += 1;
            pruned.bytes += size;
            gone.push(entry);
        }
        drop(held);
        Ok(pruned)
    }

    fn report(&self, counted: &Statistics, last_miss: Option<&Miss>) -> Result<(), MissReason> {
        self.check_open()?;
        let mut stats = self.stats.lock();
        stats.add(counted);
        if let Some(miss) = last_miss {
            stats.last_miss = Some(miss.clone());
        }
        Ok(())
    }

    fn stats(&self) -> Result<PersistedStats, MissReason> {
        self.check_open()?;
        Ok(self.stats.lock().clone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Weak};

    use warmstart_core::artifact::Artifact;

    use super::*;

    /// A host's buffer that asks the store when it is dropped.
    struct Asks(Weak<MemoryStore>);

    impl AsRef<[u8]> for Asks {
        fn as_ref(&self) -> &[u8] {
            &[7]
        }
    }

    impl Drop for Asks {
        fn drop(&mut self) {
            if let Some(store) = self.0.upgrade() {
                store.record_access(&[b"k"]);
            }
        }
    }

    #[test]
    fn artifacts_are_dropped_without_the_lock() {
        let gone: [fn(&MemoryStore); 6] = [
            |store| _ = store.put(b"k", &Artifact::new(vec![1])),
            |store| _ = store.put(b"other", &Artifact::new(vec![1; 95])),
            |store| _ = store.remove(b"k"),
            |store| _ = store.prune(Limits::bytes(0)),
            |store| _ = store.clear(),
            |store| _ = store.close(),
        ];
        for drop_one in gone {
            let store = Arc::new(MemoryStore::new(Limits::bytes(100)));
            store.put(b"k", &Artifact::from_owner(Asks(Arc::downgrade(&store)))).unwrap();
            drop_one(&store);
            assert_ne!(store.get(b"k").map(|found| found.payload().to_vec()), Ok(vec![7]));
        }
    }
}
