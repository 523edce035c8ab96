use super::*;
use crate::reason::MissReason;
use alloc::{format, string::String, vec};

/// The trailer of two entries, with 10 bytes of payload each.
const GOLDEN: &[u8] = b"\
    \x10\0\0\0fc.weightfc.bias\
    \0\x10\0\0\0\0\0\0\x0a\0\0\0\0\0\0\0\x02\0\xcd\xab\
    \x01\0\0\0w\
    \0\0\0\0\0\0\0\0\x0a\0\0\0\0\0\0\0\x01\0\xcd\xab\
    \x0a\x10\0\0\0\0\0\0\x02\0\0\0\x43\x57\x50\x58\x02\0\0\0";

/// The offset of this trailer in its file.
const START: usize = 4096 + 10;

/// Returns the file that ends with this trailer.
fn golden() -> Vec<u8> {
    let mut file = b"0123456789".to_vec();
    file.resize(4096, 0);
    file.extend_from_slice(b"abcdefghij");
    file.extend_from_slice(GOLDEN);
    file
}

fn of_file(file: &[u8]) -> Result<Version2<'_>, FormatError> {
    let footer = footer(file, file.len() as u64)?;
    decode(&file[footer.index_start as usize..], file.len() as u64)
}

fn golden_with(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut file = golden();
    file[at..at + bytes.len()].copy_from_slice(bytes);
    file
}

