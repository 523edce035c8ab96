//! Files of packed weights that ExecuTorch wrote, read by the core; and what the core writes, read by a reader that was
//! made from the text of the format alone.
//!
//! The files are not part of the repository: see [`golden`].

use std::{path::Path, process::Command};

use serde_json::{Value, json};
use warmstart_core::trailer::{
    Entry, FOOTER_LEN, Name,
    version2::{self, Version2},
};
use warmstart_tests::{
    built,
    executorch::{self, golden},
    runtimes,
};

/// The expected entry of a golden file.
struct Expected {
    name: String,
    size: usize,
    seed: u32,
    payload: fn(usize, usize, u32) -> usize,
}

fn read(file: &[u8]) -> Version2<'_> {
    let footer = version2::footer(&file[file.len() - FOOTER_LEN..], file.len() as u64).unwrap();
    version2::decode(&file[footer.index_start as usize..], file.len() as u64).unwrap()
}

/// All entries, in the order in which they were packed; and whatever else must be so of any such file.
fn check(file: &[u8], expected: &[Expected], dead: u64) {
    let read = read(file);
    assert_eq!(read.entries().len(), expected.len());
    for (entry, (at, expected)) in read.entries().zip(expected.iter().enumerate()) {
        assert_eq!(entry.name, Name::new(&expected.name));
        assert_eq!((entry.size as usize, entry.packing.seed), (expected.size, expected.seed));
        assert!(entry.offset.is_multiple_of(4096));
        let payload = &file[entry.offset as usize..entry.end() as usize];
        let byte_at = |j: usize| ((expected.payload)(at, j, expected.seed) % 256) as u8;
        assert!(
            payload.iter().copied().eq((0..expected.size).map(byte_at)),
            "the payload of {}",
            expected.name
        );
    }
    assert_eq!(read.dead_bytes(), dead);
    check_writing(file, &read);
    for end in 0..file.len() {
        // A file that was cut may end with an older trailer, and with nothing else that is one.
        let footer = version2::footer(&file[..end], end as u64);
        if let Ok(footer) = footer {
            let older = version2::decode(&file[footer.index_start as usize..end], end as u64).unwrap();
            assert!(
                older.entries().len() < read.entries().len()
                    && older.entries().all(|old| read.entries().any(|entry| entry == old))
            );
        }
    }
}

/// Asserts that a trailer of the same entries reads the same, to a reader that knows the text of the format alone.
fn check_writing(file: &[u8], read: &Version2<'_>) {
    let index_start = read.index_start();
    let written = version2::encode(read.entries(), index_start).unwrap();
    let mut rewritten = file[..index_start as usize].to_vec();
    rewritten.extend_from_slice(&written);
    assert_eq!(rewritten.len(), file.len());
    let mut theirs = executorch::read(file);
    theirs.sort_by_key(|entry| entry.offset);
    assert_eq!(executorch::read(&rewritten), theirs);

    // In their order, the bytes are the same.
    let entries: Vec<Entry<'_>> = read.entries().collect();
    let ours = |theirs: executorch::Entry| {
        *entries.iter().find(|entry| entry.offset == theirs.offset as u64).unwrap()
    };
    let in_order = executorch::read(file).into_iter().map(ours);
    assert_eq!(version2::encode(in_order, index_start).unwrap(), file[index_start as usize..]);
}

#[test]
#[cfg_attr(
    not(has_goldens),
    ignore = "needs files that ExecuTorch wrote: WARMSTART_SHARED names the folder above xpwc-goldens"
)]
fn five_entries_of_one_save_are_read() {
    let file = golden("five.xpwc");
    let entry = |i: usize| Expected {
        name: format!("layer{i:04}.weight"),
        size: 100 + i,
        seed: 0xabcd_0001 + i as u32 % 3,
        payload: |i, j, _| 31 * i + 7 * j + (j >> 8),
    };
    check(&file, &(0..5).map(entry).collect::<Vec<_>>(), 0);
}

#[test]
#[cfg_attr(
    not(has_goldens),
    ignore = "needs files that ExecuTorch wrote: WARMSTART_SHARED names the folder above xpwc-goldens"
)]
fn names_with_a_bias_are_joined_with_its_name() {
    let file = golden("bias.xpwc");
    let entry = |i: usize| {
        let bias = if i % 2 == 1 { format!("blk.{i}.b") } else { String::new() };
        Expected {
            name: format!("blk.{i}.w{bias}"),
            size: 1 + 977 * i,
            seed: 0x1000 + i as u32,
            payload: |_, j, seed| seed as usize + 7 * j + (j >> 8) + 13 * 7,
        }
    };
    check(&file, &(0..6).map(entry).collect::<Vec<_>>(), 0);
    let read = read(&file);
    let found = |name| read.entries().find(|entry| entry.name == Name::new(name)).map(|entry| entry.size);
    assert_eq!(found("blk.3.wblk.3.b"), Some(1 + 977 * 3));
    assert_eq!(found("blk.3.w"), None);
}

#[test]
#[cfg_attr(
    not(has_goldens),
    ignore = "needs files that ExecuTorch wrote: WARMSTART_SHARED names the folder above xpwc-goldens"
)]
fn an_older_trailer_in_the_middle_is_dead() {
    let file = golden("two-models.xpwc");
    let entry = |i: usize| Expected {
        name: format!("blk.{i}.w"),
        size: 100 + i,
        seed: 5,
        payload: |_, j, _| 5 + 7 * j + (j >> 8) + 13 * 7,
    };
    check(&file, &(0..8).map(entry).collect::<Vec<_>>(), 4096);
}

/// Returns the output of the command `warmstart` for a file.
fn printed(arguments: &[&str], path: &Path) -> String {
    let output = Command::new(built::command()).args(arguments).arg(path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
#[cfg_attr(
    not(has_goldens),
    ignore = "needs files that ExecuTorch wrote: WARMSTART_SHARED names the folder above xpwc-goldens"
)]
fn what_executorch_wrote_is_shown_to_the_letter() {
    let folder = runtimes::goldens().unwrap();
    let json = |arguments: &[&str], path: &Path| -> Value {
        serde_json::from_str(&printed(arguments, path)).unwrap()
    };
    for (name, dead) in [("five", 0), ("bias", 0), ("two-models", 4096)] {
        let path = folder.join(name).with_extension("xpwc");
        let out = printed(&["inspect", "--json"], &path);
        assert!(out.starts_with(r#"{"format":"xpwc","version":2,"entries":[{"name":"#), "{out}");
        assert!(out.trim_end().ends_with(&format!(r#"}}],"dead_bytes":{dead}}}"#)), "{out}");
        let proved = json(&["verify", "--json"], &path);
        assert_eq!((&proved["has_checksums"], &proved["damaged"]), (&json!(false), &json!(0)));
        assert!(printed(&["verify"], &path).contains("version 2 has no checksums"));
    }
    let five = json(&["inspect", "--json"], &folder.join("five.xpwc"));
    for (i, entry) in five["entries"].as_array().unwrap().iter().enumerate() {
        let expected = json!({
            "name": format!("layer{i:04}.weight"),
            "offset": 4096 * i,
            "size": 100 + i,
            "seed": 0xabcd_0001_u32 + i as u32 % 3,
        });
        assert_eq!(*entry, expected);
    }
}
