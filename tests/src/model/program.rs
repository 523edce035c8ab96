//! The operations, and the decoding of bytes into a list of them.

use warmstart::{KeyFields, Limits, Recipe};

use crate::proof::SHORTEST;

/// The number of keys.
pub const KEYS: usize = 8;

/// The greatest number of operations in a program, so that each ends soon.
const MOST: usize = 200;

/// Error codes: I/O error, no space, read-only file system, permission denied, interrupted.
const CODES: [i32; 5] = [5, 28, 30, 13, 4];

/// A program of operations on a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The limits of the store when it is first opened.
    pub limits: Limits,
    /// Whether each put waits for the medium.
    pub durable: bool,
    /// The operations, in this order.
    pub operations: Vec<Operation>,
}

/// An operation. Keys are given by number, below [`KEYS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Stores a unique payload.
    Put {
        /// The number of the key.
        key: usize,
        /// The length of the payload in bytes.
        len: usize,
    },
    /// Looks up a key.
    Get(usize),
    /// Asks whether a key has an entry.
    Contains(usize),
    /// Removes the entry of a key.
    Remove(usize),
    /// Records uses of these keys.
    RecordAccess([usize; 2]),
    /// Counts the entries.
    Len,
    /// Reads all entries.
    Verify,
    /// Removes all entries.
    Clear,
    /// Asks for the total size of the entries.
    Total,
    /// Drops the store and opens it again.
    Reopen,
    /// Reopens the store with other limits.
    Resize(Limits),
    /// Damages the entry of a key without the store.
    Damage {
        /// The number of the key.
        key: usize,
        /// The damage.
        damage: Damage,
    },
    /// Evicts entries until the rest is within these limits.
    Prune(Limits),
    /// Lists the entries.
    Entries,
    /// Asks for the entry nearest to the recipe with this number.
    Nearest(u16),
    /// Reports statistics.
    Report {
        /// The number of hits.
        hits: u8,
        /// The number of misses with the reason `busy`.
        busy: u8,
        /// The number of the last miss; 0 for none.
        miss: u8,
    },
    /// Reads the persisted statistics.
    Stats,
    /// Flushes the store.
    Flush,
    /// Opens the store for reading only, makes all calls, and reopens it.
    ReadOnly,
    /// Closes the store, flips bits of a part besides the entries, and reopens it.
    Vandalise {
        /// The part.
        what: Beside,
        /// The offset of the byte, modulo the length.
        at: usize,
        /// The bits to flip.
        mask: u8,
    },
    /// Makes calls of the disk fail: `count` calls after the next `skip`.
    Fail {
        /// The number of calls that still succeed.
        skip: u64,
        /// The number of calls that fail.
        count: u64,
        /// The error code.
        code: i32,
    },
    /// Makes the disk work again.
    Repair,
}

/// A change of a stored entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Flips bits of a byte.
    Flip {
        /// The offset of the byte from the end, modulo the length.
        at: usize,
        /// The bits to flip.
        mask: u8,
    },
    /// Cuts the entry by at least one byte.
    Cut {
        /// The greatest remaining length.
        len: usize,
    },
    /// Removes the file.
    Gone,
    /// Replaces the entry with another artifact, which in a sealed store has a wrong seal or none.
    Planted {
        /// Whether it has a seal, in a sealed store.
        is_sealed: bool,
    },
    /// Replaces the entry with that of another key.
    Copied {
        /// The number of the other key.
        from: usize,
    },
}

/// A part of a store besides its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// The journal, or the database.
    Accounts,
    /// The reported counters.
    Statistics,
    /// The last miss.
    LastMiss,
}

impl Program {
    /// Decodes a program from arbitrary bytes. The first four bytes are the limits, and each further four an operation. So changing
    /// a byte, or adding or removing four, changes one operation and no other.
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
            18 => Self::RecordAccess([key, usize::from(low) % KEYS]),
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
            31 => Self::Repair,
            32 => Self::Prune(limits(a, number)),
            33 | 34 => Self::Entries,
            35..=37 => Self::Nearest(number),
            38 | 39 => Self::Report { hits: low, busy: a, miss: high },
            40 => Self::Stats,
            41 => Self::Flush,
            42 => Self::ReadOnly,
            43 => Self::Damage { key, damage: Damage::Planted { is_sealed: low & 1 == 1 } },
            44 => Self::Damage { key, damage: Damage::Copied { from: usize::from(low) % KEYS } },
            45 | 46 => Self::Put { key, len: SHORTEST + length(number) },
            _ => Self::Get(key),
        }
    }
}

/// Returns the key of a number: empty, with common beginnings, or longer than some payloads.
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

/// Returns the recipe of a number. Domains and values are few, so some recipes are equal and many are near.
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

/// Returns a length that is mostly short, and sometimes near the limits.
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
        assert_eq!(program.operations[31], Operation::Repair);
        assert_eq!(Program::from_bytes(b"").operations, []);
    }
}
