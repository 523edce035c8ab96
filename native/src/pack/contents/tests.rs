use super::*;

fn heap(len: usize) -> Arc<Mapping> {
    Arc::new(Mapping::heap(len).unwrap())
}

#[test]
fn handle_resolves_only_within_its_segment() {
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

fn find(segments: &Segments, file: usize, offset: u64, size: u64) -> Option<Handle> {
    let found = segments.views(FileNumber(file)).find_map(|view| view.find(offset, size, true));
    let Hit { handle, address, len, is_verified } = found?;
    assert_eq!((segments.address(handle), len as u64, is_verified), (Some(address), size, true));
    Some(handle)
}

#[test]
fn file_range_has_a_handle_only_if_wholly_mapped() {
    let mut segments = Segments::default();
    segments.add(heap(100), None).unwrap();
    let start = segments.add(heap(300), Some((FileNumber(1), 4096))).unwrap();
    assert_eq!(find(&segments, 1, 4096, 300), Some(start));
    assert_eq!(find(&segments, 1, 4224, 76), Some(Handle(start.0 + 128)));
    for (offset, size) in [(4096, 301), (4095, 5), (0, 10), (4396, u64::MAX), (4097, u64::MAX)] {
        assert_eq!(find(&segments, 1, offset, size), None, "{offset} {size}");
    }
    assert_eq!(find(&segments, 2, 4096, 4), None);
}

#[test]
fn empty_range_has_the_handle_of_its_first_byte() {
    let mut segments = Segments::default();
    let file = FileNumber(1);
    segments.add(heap(64), Some((file, 4096))).unwrap();
    let second = segments.add(heap(64), Some((file, 4160))).unwrap();
    segments.add(heap(64), Some((file, 4032))).unwrap();
    assert_eq!(find(&segments, 1, 4160, 0), Some(second));
    assert_eq!(find(&segments, 1, 4224, 0), None);
}