fn entry(name: Name<'_>, seed: u32, offset: u64, size: u64) -> Entry<'_> {
    let packing = Packing::of_seed(seed);
    let model = ModelId::default();
    Entry { name, model, packing, offset, size, checksum: None, generation: 0, is_imported: true }
}

#[test]
fn the_golden_file_is_read_and_written_as_ever() {
    let file = golden();
    let read = of_file(&file).unwrap();
    assert_eq!((read.entries().len(), read.index_start()), (2, START as u64));
    let (first, second) = (
        entry(Name::new("w"), 0xabcd_0001, 0, 10),
        entry(Name::new("fc.weightfc.bias"), 0xabcd_0002, 4096, 10),
    );
    assert_eq!(read.entries().collect::<Vec<_>>(), [first, second]);
    let second = Entry { name: Name::new("fc.weight").with_bias("fc.bias"), ..second };
    assert_eq!(encode([second, first], START as u64).unwrap(), GOLDEN);
}

#[test]
fn every_prefix_is_refused() {
    let file = golden();
    for len in (0..file.len()).filter(|len| *len < 100 || *len >= START) {
        let refusal = of_file(&file[..len]).unwrap_err();
        let needed = FOOTER_LEN as u64;
        let short = FormatError::Short { len: len as u64, needed };
        assert_eq!(refusal, if len < FOOTER_LEN { short } else { FormatError::Foreign });
    }
}

/// Version 2 has no checksum, so a flip in a name, a seed or an offset is not detected. No flip makes the trailer claim more of
/// the file than there is.
#[test]
fn a_flipped_bit_in_lengths_counts_or_the_footer_is_refused() {
    let (len_at, file) = ([START..START + 4, START + 40..START + 44], golden());
    let footer_at = file.len() - FOOTER_LEN;
    for bit in (8 * START..8 * file.len()).step_by(if cfg!(miri) { 7 } else { 1 }) {
        let at = bit / 8;
        let file = golden_with(at, &[file[at] ^ 1 << (bit % 8)]);
        let read = of_file(&file);
        if at >= footer_at || len_at.iter().any(|len| len.contains(&at)) {
            assert!(read.is_err(), "byte {at}, bit {}", bit % 8);
        } else if let Ok(read) = read {
            assert_eq!(read.entries().len(), 2);
            assert!(read.entries().all(|entry| entry.end() <= START as u64));
        }
    }
}

/// ExecuTorch puts every payload at a page: a flipped bit within the page would lead to wrong bytes.
#[test]
fn a_flipped_bit_of_an_offset_within_a_page_is_refused() {
    let file = golden();
    for (ordinal, at) in [(0, START + 20), (1, START + 40 + 5)] {
        for bit in 0..12 {
            let (at, mask) = (at + bit / 8, 1 << (bit % 8));
            let refusal = of_file(&golden_with(at, &[file[at] ^ mask])).map(|_| ()).unwrap_err();
            let is_outside = refusal == FormatError::OutOfBounds(ordinal);
            assert!(
                is_outside || refusal == FormatError::Misaligned(ordinal),
                "{ordinal}, bit {bit}: {refusal}"
            );
        }
    }
}

#[test]
fn versions_are_told_apart() {
    let len = golden().len();
    let version = |version: u32| {
        of_file(&golden_with(len - 4, &version.to_le_bytes())).map(|read| read.entries().len())
    };
    assert_eq!(version(2), Ok(2));
    assert_eq!(version(1), Err(FormatError::Version1));
    assert_eq!(version(3), Err(FormatError::Headless));
    for unknown in [0, 4, u32::MAX] {
        assert_eq!(version(unknown), Err(FormatError::UnknownVersion(unknown)));
    }
    assert_eq!(version(2 << 24), Err(FormatError::BigEndian));
    assert_eq!(of_file(&golden_with(len - 8, b"XPWC")).unwrap_err(), FormatError::BigEndian);
    assert_eq!(of_file(&[0; 4096]).unwrap_err(), FormatError::Foreign);
    assert_eq!(of_file(b"").unwrap_err(), FormatError::Short { len: 0, needed: 20 });
    assert_eq!(
        (FormatError::Version1.reason(), FormatError::BigEndian.reason()),
        (MissReason::OldVersion, MissReason::Foreign)
    );
}

#[test]
fn numbers_that_lie_are_refused_by_name() {
    let (second, footer_at) = (START + 40, golden().len() - FOOTER_LEN);
    let (long, short) = (u64::to_le_bytes, u32::to_le_bytes);
    let cases: &[(usize, &[u8], FormatError)] = &[
        (START, &short(u32::MAX), FormatError::EntryLength(0)),
        (START, &short(100), FormatError::EntryLength(0)),
        (START + 20, &long(11), FormatError::Misaligned(0)),
        (START + 20, &long(8192), FormatError::OutOfBounds(0)),
        (START + 20, &long(u64::MAX), FormatError::OutOfBounds(0)),
        (START + 20, &long(u64::MAX - 9), FormatError::OutOfBounds(0)),
        (START + 28, &long(u64::MAX), FormatError::OutOfBounds(0)),
        (START + 28, &long(u64::MAX - 9), FormatError::OutOfBounds(0)),
        (START + 20, &long(4095), FormatError::Misaligned(0)),
        (START + 20, &long(0), FormatError::Overlap(1)),
        (second + 13, &long(4097), FormatError::Overlap(0)),
        (second + 4, &[0xff], FormatError::NotUtf8(1)),
        (footer_at, &long(START as u64 - 1), FormatError::EntryLength(0)),
        (footer_at, &long(u64::MAX), FormatError::Footer),
        (footer_at, &long(footer_at as u64 + 1), FormatError::Footer),
        (footer_at, &long(footer_at as u64), FormatError::EntryLength(0)),
        (footer_at + 8, &short(0), FormatError::EntryLength(0)),
        (footer_at + 8, &short(1), FormatError::EntryLength(1)),
        (footer_at + 8, &short(3), FormatError::EntryLength(2)),
        (footer_at + 8, &short(u32::MAX), FormatError::EntryLength(2)),
    ];
    for (at, bytes, refusal) in cases {
        assert_eq!(of_file(&golden_with(*at, bytes)).map(|_| ()), Err(*refusal), "byte {at} {bytes:x?}");
    }
    assert_eq!(decode(&GOLDEN[1..], golden().len() as u64).unwrap_err(), FormatError::Lengths);
    assert_eq!(decode(GOLDEN, 10).unwrap_err(), FormatError::Short { len: 10, needed: 20 });
}

#[test]
fn names_that_collide_when_they_are_joined_are_not_written() {
    let (one, two) = (Name::new("ab").with_bias("c"), Name::new("a").with_bias("bc"));
    assert_eq!(encode([entry(one, 1, 0, 1), entry(two, 1, 4096, 1)], 8192), Err(FormatError::Duplicate(1)));
    let apart = [entry(one, 1, 0, 1), entry(Name::new("b"), 1, 4096, 1), entry(two, 1, 8192, 1)];
    assert_eq!(encode(apart, 12_288), Err(FormatError::Duplicate(2)));
    assert_eq!(encode([entry(one, 1, 4096, 1)], 4096), Err(FormatError::OutOfBounds(0)));
    assert_eq!(encode([entry(one, 1, 1, 1)], 4096), Err(FormatError::Misaligned(0)));
    let long = entry(Name::new("a"), 1, 0, 4097);
    assert_eq!(encode([entry(one, 1, 4096, 5), long], 8192), Err(FormatError::Overlap(0)));
    assert_eq!(encode([], u64::MAX), Err(FormatError::TooLong));
    assert_eq!(encode([], 0).map(|bytes| bytes.len()), Ok(FOOTER_LEN));
}

#[test]
fn many_entries_come_back_as_they_were() {
    let names: Vec<String> = (0..if cfg!(miri) { 6 } else { 2000 }).map(|i| format!("layer.{i}.w")).collect();
    let entries: Vec<Entry<'_>> =
        (0u32..).zip(&names).map(|(i, name)| entry(Name::new(name), i, 4096 * u64::from(i), 4000)).collect();
    let start = 4096 * entries.len() as u64;
    let trailer = encode(entries.iter().rev().copied(), start).unwrap();
    let read = decode(&trailer, start + trailer.len() as u64).unwrap();
    assert!(read.entries().eq(entries.iter().copied()));
}

fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().next_multiple_of(PAGE as usize), 0);
    bytes
}

#[test]
fn a_file_of_two_saves_has_the_first_trailer_dead() {
    let (one, two) = (Name::new("a"), Name::new("b"));
    let payload = padded(vec![1; 5]);
    let old = encode([entry(one, 1, 0, 5)], 4096).unwrap();
    let mut file = [payload, padded(old), vec![2; 6]].concat();
    let trailer = encode([entry(one, 1, 0, 5), entry(two, 1, 8192, 6)], file.len() as u64).unwrap();
    file.extend_from_slice(&trailer);
    assert_eq!(decode(&trailer, file.len() as u64).unwrap().dead_bytes(), 4096);
}
