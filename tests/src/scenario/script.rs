//! A scenario and its steps, as they are parsed.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{
    conformance::Harness,
    scenario::words::{Cap, FieldsOf, KeyOf, Numbered, Size, Text},
};

/// A scenario: steps, and what must hold after each.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The property that it proves, as a name.
    pub name: String,
    /// The property that it proves, as a sentence.
    pub proves: String,
    /// The abilities that it needs of a store.
    #[serde(default)]
    pub needs: Vec<Need>,
    /// Whether sizes are exact to the byte. If not, an interpreter may enlarge them.
    #[serde(default)]
    pub exact: bool,
    /// The limits of the store; unlimited by default.
    #[serde(default)]
    pub limits: Cap,
    /// The clock at the start, in milliseconds since 1970 UTC; the system's clock by default.
    pub clock: Option<u64>,
    /// The steps, in this order.
    pub steps: Vec<Step>,
}

/// Abilities that some stores lack.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// The store keeps its entries when it is closed and reopened.
    Persistent,
    /// The store verifies every hit, and so detects damage.
    Checked,
    /// `has` reads the head of the entry.
    Heads,
}

impl Need {
    /// Returns whether the store of a harness has this ability.
    #[must_use]
    pub fn is_met_by(self, harness: &dyn Harness) -> bool {
        match self {
            Self::Persistent => harness.is_persistent(),
            Self::Checked | Self::Heads => harness.is_checked(),
        }
    }

    /// Returns a description of the stores that have this ability.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Persistent => "a store that persists",
            Self::Checked => "a store that proves its hits",
            Self::Heads => "a store that reads heads",
        }
    }
}

/// An action on the store, with its expected result.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// Stores an artifact.
    Put(Put),
    /// Looks up an entry.
    Get(Get),
    /// Asks whether an entry exists, without using it.
    Has {
        /// The key.
        key: KeyOf,
        /// The expected answer.
        is: bool,
    },
    /// Checks which of several keys have an entry.
    Held {
        /// The keys to check.
        of: Vec<KeyOf>,
        /// The keys that have an entry, in the same order.
        are: Vec<KeyOf>,
    },
    /// Removes an entry.
    Remove {
        /// Its key.
        key: KeyOf,
        /// Whether the entry existed.
        was: bool,
    },
    /// Checks the number of entries.
    Len(u64),
    /// Removes all entries.
    Clear,
    /// Closes the store.
    Close,
    /// Reopens the store, if it is persistent.
    Reopen(Reopen),
    /// Opens a second handle on the store.
    Open {
        /// The name of the handle.
        handle: String,
    },
    /// Drops a handle.
    Drop {
        /// The name of the handle.
        handle: String,
    },
    /// Does steps with another handle.
    On {
        /// The name of the handle.
        handle: String,
        /// The steps.
        steps: Vec<Step>,
    },
    /// Makes calls, each of which must be refused.
    Refuses {
        /// The expected reason.
        reason: String,
        /// The argument of the calls.
        key: KeyOf,
        /// The calls.
        calls: Vec<Call>,
    },
    /// Sets the clock, in milliseconds since 1970 UTC.
    Clock(u64),
    /// Does steps several times.
    Repeat {
        /// The number of rounds.
        times: u64,
        /// The steps of each round.
        steps: Vec<Step>,
    },
    /// Alters the stored bytes of an entry without the store.
    Damage {
        /// Its key.
        key: KeyOf,
        /// The damage.
        how: How,
    },
    /// Does steps once for each possible damage of a kind, which the step `damage` applies.
    EachDamage {
        /// Its key.
        key: KeyOf,
        /// The kind of damage.
        kind: Kind,
        /// The steps of each round.
        steps: Vec<Step>,
    },
    /// Checks the stored bytes.
    Stored {
        /// The key of the entry.
        key: KeyOf,
        /// The bytes.
        hex: String,
    },
    /// Reads every entry to its end.
    Verify(Verify),
    /// Lists all entries in the order of eviction, without using them.
    Entries(Vec<ListedEntry>),
    /// Searches for the entry nearest to a miss.
    Nearest {
        /// The key looked up.
        to: FieldsOf,
        /// The fields of the expected entry.
        is: Option<FieldsOf>,
    },
    /// Evicts least recently used entries. The limits of the store do not change.
    Prune {
        /// The limits for the rest.
        to: Cap,
        /// The expected number of evictions.
        removes: u64,
    },
    /// Calls `get_or_build`, which misses and builds.
    Build(Build),
    /// Calls `get_or_build`, which hits and does not build.
    Find {
        /// The key to look up.
        key: KeyOf,
        /// The expected version.
        version: u64,
    },
    /// Checks the counters since the store was opened.
    Statistics(BTreeMap<String, Count>),
}

