//! Tests across modules: whole files, and the effects of damage on them.

use alloc::{format, string::String, vec, vec::Vec};

use super::{
    index::{Index, encode},
    pick::{ActiveIndex, pick},
    *,
};

use crate::{bytes::XXH3_64, reason::MissReason};

mod indexes;
mod models;

const FILE: [u8; 16] = *b"which file it is";

const MODEL: ModelId = ModelId::from_bytes([7; 32]);

/// The bytes of a pack with one entry: lines of 16 bytes, each after its offset, without lines of zeros.
const GOLDEN: &str = "
    0:895753500d0a1a0a0300000000100000
    10:77686963682066696c65206974206973
    30:00000000000000000a633cb4e7e518d5
    200:01000000000000008010000000000000
    210:d4000000000000004fbf4dac6a5a4133
    230:000000000000000049cc6ec20890094d
    1000:676f6c64656e00000000000000000000
    1080:58505743494458330100000000000000
    1090:01000000010000000000000000000000
    10a0:50000000000000000000000000000000
    10c0:07070707070707070707070707070707
    10d0:07070707070707070707070707070707
    10e0:00000000010000001bcdd01e00000000
    10f0:00100000000000000600000000000000
    1100:22b6fff3a93b267d0100000000000000
    1110:0100cdab000000000200000003000000
    1120:00000000090000000700000007000000
    1130:66632e77656967687466632e62696173
    1140:80100000000000000100000043575058
    1150:03000000
";

fn entry(name: Name<'_>, seed: u32, offset: u64, size: u64) -> Entry<'_> {
    let (packing, checksum, generation) = (Packing::of_seed(seed), Some(0), 1);
    Entry { name, model: MODEL, packing, offset, size, checksum, generation, is_imported: false }
}

/// A file of version 3 to which tests append.
#[derive(Clone)]
struct Pack {
    bytes: Vec<u8>,
    generation: u64,
    place: Option<Place>,
}

impl Pack {
    fn new() -> Self {
        Self { bytes: Header::encode(FILE).to_vec(), generation: 0, place: None }
    }

    /// Appends one payload for each of these names, and an index of all entries.
    fn commit(&mut self, added: &[(Name<'_>, &[u8])]) {
        let before = self.bytes.clone();
        let kept = picked(&before).unwrap();
        let index = kept.as_ref().map(|picked| picked.layout.view(picked.block));
        self.generation += 1;
        let mut entries: Vec<_> = index.iter().flat_map(Index::entries).collect();
        for (name, payload) in added {
            let offset = self.align();
            self.bytes.extend_from_slice(payload);
            let new = entry(*name, 5, offset, payload.len() as u64);
            entries.push(Entry { checksum: Some(XXH3_64(payload)), generation: self.generation, ..new });
        }
        let start = self.align();
        let block = encode(entries, start, self.generation).unwrap();
        self.bytes.extend_from_slice(&block);
        let place = self.place.map_or(Place::A, Place::other);
        self.put(place, &Slot::of(self.generation, start, &block));
        self.place = Some(place);
    }

    fn align(&mut self) -> u64 {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT as usize), 0);
        self.bytes.len() as u64
    }

    fn put(&mut self, place: Place, slot: &Slot) {
        let at = place.offset() as usize;
        self.bytes[at..at + SLOT_LEN].copy_from_slice(&slot.encode(&FILE));
    }
}

fn picked(file: &[u8]) -> Result<Option<ActiveIndex<&[u8]>>, FormatError> {
    let read = |slot: &Slot| file.get(slot.index_start as usize..slot.end() as usize);
    pick(&Commits::read(file)?, file.len() as u64, read)
}

/// Returns a pack with three commits of two entries each.
fn three_commits() -> Pack {
    let mut pack = Pack::new();
    pack.commit(&[(Name::new("a").with_bias("b"), b"one"), (Name::new("a"), b"two")]);
    pack.commit(&[(Name::new("ab"), &[3; 200]), (Name::new("\u{e9}t\u{e9}"), b"")]);
    pack.commit(&[(Name::new("").with_bias(""), b"five"), (Name::new("six").with_bias("6"), b"6")]);
    pack
}

fn names<'a>(file: &ActiveIndex<&'a [u8]>) -> Vec<Name<'a>> {
    file.layout.view(file.block).entries().map(|entry| entry.name).collect()
}

