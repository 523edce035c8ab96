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
mod inspect;
mod memory;
mod recency;
mod recognise;
#[cfg(feature = "sqlite")]
mod sqlite;
mod tiered;

pub use files::{FileOptions, FileStore};
pub use inspect::{Entry, Kept, Proof, Pruned, Report, Totals};
pub use memory::MemoryStore;
pub use recognise::{Recognised, recognise};
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteOptions, SqliteStore};
pub use tiered::TieredStore;

use std::{fmt::Debug, ops::ControlFlow, path::Path, sync::Arc, time::Duration};

use warmstart_core::{artifact::Artifact, lru::Limits, reason::Reason, recipe::Recipe};

/// The storage seam: what every store does.
///
/// Nothing here fails because of a medium: a look-up that cannot be answered is a miss, and an artifact that cannot be
/// kept is refused, each with its [`Reason`]. A key is any bytes, the empty ones included.
///
/// A store can do without the methods that have a default. It then tells nothing about itself: it knows no entries and none
/// that is nearest, keeps no statistics, and cannot be pruned.
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

    /// Reads the payload stored under `key` into a buffer of the caller's, and returns its length in bytes. Counts as a use. The
    /// payload is proved before this returns; after an error, what the buffer holds is unspecified.
    ///
    /// [`FileStore`] and `SqliteStore` read it into the buffer and copy nothing.
    ///
    /// ```
    /// use warmstart::{Artifact, Limits, Store, store::MemoryStore};
    ///
    /// let store = MemoryStore::new(Limits::bytes(1000));
    /// store.put(b"k", &Artifact::new(vec![1, 2, 3]))?;
    /// let mut buffer = Vec::new();
    /// assert_eq!(store.get_into(b"k", &mut buffer)?, 3);
    /// assert_eq!(buffer, [1, 2, 3]);
    /// # Ok::<(), warmstart::Reason>(())
    /// ```
    ///
    /// # Errors
    /// The reason why there is none, as of [`get`](Self::get); [`Reason::TooLong`] if the buffer has no room for it.
    fn get_into(&self, key: &[u8], buffer: &mut dyn Buffer) -> Result<usize, Reason> {
        match self.get(key) {
            Lookup::Hit(artifact) => copy_into(&artifact, buffer),
            Lookup::Miss(reason) => Err(reason),
        }
    }

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

    /// Reads every entry to its end, counts what is whole, and removes what is damaged. What is sealed with another secret, a
    /// newer version's or unreadable is neither counted nor removed. Counts no uses.
    ///
    /// # Errors
    /// The reason why that is not known.
    fn verify(&self) -> Result<Verified, Reason> {
        self.verify_each(&mut |_| ())
    }

    /// As [`verify`](Self::verify), and calls `visit` with what was found of each entry.
    ///
    /// A store that only keeps what it was given, such as [`MemoryStore`], has nothing to prove: all of it is whole.
    ///
    /// # Errors
    /// The reason why that is not known.
    fn verify_each(&self, visit: &mut dyn FnMut(&Proof)) -> Result<Verified, Reason> {
        let _ = visit;
        self.len().map(|whole| Verified { whole, damaged: 0 })
    }

    /// Calls `visit` with each entry, the next to be evicted first, until `visit` breaks. Reads no payload, counts no use,
    /// and removes nothing.
    ///
    /// # Errors
    /// The reason why the entries are not known: [`Reason::Unavailable`] from a store that cannot tell.
    fn entries(&self, visit: &mut dyn FnMut(Entry) -> ControlFlow<()>) -> Result<(), Reason> {
        let _ = visit;
        Err(Reason::Unavailable)
    }

    /// How many entries there are and what they count against the cap, as the store accounts for them. A store with
    /// accounts looks into no entry, so what is damaged counts like the rest. Removes nothing.
    ///
    /// # Errors
    /// As [`entries`](Self::entries).
    fn totals(&self) -> Result<Totals, Reason> {
        let mut totals = Totals::default();
        self.entries(&mut |entry| {
            totals.entries += 1;
            totals.bytes = totals.bytes.saturating_add(entry.size);
            ControlFlow::Continue(())
        })?;
        Ok(totals)
    }

    /// The entry whose recipe is of the same domain as `recipe`, is another one and differs least: what explains a miss
    /// best. Of equally near ones, one that has the same [name](Recipe::name), and then the one used last. Reads the head of
    /// every entry: about half a second for 50,000.
    ///
    /// What an entry says of itself is not proved here.
    ///
    /// # Errors
    /// The reason why that is not known.
    fn nearest(&self, recipe: &Recipe) -> Result<Option<Entry>, Reason> {
        nearest_of(self, recipe, |_| true)
    }

    /// Removes every entry.
    ///
    /// # Errors
    /// The reason why some may be left.
    fn clear(&self) -> Result<(), Reason>;

    /// Removes what was not used for longest, until the rest is within these limits. What the store was opened with stays
    /// as it is.
    ///
    /// # Errors
    /// The reason why some may be left that should go: [`Reason::Unavailable`] from a store that evicts nothing.
    fn prune(&self, limits: Limits) -> Result<Pruned, Reason> {
        let _ = limits;
        Err(Reason::Unavailable)
    }

    /// Adds to what is [kept](Self::kept). A [`Cache`](crate::Cache) reports what it counted. Waits at most
    /// [`REPORT_PATIENCE`] for others.
    ///
    /// # Errors
    /// The reason why it is not kept now: report it again later, together with what comes.
    fn report(&self, report: &Report) -> Result<(), Reason> {
        let _ = report;
        Ok(())
    }

    /// What all processes have reported. It outlives them if the store does, and [`clear`](Self::clear) leaves it alone.
    ///
    /// If it was damaged, counting begins anew, and [`Tally::resets`](warmstart_core::tally::Tally::resets) says so.
    ///
    /// # Errors
    /// The reason why that is not known.
    fn kept(&self) -> Result<Kept, Reason> {
        Ok(Kept::default())
    }

    /// Writes down what is still to be written, such as the order of use.
    ///
    /// # Errors
    /// The reason why something could not be written down.
    fn flush(&self) -> Result<(), Reason> {
        Ok(())
    }

    /// Counts a use of each of these keys, in this order, without looking them up. What is not there is passed over.
    /// [`TieredStore`] tells the store behind it so what memory answered. A store that evicts nothing has nothing to do.
    fn touch(&self, keys: &[&[u8]]) {
        let _ = keys;
    }

    /// [Flushes](Self::flush) the store. From then on everything is a miss or is refused, because of [`Reason::Closed`].
    /// Dropping a store does the same. Where a [`Cache`](crate::Cache) is in front of it, close that: it counts, and reports what it
    /// counted to an open store only.
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

