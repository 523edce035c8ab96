//! Names in lists and tables. They are digests: any eight bytes of a name identify it.

use alloc::{collections::BinaryHeap, vec::Vec};
use core::hash::{BuildHasher, Hasher};

use warmstart_core::key::Key;

/// Uses the first bytes of a name as its hash.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameHasher(u64);

/// The last index of each name in a list of names.
pub(crate) struct Last(Vec<(Key, usize)>);

impl BuildHasher for NameHasher {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        // The length comes first, in fewer bytes.
        if let Some(first) = bytes.first_chunk() {
            self.0 = u64::from_le_bytes(*first);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Last {
    /// Creates the table of these names, each with its index.
    pub(crate) fn of(names: impl Iterator<Item = (Key, usize)>) -> Self {
        Self(names.collect::<BinaryHeap<_>>().into_sorted_vec())
    }

    /// Returns the last index of a name.
    pub(crate) fn place(&self, name: &Key) -> Option<usize> {
        let behind = self.0.partition_point(|(other, _)| other <= name);
        let (other, place) = self.0.get(behind.checked_sub(1)?)?;
        (other == name).then_some(*place)
    }
}
