//! Reads arbitrary bytes as a pack of version 2, which is refused, or whose entries can be written again.
#![no_main]

use libfuzzer_sys::{arbitrary, arbitrary::Arbitrary, fuzz_target};
use warmstart_core::trailer::{Entry, FOOTER_LEN, Footer, FormatError, ModelId, Name, Packing, version2};

/// Payloads are at multiples of this.
const PAGE: u64 = 4096;

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    /// Arbitrary bytes, optionally with a footer that has the start and the length of the index.
    Bytes { bytes: &'a [u8], footer: Option<(u16, u8)> },
    /// Entries, and the damage to their file.
    Entries { entries: Vec<Planned>, before: u8, damages: Vec<(u16, u8)> },
}

#[derive(Arbitrary, Debug)]
struct Planned {
    weight: String,
    bias: Option<String>,
    seed: u32,
    size: u8,
    gap: u8,
}

fuzz_target!(|input: Input<'_>| match input {
    Input::Bytes { bytes, footer } => {
        let mut file = bytes.to_vec();
        if let Some((start, count)) = footer {
            let index_start = u64::from(start) % (file.len() as u64 + 1);
            let footer = Footer { index_start, entry_count: count.into(), version: 2 };
            file.extend_from_slice(&footer.encode());
        }
        read(&file);
    }
    Input::Entries { entries, before, damages } => {
        let (mut offset, mut list) = (PAGE * u64::from(before % 4), Vec::new());
        for Planned { weight, bias, seed, size, gap } in &entries {
            list.push(Entry {
                name: Name { weight, bias: bias.as_deref() },
                model: ModelId::default(),
                packing: Packing::of_seed(*seed),
                offset,
                size: u64::from(*size),
                checksum: None,
                generation: 0,
                is_imported: true,
            });
            offset = (offset + u64::from(*size)).next_multiple_of(PAGE) + PAGE * u64::from(*gap % 4);
        }
        let joined =
            |entry: &Entry<'_>| format!("{}{}", entry.name.weight, entry.name.bias.unwrap_or_default());
        let mut names: Vec<String> = list.iter().map(joined).collect();
        names.sort_unstable();
        let is_unique = names.windows(2).all(|pair| pair[0] != pair[1]);
        let trailer = match version2::encode(list.iter().copied(), offset) {
            Ok(trailer) => trailer,
            Err(FormatError::Duplicate(_)) => {
                assert!(!is_unique);
                return;
            }
            Err(refusal) => panic!("{refusal}"),
        };
        assert!(is_unique);
        let decoded = version2::decode(&trailer, offset + trailer.len() as u64).expect("it was just written");
        assert_eq!(decoded.entries().len(), list.len());
        for entry in &list {
            let name = joined(entry);
            let found = decoded.entries().find(|found| found.name.weight == name).expect("it is in the list");
            let numbers = |entry: &Entry<'_>| (entry.offset, entry.size, entry.packing);
            assert_eq!(numbers(&found), numbers(entry));
        }
        let mut file = vec![1; offset as usize];
        file.extend_from_slice(&trailer);
        assert!(read(&file));
        for (at, mask) in damages {
            let at = offset as usize + usize::from(at) % trailer.len();
            file[at] ^= mask;
        }
        read(&file);
    }
});

/// Whether it is a file of version 2; if so, checks all that must hold of one.
fn read(file: &[u8]) -> bool {
    let file_len = file.len() as u64;
    let Ok(footer) = version2::footer(file, file_len) else { return false };
    let trailer = &file[footer.index_start as usize..];
    assert!(trailer.len() >= FOOTER_LEN);
    let Ok(read) = version2::decode(trailer, file_len) else { return false };
    assert_eq!(read.entries().len(), footer.entry_count as usize);
    let mut end = 0;
    for entry in read.entries() {
        assert!(
            entry.offset.is_multiple_of(PAGE) && entry.offset >= end && entry.end() <= footer.index_start
        );
        end = entry.end();
    }
    assert!(read.dead_bytes() <= footer.index_start);
    let again = version2::encode(read.entries(), footer.index_start).expect("it was read");
    assert_eq!(again.len(), trailer.len());
    assert!(version2::decode(&again, file_len).expect("it was written").entries().eq(read.entries()));
    true
}
