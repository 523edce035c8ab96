//! What a store tells about itself to whoever looks into it.

use warmstart_core::{
    head::Head, key::Key, miss::Miss, reason::Reason, recipe::Recipe, statistics::Statistics, tally::Tally,
};

/// What is known about an entry without reading its payload.
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
/// store.entries(&mut |entry| {
///     assert_eq!((entry.recipe(), entry.head.as_ref().unwrap().payload_len), (Some(&fields.recipe()), 100));
///     ControlFlow::Continue(())
/// })?;
/// # Ok::<(), warmstart::Reason>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The digest of the entry's key: what it is called in the store.
    pub name: Key,
    /// What it counts against the cap, in bytes.
    pub size: u64,
    /// When it was last stored or used, in milliseconds since 1970 UTC; 0 if unknown.
    pub used_unix_ms: u64,
    /// What its head says, or why it cannot be read. The payload is not looked at, so nothing is proved.
    pub head: Result<Head, Reason>,
}

impl Entry {
    /// An entry of this name and size, in bytes, of which the time of the last use is not known.
    #[must_use]
    pub const fn new(name: Key, size: u64, head: Result<Head, Reason>) -> Self {
        Self { name, size, used_unix_ms: 0, head }
    }

    /// The recipe that its head tells, if it tells one.
    #[must_use]
    pub fn recipe(&self) -> Option<&Recipe> {
        self.head.as_ref().ok()?.metadata.recipe()
    }
}

/// How much a store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// How many entries there are.
    pub entries: u64,
    /// What they count against the cap, in bytes.
    pub bytes: u64,
}

/// What reading one entry to its end found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Proof {
    /// The digest of the entry's key: what it is called in the store.
    pub name: Key,
    /// Its length in bytes, as it was read.
    pub size: u64,
    /// `Ok` if it is whole and stored under the name of its key; else why not.
    pub result: Result<(), Reason>,
    /// Whether it was removed, because it is damaged.
    pub is_removed: bool,
}

impl Proof {
    /// Of an entry that is still there.
    #[must_use]
    pub const fn new(name: Key, size: u64, result: Result<(), Reason>) -> Self {
        Self { name, size, result, is_removed: false }
    }
}

/// What [`Store::prune`](super::Store::prune) did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// How many entries went.
    pub entries: u64,
    /// The bytes that they counted against the cap.
    pub bytes: u64,
}

/// What a cache hands to its store, to be kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What was counted since the last report.
    pub counted: Statistics,
    /// The last miss since then, if there was one.
    pub last_miss: Option<Miss>,
}

/// What is kept of all [reports](Report), whichever process made them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kept {
    /// What was counted.
    pub tally: Tally,
    /// The last miss.
    pub last_miss: Option<Miss>,
}
