//! Counts the dead bytes of a file of packed weights: those that are neither header, entry, padding, index nor footer.
//!
//! In version 3 that follows from the index: between the end of a payload, rounded up, and the next payload are only bytes that
//! are no longer needed, such as earlier indexes.

use core::ops::Range;

use super::{ALIGNMENT, HEADER_LEN, index::Index};

/// The dead bytes of a pack of version 3, up to its index. What follows that was not committed, and is written over.
///
/// ```
/// use warmstart_core::trailer::{build::IndexBuilder, header::Slot, index::Layout, space};
///
/// let block = IndexBuilder::new().finish(8192, 1)?;
/// let index = Layout::check(&block, &Slot::of(1, 8192, &block))?.view(&block);
/// assert_eq!(space::dead_bytes(&index), 4096);
/// # Ok::<(), warmstart_core::trailer::Refusal>(())
/// ```
#[must_use]
pub fn dead_bytes(index: &Index<'_>) -> u64 {
    let spans = index.entries().map(|entry| (entry.offset, entry.end()));
    let dead = gaps(spans, HEADER_LEN as u64, index.layout().index_start(), ALIGNMENT);
    // If the bytes changed since they were checked, no number may be large enough.
    dead.fold(0, |dead, gap| dead.saturating_add(gap.end - gap.start))
}

/// What is between spans that ascend, from `start` to `end`: each from the end of a span, rounded up, to where the next
/// begins.
pub(super) fn gaps(
    spans: impl Iterator<Item = (u64, u64)>,
    start: u64,
    end: u64,
    alignment: u64,
) -> impl Iterator<Item = Range<u64>> {
    let mut from = start;
    spans.chain([(end, end)]).filter_map(move |(begins, ends)| {
        let gap = from..begins;
        from = ends.checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
        (!gap.is_empty()).then_some(gap)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn gaps_are_from_rounded_ends_to_the_next() {
        let found = |spans: &[(u64, u64)]| {
            gaps(spans.iter().copied(), 0, 9000, 4096).map(|gap| (gap.start, gap.end)).collect::<Vec<_>>()
        };
        assert_eq!(found(&[]), [(0, 9000)]);
        assert_eq!(found(&[(0, 1), (4096, 8192)]), [(8192, 9000)]);
        assert_eq!(found(&[(100, 200), (250, 4097), (8200, 9000)]), [(0, 100), (8192, 8200)]);
        assert_eq!(found(&[(0, u64::MAX)]), []);
    }
}
