//! The operations, and how bytes become a list of them.

use warmstart::Limits;

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
    /// Closes the store, flips a bit of what is not entries (the journal, the database), and opens it again.
    Vandalise {
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
        match operation % 32 {
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
            28 => Self::Vandalise { at: wide, mask },
            29 | 30 => {
                let count = [1, 2, 5, u64::MAX][usize::from(high) % 4];
                Self::Fail { skip: u64::from(low), count, code: CODES[usize::from(a) % CODES.len()] }
            }
            _ => Self::Heal,
        }
    }
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
        let all: Vec<u8> = (0..32u8).flat_map(|operation| [operation, 3, 1, 0xc0]).collect();
        let program = Program::from_bytes(&[&[0, 0, 0, 0], &all[..], &[1, 2, 3]].concat());
        assert_eq!(program.operations.len(), 32);
        assert_eq!(program.operations[0], Operation::Put { key: 3, len: SHORTEST + 4 });
        assert_eq!(program.operations[31], Operation::Heal);
        assert_eq!(Program::from_bytes(b"").operations, []);
    }
}
