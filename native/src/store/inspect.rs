//! What a store tells about itself to whoever looks into it.

use warmstart_core::{
    artifact::Provenance, key::Key, metadata::Metadata, miss::Miss, reason::Reason, statistics::Statistics,
    tally::Tally,
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
///     let content = entry.content.unwrap();
///     assert_eq!((content.payload_len, content.metadata.recipe()), (100, Some(&fields.recipe())));
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
    /// What its head says, or why it says nothing. The payload is not looked at, so nothing is proved.
    pub content: Result<Content, Reason>,
}

/// What the head of an entry says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Content {
    /// The full key.
    pub key: Vec<u8>,
    /// What is known about the artifact.
    pub metadata: Metadata,
    /// The length of the payload in bytes.
    pub payload_len: u64,
    /// When the artifact was made and what that cost.
    pub provenance: Provenance,
    /// Whether the entry bears a seal.
    pub is_sealed: bool,
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
    /// Whether it is whole and under the name of its key, and why not.
    pub result: Result<(), Reason>,
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
