//! Indexes that are right, and crafted ones that are wrong behind a right checksum.

use alloc::{format, string::String, vec::Vec};

use xxhash_rust::xxh3::xxh3_64;

use super::{
    super::{
        build::{IndexBuilder, NewEntry},
        header::Slot,
        index::Layout,
        *,
    },
    MODEL, Random, entry,
};
use crate::reason::Reason;

/// An index of three entries at known places, to be made wrong: names are 8 bytes, so that records are 72.
struct Crafted {
    block: Vec<u8>,
    start: u64,
    records: usize,
    slots: usize,
}

impl Crafted {
    const COUNT: usize = 3;

    fn new() -> Self {
        let mut builder = IndexBuilder::new();
        for (at, name) in ["weight.0", "weight.1", "weight.2"].into_iter().enumerate() {
            builder.push(entry(Name::new(name), 5, 4096 + 256 * at as u64, 200));
        }
        let start = 8192;
        let block = builder.finish(start, 1).unwrap();
        let records = block.len() - FOOTER_LEN - 72 * Self::COUNT;
        Self { block, start, records, slots: records - 8 * Self::COUNT }
    }

    fn check(&self) -> Result<Layout, Refusal> {
        Layout::check(&self.block, &Slot::of(1, self.start, &self.block))
    }

    /// What is said of an index in which these bytes of it were replaced, and the checksum is right.
    fn with(&self, at: usize, bytes: &[u8]) -> Result<Layout, Refusal> {
        let mut block = self.block.clone();
        block[at..at + bytes.len()].copy_from_slice(bytes);
        Self { block, ..*self }.check()
    }

    fn record(&self, ordinal: usize) -> usize {
        self.records + 72 * ordinal
    }
}

#[test]
fn an_index_with_the_right_checksum_and_wrong_contents_is_refused_by_name() {
    let good = Crafted::new();
    assert!(good.check().is_ok());
    let (one, two) = (good.record(1), good.record(2));
    let slot = |at: usize| good.block[good.slots + 8 * at..][..8].to_vec();
    let long = u64::to_le_bytes;
    let short = u32::to_le_bytes;
    let cases: &[(usize, &[u8], Refusal)] = &[
        (0, b"XPWCIDX4", Refusal::IndexMagic),
        (8, &long(2), Refusal::Generation),
        (16, &short(2), Refusal::Lengths),
        (16, &short(4), Refusal::Lengths),
        (16, &short(u32::MAX), Refusal::Lengths),
        (20, &short(2), Refusal::Lengths),
        (20, &short(u32::MAX), Refusal::Lengths),
        (24, &short(3), Refusal::Lengths),
        (24, &short(31), Refusal::Lengths),
        (24, &short(32), Refusal::Buckets),
        (24, &short(u32::MAX), Refusal::Buckets),
        (28, &short(1), Refusal::Reserved),
        (32, &long(u64::MAX), Refusal::Lengths),
        (32, &long(0), Refusal::Lengths),
        (40, &[1], Refusal::Reserved),
        (63, &[1], Refusal::Reserved),
        // Where buckets begin, there are five of four, and padding.
        (96, &short(1), Refusal::Buckets),
        (96 + 16, &short(2), Refusal::Buckets),
        (96 + 16, &short(4), Refusal::Buckets),
        (96 + 4, &short(u32::MAX), Refusal::Buckets),
        (96 + 20, &short(1), Refusal::Lengths),
        // Offsets and sizes.
        (one, &long(4352 + 64), Refusal::Misaligned(1)),
        (one, &long(4224), Refusal::Overlap(1)),
        (one, &long(0), Refusal::OutOfBounds(1)),
        (one, &long(u64::MAX - 127), Refusal::OutOfBounds(1)),
        (one, &long(8192), Refusal::OutOfBounds(1)),
        (one + 8, &long(u64::MAX), Refusal::OutOfBounds(1)),
        (one + 8, &long(u64::MAX - 4352), Refusal::OutOfBounds(1)),
        (one + 8, &long(257), Refusal::Overlap(2)),
        (two + 8, &long(8192 - 4608 + 1), Refusal::OutOfBounds(2)),
        // Names, flags, models, slots.
        (one + 36, &short(1), Refusal::UnknownModel(1)),
        (one + 36, &short(u32::MAX), Refusal::UnknownModel(1)),
        (one + 40, &short(1), Refusal::Flags(1)),
        (one + 44, &short(1), Refusal::Flags(1)),
        (one + 60, &short(4), Refusal::Flags(1)),
        (one + 56, &short(1), Refusal::Flags(1)),
        (one + 52, &short(u32::MAX), Refusal::EntryLength(1)),
        (two + 52, &short(9), Refusal::EntryLength(2)),
        (one + 52, &short(7), Refusal::EntryLength(1)),
        (one + 64, &[0xff], Refusal::NotUtf8(1)),
        (one + 48, &good.block[two + 48..two + 52], Refusal::Unlinked(1)),
        (one + 48, &short(3), Refusal::Unlinked(1)),
        (one + 48, &short(u32::MAX), Refusal::Unlinked(1)),
        // The footer.
        (good.block.len() - 20, &long(8191), Refusal::Footer),
        (good.block.len() - 20, &long(u64::MAX), Refusal::Footer),
        (good.block.len() - 12, &short(4), Refusal::Footer),
        (good.block.len() - 8, &short(1), Refusal::Foreign),
        (good.block.len() - 4, &short(2), Refusal::Footer),
        (good.block.len() - 4, &short(4), Refusal::UnknownVersion(4)),
    ];
    for (at, bytes, refusal) in cases {
        assert_eq!(good.with(*at, bytes).map(|_| ()), Err(*refusal), "byte {at} {bytes:x?}");
    }
    // A slot that points nowhere, or between records.
    for at in [u32::MAX, 1, 27, 28] {
        let bytes = [&slot(0)[..4], &at.to_le_bytes()].concat();
        assert!(matches!(good.with(good.slots, &bytes), Err(Refusal::Unlinked(_))), "{at}");
    }
}