/// The longest that [`Store::report`] waits for a lock: numbers are not worth more.
pub const REPORT_PATIENCE: Duration = Duration::from_millis(50);

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

/// A buffer that [`Store::get_into`] reads a payload into.
pub trait Buffer {
    /// Returns room for a payload of `len` bytes: a slice of exactly that length, or `None` if there is no room.
    ///
    /// The store holds no lock during the call. It calls again if the entry is replaced or found damaged while it is read: what
    /// was returned last counts.
    fn room(&mut self, len: usize) -> Option<&mut [u8]>;
}

/// Is made as long as the payload, if there is memory for it.
impl Buffer for Vec<u8> {
    fn room(&mut self, len: usize) -> Option<&mut [u8]> {
        self.try_reserve_exact(len.saturating_sub(self.len())).ok()?;
        self.resize(len, 0);
        Some(self)
    }
}

/// Takes a payload that is no longer than the slice, from its first byte on.
impl Buffer for &mut [u8] {
    fn room(&mut self, len: usize) -> Option<&mut [u8]> {
        self.get_mut(..len)
    }
}

fn copy_into(artifact: &Artifact, buffer: &mut dyn Buffer) -> Result<usize, Reason> {
    let payload = artifact.payload();
    room_for(payload.len(), buffer)?.copy_from_slice(payload);
    Ok(payload.len())
}

fn room_for(len: usize, buffer: &mut dyn Buffer) -> Result<&mut [u8], Reason> {
    buffer.room(len).filter(|room| room.len() == len).ok_or(Reason::TooLong)
}

/// A head of up to so many bytes is read apart from the payload, which is read into a caller's buffer.
const SHORT_HEAD: usize = 4096;

/// What [`Store::verify`] found. What is sealed with another secret, a newer version's or unreadable is neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Entries whose checksum holds, under the key that they were stored under.
    pub whole: u64,
    /// Entries that are damaged. They are gone now, if they could be removed.
    pub damaged: u64,
}

impl Verified {
    /// Counts what reading one more entry found.
    pub const fn count(&mut self, proof: &Proof) {
        match proof.result {
            Ok(()) => self.whole += 1,
            Err(reason) if reason.is_damage() => self.damaged += 1,
            Err(_) => {}
        }
    }
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
            fn get_into(&self, key: &[u8], buffer: &mut dyn Buffer) -> Result<usize, Reason> {
                (**self).get_into(key, buffer)
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
            fn is_empty(&self) -> Result<bool, Reason> {
                (**self).is_empty()
            }
            fn verify(&self) -> Result<Verified, Reason> {
                (**self).verify()
            }
            fn verify_each(&self, visit: &mut dyn FnMut(&Proof)) -> Result<Verified, Reason> {
                (**self).verify_each(visit)
            }
            fn entries(&self, visit: &mut dyn FnMut(Entry) -> ControlFlow<()>) -> Result<(), Reason> {
                (**self).entries(visit)
            }
            fn totals(&self) -> Result<Totals, Reason> {
                (**self).totals()
            }
            fn nearest(&self, recipe: &Recipe) -> Result<Option<Entry>, Reason> {
                (**self).nearest(recipe)
            }
            fn prune(&self, limits: Limits) -> Result<Pruned, Reason> {
                (**self).prune(limits)
            }
            fn report(&self, report: &Report) -> Result<(), Reason> {
                (**self).report(report)
            }
            fn kept(&self) -> Result<Kept, Reason> {
                (**self).kept()
            }
            fn flush(&self) -> Result<(), Reason> {
                (**self).flush()
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

/// Reads the recipes of all entries and returns the entry whose recipe is of the same domain and another one, and differs
/// least; of equally near ones, the one used last. Passes over what `may_be_hit` says is never handed out.
pub(crate) fn nearest_of(
    store: &(impl Store + ?Sized),
    recipe: &Recipe,
    may_be_hit: impl Fn(&Entry) -> bool,
) -> Result<Option<Entry>, Reason> {
    let mut best: Option<((u64, bool), Entry)> = None;
    store.entries(&mut |entry| {
        if let Some(other) = entry.recipe().filter(|other| other.domain() == recipe.domain()) {
            let distance = recipe.remoteness_of(other);
            let is_nearest = best.as_ref().is_none_or(|(nearest, _)| distance <= *nearest);
            if distance.0 > 0 && is_nearest && may_be_hit(&entry) {
                best = Some((distance, entry));
            }
        }
        ControlFlow::Continue(())
    })?;
    Ok(best.map(|(_, entry)| entry))
}