#[test]
fn what_was_committed_is_found_and_the_newest_index_counts() {
    let pack = three_commits();
    let found = picked(&pack.bytes).unwrap().unwrap();
    assert_eq!((found.place, found.slot.generation, found.refused), (Place::A, 3, None));
    let index = found.layout.view(found.block);
    assert_eq!(index.verify(), Ok(()));
    assert_eq!(index.len(), 6);
    assert_eq!(index.entries().map(|entry| entry.generation).collect::<Vec<_>>(), [1, 1, 2, 2, 3, 3]);
    for entry in index.entries() {
        assert_eq!(index.look_up(&entry.weight_key()), Ok(entry));
        let payload = &pack.bytes[entry.offset as usize..entry.end() as usize];
        assert_eq!(entry.checksum, Some(XXH3_64(payload)));
    }
    let commits = Commits::read(&pack.bytes).unwrap();
    assert_eq!((commits.next_generation(), commits.place_beside(Some(found.place))), (4, Place::B));
}

#[test]
fn a_pack_without_a_commit_is_empty_and_not_refused() {
    let page = Header::encode(FILE);
    assert_eq!(picked(&page), Ok(None));
    let commits = Commits::read(&page).unwrap();
    assert_eq!(
        (commits.is_empty(), commits.next_generation(), commits.place_beside(None)),
        (true, 1, Place::A)
    );
}

#[test]
fn every_prefix_is_refused_or_is_the_commit_before() {
    let pack = three_commits();
    let commits = Commits::read(&pack.bytes).unwrap();
    let ends: Vec<u64> = commits.iter().map(|(_, slot)| slot.end()).collect();
    assert_eq!(ends[0], pack.bytes.len() as u64);
    let step = if cfg!(miri) { 1009 } else { 1 };
    for len in
        (0..pack.bytes.len()).step_by(step).chain([HEADER_LEN - 1, ends[1] as usize, ends[1] as usize - 1])
    {
        let found = picked(&pack.bytes[..len]);
        if len < HEADER_LEN {
            assert_eq!(found.unwrap_err(), FormatError::Short { len: len as u64, needed: HEADER_LEN as u64 });
        } else if (len as u64) < ends[1] {
            // The error is that of the newest.
            assert_eq!(found.unwrap_err(), FormatError::Outside { end: ends[0], len: len as u64 });
        } else {
            let found = found.unwrap().unwrap();
            assert_eq!((found.slot.generation, names(&found).len()), (2, 4));
            assert_eq!(found.refused, Some(FormatError::Outside { end: ends[0], len: len as u64 }));
        }
    }
}

#[test]
fn every_flipped_byte_is_refused_or_leaves_the_commit_before() {
    let pack = three_commits();
    let before = Commits::read(&pack.bytes).unwrap().iter().nth(1).unwrap().1;
    let newest = Commits::read(&pack.bytes).unwrap().iter().next().unwrap().1;
    let page = (0..HEADER_LEN).step_by(if cfg!(miri) { 509 } else { 1 });
    let index = (newest.index_start..newest.end()).map(|at| at as usize);
    let index = index.step_by(if cfg!(miri) { 211 } else { 1 });
    for at in page.chain(index) {
        let mut damaged = pack.bytes.clone();
        damaged[at] ^= 0x10;
        let found = picked(&damaged);
        match at {
            // The older slot: nothing is lost, and the damage is reported.
            1024..1088 => {
                let found = found.unwrap().unwrap();
                assert_eq!((found.slot.generation, found.refused), (3, Some(FormatError::SlotChecksum)));
            }
            512..576 | HEADER_LEN.. => {
                let found = found.unwrap().unwrap();
                assert_eq!((found.slot, names(&found).len()), (before, 4), "byte {at}");
                assert!(
                    found.refused.is_some_and(|refusal| refusal.reason() == MissReason::ChecksumMismatch)
                );
            }
            0..8 => assert_eq!(found.unwrap_err(), FormatError::Foreign),
            8..64 => assert_eq!(found.unwrap_err(), FormatError::HeaderChecksum, "byte {at}"),
            _ => assert_eq!(found.unwrap_err(), FormatError::Reserved, "byte {at}"),
        }
    }
}

