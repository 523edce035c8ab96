//! Inspection of a store: its entries, its statistics, verification and pruning.

use std::{ops::ControlFlow, time::Duration};

use warmstart_core::{
    head::Head,
    key::Key,
    lru::Limits,
    miss::Miss,
    reason::MissReason,
    recipe::Recipe,
    statistics::{PersistedStats, Statistics},
};

/// The longest time that [`Inspect::report`] waits for a lock: statistics are not worth more.
pub(super) const REPORT_TIMEOUT: Duration = Duration::from_millis(50);

/// Inspects a store: lists, verifies and prunes its entries, and keeps its statistics.
///
/// ```
/// use std::ops::ControlFlow;
/// use warmstart::{Artifact, KeyFields, Limits, Metadata, Store, store::MemoryStore};
///
/// let fields = KeyFields::new("example", 1).text("name", "softmax");
/// let artifact = Artifact::new(vec![0; 100]).with_metadata(&Metadata::new().with_recipe(fields.recipe()));
/// let store = MemoryStore::new(Limits::NONE);
/// store.put(fields.key().as_bytes(), &artifact)?;
///
/// let inspect = store.inspect().expect("every store of this crate supports inspection");
/// assert_eq!(inspect.totals()?.entries, 1);
/// inspect.entries(&mut |entry| {
///     assert_eq!((entry.recipe(), entry.head.as_ref().unwrap().payload_len), (Some(&fields.recipe()), 100));
///     ControlFlow::Continue(())
/// })?;
/// # Ok::<(), warmstart::MissReason>(())
/// ```
pub trait Inspect {
    /// Calls `visit` with each entry, in the order of eviction, until `visit` breaks. Reads no payload, counts no use and removes
    /// nothing.
    ///
    /// # Errors
    /// The reason why the entries cannot be listed.
    fn entries(&self, visit: &mut dyn FnMut(Entry) -> ControlFlow<()>) -> Result<(), MissReason>;

    /// Returns the number of entries and the bytes that they count against the cap, as the store accounts for them. A store that
    /// keeps accounts reads no entry for this, so damaged entries count too. Removes nothing.
    ///
    /// # Errors
    /// As for [`entries`](Self::entries).
    fn totals(&self) -> Result<Totals, MissReason>;

    /// Reads every entry to its end, calls `visit` with the result, removes damaged entries, and returns how many are whole. An entry
    /// that is unreadable, sealed with another secret, or written by a newer version is neither counted nor removed. Counts no uses.
    ///
    /// A store that keeps artifacts by reference, such as [`MemoryStore`](super::MemoryStore), has nothing to verify: all its
    /// entries are whole.
    ///
    /// # Errors
    /// The reason why the entries cannot be verified.
    fn verify(&self, visit: &mut dyn FnMut(&Proof)) -> Result<u64, MissReason>;

    /// Returns whether the store has a secret. If it has, an entry without a seal is never a hit.
    fn is_sealed(&self) -> bool {
        false
    }

    /// Returns the nearest entry to `recipe`: of the same domain, different, and with the fewest differences, which explains a miss
    /// best. Among equally near entries it prefers one of the same [name](Recipe::name), then the most recently used. Reads the head
    /// of every entry: about half a second for 50,000.
    ///
    /// The head of an entry is not verified here. If entries are [sealed](Self::is_sealed), one without a seal is skipped, because
    /// any process could have put it there.
    ///
    /// # Errors
    /// The reason why the entries cannot be listed.
    fn nearest(&self, recipe: &Recipe) -> Result<Option<Entry>, MissReason> {
        let is_sealed = self.is_sealed();
        let mut best: Option<((u64, bool), Entry)> = None;
        self.entries(&mut |entry| {
            if let Some(distance) = entry.distance_to(recipe, is_sealed)
                && distance.0 > 0
                && best.as_ref().is_none_or(|(nearest, _)| distance <= *nearest)
            {
                best = Some((distance, entry));
            }
            ControlFlow::Continue(())
        })?;
        Ok(best.map(|(_, entry)| entry))
    }

    /// Evicts least recently used entries until the rest is within `limits`, and returns what was evicted. The limits that the store
    /// was opened with do not change.
    ///
    /// # Errors
    /// The reason why pruning ended early.
    fn prune(&self, limits: Limits) -> Result<Totals, MissReason>;

    /// Adds to the [statistics](Self::stats) what was counted since the last report, and replaces the last miss if there was one
    /// since. A [`Cache`](crate::Cache) calls this. Waits at most 50 ms for a lock: statistics are not worth more.
    ///
    /// # Errors
    /// The reason why the report was not stored. Add it to the next one.
    fn report(&self, counted: &Statistics, last_miss: Option<&Miss>) -> Result<(), MissReason>;

    /// Returns the statistics that all processes have reported. They survive these processes if the store does, and
    /// [`clear`](super::Store::clear) does not reset them.
    ///
    /// If they were damaged, counting restarts at 0, and [`PersistedStats::resets`] counts that.
    ///
    /// # Errors
    /// The reason why the statistics cannot be read.
    fn stats(&self) -> Result<PersistedStats, MissReason>;
}

/// The description of an entry, from its head. Its payload is not read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The digest of the entry's key, which identifies it in the store.
    pub digest: Key,
    /// The bytes that it counts against the cap.
    pub size: u64,
    /// The time of its last put or use, in milliseconds since 1970 UTC; 0 if unknown.
    pub used_unix_ms: u64,
    /// The contents of its head, or the reason why that cannot be read. The payload is not read, so nothing is verified.
    pub head: Result<Head, MissReason>,
}

impl Entry {
    /// Describes an entry of this digest and size, in bytes, whose last use is unknown.
    #[must_use]
    pub const fn new(digest: Key, size: u64, head: Result<Head, MissReason>) -> Self {
        Self { digest, size, used_unix_ms: 0, head }
    }

    /// Returns the recipe in its head, if there is one.
    #[must_use]
    pub fn recipe(&self) -> Option<&Recipe> {
        self.head.as_ref().ok()?.metadata.recipe()
    }

    /// Returns how far its recipe is from another one of the same domain, as [`Recipe::rank_of`] measures it: 0 for the same
    /// fields. Returns `None` if it has no such recipe, or no seal in a store that [requires one](Inspect::is_sealed).
    #[must_use]
    pub fn distance_to(&self, recipe: &Recipe, is_sealed: bool) -> Option<(u64, bool)> {
        let head = self.head.as_ref().ok().filter(|head| head.is_sealed || !is_sealed)?;
        let stored = head.metadata.recipe().filter(|stored| stored.domain() == recipe.domain())?;
        Some(recipe.rank_of(stored))
    }
}

/// The size of a store, or of what was removed from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The number of entries.
    pub entries: u64,
    /// The bytes that they count against the cap.
    pub bytes: u64,
}

/// The result of verifying one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Proof {
    /// The digest of the entry's key, which identifies it in the store.
    pub digest: Key,
    /// Its length in bytes, as read.
    pub size: u64,
    /// `Ok` if it is whole and stored under the digest of its key; otherwise the reason why not.
    pub result: Result<(), MissReason>,
    /// Whether it was removed because it is damaged.
    pub is_removed: bool,
}

impl Proof {
    /// Describes an entry that was not removed.
    #[must_use]
    pub const fn new(digest: Key, size: u64, result: Result<(), MissReason>) -> Self {
        Self { digest, size, result, is_removed: false }
    }
}
