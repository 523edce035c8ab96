use super::*;
use alloc::{format, string::String, vec};

/// The trailer of two entries, with 10 bytes of payload each.
const GOLDEN: &[u8] = b"\
    \x10\0\0\0fc.weightfc.bias\
    \0\x10\0\0\0\0\0\0\x0a\0\0\0\0\0\0\0\x02\0\xcd\xab\
    \x01\0\0\0w\
    \0\0\0\0\0\0\0\0\x0a\0\0\0\0\0\0\0\x01\0\xcd\xab\
    \x0a\x10\0\0\0\0\0\0\x02\0\0\0\x43\x57\x50\x58\x02\0\0\0";

/// Where it begins in its file.
const START: usize = 4096 + 10;

/// The file of that trailer.
fn golden() -> Vec<u8> {
    let mut file = b"0123456789".to_vec();
    file.resize(4096, 0);
    file.extend_from_slice(b"abcdefghij");
    file.extend_from_slice(GOLDEN);
    file
}

fn of_file(file: &[u8]) -> Result<Version2<'_>, Refusal> {
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
    assert_eq!((read.len(), read.index_start()), (2, START as u64));
    let (first, second) = (
        entry(Name::new("w"), 0xabcd_0001, 0, 10),
        entry(Name::new("fc.weightfc.bias"), 0xabcd_0002, 4096, 10),
    );
    assert_eq!(read.entries().collect::<Vec<_>>(), [first, second]);
    let second = Entry { name: Name::new("fc.weight").with_bias("fc.bias"), ..second };
    assert_eq!(encode([second, first], START as u64).unwrap(), GOLDEN);
}

#[test]
fn a_joined_name_is_found_however_it_is_divided() {
    let file = golden();
    let read = of_file(&file).unwrap();
    for at in 0..=16 {
        let (weight, bias) = "fc.weightfc.bias".split_at(at);
        let name = Name::new(weight).with_bias(bias);
        assert_eq!(read.look_up(&name, 0xabcd_0002).map(|entry| entry.offset), Ok(4096));
        assert_eq!(read.look_up(&name, 1).unwrap_err(), Reason::OtherSeed);
    }
    for (weight, bias) in [("fc.weight", None), ("fc.weight", Some("fc.bia")), ("", None), ("x", Some("w"))] {
        assert_eq!(read.look_up(&Name { weight, bias }, 1).unwrap_err(), Reason::Absent);
    }
}

#[test]
fn every_prefix_is_refused() {
    let file = golden();
    for len in (0..file.len()).filter(|len| *len < 100 || *len >= START) {
        let refusal = of_file(&file[..len]).unwrap_err();
        let needed = FOOTER_LEN as u64;
        let short = Refusal::Short { len: len as u64, needed };
        assert_eq!(refusal, if len < FOOTER_LEN { short } else { Refusal::Foreign });
    }
}

/// Version 2 has no checksum, so that a flip in a name, a seed or a place is not seen. No flip makes more of the file
/// than is there.
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
            assert_eq!(read.len(), 2);
            assert!(read.entries().all(|entry| entry.end() <= START as u64));
        }
    }
}

/// ExecuTorch puts every payload at a page: a bit that flipped within one would lead to wrong bytes.
#[test]
fn a_flipped_bit_of_an_offset_within_a_page_is_refused() {
    let file = golden();
    for (ordinal, at) in [(0, START + 20), (1, START + 40 + 5)] {
        for bit in 0..12 {
            let (at, mask) = (at + bit / 8, 1 << (bit % 8));
            let refusal = of_file(&golden_with(at, &[file[at] ^ mask])).map(|_| ()).unwrap_err();
            let is_outside = refusal == Refusal::OutOfBounds(ordinal);
            assert!(is_outside || refusal == Refusal::Misaligned(ordinal), "{ordinal}, bit {bit}: {refusal}");
        }
    }
}

#[test]
fn versions_are_told_apart() {
    let len = golden().len();
    let version =
        |version: u32| of_file(&golden_with(len - 4, &version.to_le_bytes())).map(|read| read.len());
    assert_eq!(version(2), Ok(2));
    assert_eq!(version(1), Err(Refusal::Version1));
    assert_eq!(version(3), Err(Refusal::Headless));
    for unknown in [0, 4, u32::MAX] {
        assert_eq!(version(unknown), Err(Refusal::UnknownVersion(unknown)));
    }
    assert_eq!(version(2 << 24), Err(Refusal::BigEndian));
    assert_eq!(of_file(&golden_with(len - 8, b"XPWC")).unwrap_err(), Refusal::BigEndian);
    assert_eq!(of_file(&[0; 4096]).unwrap_err(), Refusal::Foreign);
    assert_eq!(of_file(b"").unwrap_err(), Refusal::Short { len: 0, needed: 20 });
    assert_eq!(
        (Refusal::Version1.reason(), Refusal::BigEndian.reason()),
        (Reason::OldVersion, Reason::Foreign)
    );
}

