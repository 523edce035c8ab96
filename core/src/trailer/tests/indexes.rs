//! Valid indexes, and crafted ones that are invalid although their checksum is right.

use alloc::{format, string::String, vec, vec::Vec};

use super::{
    super::{
        index::{Layout, check, encode},
        *,
    },
    MODEL, Random, entry,
};
use crate::{bytes::XXH3_64, reason::MissReason};

/// An index of three entries at known positions, for tests to damage. Names are 8 bytes, so that records are 72.
struct Crafted {
    block: Vec<u8>,
    start: u64,
    records: usize,
    slots: usize,
}

impl Crafted {
    const COUNT: usize = 3;

    fn new() -> Self {
        let names = ["weight.0", "weight.1", "weight.2"].into_iter().zip(0u64..);
        let entries = names.map(|(name, at)| entry(Name::new(name), 5, 4096 + 256 * at, 200));
        let start = 8192;
        let block = encode(entries.collect(), start, 1).unwrap();
        let records = block.len() - FOOTER_LEN - 72 * Self::COUNT;
        Self { block, start, records, slots: records - 8 * Self::COUNT }
    }

    fn check(&self) -> Result<Layout, FormatError> {
        check(&self.block, &Slot::of(1, self.start, &self.block))
    }

    /// Checks a copy of the index in which these bytes are replaced and the checksum is right.
    fn with(&self, at: usize, bytes: &[u8]) -> Result<Layout, FormatError> {
        let mut block = self.block.clone();
        block[at..at + bytes.len()].copy_from_slice(bytes);
        Self { block, ..*self }.check()
    }

    fn record(&self, ordinal: usize) -> usize {
        self.records + 72 * ordinal
    }
}

#[test]
fn index_with_right_checksum_and_wrong_contents_is_refused() {
    let good = Crafted::new();
    assert!(good.check().is_ok());
    let (one, two) = (good.record(1), good.record(2));
    let slot = |at: usize| good.block[good.slots + 8 * at..][..8].to_vec();
    let long = u64::to_le_bytes;
    let short = u32::to_le_bytes;
    let cases: &[(usize, &[u8], FormatError)] = &[
        (0, b"XPWCIDX4", FormatError::IndexMagic),
        (8, &long(2), FormatError::Generation),
        (16, &short(2), FormatError::Lengths),
        (16, &short(4), FormatError::Lengths),
        (16, &short(u32::MAX), FormatError::Lengths),
        (20, &short(2), FormatError::Lengths),
        (20, &short(u32::MAX), FormatError::Lengths),
        (24, &short(3), FormatError::Lengths),
        (24, &short(31), FormatError::Lengths),
        (24, &short(32), FormatError::Buckets),
        (24, &short(u32::MAX), FormatError::Buckets),
        (28, &short(1), FormatError::Reserved),
        (32, &long(u64::MAX), FormatError::Lengths),
        (32, &long(0), FormatError::Lengths),
        (40, &[1], FormatError::Reserved),
        (63, &[1], FormatError::Reserved),
        // The starts of buckets: five numbers for four buckets, and padding.
        (96, &short(1), FormatError::Buckets),
        (96 + 16, &short(2), FormatError::Buckets),
        (96 + 16, &short(4), FormatError::Buckets),
        (96 + 4, &short(u32::MAX), FormatError::Buckets),
        (96 + 20, &short(1), FormatError::Lengths),
        // Offsets and sizes.
        (one, &long(4352 + 64), FormatError::Misaligned(1)),
        (one, &long(4224), FormatError::Overlap(1)),
        (one, &long(0), FormatError::OutOfBounds(1)),
        (one, &long(u64::MAX - 127), FormatError::OutOfBounds(1)),
        (one, &long(8192), FormatError::OutOfBounds(1)),
        (one + 8, &long(u64::MAX), FormatError::OutOfBounds(1)),
        (one + 8, &long(u64::MAX - 4352), FormatError::OutOfBounds(1)),
        (one + 8, &long(257), FormatError::Overlap(2)),
        (two + 8, &long(8192 - 4608 + 1), FormatError::OutOfBounds(2)),
        // Names, flags, models, slots.
        (one + 36, &short(1), FormatError::UnknownModel(1)),
        (one + 36, &short(u32::MAX), FormatError::UnknownModel(1)),
        (one + 40, &short(1), FormatError::Flags(1)),
        (one + 44, &short(1), FormatError::Flags(1)),
        (one + 60, &short(4), FormatError::Flags(1)),
        (one + 56, &short(1), FormatError::Flags(1)),
        (one + 52, &short(u32::MAX), FormatError::EntryLength(1)),
        (two + 52, &short(9), FormatError::EntryLength(2)),
        (one + 52, &short(7), FormatError::EntryLength(1)),
        (one + 64, &[0xff], FormatError::NotUtf8(1)),
        (one + 48, &good.block[two + 48..two + 52], FormatError::Unlinked(1)),
        (one + 48, &short(3), FormatError::Unlinked(1)),
        (one + 48, &short(u32::MAX), FormatError::Unlinked(1)),
        // The footer.
        (good.block.len() - 20, &long(8191), FormatError::Footer),
        (good.block.len() - 20, &long(u64::MAX), FormatError::Footer),
        (good.block.len() - 12, &short(4), FormatError::Footer),
        (good.block.len() - 8, &short(1), FormatError::Foreign),
        (good.block.len() - 4, &short(2), FormatError::Footer),
        (good.block.len() - 4, &short(4), FormatError::UnknownVersion(4)),
    ];
    for (at, bytes, refusal) in cases {
        assert_eq!(good.with(*at, bytes).map(|_| ()), Err(*refusal), "byte {at} {bytes:x?}");
    }
    // A slot that points nowhere, or between records.
    for at in [u32::MAX, 1, 27, 28] {
        let bytes = [&slot(0)[..4], &at.to_le_bytes()].concat();
        assert!(matches!(good.with(good.slots, &bytes), Err(FormatError::Unlinked(_))), "{at}");
    }
}

