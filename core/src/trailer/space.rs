//! How many bytes of a file of packed weights nobody can reach any more.
//!
//! Dead is what is neither header, entry, padding, index nor footer. In version 3 that follows from the index: between the
//! end of a payload, rounded up, and the next is nothing that is needed, such as indexes that were current once. In
//! version 2 nothing says how much of what follows a payload is padding: there, an old trailer is known by its footer.

use core::ops::Range;

use super::{ALIGNMENT, HEADER_LEN, index::Index, version2};

/// ExecuTorch puts payloads at multiples of this, in bytes.
pub(super) const PAGE: u64 = 4096;

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

/// The dead bytes of a file of version 2, of which at least all before the trailer is given: only its
/// [gaps](version2::Version2::gaps) are read.
#[must_use]
pub fn dead_bytes_of_version2(trailer: &version2::Version2<'_>, file: &[u8]) -> u64 {
    let dead = trailer.gaps().map(|gap| {
        let place = |at| usize::try_from(at).unwrap_or(usize::MAX);
        dead_in_gap(file.get(place(gap.start)..place(gap.end)).unwrap_or_default(), gap.start)
    });
    dead.sum()
}

/// The dead bytes of a gap in a file of version 2 that begins at byte `start`.
///
/// Old trailers are dead, and what follows one up to the next page is padding. Of all else, zeros at the end are padding if
/// they are less than a page, and the rest is dead.
#[must_use]
pub fn dead_in_gap(gap: &[u8], start: u64) -> u64 {
    let (mut rest, mut start, mut dead) = (gap, start, 0);
    while let Some(len) = version2::old_trailer(rest, start) {
        dead += len as u64;
        let end = start.saturating_add(len as u64);
        let next = end.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
        rest = usize::try_from(next - start).ok().and_then(|skipped| rest.get(skipped..)).unwrap_or_default();
        start = next;
    }
    let last = rest.get(rest.len().saturating_sub(PAGE as usize - 1)..).unwrap_or_default();
    let zeros = last.len() - last.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    dead + (rest.len() - zeros) as u64
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
    use crate::trailer::{Entry, ModelId, Name, Packing};
    use alloc::{vec, vec::Vec};

    fn entry(name: &str, offset: u64, size: u64) -> Entry<'_> {
        let (model, packing) = (ModelId::default(), Packing::of_seed(1));
        Entry {
            name: Name::new(name),
            model,
            packing,
            offset,
            size,
            checksum: None,
            generation: 0,
            is_imported: true,
        }
    }

    fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
        bytes.resize(bytes.len().next_multiple_of(PAGE as usize), 0);
        bytes
    }

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

    #[test]
    fn old_trailers_are_dead_and_what_pads_them_is_not() {
        let first = version2::encode([entry("a", 0, 5)], 4096).unwrap();
        let second = version2::encode([entry("a", 0, 5), entry("bc", 4096, 6)], 8192).unwrap();
        let gap = padded([padded(first.clone()), second.clone()].concat());
        assert_eq!(dead_in_gap(&gap, 4096), (first.len() + second.len()) as u64);
        // One that names another place is none.
        assert_eq!(
            dead_in_gap(&padded(first.clone()), 8192),
            first.len() as u64 - 3,
            "its last zeros are padding"
        );
        assert_eq!(dead_in_gap(&first, 4096), first.len() as u64);
    }

    #[test]
    fn of_what_is_no_trailer_all_is_dead_but_less_than_a_page_of_zeros() {
        assert_eq!(dead_in_gap(&[], 0), 0);
        assert_eq!(dead_in_gap(&[1, 2, 3, 0, 0], 0), 3);
        assert_eq!(dead_in_gap(&[0; 4095], 0), 0);
        assert_eq!(dead_in_gap(&vec![0; 4097], 0), 2);
        assert_eq!(dead_in_gap(&vec![9; 5000], u64::MAX), 5000);
    }

    #[test]
    fn a_file_of_two_saves_has_the_first_trailer_dead() {
        let payload = padded(vec![1; 5]);
        let old = version2::encode([entry("a", 0, 5)], 4096).unwrap();
        let mut file = [payload, padded(old.clone()), vec![2; 6]].concat();
        let trailer = version2::encode([entry("a", 0, 5), entry("b", 8192, 6)], file.len() as u64).unwrap();
        file.extend_from_slice(&trailer);
        let read = version2::decode(&trailer, file.len() as u64).unwrap();
        assert_eq!(read.gaps().map(|gap| (gap.start, gap.end)).collect::<Vec<_>>(), [(4096, 8192)]);
        assert_eq!(dead_bytes_of_version2(&read, &file), old.len() as u64);
    }
}
