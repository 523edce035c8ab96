//! Names in lists and tables. They are digests: any eight bytes of one tell it from all others.

use alloc::{collections::BinaryHeap, vec::Vec};
use core::hash::{BuildHasher, Hasher};

use warmstart_core::key::Key;

/// Takes the first bytes of a name for its hash.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameHasher(u64);

/// What each of many names came with last, by its place in their list.
pub(crate) struct Last(Vec<(Key, usize)>);

impl BuildHasher for NameHasher {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        // The length comes first, and is shorter.
        if let Some(first) = bytes.first_chunk() {
            self.0 = u64::from_le_bytes(*first);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Last {
    /// Of these names, each with its place.
    pub(crate) fn of(names: impl Iterator<Item = (Key, usize)>) -> Self {
        Self(names.collect::<BinaryHeap<_>>().into_sorted_vec())
    }

    /// The last place of a name.
    pub(crate) fn place(&self, name: &Key) -> Option<usize> {
        let behind = self.0.partition_point(|(other, _)| other <= name);
        let (other, place) = self.0.get(behind.checked_sub(1)?)?;
        (other == name).then_some(*place)
    }
}