#[test]
fn slots_that_do_not_ascend_are_refused_and_twins_are_named() {
    let model = MODEL;
    let packed = |seed, offset| Entry { model, ..entry(Name::new("twin"), seed, offset, 100) };
    let block = encode(vec![packed(5, 4096), packed(6, 4224), packed(7, 4352)], 8192, 1).unwrap();
    let check = |block: &[u8]| check(block, &Slot::of(1, 8192, block)).map(|layout| layout.view(block).len());
    assert_eq!(check(&block), Ok(3));
    let records = block.len() - FOOTER_LEN - 72 * 3;
    for (seed, refusal) in [
        (5, FormatError::Duplicate(1)),
        (7, FormatError::Duplicate(2)),
        (8, FormatError::Order),
        (0, FormatError::Order),
    ] {
        let mut block = block.clone();
        block[records + 72 + 32..][..4].copy_from_slice(&u32::to_le_bytes(seed));
        assert_eq!(check(&block), Err(refusal), "seed {seed}");
    }
    // Tags that fall within a bucket.
    let mut block = block.clone();
    let slots = records - 8 * 3;
    block[slots] ^= 0xff;
    block[slots + 3] = 0xff;
    assert_eq!(check(&block), Err(FormatError::Order));
}

#[test]
fn entry_under_another_hash_is_not_found_and_fails_verify() {
    let good = Crafted::new();
    let layout = good.check().unwrap();
    assert_eq!(layout.view(&good.block).verify(), Ok(()));
    // Renamed, but still in its old slot.
    let at = good.record(1) + 64;
    let layout = good.with(at, b"weight.9").unwrap();
    let mut block = good.block.clone();
    block[at..at + 8].copy_from_slice(b"weight.9");
    let index = layout.view(&block);
    assert_eq!(index.verify(), Err(FormatError::Misfiled(1)));
    for name in ["weight.1", "weight.9"] {
        assert_eq!(index.look_up(&entry(Name::new(name), 5, 0, 0).weight_key()), Err(MissReason::Absent));
    }
}

