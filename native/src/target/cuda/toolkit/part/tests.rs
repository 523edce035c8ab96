use std::io::Cursor;

use super::*;

#[test]
fn versions_are_read_from_names() {
    let linux = |part: Part, name| part.version_in(name, false);
    assert_eq!(linux(Part::Nvrtc, "libnvrtc.so.13"), Some(vec![13]));
    assert_eq!(linux(Part::Nvrtc, "libnvrtc.so.12.4.127"), Some(vec![12, 4, 127]));
    assert_eq!(linux(Part::Nvrtc, "libnvrtc.so"), Some(vec![]));
    assert_eq!(linux(Part::Libdevice, "libdevice.10.bc"), Some(vec![10]));
    for other in ["libnvrtc.alt.so.13", "libnvrtc-builtins.so.13.5", "libnvrtc.so.x", "libnvrtc.so.13~"] {
        assert_eq!(linux(Part::Nvrtc, other), None, "{other}");
    }
    assert_eq!(linux(Part::Libdevice, "libdevice.bc"), None);
    let windows = |part: Part, name| part.version_in(name, true);
    assert_eq!(windows(Part::Nvrtc, "nvrtc64_130_0.dll"), Some(vec![130, 0]));
    assert_eq!(windows(Part::NvJitLink, "nvJitLink_130_0.dll"), Some(vec![130, 0]));
    assert_eq!(windows(Part::Nvrtc, "nvrtc64_130_0.alt.dll"), None);
    assert_eq!(windows(Part::Builtins, "nvrtc-builtins64_135.dll"), Some(vec![135]));
}

