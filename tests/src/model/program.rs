//! The operations, and how bytes become a list of them.

use warmstart::{KeyFields, Limits, Recipe};

use crate::proof::SHORTEST;

/// How many keys there are.
pub const KEYS: usize = 8;

/// No program is longer, so that each ends soon.
const MOST: usize = 200;

/// Error codes of a disk that is broken, full, read-only, forbidden or interrupted.
const CODES: [i32; 5] = [5, 28, 30, 13, 4];

/// What is done to a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// What the store may hold when it is first opened.
    pub limits: Limits,
    /// Whether each put waits for the medium.
    pub durable: bool,
    /// What is done, in this order.
    pub operations: Vec<Operation>,
}

/// One thing that is done. A key is meant by its number, below [`KEYS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Stores a payload of this length that no other put has.
    Put {
        /// Under which key.
        key: usize,
        /// Bytes of the payload.
        len: usize,
    },
    /// Looks up.
    Get(usize),
    /// Asks whether it is there.
    Contains(usize),
    /// Removes.
    Remove(usize),
    /// Counts uses.
    Touch([usize; 2]),
    /// Counts the entries.
    Len,
    /// Reads all entries.
    Verify,
    /// Removes all entries.
    Clear,
    /// Asks for the bytes of all entries.
    Total,
    /// Drops the store and opens it again.
    Reopen,
    /// As [`Reopen`](Self::Reopen), with other limits.
    Resize(Limits),
    /// Alters what is stored under a key, behind the store's back.
    Damage {
        /// Under which key.
        key: usize,
        /// What becomes of it.
        damage: Damage,
    },
    /// Removes what is beyond these limits.
    Prune(Limits),
    /// Lists the entries.
    Entries,
    /// Asks for the entry with the nearest recipe to that of this number.
    Nearest(u16),
    /// Reports so many hits and so many misses because of a lock, and a last miss of this number if it is not 0.
    Report {
        /// How many hits.
        hits: u8,
        /// How many misses.
        busy: u8,
        /// Which miss was the last.
        miss: u8,
    },
    /// Asks what is kept of the reports.
    Kept,
    /// Writes down what is still to be written.
    Flush,
    /// Opens the store to be read only, asks it everything, and opens it again.
    ReadOnly,
    /// Closes the store, flips a bit of what is not entries, and opens it again.
    Vandalise {
        /// Of what, where they are files of their own.
        what: Beside,
        /// At which byte, counted from the beginning and again from there at the end.
        at: usize,
        /// Which bits are flipped.
        mask: u8,
    },
    /// From now on, calls of the disk fail: all after the first `skip`, `count` of them.
    Fail {
        /// So many calls succeed before.
        skip: u64,
        /// So many fail.
        count: u64,
        /// With this error.
        code: i32,
    },
    /// From now on the disk works.
    Heal,
}

/// What becomes of a stored entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// These bits of the byte here are flipped, counted from the end and again from there at the beginning.
    Flip {
        /// Which byte.
        at: usize,
        /// Which bits of it.
        mask: u8,
    },
    /// It is cut, by at least a byte.
    Cut {
        /// How much is left at most.
        len: usize,
    },
    /// It is gone.
    Gone,
    /// It is another artifact, under the seal of another secret, or without one where there is to be one.
    Planted {
        /// Whether it is sealed where all are.
        is_sealed: bool,
    },
    /// It is the entry of another key.
    Copied {
        /// Of which one.
        from: usize,
    },
}

/// What is not entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// The journal, or the database.
    Accounts,
    /// What was reported.
    Statistics,
    /// The last miss.
    LastMiss,
}

impl Program {
    /// Any bytes are a program. Four of them are an operation, the first four are the limits: so a byte that changes, or
    /// four that come or go, change one operation and leave the others as they are.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let (words, _) = bytes.as_chunks::<4>();
        let (first, words) = words.split_first().unwrap_or((&[0; 4], &[]));
        let [_, flags, low, high] = *first;
        Self {
            limits: limits(flags, u16::from_le_bytes([low, high])),
            durable: flags & 0x40 != 0,
            operations: words.iter().take(MOST).map(|word| Operation::from_word(*word)).collect(),
        }
    }
}