#[test]
fn slots_that_do_not_ascend_are_refused_and_twins_are_named() {
    let model = MODEL;
    let packed = |seed, offset| NewEntry { model, ..entry(Name::new("twin"), seed, offset, 100) };
    let build =
        || [packed(5, 4096), packed(6, 4224), packed(7, 4352)].into_iter().collect::<IndexBuilder<'_>>();
    let block = build().finish(8192, 1).unwrap();
    let check = |block: &[u8]| Layout::check(block, &Slot::of(1, 8192, block)).map(|layout| layout.len());
    assert_eq!(check(&block), Ok(3));
    let records = block.len() - FOOTER_LEN - 72 * 3;
    for (seed, refusal) in
        [(5, Refusal::Duplicate(1)), (7, Refusal::Duplicate(2)), (8, Refusal::Order), (0, Refusal::Order)]
    {
        let mut block = block.clone();
        block[records + 72 + 32..][..4].copy_from_slice(&u32::to_le_bytes(seed));
        assert_eq!(check(&block), Err(refusal), "seed {seed}");
    }
    // Tags that fall within a bucket.
    let mut block = block.clone();
    let slots = records - 8 * 3;
    block[slots] ^= 0xff;
    block[slots + 3] = 0xff;
    assert_eq!(check(&block), Err(Refusal::Order));
}

#[test]
fn an_entry_under_another_names_hash_is_not_found_and_verify_says_so() {
    let good = Crafted::new();
    let layout = good.check().unwrap();
    assert_eq!(layout.view(&good.block).verify(), Ok(()));
    // Renamed, but in its old slot.
    let at = good.record(1) + 64;
    let layout = good.with(at, b"weight.9").unwrap();
    let mut block = good.block.clone();
    block[at..at + 8].copy_from_slice(b"weight.9");
    let index = layout.view(&block);
    assert_eq!(index.verify(), Err(Refusal::Misfiled(1)));
    for name in ["weight.1", "weight.9"] {
        assert_eq!(index.look_up(&entry(Name::new(name), 5, 0, 0).wanted()), Err(Reason::Absent));
    }
}

