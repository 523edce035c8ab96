//! Memory in front of a persistent store.

use std::path::Path;

use warmstart_core::{artifact::Artifact, lru::Limits, reason::Reason};

use super::{Lookup, MemoryStore, Store, Stored, recency::Recency};

/// A [`MemoryStore`] in front of another store: what was read or stored once is read no more.
///
/// The memory answers without asking the other store: what another process replaced or removed there meanwhile is still
/// found until it leaves the memory. An artifact is what its key says, so it is still the right one. Uses of what is in
/// memory reach the other store in batches, so that it does not evict what is hot here.
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
}

impl<S: Store> TieredStore<S> {
    /// Puts memory of these limits in front of `back`.
    #[must_use]
    pub fn new(memory: Limits, back: S) -> Self {
        Self { front: MemoryStore::new(memory), back, unseen: Recency::default() }
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
        let found = self.back.get(key);
        if let Lookup::Hit(artifact) = &found {
            // Too large for the memory is no loss: the store behind has it.
            let _ = self.front.put(key, artifact);
        }
        found
    }

    fn put(&self, key: &[u8], artifact: &Artifact) -> Result<Stored, Reason> {
        // The front first drops what it had, so that a refusal behind leaves no older artifact in front.
        self.front.remove(key)?;
        self.pass_uses_on();
        let stored = self.back.put(key, artifact);
        if !matches!(stored, Err(Reason::Closed)) {
            let _ = self.front.put(key, artifact);
        }
        stored
    }

    fn remove(&self, key: &[u8]) -> Result<bool, Reason> {
        let front = self.front.remove(key)?;
        Ok(self.back.remove(key)? || front)
    }

    fn contains(&self, key: &[u8]) -> Result<bool, Reason> {
        Ok(self.front.contains(key)? || self.back.contains(key)?)
    }

    fn len(&self) -> Result<u64, Reason> {
        self.back.len()
    }

    fn clear(&self) -> Result<(), Reason> {
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
