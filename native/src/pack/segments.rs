//! Where packed weights are in memory: a few mappings and blocks of the heap, in one space of handles.

use std::{ops::Range, ptr::NonNull, sync::Arc};

use crate::os::{ALIGNMENT, Mapping};

/// Where a packed weight is. XNNPACK calls it an offset.
///
/// A handle stays good, and means the same bytes, until the last handle on the pack is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(usize);

impl Handle {
    /// The handle as a number. It is never [`usize::MAX`], which is XNNPACK's word for nothing.
    #[inline]
    #[must_use]
    pub const fn get(self) -> usize {
        self.0
    }

    /// The handle that [`get`](Self::get) made this number of.
    #[inline]
    #[must_use]
    pub(crate) const fn from_number(number: usize) -> Self {
        Self(number)
    }
}

/// One of the files that a pack has had under its path since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileNumber(pub(super) u32);

/// Where a payload is: in which file, and from which byte on.
pub(super) type PayloadPlace = (FileNumber, u64);

/// A mapped part of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    /// Where in the file it begins.
    start: u64,
    len: u64,
    first: Handle,
    address: *const u8,
}

// SAFETY: only an address, of bytes that are shared anyway.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl View {
    /// The handle, the address and the length of a payload, if all of it is here. One without bytes is where its first byte
    /// would be.
    #[inline]
    pub(super) fn find(&self, offset: u64, size: u64) -> Option<(Handle, NonNull<u8>, usize)> {
        let at = offset.wrapping_sub(self.start);
        if at >= self.len || size > self.len - at {
            return None;
        }
        // Both are at most the length of a mapping.
        let (at, size) = (at as usize, size as usize);
        let address = NonNull::new(self.address.wrapping_add(at).cast_mut())?;
        Some((Handle(self.first.0 + at), address, size))
    }
}

/// Bytes in memory that have handles, in the order of these.
#[derive(Debug, Default)]
pub(super) struct Segments {
    all: Vec<Segment>,
    next: usize,
}

#[derive(Debug)]
struct Segment {
    first: usize,
    mapping: Arc<Mapping>,
    /// Which file's bytes they are, and where in it they begin.
    file: Option<PayloadPlace>,
}

impl Segments {
    /// Gives bytes handles, of which that of the first is returned. Nothing if there are no more handles to give.
    pub(super) fn add(&mut self, mapping: Arc<Mapping>, file: Option<PayloadPlace>) -> Option<Handle> {
        let first = self.next;
        // One byte at least lies between two segments, so that the end of one is not the begin of another.
        let next = first.checked_add(mapping.len())?.checked_add(1)?.checked_next_multiple_of(ALIGNMENT)?;
        self.next = next;
        self.all.push(Segment { first, mapping, file });
        Some(Handle(first))
    }

    /// Takes the handles of a whole segment of the heap back. None of them may be used any more. A handle of a file stays,
    /// for what is mapped has others too.
    pub(super) fn forget(&mut self, first: Handle) {
        if let Ok(at) = self.all.binary_search_by_key(&first.0, |segment| segment.first)
            && self.all[at].file.is_none()
        {
            self.all.remove(at);
        }
    }

    /// The handle of a range of a file, if it lies within one of the segments. An empty one is where its first byte would be.
    pub(super) fn handle(&self, file: FileNumber, range: &Range<u64>) -> Option<Handle> {
        self.all.iter().rev().find_map(|segment| {
            let (number, start) = segment.file?;
            let at = usize::try_from(range.start.checked_sub(start)?).ok()?;
            let len = usize::try_from(range.end.checked_sub(range.start)?).ok()?;
            let fits = number == file && at.checked_add(len.max(1))? <= segment.mapping.len();
            fits.then(|| Handle(segment.first + at))
        })
    }

    /// The address of a handle.
    pub(super) fn address(&self, handle: Handle) -> Option<NonNull<u8>> {
        let (segment, at) = self.locate(handle)?;
        let address = segment.mapping.start().as_ptr().wrapping_add(at);
        NonNull::new(address)
    }

    fn locate(&self, handle: Handle) -> Option<(&Segment, usize)> {
        let behind = self.all.partition_point(|segment| segment.first <= handle.0);
        let segment = self.all.get(behind.checked_sub(1)?)?;
        let at = handle.0 - segment.first;
        (at < segment.mapping.len()).then_some((segment, at))
    }

    /// Where a file is mapped.
    pub(super) fn views(&self, file: FileNumber) -> Vec<View> {
        let of_file = |segment: &Segment| {
            let (number, start) = segment.file?;
            let len = segment.mapping.len() as u64;
            let address = segment.mapping.start().as_ptr().cast_const();
            (number == file).then_some(View { start, len, first: Handle(segment.first), address })
        };
        self.all.iter().filter_map(of_file).collect()
    }

    /// The mappings of files.
    pub(super) fn mapped(&self) -> impl Iterator<Item = &Mapping> {
        self.all.iter().map(|segment| &*segment.mapping).filter(|mapping| mapping.is_mapped())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heap(len: usize) -> Arc<Mapping> {
        Arc::new(Mapping::heap(len).unwrap())
    }

    #[test]
    fn a_handle_leads_to_its_byte_and_no_further_than_its_segment() {
        let mut segments = Segments::default();
        let (one, two) = (heap(100), heap(300));
        let first = segments.add(Arc::clone(&one), None).unwrap();
        let second = segments.add(Arc::clone(&two), Some((FileNumber(1), 4096))).unwrap();
        assert_eq!(segments.address(first), Some(one.start()));
        assert_eq!(segments.address(second), Some(two.start()));
        assert_eq!(segments.address(Handle(99)).unwrap().as_ptr(), one.start().as_ptr().wrapping_add(99));
        for nowhere in [Handle(100), Handle(second.0 - 1), Handle(second.0 + 300), Handle(usize::MAX)] {
            assert_eq!(segments.address(nowhere), None, "{nowhere:?}");
        }
    }

    #[test]
    fn a_range_of_a_file_has_a_handle_only_where_all_of_it_is_mapped() {
        let mut segments = Segments::default();
        segments.add(heap(100), None).unwrap();
        let start = segments.add(heap(300), Some((FileNumber(1), 4096))).unwrap();
        let handle = |file, range| segments.handle(FileNumber(file), &range);
        assert_eq!(handle(1, 4096..4396), Some(start));
        assert_eq!(handle(1, 4224..4300), Some(Handle(start.0 + 128)));
        for range in [4096..4397, 4095..4100, 0..10, 4396..u64::MAX] {
            assert_eq!(handle(1, range.clone()), None, "{range:?}");
        }
        assert_eq!(handle(2, 4096..4100), None);
    }

    #[test]
    fn an_empty_range_has_a_handle_where_its_first_byte_would_be() {
        let mut segments = Segments::default();
        let file = FileNumber(1);
        segments.add(heap(64), Some((file, 4096))).unwrap();
        let second = segments.add(heap(64), Some((file, 4160))).unwrap();
        segments.add(heap(64), Some((file, 4032))).unwrap();
        assert_eq!(segments.handle(file, &(4160..4160)), Some(second));
        assert_eq!(segments.handle(file, &(4224..4224)), None);
        let found: Vec<_> = segments.views(file).iter().filter_map(|view| view.find(4160, 0)).collect();
        assert_eq!(found, [(second, segments.address(second).unwrap(), 0)]);
    }
}
