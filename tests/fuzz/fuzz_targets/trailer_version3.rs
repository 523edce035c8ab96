//! Any bytes are a file of packed weights of version 3, or are refused; what was put into an index is found in it, and
//! what is altered of one is refused, or is an index too.
#![no_main]

use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};
use warmstart_core::{
    reason::Reason,
    trailer::{
        Fingerprint, HEADER_LEN, ModelId, Name, Packing, Refusal, Wanted,
        build::{IndexBuilder, NewEntry},
        header::{Commits, Header, Place, Slot},
        index::{Index, Layout},
        pick::pick,
        space,
    },
};
use xxhash_rust::xxh3::xxh3_64;

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    /// A file of any bytes.
    Bytes(&'a [u8]),
    /// A file whose header and slots are right, and that is anything else.
    Framed { slots: [Option<(u64, u16, u16)>; 2], rest: &'a [u8] },
    /// An index of entries; what of it is altered, and made to have the right checksum.
    Entries { entries: Vec<Planned>, altered: Vec<(u16, u8)> },
}

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

/// Reads a whole file.
fn read(file: &[u8]) {
    let Ok(commits) = Commits::read(file) else { return };
    let read = |slot: &Slot| file.get(slot.index_start as usize..slot.end() as usize);
    let Ok(Some(picked)) = pick(&commits, file.len() as u64, read) else { return };
    assert!(picked.slot.end() <= file.len() as u64);
    assert!(picked.slot.generation < commits.next_generation());
    assert_ne!(commits.place_beside(Some(picked.place)), picked.place);
    check(&picked.layout.view(picked.block));
}

/// Checks all that must hold of an index that was not refused.
fn check(index: &Index<'_>) {
    let mut end = HEADER_LEN as u64;
    let mut payloads = 0;
    assert_eq!(index.entries().count(), index.len());
    let is_verified = index.verify().is_ok();
    for entry in index.entries() {
        assert!(entry.offset >= end && entry.offset.is_multiple_of(128));
        end = entry.end();
        payloads += entry.size;
        let found = if entry.is_imported {
            index.look_up_imported(&entry.wanted(), false)
        } else {
            index.look_up(&entry.wanted())
        };
        match found {
            Ok(found) => assert_eq!((found.wanted(), found.is_imported), (entry.wanted(), entry.is_imported)),
            Err(_) => assert!(!is_verified),
        }
        // There may be such entries, and look-ups say of each what they find.
        let _ = index.look_up(&Wanted { packing: Packing::of_seed(0), ..entry.wanted() });
        let _ = index.look_up(&Wanted { model: ModelId::default(), ..entry.wanted() });
    }
    let index_start = index.layout().index_start();
    assert!(end <= index_start);
    assert!(space::dead_bytes(index) <= index_start - HEADER_LEN as u64 - payloads);
    if is_verified {
        // What contradicts itself nowhere can be written, and then says the same.
        let mut kept = IndexBuilder::new();
        for entry in index.entries() {
            let new = NewEntry {
                name: entry.name,
                model: entry.model,
                packing: entry.packing,
                offset: entry.offset,
                size: entry.size,
                checksum: entry.checksum.expect("version 3 has one"),
                generation: entry.generation,
            };
            if entry.is_imported { kept.push_imported(new) } else { kept.push(new) }
        }
        let generation = index.layout().generation();
        let again = kept.finish(index_start, generation);
        // An index may be nearer to the end of all numbers than one of more buckets can be.
        let Ok(again) = again else { return };
        let layout =
            Layout::check(&again, &Slot::of(generation, index_start, &again)).expect("it was written");
        assert!(layout.view(&again).entries().eq(index.entries()));
    }
}

fn build(entries: &[Planned], altered: &[(u16, u8)]) {
    let mut offset = HEADER_LEN as u64;
    let mut list: Vec<NewEntry<'_>> = Vec::new();
    for planned in entries {
        let fingerprint =
            planned.fingerprint.map(|(id, value)| Fingerprint { id: id.into(), value: value.map(u32::from) });
        list.push(NewEntry {
            name: Name { weight: &planned.weight, bias: planned.bias.as_deref() },
            model: ModelId::from_bytes([planned.model % 4; 32]),
            packing: Packing { seed: u32::from(planned.seed % 4), fingerprint },
            offset,
            size: planned.size.into(),
            checksum: offset,
            generation: 1,
        });
        offset = (offset + u64::from(planned.size)).next_multiple_of(128) + 128 * u64::from(planned.gap);
    }
    let built = list.iter().rev().copied().collect::<IndexBuilder<'_>>().finish(offset, 1);
    let mut keys: Vec<Wanted<'_>> = list.iter().map(NewEntry::wanted).collect();
    keys.sort_unstable();
    let is_unique = keys.windows(2).all(|pair| pair[0] != pair[1]);
    let mut block = match built {
        Err(Refusal::Duplicate(_)) if !is_unique => return,
        built => built.expect("entries are in order"),
    };
    assert!(is_unique);
    let slot = Slot::of(1, offset, &block);
    let layout = Layout::check(&block, &slot).expect("it was just written");
    let index = layout.view(&block);
    assert_eq!(index.verify(), Ok(()));
    check(&index);
    for entry in &list {
        let found = index.look_up(&entry.wanted()).expect("it is in the list");
        assert_eq!(
            (found.offset, found.size, found.checksum),
            (entry.offset, entry.size, Some(entry.checksum))
        );
        let packing = Packing { seed: 9, ..entry.packing };
        assert_eq!(index.look_up(&Wanted { packing, ..entry.wanted() }), Err(Reason::OtherSeed));
    }

    for (at, mask) in altered {
        let at = usize::from(*at) % block.len();
        block[at] ^= mask;
    }
    // As bytes that change behind the back of who checked them; then as a file that was made so.
    let behind = layout.view(&block);
    assert!(behind.entries().count() <= list.len());
    let _ = (behind.verify(), space::dead_bytes(&behind));
    let slot = Slot { index_sum: xxh3_64(&block), ..slot };
    if let Ok(layout) = Layout::check(&block, &slot) {
        check(&layout.view(&block));
    }
}
