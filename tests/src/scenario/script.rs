//! A scenario and its steps, as they are parsed.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{
    conformance::Harness,
    scenario::words::{Cap, FieldsOf, KeyOf, Numbered, Size, Text},
};

/// What is done, and what must be true then.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it proves, as a name.
    pub name: String,
    /// What it proves, as a sentence.
    pub proves: String,
    /// What a store must be able to do for it.
    #[serde(default)]
    pub needs: Vec<Need>,
    /// Whether its sizes are meant to the byte. If not, they may be made larger.
    #[serde(default)]
    pub exact: bool,
    /// What the store may hold; nothing is no limit.
    #[serde(default)]
    pub limits: Cap,
    /// The clock at the start, in milliseconds since 1970 UTC; nothing is the system's clock.
    pub clock: Option<u64>,
    /// What is done, in this order.
    pub steps: Vec<Step>,
}

/// What not every store can do.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// A store that is opened anew holds what the one before it held.
    Persistent,
    /// Every hit is proved, and therefore damage found.
    Checked,
    /// `has` and `len` read the heads of entries.
    Heads,
}

impl Need {
    /// Whether the store of a harness can do it.
    #[must_use]
    pub fn is_met_by(self, harness: &dyn Harness) -> bool {
        match self {
            Self::Persistent => harness.is_persistent(),
            Self::Checked | Self::Heads => harness.is_checked(),
        }
    }

    /// Returns the store that it needs, in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Persistent => "a store that persists",
            Self::Checked => "a store that proves its hits",
            Self::Heads => "a store that reads heads",
        }
    }
}

/// One thing that is done, with what must come of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// An artifact is stored.
    Put(Put),
    /// A look-up.
    Get(Get),
    /// Whether there is an entry. No use of it.
    Has {
        /// Of this key.
        key: KeyOf,
        /// What is said.
        is: bool,
    },
    /// Which of some keys have an entry.
    Held {
        /// All that are asked for.
        of: Vec<KeyOf>,
        /// Those that have one, in the same order.
        are: Vec<KeyOf>,
    },
    /// An entry is removed.
    Remove {
        /// Its key.
        key: KeyOf,
        /// Whether there was one.
        was: bool,
    },
    /// The number of entries.
    Len(u64),
    /// All entries are removed.
    Clear,
    /// The store is closed.
    Close,
    /// The store is opened again, if it is persistent.
    Reopen(Reopen),
    /// The same store is opened once more.
    Open {
        /// What the second one is called.
        handle: String,
    },
    /// A store that was opened once more is let go.
    Drop {
        /// What it is called.
        handle: String,
    },
    /// Something is done with a store that was opened once more.
    On {
        /// What it is called.
        handle: String,
        /// What is done.
        steps: Vec<Step>,
    },
    /// Each of these calls is refused.
    Refuses {
        /// Why.
        reason: String,
        /// The key that it is called with.
        key: KeyOf,
        /// The calls.
        calls: Vec<Call>,
    },
    /// From now on it is so many milliseconds since 1970 UTC.
    Clock(u64),
    /// The same again and again.
    Repeat {
        /// How many rounds there are.
        times: u64,
        /// What is done in each.
        steps: Vec<Step>,
    },
    /// The stored bytes of an entry are altered behind the store's back.
    Damage {
        /// Its key.
        key: KeyOf,
        /// What is altered.
        how: How,
    },
    /// As many rounds as an entry can be damaged in ways of one kind.
    EachDamage {
        /// Its key.
        key: KeyOf,
        /// What is altered.
        kind: Kind,
        /// What is done in each round.
        steps: Vec<Step>,
    },
    /// What is stored, to the byte.
    Stored {
        /// Of this key.
        key: KeyOf,
        /// The bytes.
        hex: String,
    },
    /// Every entry is read to its end.
    Verify(Verify),
    /// All entries, the next to be evicted first. No use of them.
    Entries(Vec<Told>),
    /// What explains a miss best.
    Nearest {
        /// What was looked up.
        to: FieldsOf,
        /// The fields of the entry that differs least.
        is: Option<FieldsOf>,
    },
    /// What was not used for longest is removed. The limits of the store stay.
    Prune {
        /// Until the rest is within these limits.
        to: Cap,
        /// How many go.
        removes: u64,
    },
    /// The one call, which misses and builds.
    Build(Build),
    /// The one call, which hits and does not build.
    Find {
        /// What is looked up.
        key: KeyOf,
        /// The version that it finds.
        version: u64,
    },
    /// What was counted since the store was opened.
    Statistics(BTreeMap<String, Count>),
}

impl Step {
    /// Whether it can fail because of what was done before.
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

/// An artifact that is stored.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Put {
    /// Its key.
    pub key: KeyOf,
    /// Tells it from others of the key.
    #[serde(default)]
    pub version: Numbered,
    /// The size of its payload.
    #[serde(default)]
    pub size: Size,
    /// What tells people what it is.
    pub label: Option<Text>,
    /// How many others go for it.
    pub evicts: Option<u64>,
    /// Why it is not stored.
    pub refused: Option<String>,
}

/// A look-up: of a version that was put, or of none.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Get {
    /// What is looked up.
    pub key: KeyOf,
    /// The version that it finds.
    pub version: Option<Numbered>,
    /// Why it misses, or `damage` for whatever reason is one.
    pub misses: Option<String>,
}

/// The one call, whose key is not there.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Build {
    /// What is looked up.
    pub key: KeyOf,
    /// What is built.
    pub version: u64,
    /// The size of its payload.
    #[serde(default)]
    pub size: Size,
    /// Why it is not found.
    pub misses: String,
    /// How long building takes, at least, in milliseconds.
    #[serde(default)]
    pub takes_ms: u64,
    /// Whether the builder fails.
    #[serde(default)]
    pub fails: bool,
    /// Why what was built is not stored.
    pub refused: Option<String>,
}

/// The store is opened again.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reopen {
    /// After it was closed.
    AfterClose,
    /// After it was only dropped.
    AfterDrop,
}

/// A call that a store can refuse.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// A look-up.
    Get,
    /// Storing.
    Put,
    /// Removing.
    Remove,
    /// Membership.
    Has,
    /// The number of entries.
    Len,
    /// Removing all.
    Clear,
    /// A list of all.
    Entries,
    /// What explains a miss.
    Nearest,
    /// Removing the oldest.
    Prune,
    /// What is counted for others, and what they counted.
    Reports,
}

/// What reading every entry finds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verify {
    /// Entries that are as they were stored.
    pub whole: Vec<KeyOf>,
    /// Entries that are not, and go.
    #[serde(default)]
    pub damaged: Vec<Damaged>,
}

/// An entry that is not whole.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Damaged {
    /// Its key.
    pub key: KeyOf,
    /// What is wrong.
    pub reason: String,
}

/// An entry, as a list tells of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Told {
    /// Its key.
    pub key: KeyOf,
    /// The version whose size and label it has.
    pub version: Option<u64>,
}

/// How stored bytes are altered. A negative place counts from the end.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum How {
    /// Of the byte at this place one bit, which the place decides.
    Flip(i64),
    /// The byte at this place is 0.
    Zero(i64),
    /// So many bytes are missing at the end.
    Cut(usize),
    /// So many zeros are added at the end.
    Grow(usize),
    /// Cut, or grown by zeros, to this length.
    Resize(usize),
    /// What is stored under another key.
    CopyOf(KeyOf),
    /// These bytes.
    Hex(String),
    /// The one whose turn it is.
    Each,
}

/// The alterations that are tried one after the other.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Of each byte another bit.
    Flips,
    /// Each length that is shorter, and some that are longer.
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