#[test]
fn entry_is_found_under_the_bias_of_its_record_alone() {
    let name = Name::new("weight").with_bias("b1");
    let mut block = encode(vec![entry(name, 5, 4096, 1)], 8192, 1).unwrap();
    let at = block.len() - FOOTER_LEN - 1;
    assert_eq!(block[at], b'1');
    block[at] = b'2';
    let index = check(&block, &Slot::of(1, 8192, &block)).unwrap().view(&block);
    let found = |name| index.look_up(&entry(name, 5, 0, 0).weight_key()).map(|entry| entry.offset);
    assert_eq!(found(name.with_bias("b2")), Ok(4096));
    for other in [name, name.with_bias(""), Name::new("weight"), Name::new("weightb2")] {
        assert_eq!(found(other), Err(MissReason::Absent), "{other}");
    }
}

#[test]
fn dead_bytes_of_offsets_changed_after_the_check_are_a_number() {
    let good = Crafted::new();
    let layout = good.check().unwrap();
    let mut block = good.block.clone();
    for (ordinal, offset) in [(0, u64::MAX - 255), (1, 4096), (2, u64::MAX - 255)] {
        block[good.record(ordinal)..][..8].copy_from_slice(&offset.to_le_bytes());
    }
    assert_eq!(layout.view(&block).dead_bytes(), u64::MAX);
}

#[test]
fn a_miss_says_what_the_nearest_entry_differs_in() {
    let fingerprint = |id, value| Packing { seed: 5, fingerprint: Some(Fingerprint { id, value }) };
    let name = Name::new("ab").with_bias("c");
    let other = ModelId::from_bytes([9; 32]);
    let with = |model, packing, offset| Entry { model, packing, ..entry(name, 0, offset, 10) };
    let entries = vec![
        with(MODEL, fingerprint(1, Some(2)), 4096),
        with(MODEL, Packing::of_seed(6), 4224),
        with(other, Packing::of_seed(7), 4352),
    ];
    let block = encode(entries, 4480, 1).unwrap();
    let index = check(&block, &Slot::of(1, 4480, &block)).unwrap().view(&block);
    assert_eq!(index.models().collect::<Vec<_>>(), [MODEL, other]);
    let look_up =
        |name, model, packing| index.look_up(&WeightKey { name, model, packing }).map(|entry| entry.offset);

    assert_eq!(look_up(name, MODEL, fingerprint(1, Some(2))), Ok(4096));
    for packing in
        [fingerprint(1, None), fingerprint(1, Some(3)), fingerprint(2, Some(2)), Packing::of_seed(5)]
    {
        assert_eq!(look_up(name, MODEL, packing), Err(MissReason::OtherFingerprint), "{packing:?}");
    }
    assert_eq!(look_up(name, MODEL, Packing::of_seed(6)), Ok(4224));
    for seed in [0, 4, 7, u32::MAX] {
        assert_eq!(look_up(name, MODEL, Packing::of_seed(seed)), Err(MissReason::OtherSeed));
    }
    assert_eq!(look_up(name, other, Packing::of_seed(6)), Err(MissReason::OtherSeed));
    for byte in [0, 8, 10] {
        let model = ModelId::from_bytes([byte; 32]);
        assert_eq!(look_up(name, model, Packing::of_seed(6)), Err(MissReason::OtherModel));
    }
    for (weight, bias) in
        [("a", Some("bc")), ("abc", None), ("ab", None), ("ab", Some("")), ("c", Some("ab")), ("", None)]
    {
        let name = Name { weight, bias };
        assert_eq!(look_up(name, MODEL, Packing::of_seed(6)), Err(MissReason::Absent), "{name:?}");
    }
}