impl Operation {
    fn from_word([operation, a, low, high]: [u8; 4]) -> Self {
        let key = usize::from(a) % KEYS;
        let number = u16::from_le_bytes([low, high]);
        let (wide, mask) = (usize::from(number), 1 << (a >> 5));
        match operation % 48 {
            0..=8 => Self::Put { key, len: SHORTEST + length(number) },
            9..=14 => Self::Get(key),
            15 => Self::Contains(key),
            16 | 17 => Self::Remove(key),
            18 => Self::Touch([key, usize::from(low) % KEYS]),
            19 => Self::Len,
            20 => Self::Verify,
            21 => Self::Clear,
            22 => Self::Total,
            23 => Self::Reopen,
            24 => Self::Resize(limits(a, number)),
            25 => Self::Damage { key, damage: Damage::Flip { at: wide, mask } },
            26 => Self::Damage { key, damage: Damage::Cut { len: wide } },
            27 => Self::Damage { key, damage: Damage::Gone },
            28 => {
                let what = match a & 7 {
                    0..=3 => Beside::Accounts,
                    4 | 5 => Beside::Statistics,
                    _ => Beside::LastMiss,
                };
                Self::Vandalise { what, at: wide, mask }
            }
            29 | 30 => {
                let count = [1, 2, 5, u64::MAX][usize::from(high) % 4];
                Self::Fail { skip: u64::from(low), count, code: CODES[usize::from(a) % CODES.len()] }
            }
            31 => Self::Heal,
            32 => Self::Prune(limits(a, number)),
            33 | 34 => Self::Entries,
            35..=37 => Self::Nearest(number),
            38 | 39 => Self::Report { hits: low, busy: a, miss: high },
            40 => Self::Kept,
            41 => Self::Flush,
            42 => Self::ReadOnly,
            43 => Self::Damage { key, damage: Damage::Planted { is_sealed: low & 1 == 1 } },
            44 => Self::Damage { key, damage: Damage::Copied { from: usize::from(low) % KEYS } },
            45 | 46 => Self::Put { key, len: SHORTEST + length(number) },
            _ => Self::Get(key),
        }
    }
}

/// Keys that are empty, that begin alike, and that are longer than some payloads.
#[must_use]
pub fn key_of(key: usize) -> Vec<u8> {
    match key {
        0 => b"key".to_vec(),
        1 => Vec::new(),
        2 => b"key\0".to_vec(),
        3 => b"kez".to_vec(),
        4 => vec![0; 300],
        5 => vec![0; 301],
        6 => vec![0xff; 32],
        _ => b"key".repeat(500),
    }
}

/// Recipes of few domains and values: some are the same, and many are near.
#[must_use]
pub fn recipe_of(number: u16) -> Recipe {
    let digit = |at: u32| number / 3u16.pow(at) % 3;
    let source = [u8::try_from(digit(2)).unwrap_or(0); 32];
    KeyFields::new(["one", "two"][usize::from(number >> 15)], 1)
        .number("a", digit(0).into())
        .number("b", digit(1).into())
        .digest("source", source.to_vec(), "a name")
        .number("c", digit(3).into())
        .recipe()
}

/// Mostly short, sometimes as long as the limits.
fn length(number: u16) -> usize {
    let longest = [64, 512, 4096, 1 << 16][usize::from(number >> 14)];
    (usize::from(number & 0x3fff) * longest) >> 14
}

fn limits(flags: u8, number: u16) -> Limits {
    let bytes = u64::from(number);
    Limits {
        max_bytes: [None, Some(bytes / 8), Some(bytes), Some(bytes * 2)][usize::from(flags & 3)],
        max_entries: (flags & 0x0c == 0x0c).then_some(u64::from((flags >> 4) & 3) + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_a_program_and_every_operation_has_bytes() {
        let all: Vec<u8> = (0..48u8).flat_map(|operation| [operation, 3, 1, 0xc0]).collect();
        let program = Program::from_bytes(&[&[0, 0, 0, 0], &all[..], &[1, 2, 3]].concat());
        assert_eq!(program.operations.len(), 48);
        assert_eq!(program.operations[0], Operation::Put { key: 3, len: SHORTEST + 4 });
        assert_eq!(program.operations[31], Operation::Heal);
        assert_eq!(Program::from_bytes(b"").operations, []);
    }
}