#[test]
fn numbers_that_lie_are_refused_by_name() {
    let (second, footer_at) = (START + 40, golden().len() - FOOTER_LEN);
    let (long, short) = (u64::to_le_bytes, u32::to_le_bytes);
    let cases: &[(usize, &[u8], Refusal)] = &[
        (START, &short(u32::MAX), Refusal::EntryLength(0)),
        (START, &short(100), Refusal::EntryLength(0)),
        (START + 20, &long(11), Refusal::Misaligned(0)),
        (START + 20, &long(8192), Refusal::OutOfBounds(0)),
        (START + 20, &long(u64::MAX), Refusal::OutOfBounds(0)),
        (START + 20, &long(u64::MAX - 9), Refusal::OutOfBounds(0)),
        (START + 28, &long(u64::MAX), Refusal::OutOfBounds(0)),
        (START + 28, &long(u64::MAX - 9), Refusal::OutOfBounds(0)),
        (START + 20, &long(4095), Refusal::Misaligned(0)),
        (START + 20, &long(0), Refusal::Overlap(1)),
        (second + 13, &long(4097), Refusal::Overlap(0)),
        (second + 4, &[0xff], Refusal::NotUtf8(1)),
        (footer_at, &long(START as u64 - 1), Refusal::EntryLength(0)),
        (footer_at, &long(u64::MAX), Refusal::Footer),
        (footer_at, &long(footer_at as u64 + 1), Refusal::Footer),
        (footer_at, &long(footer_at as u64), Refusal::EntryLength(0)),
        (footer_at + 8, &short(0), Refusal::EntryLength(0)),
        (footer_at + 8, &short(1), Refusal::EntryLength(1)),
        (footer_at + 8, &short(3), Refusal::EntryLength(2)),
        (footer_at + 8, &short(u32::MAX), Refusal::EntryLength(2)),
    ];
    for (at, bytes, refusal) in cases {
        assert_eq!(of_file(&golden_with(*at, bytes)).map(|_| ()), Err(*refusal), "byte {at} {bytes:x?}");
    }
    assert_eq!(decode(&GOLDEN[1..], golden().len() as u64).unwrap_err(), Refusal::Lengths);
    assert_eq!(decode(GOLDEN, 10).unwrap_err(), Refusal::Short { len: 10, needed: 20 });
}

#[test]
fn names_that_collide_when_they_are_joined_are_not_written() {
    let (one, two) = (Name::new("ab").with_bias("c"), Name::new("a").with_bias("bc"));
    assert_eq!(encode([entry(one, 1, 0, 1), entry(two, 1, 4096, 1)], 8192), Err(Refusal::Duplicate(1)));
    assert_eq!(encode([entry(one, 1, 4096, 1)], 4096), Err(Refusal::OutOfBounds(0)));
    assert_eq!(encode([entry(one, 1, 1, 1)], 4096), Err(Refusal::Misaligned(0)));
    let long = entry(Name::new("a"), 1, 0, 4097);
    assert_eq!(encode([entry(one, 1, 4096, 5), long], 8192), Err(Refusal::Overlap(0)));
    assert_eq!(encode([], u64::MAX), Err(Refusal::TooLong));
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
    for entry in &entries {
        assert_eq!(read.look_up(&entry.name, entry.packing.seed), Ok(*entry));
    }
}

fn weight(name: &str, offset: u64, size: u64) -> Entry<'_> {
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
fn old_trailers_are_dead_and_what_pads_them_is_not() {
    let first = encode([weight("a", 0, 5)], 4096).unwrap();
    let second = encode([weight("a", 0, 5), weight("bc", 4096, 6)], 8192).unwrap();
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
    let old = encode([weight("a", 0, 5)], 4096).unwrap();
    let mut file = [payload, padded(old.clone()), vec![2; 6]].concat();
    let trailer = encode([weight("a", 0, 5), weight("b", 8192, 6)], file.len() as u64).unwrap();
    file.extend_from_slice(&trailer);
    let read = decode(&trailer, file.len() as u64).unwrap();
    assert_eq!(read.gaps().map(|gap| (gap.start, gap.end)).collect::<Vec<_>>(), [(4096, 8192)]);
    assert_eq!(dead_bytes(&read, &file), old.len() as u64);
}
