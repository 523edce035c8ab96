//! Files of packed weights that are looked into, and those that are refused.

use std::fs;

use warmstart::pack::{
    Fingerprint, FormatError, ModelId, Name, PackError, PackOptions, Packing, RewriteOptions, compact,
    detect, export, import, inspect, verify,
};
use warmstart_tests::packed::{image, names_in, place, saved, two_models, weights};

#[test]
fn what_is_in_a_file_is_told_and_nothing_is_changed() {
    let (directory, path) = place().unwrap();
    two_models(&path).unwrap();
    let before = image(&path).unwrap();
    let found = inspect(&path).unwrap();
    assert_eq!((found.version, found.generation, found.entries.len()), (3, 2, 15));
    assert_eq!(found.models, [ModelId::from_bytes([1; 32]), ModelId::from_bytes([2; 32])]);
    assert_eq!((found.file_bytes, found.refusal), (before.0.len() as u64, None));
    let odd = &found.entries[3];
    assert_eq!(odd.name(), Name::new("encoder.layer.3.weight").with_bias("encoder.layer.3.bias"));
    assert_eq!(odd.packing, Packing { seed: 7, fingerprint: Some(Fingerprint { id: 5, value: Some(9) }) });
    assert_eq!((odd.size, odd.generation, odd.is_imported), (10_007, 1, false));
    // Only the first index is unreachable.
    let last = found
        .entries
        .iter()
        .filter(|entry| entry.generation == 1)
        .map(|entry| entry.offset + entry.size)
        .max();
    let next = found.entries.iter().filter(|entry| entry.generation == 2).map(|entry| entry.offset).min();
    assert_eq!(found.dead_bytes, next.unwrap() - last.unwrap().next_multiple_of(128));

    let mut visited = 0;
    let proved = verify(&path, &mut |_, is_whole| visited += u32::from(is_whole == Some(true))).unwrap();
    assert!(proved.is_good() && proved.has_checksums);
    assert_eq!((visited, proved.whole, proved.damaged.len()), (15, 15, 0));
    assert!(detect(&path).unwrap());
    assert_eq!((image(&path).unwrap(), names_in(directory.path()).unwrap().len()), (before, 1));
}

/// A footer, and nothing before it.
fn footer(magic: [u8; 4], version: [u8; 4]) -> Vec<u8> {
    [&[0; 12][..], &magic, &version].concat()
}

#[test]
fn what_is_no_pack_that_can_be_used_is_refused_by_name() {
    let (directory, path) = place().unwrap();
    let magic = 0x5850_5743_u32;
    let little = |version: u32| footer(magic.to_le_bytes(), version.to_le_bytes());
    let mut swapped = little(2);
    swapped[12..].iter_mut().for_each(|byte| *byte = 0);
    swapped[12..16].copy_from_slice(b"XPWC");
    swapped[19] = 2;
    let cases: [(Vec<u8>, FormatError); 8] = [
        (little(1), FormatError::Version1),
        (little(0), FormatError::UnknownVersion(0)),
        (little(4), FormatError::UnknownVersion(4)),
        (little(u32::MAX), FormatError::UnknownVersion(u32::MAX)),
        (little(3), FormatError::Headless),
        (swapped, FormatError::BigEndian),
        (Vec::new(), FormatError::Short { len: 0, needed: 20 }),
        (vec![7; 100], FormatError::Foreign),
    ];
    for (bytes, expected) in cases {
        fs::write(&path, &bytes).unwrap();
        let before = image(&path).unwrap();
        let results = [
            inspect(&path).map(drop),
            verify(&path, &mut |_, _| {}).map(drop),
            compact(&path, &RewriteOptions::default()).map(drop),
            export(&path, &RewriteOptions::default()).map(drop),
            import(&path, &RewriteOptions::default()).map(drop),
        ];
        for result in results {
            assert!(
                matches!(&result, Err(PackError::Refused(refusal)) if *refusal == expected),
                "{expected:?}: {result:?}"
            );
        }
        assert_eq!(image(&path).unwrap(), before);
        let is_known = !matches!(expected, FormatError::Foreign | FormatError::Short { .. });
        assert_eq!(detect(&path).unwrap(), is_known);
    }
    assert!(matches!(inspect(directory.path()), Err(PackError::WrongKind("a directory"))));
    assert!(matches!(inspect(directory.path().join("none")), Err(PackError::Io(_))));
}

#[test]
fn whatever_is_cut_off_a_file_it_is_refused_or_recovered() {
    let (_directory, path) = place().unwrap();
    drop(saved(&path, PackOptions::default(), weights(0..2)).unwrap());
    let whole = fs::read(&path).unwrap();
    let cut = path.with_extension("cut");
    for len in (0..whole.len()).filter(|len| *len < 200 || len % 61 == 0 || *len > whole.len() - 200) {
        fs::write(&cut, &whole[..len]).unwrap();
        assert!(matches!(inspect(&cut), Err(PackError::Refused(_))), "{len}");
    }
    export(&path, &RewriteOptions::default()).unwrap();
    let whole = fs::read(&path).unwrap();
    for len in (0..whole.len()).filter(|len| len % 61 == 0 || *len > whole.len() - 200) {
        fs::write(&cut, &whole[..len]).unwrap();
        assert!(matches!(inspect(&cut), Err(PackError::Refused(_))), "{len}");
    }
}

#[cfg(unix)]
#[test]
fn links_and_pipes_are_neither_followed_nor_waited_for() {
    let (directory, path) = place().unwrap();
    two_models(&path).unwrap();
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let fifo = directory.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for (path, found) in [(link, "a link"), (fifo, "not a regular file")] {
        assert!(matches!(inspect(&path), Err(PackError::WrongKind(kind)) if kind == found));
        assert!(
            matches!(compact(&path, &RewriteOptions::default()), Err(PackError::WrongKind(kind)) if kind == found)
        );
        assert!(!detect(&path).unwrap());
    }
}
