//! The words within steps: keys, sizes, versions and limits.

use std::borrow::Cow;

use serde::Deserialize;
use warmstart::{KeyFields, Limits};

/// The default size of a payload, in bytes.
pub const STANDARD: u64 = 100_000;

/// The limits of a store.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cap {
    /// Room for this many standard payloads, and not for one more.
    pub room: Option<u64>,
    /// The cap in bytes, as the store counts them.
    pub bytes: Option<u64>,
    /// The cap on the number of entries.
    pub entries: Option<u64>,
}

impl From<Cap> for Limits {
    /// Adds room for half a payload, because every store counts slightly more than the payload of an entry.
    fn from(cap: Cap) -> Self {
        let room = cap.room.map(|n| n * STANDARD + STANDARD / 2);
        Self { max_bytes: room.or(cap.bytes), max_entries: cap.entries }
    }
}

/// The size of a payload.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
pub enum Size {
    /// This many bytes.
    Bytes(u64),
    /// A multiple of [`STANDARD`].
    Standard {
        /// The factor.
        standard: u64,
    },
    /// A size that grows with the round.
    Growing {
        /// The size in the first round, in bytes.
        first: u64,
        /// The growth per round, in bytes.
        step: u64,
    },
}

impl Default for Size {
    fn default() -> Self {
        Self::Standard { standard: 1 }
    }
}

impl Size {
    /// Returns the size in this round, in bytes.
    #[must_use]
    pub const fn bytes(self, round: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Standard { standard } => standard * STANDARD,
            Self::Growing { first, step } => first + step * round,
        }
    }
}

/// A number, or the number of the round.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
pub enum Numbered {
    /// This number.
    Is(u64),
    /// The number of the round.
    Of(Round),
}

/// The round of the innermost repetition, from 0.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Round {
    /// The word `round`.
    Round,
}

impl Default for Numbered {
    fn default() -> Self {
        Self::Is(1)
    }
}

impl Numbered {
    /// Returns the number in this round.
    #[must_use]
    pub const fn number(self, round: u64) -> u64 {
        match self {
            Self::Is(number) => number,
            Self::Of(Round::Round) => round,
        }
    }
}

/// A text, given as it is or as a repeated character with an optional end.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Text {
    /// The text itself.
    Plain(String),
    /// A repeated character.
    Long {
        /// The length in characters.
        size: usize,
        /// The character.
        fill: String,
        /// The end of the text.
        #[serde(default)]
        end: String,
    },
}

impl Text {
    /// Returns the whole text.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Plain(text) => text.into(),
            Self::Long { size, fill, end } => (fill.repeat(size - end.len()) + end).into(),
        }
    }
}

/// A key: text, bytes, or made of fields.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum KeyOf {
    /// The bytes of a text.
    Text(Text),
    /// Any bytes.
    Bytes {
        /// All of them.
        bytes: Vec<u8>,
    },
    /// Another one in every round.
    Numbered {
        /// The text before the number of the round.
        numbered: String,
    },
    /// Made of fields, with which it is stored.
    Fields(FieldsOf),
    /// The key that was made of fields, without them.
    Bare {
        /// The fields.
        key_of: FieldsOf,
    },
}

/// Fields of numbers: `field 0`, `field 1` and so on, in a domain with schema 1.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldsOf {
    /// The domain of the key.
    pub domain: String,
    /// The values.
    pub fields: Vec<Numbered>,
}

impl FieldsOf {
    /// The fields, in this round.
    #[must_use]
    pub fn fields(&self, round: u64) -> KeyFields<'_> {
        let key = KeyFields::new(&*self.domain, 1);
        (0..)
            .zip(&self.fields)
            .fold(key, |key, (at, value)| key.number(format!("field {at}"), value.number(round)))
    }
}