#[test]
fn an_entry_is_found_under_the_bias_that_its_record_names_and_under_no_other() {
    let name = Name::new("weight").with_bias("b1");
    let mut block =
        [entry(name, 5, 4096, 1)].into_iter().collect::<IndexBuilder<'_>>().finish(8192, 1).unwrap();
    let at = block.len() - FOOTER_LEN - 1;
    assert_eq!(block[at], b'1');
    block[at] = b'2';
    let index = Layout::check(&block, &Slot::of(1, 8192, &block)).unwrap().view(&block);
    let found = |name| index.look_up(&entry(name, 5, 0, 0).wanted()).map(|entry| entry.offset);
    assert_eq!(found(name.with_bias("b2")), Ok(4096));
    for other in [name, name.with_bias(""), Name::new("weight"), Name::new("weightb2")] {
        assert_eq!(found(other), Err(Reason::Absent), "{other}");
    }
}

#[test]
fn dead_bytes_of_offsets_that_changed_after_the_check_are_some_number() {
    let good = Crafted::new();
    let layout = good.check().unwrap();
    let mut block = good.block.clone();
    for (ordinal, offset) in [(0, u64::MAX - 255), (1, 4096), (2, u64::MAX - 255)] {
        block[good.record(ordinal)..][..8].copy_from_slice(&offset.to_le_bytes());
    }
    assert_eq!(space::dead_bytes(&layout.view(&block)), u64::MAX);
}

#[test]
fn a_miss_says_what_the_nearest_entry_differs_in() {
    let fingerprint = |id, value| Packing { seed: 5, fingerprint: Some(Fingerprint { id, value }) };
    let name = Name::new("ab").with_bias("c");
    let other = ModelId::from_bytes([9; 32]);
    let with = |model, packing, offset| NewEntry { model, packing, ..entry(name, 0, offset, 10) };
    let builder: IndexBuilder<'_> = [
        with(MODEL, fingerprint(1, Some(2)), 4096),
        with(MODEL, Packing::of_seed(6), 4224),
        with(other, Packing::of_seed(7), 4352),
    ]
    .into_iter()
    .collect();
    let block = builder.finish(4480, 1).unwrap();
    let index = Layout::check(&block, &Slot::of(1, 4480, &block)).unwrap().view(&block);
    assert_eq!(index.models().collect::<Vec<_>>(), [MODEL, other]);
    let look_up =
        |name, model, packing| index.look_up(&Wanted { name, model, packing }).map(|entry| entry.offset);

    assert_eq!(look_up(name, MODEL, fingerprint(1, Some(2))), Ok(4096));
    for packing in
        [fingerprint(1, None), fingerprint(1, Some(3)), fingerprint(2, Some(2)), Packing::of_seed(5)]
    {
        assert_eq!(look_up(name, MODEL, packing), Err(Reason::OtherFingerprint), "{packing:?}");
    }
    assert_eq!(look_up(name, MODEL, Packing::of_seed(6)), Ok(4224));
    for seed in [0, 4, 7, u32::MAX] {
        assert_eq!(look_up(name, MODEL, Packing::of_seed(seed)), Err(Reason::OtherSeed));
    }
    assert_eq!(look_up(name, other, Packing::of_seed(6)), Err(Reason::OtherSeed));
    for byte in [0, 8, 10] {
        let model = ModelId::from_bytes([byte; 32]);
        assert_eq!(look_up(name, model, Packing::of_seed(6)), Err(Reason::OtherModel));
    }
    for (weight, bias) in
        [("a", Some("bc")), ("abc", None), ("ab", None), ("ab", Some("")), ("c", Some("ab")), ("", None)]
    {
        let name = Name { weight, bias };
        assert_eq!(look_up(name, MODEL, Packing::of_seed(6)), Err(Reason::Absent), "{name:?}");
    }
}

