//! What the file of a shared library says about itself, in a few short reads.

use std::io::{Read, Seek};

use object::{
    Endianness,
    elf::{self, Machine},
    read::{
        ReadCache, ReadRef,
        elf::{FileHeader, NoteIterator, ProgramHeader},
    },
};

/// Notes are read so far; a build id is in the first hundred bytes.
const MAX_NOTES: u64 = 1 << 16;
/// A build id is no longer: that of a linker has 8, 16 or 20 bytes, or up to 32 that somebody chose.
const MAX_BUILD_ID: usize = 64;

/// The header of a file that this process can load.
#[cfg(target_pointer_width = "64")]
pub(in crate::target::cuda) type HostHeader = elf::FileHeader64<Endianness>;
#[cfg(not(target_pointer_width = "64"))]
pub(in crate::target::cuda) type HostHeader = elf::FileHeader32<Endianness>;

/// The build id of the shared library, if it has one. All that the loader will map is there.
///
/// # Errors
/// It is not a shared library that this machine can load. What it is instead completes "the file ...".
pub(super) fn build_id(file: impl Read + Seek) -> Result<Option<Vec<u8>>, String> {
    read::<HostHeader>(file, host())
}

/// As ELF numbers the machine that this was compiled for, or zero if NVIDIA makes no libraries for it.
const fn host() -> Machine {
    if cfg!(target_arch = "x86_64") {
        elf::EM_X86_64
    } else if cfg!(target_arch = "aarch64") {
        elf::EM_AARCH64
    } else {
        elf::EM_NONE
    }
}

fn read<H: FileHeader<Endian = Endianness>>(
    file: impl Read + Seek,
    machine: Machine,
) -> Result<Option<Vec<u8>>, String> {
    let data = &ReadCache::new(file);
    let damaged = |error: &str| format!("is damaged or cannot be read: {error}");
    let len = data.len().map_err(|()| damaged("its length is unknown"))?;
    let has = |end: Option<u64>| match end.ok_or_else(|| damaged("an address in it cannot be"))? {
        end if end > len => Err(format!("is cut short: it has {len} bytes and should have {end} or more")),
        _ => Ok(()),
    };
    let start = data.read_bytes_at(0, len.min(64)).map_err(|()| damaged("its start"))?;
    if !start.starts_with(&elf::ELFMAG) {
        return Err(format!("is no shared library: it is {}", what_it_is(start)));
    }
    has(Some(size_of::<H>() as u64))?;
    let header = H::parse(data).map_err(|_| "is a library for another machine".to_owned())?;
    let endian = header.endian().map_err(|error| damaged(&error.to_string()))?;
    let found = header.e_machine(endian);
    if endian != Endianness::default() || found != machine {
        return Err(format!("is a library for another machine: number {} of ELF", found.0));
    }
    if header.e_type(endian) != elf::ET_DYN {
        return Err("is no shared library: it is a program or an object".into());
    }
    // The sections come last in most files, so one that was cut lacks them first.
    let sections = u64::from(header.e_shnum(endian)) * u64::from(header.e_shentsize(endian));
    has(header.e_shoff(endian).into().checked_add(sections))?;
    let segments = u64::from(header.e_phnum(endian)) * u64::from(header.e_phentsize(endian));
    has(header.e_phoff(endian).into().checked_add(segments))?;
    let segments = header.program_headers(endian, data).map_err(|error| damaged(&error.to_string()))?;
    let mut build_id = None;
    for segment in segments {
        let size: u64 = segment.p_filesz(endian).into();
        if matches!(segment.p_type(endian), elf::PT_LOAD | elf::PT_NOTE) {
            has(segment.p_offset(endian).into().checked_add(size))?;
        }
        if build_id.is_none() && size <= MAX_NOTES {
            build_id = segment.notes(endian, data).ok().flatten().and_then(build_id_of);
        }
    }
    Ok(build_id)
}

/// The build id among notes.
pub(in crate::target::cuda) fn build_id_of<H: FileHeader<Endian = Endianness>>(
    mut notes: NoteIterator<'_, H>,
) -> Option<Vec<u8>> {
    while let Some(note) = notes.next().ok()? {
        let is_build_id =
            note.name() == elf::ELF_NOTE_GNU && note.n_type(Endianness::default()) == elf::NT_GNU_BUILD_ID;
        if is_build_id && (1..=MAX_BUILD_ID).contains(&note.desc().len()) {
            return Some(note.desc().to_vec());
        }
    }
    None
}

fn what_it_is(start: &[u8]) -> &'static str {
    match start {
        [] => "empty",
        [b'M', b'Z', ..] => "a library for Windows",
        [b'!', b'<', b'a', b'r', b'c', b'h', ..] => "a static library",
        _ if start.iter().all(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~')) => "text",
        _ => "something else",
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

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

    fn read(bytes: &[u8], machine: Kind) -> Result<Option<Vec<u8>>, String> {
        match machine {
            (true, number) => super::read::<elf::FileHeader64<Endianness>>(Cursor::new(bytes), number),
            (false, number) => super::read::<elf::FileHeader32<Endianness>>(Cursor::new(bytes), number),
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
                assert_eq!(read(&library, machine).unwrap().as_deref(), Some(&ID[..]));
            }
        }
    }

    #[test]
    fn a_library_without_a_build_id_says_so() {
        for notes in [Vec::new(), note(b"GNU\0", 3, &[], 4), note(b"GNU\0", 3, &[1; 65], 4)] {
            assert_eq!(read(&library(MACHINES[0], &notes, 4), MACHINES[0]).unwrap(), None);
        }
    }

    #[test]
    fn every_truncation_is_noticed() {
        for machine in MACHINES {
            let library = library(machine, &note(b"GNU\0", 3, &ID, 4), 4);
            assert!(read(&library, machine).is_ok());
            for len in 0..library.len() {
                let error = read(&library[..len], machine).unwrap_err();
                let is_noticed =
                    error.contains(if len < 4 { "is no shared library" } else { "is cut short" });
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
                    let _ = read(&changed, machine);
                }
            }
        }
    }

    #[test]
    fn what_is_no_library_of_this_machine_is_named() {
        let [machine, other] = MACHINES;
        let library = library(machine, &[], 4);
        let said = |bytes: &[u8], machine| read(bytes, machine).unwrap_err();
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
}