impl Step {
    /// Returns whether the step checks a result of earlier steps.
    #[must_use]
    pub fn expects(&self) -> bool {
        match self {
            Self::On { steps, .. } | Self::Repeat { steps, .. } | Self::EachDamage { steps, .. } => {
                steps.iter().any(Self::expects)
            }
            Self::Put(put) => put.evicts.is_some() || put.refused.is_some(),
            Self::Clear | Self::Close | Self::Reopen(_) | Self::Clock(_) => false,
            Self::Open { .. } | Self::Drop { .. } | Self::Damage { .. } => false,
            _ => true,
        }
    }
}

/// The arguments and the expected result of a put.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Put {
    /// Its key.
    pub key: KeyOf,
    /// The number that distinguishes it from other payloads of the key.
    #[serde(default)]
    pub version: Numbered,
    /// The size of its payload.
    #[serde(default)]
    pub size: Size,
    /// The label for people.
    pub label: Option<Text>,
    /// The expected number of evictions.
    pub evicts: Option<u64>,
    /// The expected reason of a refusal.
    pub refused: Option<String>,
}

/// A look-up, which finds a version or misses.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Get {
    /// The key to look up.
    pub key: KeyOf,
    /// The expected version.
    pub version: Option<Numbered>,
    /// The expected miss reason, or `damage` for any reason that counts as damage.
    pub misses: Option<String>,
}

/// A call of `get_or_build` that misses.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Build {
    /// The key to look up.
    pub key: KeyOf,
    /// The version of the artifact to build.
    pub version: u64,
    /// The size of its payload.
    #[serde(default)]
    pub size: Size,
    /// The expected miss reason.
    pub misses: String,
    /// The least duration of the build, in milliseconds.
    #[serde(default)]
    pub takes_ms: u64,
    /// Whether the builder fails.
    #[serde(default)]
    pub fails: bool,
    /// The expected reason why the built artifact is not stored.
    pub refused: Option<String>,
}

/// The way in which the store is released before it is reopened.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reopen {
    /// By closing it.
    AfterClose,
    /// By only dropping it.
    AfterDrop,
}

/// A call that a store can refuse.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// Looks up an entry.
    Get,
    /// Stores an entry.
    Put,
    /// Removes an entry.
    Remove,
    /// Asks whether an entry exists.
    Has,
    /// Counts the entries.
    Len,
    /// Removes all entries.
    Clear,
    /// Lists all entries.
    Entries,
    /// Explains a miss.
    Nearest,
    /// Evicts the oldest entries.
    Prune,
    /// Reports counters, and reads those of other handles.
    Reports,
}

/// The expected result of reading every entry.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verify {
    /// The keys of intact entries.
    pub whole: Vec<KeyOf>,
    /// The damaged entries, which are removed.
    #[serde(default)]
    pub damaged: Vec<Damaged>,
}

/// A damaged entry.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Damaged {
    /// Its key.
    pub key: KeyOf,
    /// The reason.
    pub reason: String,
}

/// An entry in a listing.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListedEntry {
    /// Its key.
    pub key: KeyOf,
    /// The version whose size and label it has.
    pub version: Option<u64>,
}

/// A change of stored bytes. A negative offset counts from the end.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum How {
    /// Flips one bit of the byte at this offset; the offset determines the bit.
    Flip(i64),
    /// Sets the byte at this offset to 0.
    Zero(i64),
    /// Removes this many bytes from the end.
    Cut(usize),
    /// Appends this many zeros.
    Grow(usize),
    /// Cuts to this length, or extends with zeros to it.
    Resize(usize),
    /// Replaces the bytes with the entry of another key.
    CopyOf(KeyOf),
    /// Replaces the bytes with these.
    Hex(String),
    /// Applies the damage of the current round of `each_damage`.
    Each,
}

/// The alterations that are tried one after the other.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Flips one bit of each byte.
    Flips,
    /// All shorter lengths, and some longer ones.
    Lengths,
}

/// A number, or a lower bound.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Count {
    /// Exactly this.
    Is(u64),
    /// This or more.
    AtLeast {
        /// The least.
        at_least: u64,
    },
    /// Exactly these reasons.
    Reasons(BTreeMap<String, u64>),
}