#[test]
fn the_builder_refuses_what_a_reader_would() {
    let finish = |entries: &[Entry<'_>], start| encode(entries.to_vec(), start, 1).map(|_| ());
    let at = |offset: u64, size: u64| entry(Name::new("a"), offset.wrapping_add(size) as u32, offset, size);
    assert_eq!(finish(&[], 4096), Ok(()));
    assert_eq!(finish(&[at(4352, 128), at(4096, 0), at(4096, 256)], 4480), Ok(()));
    assert_eq!(finish(&[at(4096, 129), at(4224, 1)], 8192), Err(FormatError::Overlap(1)));
    assert_eq!(finish(&[at(4097, 1)], 8192), Err(FormatError::Misaligned(0)));
    assert_eq!(finish(&[at(0, 1)], 8192), Err(FormatError::OutOfBounds(0)));
    assert_eq!(finish(&[at(4096, 4097)], 8192), Err(FormatError::OutOfBounds(0)));
    assert_eq!(finish(&[at(4096, u64::MAX)], 8192), Err(FormatError::OutOfBounds(0)));
    assert_eq!(finish(&[], 4095), Err(FormatError::SlotPlace));
    assert_eq!(finish(&[], 0), Err(FormatError::SlotPlace));
    assert_eq!(finish(&[at(4096, 1)], u64::MAX - 127), Err(FormatError::SlotPlace));
    assert_eq!(encode(Vec::new(), 4096, 0).unwrap_err(), FormatError::SlotPlace);
    assert_eq!(finish(&[Entry { checksum: None, ..at(4096, 1) }], 8192), Err(FormatError::Flags(0)));
    let twins = [entry(Name::new("a"), 1, 4224, 1), entry(Name::new("a"), 1, 4096, 1)];
    assert_eq!(finish(&twins, 8192), Err(FormatError::Duplicate(1)));
    let apart = [
        entry(Name::new("ab").with_bias("c"), 1, 4096, 1),
        entry(Name::new("a").with_bias("bc"), 1, 4224, 1),
    ];
    assert_eq!(finish(&apart, 8192), Ok(()));
}

/// Compares random entries with a plain list: every entry is found, in order, and nothing else is.
#[test]
fn agrees_with_a_plain_list() {
    let mut random = Random(7);
    for round in 0..if cfg!(miri) { 2 } else { 200 } {
        let mut offset = HEADER_LEN as u64;
        let mut texts: Vec<(String, Option<String>)> = Vec::new();
        for _ in 0..random.below(if cfg!(miri) { 8 } else { 80 }) {
            let bias = (random.below(2) == 0).then(|| format!("{}", random.below(3)));
            texts.push((format!("{}{}", "n".repeat(random.below(12) as usize), random.below(9)), bias));
        }
        let mut list: Vec<Entry<'_>> = Vec::new();
        for (weight, bias) in &texts {
            let fingerprint = match random.below(3) {
                0 => None,
                value => Some(Fingerprint { id: random.below(2) as u32, value: (value == 1).then_some(3) }),
            };
            let name = Name { weight, bias: bias.as_deref() };
            let packing = Packing { seed: random.below(2) as u32, fingerprint };
            let model = ModelId::from_bytes([random.below(3) as u8; 32]);
            let size = random.below(300);
            let new = Entry { model, packing, generation: round, ..entry(name, 0, offset, size) };
            if list.iter().all(|old| old.weight_key() != new.weight_key()) {
                list.push(new);
                offset = (offset + size).next_multiple_of(128) + 128 * random.below(2);
            }
        }
        let mut shuffled = list.clone();
        shuffled.sort_by_key(|entry| XXH3_64(&entry.offset.to_le_bytes()));
        let block = encode(shuffled, offset, 9).unwrap();
        let layout = check(&block, &Slot::of(9, offset, &block)).unwrap();
        let index = layout.view(&block);
        assert_eq!(index.verify(), Ok(()));
        assert_eq!(index.entries().count(), list.len());
        assert!(
            index
                .entries()
                .map(|entry| (entry.weight_key(), entry.offset, entry.size))
                .eq(list.iter().map(|entry| (entry.weight_key(), entry.offset, entry.size)))
        );
        for entry in &list {
            assert_eq!(index.look_up(&entry.weight_key()).map(|found| found.offset), Ok(entry.offset));
            let other = Packing { seed: 2, ..entry.packing };
            let missed = index.look_up(&WeightKey { packing: other, ..entry.weight_key() });
            assert_eq!(missed, Err(MissReason::OtherSeed));
        }
    }
}
