//! A table of slots that never move and are read without a lock.

use std::{iter, sync::OnceLock};

use warmstart_core::memo::Reduction;

use super::slot::Slot;

/// Grows by segments, each twice as long as the one before. A slot never moves, so readers do not wait while the table grows.
pub(super) struct Table<K: Reduction> {
    segments: [OnceLock<Box<[Slot<K>]>>; SEGMENTS],
}

/// The length of the first segment, as a power of two.
const FIRST: u32 = 3;

/// Enough for 2^32 slots.
const SEGMENTS: usize = 33 - FIRST as usize;

impl<K: Reduction> Table<K> {
    pub(super) const fn new() -> Self {
        Self { segments: [const { OnceLock::new() }; SEGMENTS] }
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&Slot<K>> {
        let (segment, offset) = place(index);
        self.segments.get(segment)?.get()?.get(offset)
    }

    /// Returns a slot, and creates it if there is none.
    ///
    /// # Panics
    /// If `index` does not fit 32 bits.
    pub(super) fn get_or_grow(&self, index: usize) -> &Slot<K> {
        let (segment, offset) = place(index);
        let make = || iter::repeat_with(Slot::default).take(1 << (segment + FIRST as usize)).collect();
        &self.segments[segment].get_or_init(make)[offset]
    }

    /// Lists every slot, including those never registered.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot<K>> {
        self.segments.iter().map_while(OnceLock::get).flatten()
    }
}

/// Returns the segment of a slot, and its offset there.
#[inline]
const fn place(index: usize) -> (usize, usize) {
    // Every segment begins where, counted from the length of the first one, a power of two is reached.
    let place = index as u64 + (1 << FIRST);
    let power = place.ilog2();
    #[expect(clippy::cast_possible_truncation, reason = "it is less than the index")]
    let offset = (place - (1 << power)) as usize;
    ((power - FIRST) as usize, offset)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_index_has_a_place_of_its_own() {
        let mut next = (0, 0);
        for index in 0..5000 {
            assert_eq!(place(index), next, "{index}");
            next = if next.1 + 1 < 1 << (next.0 + FIRST as usize) {
                (next.0, next.1 + 1)
            } else {
                (next.0 + 1, 0)
            };
        }
    }

    #[test]
    fn the_last_of_2_to_the_32_has_a_place() {
        let (segment, offset) = place(u32::MAX as usize);
        assert_eq!((segment, offset), (SEGMENTS - 1, (1 << FIRST) - 1));
    }
}
