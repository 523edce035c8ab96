//! Reads any bytes as a pack of version 3, which is consistent or refused. Encodes entries and finds them again, and alters
//! the encoded index, which then is refused or still consistent.
#![no_main]

use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};
use warmstart_core::{
    reason::MissReason,
    trailer::{
        Commits, Entry, Fingerprint, FormatError, HEADER_LEN, Header, ModelId, Name, Packing, Place, Slot,
        WeightKey,
        index::{Index, check, encode},
        pick::pick,
    },
};
use xxhash_rust::xxh3::xxh3_64;

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    /// A file of arbitrary bytes.
    Bytes(&'a [u8]),
    /// A file with a valid header and valid slots, followed by arbitrary bytes.
    Framed { slots: [Option<(u64, u16, u16)>; 2], rest: &'a [u8] },
    /// An index of these entries, and the bytes to alter in it by a mask; its checksum is corrected afterwards.
    Entries { entries: Vec<Planned>, altered: Vec<(u16, u8)> },
}

/// The description of an entry to encode.
#[derive(Arbitrary, Debug)]
struct Planned {
    weight: String,
    bias: Option<String>,
    model: u8,
    seed: u8,
    fingerprint: Option<(u8, Option<u8>)>,
    size: u16,
    gap: u8,
}

const FILE: [u8; 16] = [7; 16];

fuzz_target!(|input: Input<'_>| match input {
    Input::Bytes(bytes) => read(bytes),
    Input::Framed { slots, rest } => {
        let mut file = Header::encode(FILE).to_vec();
        file.extend_from_slice(rest);
        for (place, slot) in [Place::A, Place::B].into_iter().zip(slots) {
            let Some((generation, start, len)) = slot else { continue };
            let start = HEADER_LEN + 128 * (usize::from(start) % (rest.len() / 128 + 1));
            let end = start + usize::from(len) % (file.len() - start + 1);
            let slot = Slot::of(generation, start as u64, &file[start..end]);
            file[place.offset() as usize..][..64].copy_from_slice(&slot.encode(&FILE));
        }
        read(&file);
    }
    Input::Entries { entries, altered } => build(&entries, &altered),
});

/// Reads a whole file, and checks its index if it is accepted.
fn read(file: &[u8]) {
    let Ok(commits) = Commits::read(file) else { return };
    let read = |slot: &Slot| file.get(slot.index_start as usize..slot.end() as usize);
    let Ok(Some(picked)) = pick(&commits, file.len() as u64, read) else { return };
    assert!(picked.slot.end() <= file.len() as u64);
    assert!(picked.slot.generation < commits.next_generation());
    assert_ne!(commits.place_beside(Some(picked.place)), picked.place);
    check_index(&picked.layout.view(picked.block), &picked.slot);
}

/// Checks the invariants of an accepted index.
fn check_index(index: &Index<'_>, slot: &Slot) {
    let mut end = HEADER_LEN as u64;
    let mut payloads = 0;
    assert_eq!(index.entries().count(), index.len());
    let is_verified = index.verify().is_ok();
    for entry in index.entries() {
        assert!(entry.offset >= end && entry.offset.is_multiple_of(128));
        end = entry.end();
        payloads += entry.size;
        let found = if entry.is_imported {
            index.look_up_imported(&entry.weight_key(), false)
        } else {
            index.look_up(&entry.weight_key())
        };
        match found {
            Ok(found) => {
                assert_eq!((found.weight_key(), found.is_imported), (entry.weight_key(), entry.is_imported));
            }
            Err(_) => assert!(!is_verified),
        }
        // Such entries may exist; the look-ups must not panic.
        let _ = index.look_up(&WeightKey { packing: Packing::of_seed(0), ..entry.weight_key() });
        let _ = index.look_up(&WeightKey { model: ModelId::default(), ..entry.weight_key() });
    }
    let index_start = slot.index_start;
    assert!(end <= index_start);
    assert!(index.dead_bytes() <= index_start - HEADER_LEN as u64 - payloads);
    if is_verified {
        // A consistent index can be written again, and then has the same entries.
        let again = encode(index.entries().collect(), index_start, slot.generation);
        // Encoding may choose more buckets, and then exceed the largest offset.
        let Ok(again) = again else { return };
        let layout = check(&again, &Slot::of(slot.generation, index_start, &again)).expect("it was written");
        assert!(layout.view(&again).entries().eq(index.entries()));
    }
}

/// Encodes the entries and looks each up, then alters the block and checks it again.
fn build(entries: &[Planned], altered: &[(u16, u8)]) {
    let mut offset = HEADER_LEN as u64;
    let mut list: Vec<Entry<'_>> = Vec::new();
    for planned in entries {
        let fingerprint =
            planned.fingerprint.map(|(id, value)| Fingerprint { id: id.into(), value: value.map(u32::from) });
        list.push(Entry {
            name: Name { weight: &planned.weight, bias: planned.bias.as_deref() },
            model: ModelId::from_bytes([planned.model % 4; 32]),
            packing: Packing { seed: u32::from(planned.seed % 4), fingerprint },
            offset,
            size: planned.size.into(),
            checksum: Some(offset),
            generation: 1,
            is_imported: false,
        });
        offset = (offset + u64::from(planned.size)).next_multiple_of(128) + 128 * u64::from(planned.gap);
    }
    let built = encode(list.iter().rev().copied().collect(), offset, 1);
    let mut keys: Vec<WeightKey<'_>> = list.iter().map(Entry::weight_key).collect();
    keys.sort_unstable();
    let is_unique = keys.windows(2).all(|pair| pair[0] != pair[1]);
    let mut block = match built {
        Err(FormatError::Duplicate(_)) if !is_unique => return,
        built => built.expect("entries are in order"),
    };
    assert!(is_unique);
    let slot = Slot::of(1, offset, &block);
    let layout = check(&block, &slot).expect("it was just written");
    let index = layout.view(&block);
    assert_eq!(index.verify(), Ok(()));
    check_index(&index, &slot);
    for entry in &list {
        let found = index.look_up(&entry.weight_key()).expect("it is in the list");
        assert_eq!((found.offset, found.size, found.checksum), (entry.offset, entry.size, entry.checksum));
        let packing = Packing { seed: 9, ..entry.packing };
        assert_eq!(index.look_up(&WeightKey { packing, ..entry.weight_key() }), Err(MissReason::OtherSeed));
    }

    for (at, mask) in altered {
        let at = usize::from(*at) % block.len();
        block[at] ^= mask;
    }
    // First as bytes that change after they were checked, then as a file that was written like this.
    let behind = layout.view(&block);
    assert!(behind.entries().count() <= list.len());
    let _ = (behind.verify(), behind.dead_bytes());
    let slot = Slot { index_sum: xxh3_64(&block), ..slot };
    if let Ok(layout) = check(&block, &slot) {
        check_index(&layout.view(&block), &slot);
    }
}
