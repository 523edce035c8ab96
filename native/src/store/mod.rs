//! Stores, which keep artifacts.
//!
//! | store | kept in | shared by | survives |
//! |---|---|---|---|
//! | [`MemoryStore`] | memory, by reference | threads | nothing |
//! | [`FileStore`] | one file an entry | any number of processes | the death of any process |
//! | [`SqliteStore`] | one SQLite database | any number of processes | the death of any process |
//! | [`TieredStore`] | memory in front of one of the others | as the other | as the other |
//!
//! All of them pass one conformance suite, in tests/ of the repository.

mod claims;
mod detect;
mod files;
mod inspect;
mod memory;
mod options;
mod recency;
#[cfg(feature = "sqlite")]
mod sqlite;
mod tiered;

pub use claims::Claims;
#[doc(hidden)]
pub use detect::{Detected, detect};
pub use files::FileStore;
pub use inspect::{Entry, Inspect, Proof, Totals};
pub use memory::MemoryStore;
pub use options::StoreOptions;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;
pub use tiered::TieredStore;

use std::{fmt::Debug, sync::Arc};

use warmstart_core::{
    artifact::Artifact,
    envelope::Layout,
    head::{Head, MAX_HEAD_LEN},
    reason::MissReason,
};

/// The interface of all stores.
///
/// No method fails because of a medium: a look-up that cannot be answered is a miss, and an artifact that cannot be
/// kept is refused, each with its [`MissReason`]. A key is any sequence of bytes, including an empty one.
///
/// A store of your own needs six methods. Two more give optional interfaces: [`inspect`](Self::inspect) lists and verifies entries
/// and keeps statistics, and [`claims`](Self::claims) lets one of all processes build.
///
/// ```
/// use warmstart::{Artifact, Limits, MissReason, Store, store::MemoryStore};
///
/// let store = MemoryStore::new(Limits::bytes(1000));
/// store.put(b"k", &Artifact::new(vec![1, 2, 3]))?;
/// assert_eq!(store.get(b"k")?.payload(), [1, 2, 3]);
/// assert_eq!(store.get(b"other").unwrap_err(), MissReason::Absent);
/// # Ok::<(), MissReason>(())
/// ```
pub trait Store: Debug + Send + Sync {
    /// Returns the artifact stored under `key`, and counts a use. Removes a damaged entry that it finds.
    fn get(&self, key: &[u8]) -> Result<Artifact, MissReason>;

    /// Looks up a key as [`get`](Self::get) does, for a caller that builds a missing artifact next. A store whose entries and claims are
    /// on another machine asks for the claim in the same request.
    fn get_to_build(&self, key: &[u8]) -> Result<Artifact, MissReason> {
        self.get(key)
    }

    /// Reads the payload stored under `key` into a caller's buffer, and returns its length in bytes. Counts a use. The payload is
    /// verified before this returns; after an error, the contents of the buffer are unspecified.
    ///
    /// [`FileStore`] and `SqliteStore` read directly into the buffer, without a copy.
    ///
    /// ```
    /// use warmstart::{Artifact, Limits, Store, store::MemoryStore};
    ///
    /// let store = MemoryStore::new(Limits::bytes(1000));
    /// store.put(b"k", &Artifact::new(vec![1, 2, 3]))?;
    /// let mut buffer = Vec::new();
    /// assert_eq!(store.get_into(b"k", &mut buffer)?, 3);
    /// assert_eq!(buffer, [1, 2, 3]);
    /// # Ok::<(), warmstart::MissReason>(())
    /// ```
    ///
    /// # Errors
    /// The reason why there is no payload, as for [`get`](Self::get); [`MissReason::TooLong`] if the buffer has no room for it.
    fn get_into(&self, key: &[u8], buffer: &mut dyn Buffer) -> Result<usize, MissReason> {
        copy_into(&self.get(key)?, buffer)
    }

    /// Looks up many keys, in their order, each as [`get`](Self::get) does. [`FileStore`] reads with several threads, `SqliteStore`
    /// in one transaction.
    fn get_many(&self, keys: &[&[u8]]) -> Vec<Result<Artifact, MissReason>> {
        keys.iter().map(|key| self.get(key)).collect()
    }

    /// Stores `artifact` under `key`, replaces what was there, and evicts least recently used entries if the cap requires it. Returns
    /// how many other entries were evicted. Once this returns, an artifact in a persistent store survives the death of any process.
    ///
    /// # Errors
    /// The reason why it was not stored. The previous artifact of the key may still be there.
    fn put(&self, key: &[u8], artifact: &Artifact) -> Result<u64, MissReason>;

    /// Removes the entry stored under `key`, and returns whether there was one.
    ///
    /// # Errors
    /// The reason why it could not be removed.
    fn remove(&self, key: &[u8]) -> Result<bool, MissReason>;

    /// Returns whether a whole entry, by its header and length, is stored under `key`. Never counts a use. A store with a secret
    /// counts only sealed entries, one without a secret only unsealed ones. Only [`get`](Self::get) verifies the seal.
    ///
    /// # Errors
    /// The reason why that is unknown.
    fn contains(&self, key: &[u8]) -> Result<bool, MissReason>;

    /// Removes every entry.
    ///
    /// # Errors
    /// The reason why some entries may be left.
    fn clear(&self) -> Result<(), MissReason>;

    /// Writes what is still in memory, such as the order of use.
    ///
    /// # Errors
    /// The reason why something could not be written.
    fn flush(&self) -> Result<(), MissReason>;

    /// Records a use of each of these keys, in this order, without a look-up. Skips keys that are not stored. [`TieredStore`] reports
    /// look-ups that its memory answered to the store behind it in this way. A store that evicts nothing need not implement it.
    fn record_access(&self, keys: &[&[u8]]) {
        let _ = keys;
    }