#[test]
fn only_commit_with_a_damaged_slot_is_refused() {
    let mut pack = Pack::new();
    pack.commit(&[(Name::new("a"), b"one")]);
    for at in (512..576).step_by(if cfg!(miri) { 9 } else { 1 }) {
        let mut damaged = pack.bytes.clone();
        damaged[at] ^= 1;
        assert_eq!(picked(&damaged).unwrap_err(), FormatError::SlotChecksum);
    }
}

#[test]
fn a_commit_of_another_file_does_not_count() {
    let mut pack = three_commits();
    let (_, newest) = Commits::read(&pack.bytes).unwrap().iter().next().unwrap();
    pack.bytes[512..576].copy_from_slice(&Slot { generation: 9, ..newest }.encode(b"another file's.."));
    assert_eq!(picked(&pack.bytes).unwrap().unwrap().slot.generation, 2);
}

#[test]
fn what_a_slot_says_of_impossible_places_is_refused() {
    let pack = three_commits();
    let (_, newest) = Commits::read(&pack.bytes).unwrap().iter().next().unwrap();
    let len = pack.bytes.len() as u64;
    let slots = [
        (Slot { generation: 0, ..newest }, FormatError::SlotPlace),
        (Slot { generation: u64::MAX, ..newest }, FormatError::SlotPlace),
        (Slot { index_start: 0, ..newest }, FormatError::SlotPlace),
        (Slot { index_start: 3968, ..newest }, FormatError::SlotPlace),
        (Slot { index_start: newest.index_start + 64, ..newest }, FormatError::SlotPlace),
        (Slot { index_start: u64::MAX - 127, ..newest }, FormatError::SlotPlace),
        (Slot { index_len: u64::MAX, ..newest }, FormatError::SlotPlace),
        (Slot { index_len: 19, ..newest }, FormatError::SlotPlace),
        (
            Slot { index_start: 1 << 63, ..newest },
            FormatError::Outside { end: (1 << 63) + newest.index_len, len },
        ),
        (Slot { index_sum: 0, ..newest }, FormatError::IndexChecksum),
    ];
    for (slot, refusal) in slots {
        let mut pack = pack.clone();
        pack.put(Place::A, &slot);
        let found = picked(&pack.bytes).unwrap().unwrap();
        assert_eq!((found.slot.generation, found.refused), (2, Some(refusal)), "{slot:?}");
    }
    // A newer generation than that of the index.
    let mut pack = pack.clone();
    pack.put(Place::A, &Slot { generation: 8, ..newest });
    assert_eq!(picked(&pack.bytes).unwrap().unwrap().refused, Some(FormatError::Generation));
    assert_eq!(Commits::read(&pack.bytes).unwrap().next_generation(), 9);
}

#[test]
fn versions_of_the_header_are_told_apart() {
    let with_version = |version: u32| {
        let mut page = Header::encode(FILE);
        page[8..12].copy_from_slice(&version.to_le_bytes());
        let sum = XXH3_64(&page[..56]);
        page[56..64].copy_from_slice(&sum.to_le_bytes());
        Header::decode(&page).map(|header| header.file)
    };
    assert_eq!(with_version(3), Ok(FILE));
    assert_eq!(with_version(3 << 24), Err(FormatError::BigEndian));
    for version in [0, 1, 2, 4, u32::MAX] {
        assert_eq!(with_version(version), Err(FormatError::UnknownVersion(version)));
    }
    assert_eq!(FormatError::UnknownVersion(4).reason(), MissReason::NewerVersion);
    assert_eq!(FormatError::UnknownVersion(0).reason(), MissReason::Malformed);
    assert_eq!(Header::decode(b""), Err(FormatError::Short { len: 0, needed: 4096 }));
    assert_eq!(Header::decode(&[0; 4096]), Err(FormatError::Foreign));
}