#[test]
fn the_builder_refuses_what_a_reader_would() {
    let finish = |entries: &[NewEntry<'_>], start| {
        entries.iter().copied().collect::<IndexBuilder<'_>>().finish(start, 1).map(|_| ())
    };
    let at = |offset: u64, size: u64| entry(Name::new("a"), offset.wrapping_add(size) as u32, offset, size);
    assert_eq!(finish(&[], 4096), Ok(()));
    assert_eq!(finish(&[at(4352, 128), at(4096, 0), at(4096, 256)], 4480), Ok(()));
    assert_eq!(finish(&[at(4096, 129), at(4224, 1)], 8192), Err(Refusal::Overlap(1)));
    assert_eq!(finish(&[at(4097, 1)], 8192), Err(Refusal::Misaligned(0)));
    assert_eq!(finish(&[at(0, 1)], 8192), Err(Refusal::OutOfBounds(0)));
    assert_eq!(finish(&[at(4096, 4097)], 8192), Err(Refusal::OutOfBounds(0)));
    assert_eq!(finish(&[at(4096, u64::MAX)], 8192), Err(Refusal::OutOfBounds(0)));
    assert_eq!(finish(&[], 4095), Err(Refusal::SlotPlace));
    assert_eq!(finish(&[], 0), Err(Refusal::SlotPlace));
    assert_eq!(finish(&[at(4096, 1)], u64::MAX - 127), Err(Refusal::SlotPlace));
    assert_eq!(IndexBuilder::new().finish(4096, 0).unwrap_err(), Refusal::SlotPlace);
    let twins = [entry(Name::new("a"), 1, 4224, 1), entry(Name::new("a"), 1, 4096, 1)];
    assert_eq!(finish(&twins, 8192), Err(Refusal::Duplicate(1)));
    let apart = [
        entry(Name::new("ab").with_bias("c"), 1, 4096, 1),
        entry(Name::new("a").with_bias("bc"), 1, 4224, 1),
    ];
    assert_eq!(finish(&apart, 8192), Ok(()));
}

/// Random entries against a plain list: what was put in is found, in order, and nothing else is.
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
        let mut list: Vec<NewEntry<'_>> = Vec::new();
        for (weight, bias) in &texts {
            let fingerprint = match random.below(3) {
                0 => None,
                value => Some(Fingerprint { id: random.below(2) as u32, value: (value == 1).then_some(3) }),
            };
            let name = Name { weight, bias: bias.as_deref() };
            let packing = Packing { seed: random.below(2) as u32, fingerprint };
            let model = ModelId::from_bytes([random.below(3) as u8; 32]);
            let size = random.below(300);
            let new = NewEntry { model, packing, generation: round, ..entry(name, 0, offset, size) };
            if list.iter().all(|old| old.wanted() != new.wanted()) {
                list.push(new);
                offset = (offset + size).next_multiple_of(128) + 128 * random.below(2);
            }
        }
        let mut shuffled = list.clone();
        shuffled.sort_by_key(|entry| xxh3_64(&entry.offset.to_le_bytes()));
        let block = shuffled.into_iter().collect::<IndexBuilder<'_>>().finish(offset, 9).unwrap();
        let layout = Layout::check(&block, &Slot::of(9, offset, &block)).unwrap();
        let index = layout.view(&block);
        assert_eq!(index.verify(), Ok(()));
        assert_eq!(index.entries().len(), list.len());
        assert!(
            index
                .entries()
                .map(|entry| (entry.wanted(), entry.offset, entry.size))
                .eq(list.iter().map(|entry| (entry.wanted(), entry.offset, entry.size)))
        );
        for entry in &list {
            assert_eq!(index.look_up(&entry.wanted()).map(|found| found.offset), Ok(entry.offset));
            let other = Packing { seed: 2, ..entry.packing };
            let missed = index.look_up(&Wanted { packing: other, ..entry.wanted() });
            assert_eq!(missed, Err(Reason::OtherSeed));
        }
    }
}