#[cfg(not(windows))]
fn tree(files: &[&str]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for file in files {
        let path = directory.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    directory
}

#[cfg(not(windows))]
#[test]
fn the_newest_of_a_place_wins_and_the_first_place_before_it() {
    let tree = tree(&[
        "a/lib/libnvrtc.so.12",
        "a/lib64/libnvrtc.so.9",
        "a/lib64/libnvrtc.so",
        "b/libnvrtc.so.13",
        "b/nvvm/lib64/libnvvm.so.4",
        "b/nvvm/libdevice/libdevice.10.bc",
    ]);
    let places = Places::of(["none", "a", "b"].map(|name| tree.path().join(name)));
    let found = |part| Some(places.find(part)?.strip_prefix(tree.path()).unwrap().to_path_buf());
    assert_eq!(found(Part::Nvrtc), Some("a/lib/libnvrtc.so.12".into()));
    assert_eq!(found(Part::Nvvm), Some("b/nvvm/lib64/libnvvm.so.4".into()));
    assert_eq!(found(Part::Libdevice), Some("b/nvvm/libdevice/libdevice.10.bc".into()));
    assert_eq!(found(Part::NvJitLink), None);
}

#[cfg(unix)]
#[test]
fn a_link_to_nothing_is_passed_over() {
    let tree = tree(&["libnvrtc.so.12"]);
    std::os::unix::fs::symlink("nothing", tree.path().join("libnvrtc.so.13")).unwrap();
    let found = Places::of([tree.path()]).find(Part::Nvrtc).unwrap();
    assert_eq!(found, tree.path().join("libnvrtc.so.12"));
}

#[cfg(not(windows))]
#[test]
fn the_environment_names_places_in_order() {
    let tree = tree(&[
        "own/libnvrtc.so.12",
        "home/lib64/libnvrtc.so.13",
        "loader/lib64/libnvJitLink.so.13",
        "loader/nvvm/libdevice/libdevice.10.bc",
        "venv/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
        "venv/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13",
        "venv/lib/python3.12/site-packages/nvidia/cu13/lib/libnvvm.so.4",
        "user/.local/lib/python3.12/site-packages/nvidia/cu13/lib/libnvJitLink.so.13",
    ]);
    let found = |named: &[(&str, &str)], part| {
        let places = Places::by(|name| {
            let (_, below) = named.iter().find(|(other, _)| *other == name)?;
            Some(tree.path().join(below).into_os_string())
        });
        Some(places.find(part)?.strip_prefix(tree.path()).ok()?.to_str().unwrap().to_owned())
    };
    let all = [("CUDA_HOME", "home"), ("WARMSTART_CUDA", "own"), ("VIRTUAL_ENV", "venv")];
    assert_eq!(found(&all, Part::Nvrtc).unwrap(), "own/libnvrtc.so.12");
    assert_eq!(found(&all[..1], Part::Nvrtc).unwrap(), "home/lib64/libnvrtc.so.13");
    let venv = "venv/lib/python3.12/site-packages/nvidia/cu13/lib/";
    assert_eq!(found(&all[2..], Part::Nvrtc).unwrap(), format!("{venv}libnvrtc.so.13"));
    assert_eq!(found(&all[2..], Part::Nvvm).unwrap(), format!("{venv}libnvvm.so.4"));
    assert_eq!(found(&all, Part::Nvvm), None, "who names a folder means that one");
    let own = [("HOME", "user")];
    let user = "user/.local/lib/python3.12/site-packages/nvidia/cu13/lib/libnvJitLink.so.13";
    assert_eq!(found(&own, Part::NvJitLink).unwrap(), user);
    let loader = [("LD_LIBRARY_PATH", "loader/lib64")];
    assert_eq!(found(&loader, Part::NvJitLink).unwrap(), "loader/lib64/libnvJitLink.so.13");
    assert_eq!(found(&loader, Part::Libdevice).unwrap(), "loader/nvvm/libdevice/libdevice.10.bc");
}

const ID: [u8; 20] = *b"a build id of twenty";

fn put(bytes: &mut [u8], at: usize, len: usize, number: u64) {
    bytes[at..at + len].copy_from_slice(&number.to_le_bytes()[..len]);
}

fn note(name: &[u8], kind: u32, content: &[u8], align: usize) -> Vec<u8> {
    let mut note = [name.len() as u32, content.len() as u32, kind].map(u32::to_le_bytes).concat();
    note.extend(name);
    note.resize(note.len().next_multiple_of(align), 0);
    note.extend(content);
    note.resize(note.len().next_multiple_of(align), 0);
    note
}

/// Whether of 64 bits, and its number.
type Kind = (bool, Machine);

/// A library of three segments, the last with these notes, then two sections.
fn library(machine: Kind, notes: &[u8], align: u64) -> Vec<u8> {
    let is_64 = machine.0;
    let pick = |a: usize, b: usize| if is_64 { a } else { b };
    let (header, segment, section, word) = (pick(64, 52), pick(56, 32), pick(64, 40), pick(8, 4));
    let notes_at = header + 3 * segment;
    let sections_at = notes_at + notes.len();
    let mut bytes = vec![0; sections_at + 2 * section];
    bytes[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', if is_64 { 2 } else { 1 }, 1, 1]);
    put(&mut bytes, 16, 2, 3);
    put(&mut bytes, 18, 2, u64::from(machine.1.0));
    put(&mut bytes, pick(32, 28), word, header as u64);
    put(&mut bytes, pick(40, 32), word, sections_at as u64);
    for (at, number) in [(54, segment), (56, 3), (58, section), (60, 2)] {
        put(&mut bytes, at - pick(0, 12), 2, number as u64);
    }
    let segments = [(1, 0, sections_at), (6, header, 3 * segment), (4, notes_at, notes.len())];
    for (place, (kind, at, len)) in segments.into_iter().enumerate() {
        let segment = header + place * segment;
        put(&mut bytes, segment, 4, kind);
        put(&mut bytes, segment + pick(8, 4), word, at as u64);
        put(&mut bytes, segment + pick(32, 16), word, len as u64);
        put(&mut bytes, segment + pick(48, 28), word, align);
    }
    bytes[notes_at..sections_at].copy_from_slice(notes);
    bytes
}

const MACHINES: [Kind; 2] = [(true, elf::EM_X86_64), (false, elf::EM_386)];

fn build_id_in(bytes: &[u8], machine: Kind) -> Result<Option<Vec<u8>>, String> {
    match machine {
        (true, number) => super::read_build_id::<elf::FileHeader64<Endianness>>(Cursor::new(bytes), number),
        (false, number) => super::read_build_id::<elf::FileHeader32<Endianness>>(Cursor::new(bytes), number),
    }
}

#[test]
fn the_build_id_is_found_among_other_notes() {
    for machine in MACHINES {
        for align in [4, 8] {
            let notes = [
                note(b"GNU\0", 5, &[7; 13], align),
                note(b"Another\0", 3, &[8; 20], align),
                note(b"GNU\0", 3, &ID, align),
                note(b"GNU\0", 3, &[9; 20], align),
            ]
            .concat();
            let library = library(machine, &notes, align as u64);
            assert_eq!(build_id_in(&library, machine).unwrap().as_deref(), Some(&ID[..]));
        }
    }
}

#[test]
fn a_library_without_a_build_id_says_so() {
    for notes in [Vec::new(), note(b"GNU\0", 3, &[], 4), note(b"GNU\0", 3, &[1; 65], 4)] {
        assert_eq!(build_id_in(&library(MACHINES[0], &notes, 4), MACHINES[0]).unwrap(), None);
    }
}

#[test]
fn every_truncation_is_noticed() {
    for machine in MACHINES {
        let library = library(machine, &note(b"GNU\0", 3, &ID, 4), 4);
        assert!(build_id_in(&library, machine).is_ok());
        for len in 0..library.len() {
            let error = build_id_in(&library[..len], machine).unwrap_err();
            let is_noticed = error.contains(if len < 4 { "is no shared library" } else { "is cut short" });
            assert!(is_noticed, "{len}: {error}");
        }
    }
}

#[test]
fn no_byte_that_is_changed_is_a_panic_or_much_memory() {
    for machine in MACHINES {
        let library = library(machine, &note(b"GNU\0", 3, &ID, 4), 4);
        for at in 0..library.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = library.clone();
                changed[at] = byte;
                let _ = build_id_in(&changed, machine);
            }
        }
    }
}

#[test]
fn what_is_no_library_of_this_machine_is_named() {
    let [machine, other] = MACHINES;
    let library = library(machine, &[], 4);
    let said = |bytes: &[u8], machine| build_id_in(bytes, machine).unwrap_err();
    assert!(said(b"", machine).contains("empty"));
    assert!(said(b"INPUT(libnvrtc.so.13)\n", machine).contains("text"));
    assert!(said(b"MZ\x90\0", machine).contains("Windows"));
    assert!(said(b"!<arch>\n", machine).contains("static library"));
    assert!(said(&library, other).contains("another machine"));
    assert!(said(&library, (true, elf::EM_AARCH64)).contains("another machine: number 62"));
    let mut program = library.clone();
    put(&mut program, 16, 2, 2);
    assert!(said(&program, machine).contains("a program"));
    let mut swapped = library;
    swapped[5] = 2;
    assert!(said(&swapped, machine).contains("another machine"));
}
