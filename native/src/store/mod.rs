//! Where artifacts are kept.
//!
//! | store | kept in | shared by | survives |
//! |---|---|---|---|
//! | [`MemoryStore`] | memory, by reference | threads | nothing |
//! | [`FileStore`] | one file an entry | any number of processes | the death of any process |
//! | [`SqliteStore`] | one SQLite database | any number of processes | the death of any process |
//! | [`TieredStore`] | memory in front of one of the others | as the other | as the other |
//!
//! All of them pass one conformance suite, which tests/ of the repository holds.

mod files;
mod memory;
mod recency;
#[cfg(feature = "sqlite")]
mod sqlite;
mod tiered;

pub use files::{FileOptions, FileStore};
pub use memory::MemoryStore;
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteOptions, SqliteStore};
pub use tiered::TieredStore;

use std::{fmt::Debug, path::Path, sync::Arc};

use warmstart_core::{artifact::Artifact, reason::Reason};

/// The storage seam: what every store does.
///
/// Nothing here fails because of a medium: a look-up that cannot be answered is a miss, and an artifact that cannot be
/// kept is refused, each with its [`Reason`]. A key is any bytes, the empty ones included.
///
/// ```
/// use warmstart::{Artifact, Limits, Lookup, Reason, Store, store::MemoryStore};
///
/// let store = MemoryStore::new(Limits::bytes(1000));
/// store.put(b"k", &Artifact::new(vec![1, 2, 3]))?;
/// assert_eq!(store.get(b"k").hit().unwrap().payload(), [1, 2, 3]);
/// assert_eq!(store.get(b"other").miss(), Some(Reason::Absent));
/// # Ok::<(), Reason>(())
/// ```
pub trait Store: Debug + Send + Sync {
    /// The artifact stored under `key`. Counts as a use. Damage found on the way is removed.
    fn get(&self, key: &[u8]) -> Lookup;

    /// Keeps `artifact` under `key`, in place of what was there, and evicts what was not used for longest if the cap
    /// asks for it. When it returns, the artifact survives the death of any process, if the store is persistent.
    ///
    /// # Errors
    /// The reason why it was not kept. What was stored before under the key may then still be there.
    fn put(&self, key: &[u8], artifact: &Artifact) -> Result<Stored, Reason>;

    /// Removes what is stored under `key`; says whether there was anything.
    ///
    /// # Errors
    /// The reason why it could not be removed.
    fn remove(&self, key: &[u8]) -> Result<bool, Reason>;

    /// Whether something whole, by header and length, is stored under `key`. Never counts as a use. A store with a
    /// secret counts what has a seal, and another what has none; whose seal it is, only [`get`](Self::get) knows.
    ///
    /// # Errors
    /// The reason why that is not known.
    fn contains(&self, key: &[u8]) -> Result<bool, Reason>;

    /// The number of entries that are whole by header and length; the others are removed.
    ///
    /// # Errors
    /// The reason why that is not known.
    fn len(&self) -> Result<u64, Reason>;

    /// Whether there is no entry that is whole by header and length.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    fn is_empty(&self) -> Result<bool, Reason> {
        self.len().map(|len| len == 0)
    }

    /// Reads every entry to its end, counts what is whole, and removes what is not. Counts no uses.
    ///
    /// A store that only keeps what it was given, such as [`MemoryStore`], has nothing to prove: all of it is whole.
    ///
    /// # Errors
    /// The reason why that is not known.
    fn verify(&self) -> Result<Verified, Reason> {
        self.len().map(|whole| Verified { whole, damaged: 0 })
    }

    /// Removes every entry.
    ///
    /// # Errors
    /// The reason why some may be left.
    fn clear(&self) -> Result<(), Reason>;

    /// Counts a use of each of these keys, in this order, without looking them up. What is not there is passed over.
    /// [`TieredStore`] tells the store behind it so what memory answered. A store that evicts nothing has nothing to do.
    fn touch(&self, keys: &[&[u8]]) {
        let _ = keys;
    }

    /// Writes down what is still to be written, such as the order of use. From then on everything is a miss or is
    /// refused, because of [`Reason::Closed`]. Dropping a store does the same.
    ///
    /// # Errors
    /// The reason why something could not be written down.
    fn close(&self) -> Result<(), Reason>;

    /// A directory for lock files that every process which uses this store finds, if there is one that can be written.
    /// Single flight across processes needs it.
    fn lock_directory(&self) -> Option<&Path> {
        None
    }
}

/// What a look-up found.
#[derive(Clone, Debug)]
#[must_use]
pub enum Lookup {
    /// The artifact, proved to be the one that was stored.
    Hit(Artifact),
    /// Why there is none.
    Miss(Reason),
}

impl Lookup {
    /// The artifact of a hit.
    #[must_use]
    pub fn hit(self) -> Option<Artifact> {
        match self {
            Self::Hit(artifact) => Some(artifact),
            Self::Miss(_) => None,
        }
    }

    /// The reason of a miss.
    #[must_use]
    pub fn miss(&self) -> Option<Reason> {
        match self {
            Self::Hit(_) => None,
            Self::Miss(reason) => Some(*reason),
        }
    }
}

impl From<Result<Artifact, Reason>> for Lookup {
    fn from(result: Result<Artifact, Reason>) -> Self {
        match result {
            Ok(artifact) => Self::Hit(artifact),
            Err(reason) => Self::Miss(reason),
        }
    }
}

/// What [`Store::verify`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Entries whose checksum holds, under the key that they were stored under.
    pub whole: u64,
    /// Entries of which that was not true. They are gone now, if they could be removed.
    pub damaged: u64,
}

/// What storing an artifact did.
///
/// ```
/// use warmstart::store::Stored;
///
/// assert_eq!(Stored::default().evicted, 0);
/// assert_eq!(Stored::evicting(2).evicted, 2);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stored {
    /// How many other entries were evicted for it.
    pub evicted: u64,
}

impl Stored {
    /// So many other entries were evicted for it.
    #[must_use]
    pub const fn evicting(entries: u64) -> Self {
        Self { evicted: entries }
    }
}

macro_rules! forward_store {
    ($($pointer:ty),*) => {$(
        impl<S: Store + ?Sized> Store for $pointer {
            fn get(&self, key: &[u8]) -> Lookup {
                (**self).get(key)
            }
            fn put(&self, key: &[u8], artifact: &Artifact) -> Result<Stored, Reason> {
                (**self).put(key, artifact)
            }
            fn remove(&self, key: &[u8]) -> Result<bool, Reason> {
                (**self).remove(key)
            }
            fn contains(&self, key: &[u8]) -> Result<bool, Reason> {
                (**self).contains(key)
            }
            fn len(&self) -> Result<u64, Reason> {
                (**self).len()
            }
            fn verify(&self) -> Result<Verified, Reason> {
                (**self).verify()
            }
            fn clear(&self) -> Result<(), Reason> {
                (**self).clear()
            }
            fn touch(&self, keys: &[&[u8]]) {
                (**self).touch(keys);
            }
            fn close(&self) -> Result<(), Reason> {
                (**self).close()
            }
            fn lock_directory(&self) -> Option<&Path> {
                (**self).lock_directory()
            }
        }
    )*};
}

forward_store!(&S, Box<S>, Arc<S>);