    /// [Flushes](Self::flush) and closes the store; each store of this crate then answers every call with [`MissReason::Closed`].
    /// Dropping a store does the same. If a [`Cache`](crate::Cache) uses the store, close the cache instead: it reports its statistics
    /// to the store while that is open.
    ///
    /// # Errors
    /// The reason why something could not be written.
    fn close(&self) -> Result<(), MissReason> {
        self.flush()
    }

    /// Returns the interface that lists and verifies entries, keeps statistics and prunes. Without it, misses have no explanation, and
    /// the statistics of a [`Cache`](crate::Cache) are lost with the process.
    fn inspect(&self) -> Option<&dyn Inspect> {
        None
    }

    /// Returns the claims of builds, if every process that uses the store finds them now. Without them, one of the threads of a
    /// [`Cache`](crate::Cache) builds, but not one of all processes.
    fn claims(&self) -> Option<&dyn Claims> {
        None
    }
}

/// A buffer that [`Store::get_into`] reads a payload into.
pub trait Buffer {
    /// Returns a slice of exactly `len` bytes for a payload, or `None` if there is no room.
    ///
    /// The store holds no lock during the call. It calls again if the entry is replaced or found damaged during the read; the
    /// last returned slice counts.
    fn room(&mut self, len: usize) -> Option<&mut [u8]>;
}

/// Grows or shrinks to the length of the payload, if there is memory for it.
impl Buffer for Vec<u8> {
    fn room(&mut self, len: usize) -> Option<&mut [u8]> {
        self.try_reserve_exact(len.saturating_sub(self.len())).ok()?;
        self.resize(len, 0);
        Some(self)
    }
}

/// Accepts a payload that is no longer than the slice, and stores it from the first byte on.
impl Buffer for &mut [u8] {
    fn room(&mut self, len: usize) -> Option<&mut [u8]> {
        self.get_mut(..len)
    }
}

/// Looks up many keys, and each of them alone if the store answers for fewer or more: it is not known then which artifact is of
/// which key.
pub(crate) fn get_each<S: Store + ?Sized>(store: &S, keys: &[&[u8]]) -> Vec<Result<Artifact, MissReason>> {
    let found = store.get_many(keys);
    if found.len() == keys.len() { found } else { keys.iter().map(|key| store.get(key)).collect() }
}

fn copy_into(artifact: &Artifact, buffer: &mut dyn Buffer) -> Result<usize, MissReason> {
    let payload = artifact.payload();
    room_for(payload.len(), buffer)?.copy_from_slice(payload);
    Ok(payload.len())
}

fn room_for(len: usize, buffer: &mut dyn Buffer) -> Result<&mut [u8], MissReason> {
    buffer.room(len).filter(|room| room.len() == len).ok_or(MissReason::TooLong)
}

/// The number of keys that a store looks up under one lock or in one transaction. It is small, so that other threads hardly
/// wait, and that few entries are held in memory before they are verified.
const LOOKED_UP_AT_ONCE: usize = 64;

/// The longest head, in bytes, that is read apart from the payload, so that the payload goes straight into a caller's buffer.
const SHORT_HEAD: usize = 4096;

/// Reads the head of an entry without its payload. `read` returns at most this many first bytes of the envelope, and the envelope's
/// length; a head that is not short takes a second call.
fn read_head<E>(
    mut read: impl FnMut(usize) -> Result<(Vec<u8>, u64), E>,
) -> Result<Result<Head, MissReason>, E> {
    let (mut bytes, mut len) = read(SHORT_HEAD)?;
    let head_len = Layout::parse(&bytes, len).map_or(0, |layout| layout.head_len());
    if head_len > bytes.len() && head_len <= MAX_HEAD_LEN {
        // The entry may have been replaced meanwhile: what is read now is parsed again.
        (bytes, len) = read(head_len)?;
    }
    Ok(Layout::parse(&bytes, len).and_then(|layout| Head::parse(&bytes, &layout)))
}

macro_rules! forward_store {
    ($($pointer:ty),*) => {$(
        impl<S: Store + ?Sized> Store for $pointer {
            fn get(&self, key: &[u8]) -> Result<Artifact, MissReason> {
                (**self).get(key)
            }
            fn get_to_build(&self, key: &[u8]) -> Result<Artifact, MissReason> {
                (**self).get_to_build(key)
            }
            fn get_into(&self, key: &[u8], buffer: &mut dyn Buffer) -> Result<usize, MissReason> {
                (**self).get_into(key, buffer)
            }
            fn get_many(&self, keys: &[&[u8]]) -> Vec<Result<Artifact, MissReason>> {
                (**self).get_many(keys)
            }
            fn put(&self, key: &[u8], artifact: &Artifact) -> Result<u64, MissReason> {
                (**self).put(key, artifact)
            }
            fn remove(&self, key: &[u8]) -> Result<bool, MissReason> {
                (**self).remove(key)
            }
            fn contains(&self, key: &[u8]) -> Result<bool, MissReason> {
                (**self).contains(key)
            }
            fn flush(&self) -> Result<(), MissReason> {
                (**self).flush()
            }
            fn clear(&self) -> Result<(), MissReason> {
                (**self).clear()
            }
            fn record_access(&self, keys: &[&[u8]]) {
                (**self).record_access(keys);
            }
            fn close(&self) -> Result<(), MissReason> {
                (**self).close()
            }
            fn inspect(&self) -> Option<&dyn Inspect> {
                (**self).inspect()
            }
            fn claims(&self) -> Option<&dyn Claims> {
                (**self).claims()
            }
        }
    )*};
}

forward_store!(&S, Box<S>, Arc<S>);
