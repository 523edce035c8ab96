//! The words within steps: keys, sizes, versions and limits.

use std::borrow::Cow;

use serde::Deserialize;
use warmstart::{KeyFields, Limits};

/// The payload, in bytes, of a put that does not say its size.
pub const STANDARD: u64 = 100_000;

/// What a store may hold.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cap {
    /// Room for so many standard payloads, and not for one more.
    pub room: Option<u64>,
    /// So many bytes, as the store counts them.
    pub bytes: Option<u64>,
    /// So many entries.
    pub entries: Option<u64>,
}

impl From<Cap> for Limits {
    /// Every store counts a little more than the payload for an entry, so half a payload more holds them.
    fn from(cap: Cap) -> Self {
        let room = cap.room.map(|n| n * STANDARD + STANDARD / 2);
        Self { max_bytes: room.or(cap.bytes), max_entries: cap.entries }
    }
}

/// A payload's size.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
pub enum Size {
    /// So many bytes.
    Bytes(u64),
    /// So many times that of an ordinary payload.
    Standard {
        /// How many times.
        standard: u64,
    },
    /// Larger in every round.
    Growing {
        /// In bytes, in the first.
        first: u64,
        /// By so many bytes.
        step: u64,
    },
}

impl Default for Size {
    fn default() -> Self {
        Self::Standard { standard: 1 }
    }
}

impl Size {
    /// In bytes, in this round.
    #[must_use]
    pub const fn bytes(self, round: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Standard { standard } => standard * STANDARD,
            Self::Growing { first, step } => first + step * round,
        }
    }
}

/// A number, or that of the round.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
pub enum Numbered {
    /// This.
    Is(u64),
    /// That of the round.
    Of(Round),
}

/// The round of the innermost repetition, from 0.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Round {
    /// Its only name.
    Round,
}

impl Default for Numbered {
    fn default() -> Self {
        Self::Is(1)
    }
}

impl Numbered {
    /// In this round.
    #[must_use]
    pub const fn number(self, round: u64) -> u64 {
        match self {
            Self::Is(number) => number,
            Self::Of(Round::Round) => round,
        }
    }
}

/// A text, or many times one character and perhaps another at the end.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Text {
    /// As it stands.
    Plain(String),
    /// Long.
    Long {
        /// In characters.
        size: usize,
        /// The character.
        fill: String,
        /// What it ends with.
        #[serde(default)]
        end: String,
    },
}

impl Text {
    /// All of it.
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
        /// What comes before the number of the round.
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
