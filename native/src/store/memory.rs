//! The memory store: artifacts by reference, nothing serialised.

use std::{
    ops::ControlFlow,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::os::fork::{Mutex, MutexGuard};

use foldhash::fast::RandomState;
use warmstart_core::{
    artifact::Artifact,
    head::Head,
    key::Key,
    lru::{Limits, Lru},
    reason::Reason,
};

use super::{Entry, Kept, Lookup, Pruned, Report, Store, Stored};

/// Keeps artifacts in memory, shared with whoever looks them up. A hit allocates nothing.
///
/// An entry counts the bytes of its key, payload and metadata against the cap. It keeps what it was given, so a hit is
/// not checked against a checksum.
///
/// ```
/// use warmstart::{Artifact, Limits, Store, store::MemoryStore};
///
/// let store = MemoryStore::new(Limits { max_entries: Some(2), max_bytes: None });
/// for key in [b"a", b"b", b"c"] {
///     store.put(key, &Artifact::new(vec![0]))?;
/// }
/// assert_eq!((store.contains(b"a")?, store.len()?), (false, 2));
/// # Ok::<(), warmstart::Reason>(())
/// ```
#[derive(Debug)]
pub struct MemoryStore {
    lru: Mutex<Entries>,
    kept: Mutex<Kept>,
    closed: AtomicBool,
}

type Entries = Lru<Box<[u8]>, Artifact, RandomState>;

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            lru: Mutex::new(Lru::new(limits, RandomState::default())),
            kept: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// The bytes that all entries count, added up.
    ///
    /// ```
    /// # use warmstart::{Artifact, Limits, Store, store::MemoryStore};
    /// let store = MemoryStore::new(Limits::NONE);
    /// store.put(b"key", &Artifact::new(vec![0; 10]))?;
    /// assert_eq!(store.total_bytes(), 13);
    /// # Ok::<(), warmstart::Reason>(())
    /// ```
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.held().total_bytes()
    }

    /// The policy is whole between any two of its calls, and none of them runs foreign code but `Drop` of what was
    /// handed out of it: a panic elsewhere while the lock was held leaves nothing half done.
    fn held(&self) -> MutexGuard<'_, Entries> {
        self.lru.lock()
    }

    fn check_open(&self) -> Result<(), Reason> {
        if self.closed.load(Ordering::Relaxed) { Err(Reason::Closed) } else { Ok(()) }
    }
}

impl Store for MemoryStore {
    fn get(&self, key: &[u8]) -> Lookup {
        match self.check_open() {
            Ok(()) => {
                self.held().get(key).map_or(Lookup::Miss(Reason::Absent), |found| Lookup::Hit(found.clone()))
            }
            Err(reason) => Lookup::Miss(reason),
        }
    }

    fn put(&self, key: &[u8], artifact: &Artifact) -> Result<Stored, Reason> {
        self.check_open()?;
        let size = (key.len() + artifact.payload().len() + artifact.encoded_metadata().len()) as u64;
        let mut gone = Vec::new();
        let mut entries = self.held();
        entries.limits().admit(size)?;
        entries.touch(key);
        while !entries.fits(key, size) {
            gone.push(entries.pop_oldest());
        }
        let replaced = entries.insert(key.into(), artifact.clone(), size);
        // What is dropped here may be megabytes: not while others wait for the lock.
        drop(entries);
        drop(replaced);
        Ok(Stored::evicting(gone.len() as u64))
    }

    fn remove(&self, key: &[u8]) -> Result<bool, Reason> {
        self.check_open()?;
        let removed = self.held().remove(key);
        Ok(removed.is_some())
    }

    fn contains(&self, key: &[u8]) -> Result<bool, Reason> {
        self.check_open()?;
        Ok(self.held().peek(key).is_some())
    }

    fn len(&self) -> Result<u64, Reason> {
        self.check_open()?;
        Ok(self.held().len() as u64)
    }

    fn entries(&self, visit: &mut dyn FnMut(Entry) -> ControlFlow<()>) -> Result<(), Reason> {
        self.check_open()?;
        // By reference, and then without the lock: `visit` may call the store.
        let held: Vec<_> =
            self.held().iter().map(|(key, artifact, size)| (key.clone(), artifact.clone(), size)).collect();
        for (key, artifact, size) in held {
            if visit(Entry::new(Key::digest(&key), size, Head::of(&key, &artifact))).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn prune(&self, limits: Limits) -> Result<Pruned, Reason> {
        self.check_open()?;
        let (mut pruned, mut gone) = (Pruned::default(), Vec::new());
        let mut held = self.held();
        while limits.exceeded_by(held.len() as u64, held.total_bytes()) {
            let Some((_, entry, size)) = held.pop_oldest() else { break };
            pruned.entries += 1;
            pruned.bytes += size;
            gone.push(entry);
        }
        drop(held);
        Ok(pruned)
    }

    fn report(&self, report: &Report) -> Result<(), Reason> {
        self.check_open()?;
        let mut kept = self.kept.lock();
        kept.tally.add(&report.counted);
        if let Some(miss) = &report.last_miss {
            kept.last_miss = Some(miss.clone());
        }
        Ok(())
    }

    fn kept(&self) -> Result<Kept, Reason> {
        self.check_open()?;
        Ok(self.kept.lock().clone())
    }

    fn clear(&self) -> Result<(), Reason> {
        self.check_open()?;
        let gone = self.held().take();
        // What is dropped here may be gigabytes: not while others wait for the lock.
        drop(gone);
        Ok(())
    }

    fn touch(&self, keys: &[&[u8]]) {
        let mut entries = self.held();
        for key in keys {
            entries.touch(*key);
        }
    }

    fn close(&self) -> Result<(), Reason> {
        if !self.closed.swap(true, Ordering::Relaxed) {
            self.held().clear();
        }
        Ok(())
    }
}
