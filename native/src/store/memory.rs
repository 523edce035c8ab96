//! The memory store: artifacts by reference, nothing serialised.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use foldhash::fast::RandomState;
use warmstart_core::{
    artifact::Artifact,
    lru::{Limits, Lru},
    reason::Reason,
};

use super::{Lookup, Store, Stored};

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
    lru: Mutex<Lru<Box<[u8]>, Artifact, RandomState>>,
    closed: AtomicBool,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { lru: Mutex::new(Lru::new(limits, RandomState::default())), closed: AtomicBool::new(false) }
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
        self.entries().total_bytes()
    }

    /// The policy is whole between any two of its calls, and none of them runs foreign code but `Drop` of what was
    /// handed out of it: a panic elsewhere while the lock was held leaves nothing half done.
    fn entries(&self) -> MutexGuard<'_, Lru<Box<[u8]>, Artifact, RandomState>> {
        self.lru.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_open(&self) -> Result<(), Reason> {
        if self.closed.load(Ordering::Relaxed) { Err(Reason::Closed) } else { Ok(()) }
    }
}

impl Store for MemoryStore {
    fn get(&self, key: &[u8]) -> Lookup {
        match self.check_open() {
            Ok(()) => self
                .entries()
                .get(key)
                .map_or(Lookup::Miss(Reason::Absent), |found| Lookup::Hit(found.clone())),
            Err(reason) => Lookup::Miss(reason),
        }
    }

    fn put(&self, key: &[u8], artifact: &Artifact) -> Result<Stored, Reason> {
        self.check_open()?;
        let size = (key.len() + artifact.payload().len() + artifact.encoded_metadata().len()) as u64;
        let mut gone = Vec::new();
        let mut entries = self.entries();
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
        let removed = self.entries().remove(key);
        Ok(removed.is_some())
    }

    fn contains(&self, key: &[u8]) -> Result<bool, Reason> {
        self.check_open()?;
        Ok(self.entries().peek(key).is_some())
    }

    fn len(&self) -> Result<u64, Reason> {
        self.check_open()?;
        Ok(self.entries().len() as u64)
    }

    fn clear(&self) -> Result<(), Reason> {
        self.check_open()?;
        self.entries().clear();
        Ok(())
    }

    fn touch(&self, keys: &[&[u8]]) {
        let mut entries = self.entries();
        for key in keys {
            entries.touch(*key);
        }
    }

    fn close(&self) -> Result<(), Reason> {
        if !self.closed.swap(true, Ordering::Relaxed) {
            self.entries().clear();
        }
        Ok(())
    }
}