#[test]
fn bytes_that_change_after_the_check_make_nothing_panic() {
    let mut pack = three_commits();
    let found = picked(&pack.bytes).unwrap().unwrap();
    let (layout, slot) = (found.layout, found.slot);
    let wanted = [Name::new("a"), Name::new("ab"), Name::new("six").with_bias("6")];
    let use_it = |index: Index<'_>| {
        assert!(index.entries().count() <= 6);
        let _ = (index.verify(), index.dead_bytes(), index.models().len());
        for name in wanted {
            let _ = index.look_up(&entry(name, 5, 0, 0).weight_key());
        }
    };
    let mut random = Random(1);
    for _ in 0..if cfg!(miri) { 6 } else { 20_000 } {
        let at = slot.index_start + random.below(slot.index_len);
        pack.bytes[at as usize] = random.below(256) as u8;
        use_it(layout.view(&pack.bytes[slot.index_start as usize..slot.end() as usize]));
    }
    use_it(layout.view(&[]));
    use_it(layout.view(&pack.bytes[..100]));
}

/// Reads a file with a reader that was written from the text of the format alone.
#[test]
fn the_format_is_as_it_is_written_down() {
    let pack = three_commits();
    let u32_at = |at: usize| u32::from_le_bytes(pack.bytes[at..at + 4].try_into().unwrap()) as usize;
    let u64_at = |at: usize| u64::from_le_bytes(pack.bytes[at..at + 8].try_into().unwrap());
    assert_eq!(pack.bytes[..16], *b"\x89WSP\r\n\x1a\n\x03\0\0\0\0\x10\0\0");
    assert_eq!(pack.bytes[16..32], FILE);
    assert_eq!(u64_at(56), XXH3_64(&pack.bytes[..56]));
    // The third commit is in slot A.
    assert_eq!(u64_at(512), 3);
    assert_eq!(u64_at(568), XXH3_64(&[&pack.bytes[512..568], &FILE].concat()));
    let (start, len) = (u64_at(520) as usize, u64_at(528) as usize);
    assert_eq!(u64_at(536), XXH3_64(&pack.bytes[start..start + len]));
    assert_eq!(start + len, pack.bytes.len());
    assert_eq!(pack.bytes[start..start + 8], *b"XPWCIDX3");
    let (entries, models, bits) = (u32_at(start + 16), u32_at(start + 20), u32_at(start + 24));
    assert_eq!((u64_at(start + 8), entries, models), (3, 6, 1));
    assert_eq!(pack.bytes[start + 64..start + 96], *MODEL.as_bytes());
    let buckets = start + 64 + 32 * models;
    let slots = (buckets + 4 * ((1 << bits) + 1)).next_multiple_of(8);
    let records = slots + 8 * entries;
    let mut at = records;
    for _ in 0..entries {
        let (weight_len, bias_len) = (u32_at(at + 52), u32_at(at + 56));
        let weight = &pack.bytes[at + 64..at + 64 + weight_len];
        let hash = XXH3_64(weight);
        let slot = u32_at(at + 48);
        assert_eq!(u32_at(slots + 8 * slot) as u64, hash & 0xffff_ffff);
        assert_eq!(u32_at(slots + 8 * slot + 4), (at - records) / 8);
        let bucket = (hash >> (64 - bits)) as usize;
        assert!((u32_at(buckets + 4 * bucket)..u32_at(buckets + 4 * bucket + 4)).contains(&slot));
        at = (at + 64 + weight_len + bias_len).next_multiple_of(8);
    }
    assert_eq!(u64_at(start + 32) as usize, at - records);
    assert_eq!(u64_at(at) as usize, start);
    assert_eq!((u32_at(at + 8), u32_at(at + 12), u32_at(at + 16)), (entries, 0x5850_5743, 3));
    assert_eq!(at + 20, pack.bytes.len());
}

#[test]
fn old_indexes_are_dead_bytes_and_padding_is_not() {
    let pack = three_commits();
    let found = picked(&pack.bytes).unwrap().unwrap();
    let index = found.layout.view(found.block);
    // Two old indexes, each with the padding after it, up to the next payload.
    let commits: Vec<u64> = index.entries().map(|entry| entry.offset).collect();
    let old = |last: usize, next: usize| {
        commits[next] - index.entries().nth(last).unwrap().end().next_multiple_of(128)
    };
    assert_eq!(index.dead_bytes(), old(1, 2) + old(3, 4));
    let mut fresh = Pack::new();
    fresh.commit(&[(Name::new("a"), b"one"), (Name::new("b"), b"two")]);
    let found = picked(&fresh.bytes).unwrap().unwrap();
    assert_eq!(found.layout.view(found.block).dead_bytes(), 0);
}

#[test]
fn gaps_are_from_rounded_ends_to_the_next() {
    let dead = |spans: &[(u64, u64)]| dead_between(spans.iter().copied(), 0, 9000, 4096);
    assert_eq!(dead(&[]), 9000);
    assert_eq!(dead(&[(0, 1), (4096, 8192)]), 9000 - 8192);
    assert_eq!(dead(&[(100, 200), (250, 4097), (8200, 9000)]), 100 + 8);
    assert_eq!(dead(&[(0, u64::MAX)]), 0);
}

/// Keeps the format from changing unnoticed: the bytes of a pack, and their meaning.
#[test]
fn the_golden_pack_is_read_and_written_as_ever() {
    let mut pack = Pack::new();
    let payload = b"golden";
    let offset = pack.align();
    pack.bytes.extend_from_slice(payload);
    let packing = Packing { seed: 0xabcd_0001, fingerprint: Some(Fingerprint { id: 2, value: Some(3) }) };
    let name = Name::new("fc.weight").with_bias("fc.bias");
    let new = Entry { packing, checksum: Some(XXH3_64(payload)), ..entry(name, 0, offset, 6) };
    let start = pack.align();
    let block = encode(vec![new], start, 1).unwrap();
    pack.bytes.extend_from_slice(&block);
    pack.put(Place::A, &Slot::of(1, start, &block));
    let found = picked(&pack.bytes).unwrap().unwrap();
    let read = found.layout.view(found.block).look_up(&new.weight_key()).unwrap();
    assert_eq!((read.offset, read.size, read.checksum), (offset, 6, Some(XXH3_64(payload))));
    assert_eq!(sparse(&pack.bytes), GOLDEN.split_whitespace().collect::<Vec<_>>().join(" "));
}

/// Returns every 16 bytes that are not all zeros, in hexadecimal digits after their offset.
fn sparse(bytes: &[u8]) -> String {
    let lines = bytes.chunks(16).zip((0..).step_by(16)).filter(|(line, _)| *line != &[0; 16][..line.len()]);
    let lines: Vec<String> = lines
        .map(|(line, at)| {
            format!("{at:x}:{}", line.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        })
        .collect();
    lines.join(" ")
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

#[test]
fn every_refusal_says_what_was_found_and_has_a_reason() {
    let all = [
        FormatError::Short { len: 3, needed: 20 },
        FormatError::Outside { end: 30, len: 20 },
        FormatError::UnknownVersion(4),
        FormatError::Overlap(12),
    ];
    let said: Vec<String> = all.iter().map(|refusal| format!("{refusal}")).collect();
    assert_eq!(said[0], "3 bytes are too few: at least 20 are needed");
    assert_eq!(said[1], "the index ends at byte 30, but the file at byte 20");
    assert_eq!(said[2], "version 4 is not known; versions 2 and 3 are read");
    assert_eq!(said[3], "entry 12 overlaps the entry before it");
    let reasons =
        vec![MissReason::Truncated, MissReason::Truncated, MissReason::NewerVersion, MissReason::Malformed];
    assert_eq!(all.iter().map(|refusal| refusal.reason()).collect::<Vec<_>>(), reasons);
}
