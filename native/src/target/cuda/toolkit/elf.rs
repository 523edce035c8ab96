//! What the file of a shared library says about itself, in a few short reads.

use std::{
    fmt,
    io::{self, Read, Seek, SeekFrom},
};

/// A file has at most so many program headers; libraries have a dozen.
const MAX_SEGMENTS: u64 = 1024;
/// Notes are read so far; a build id is in the first hundred bytes.
const MAX_NOTES: u64 = 1 << 16;
/// A build id is no longer: that of a linker has 8, 16 or 20 bytes, or up to 32 that somebody chose.
const MAX_BUILD_ID: usize = 64;

const SHARED_OBJECT: u16 = 3;
const LOAD: u32 = 1;
const NOTE: u32 = 4;
const GNU_BUILD_ID: u32 = 3;

/// Which files a process can load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Machine {
    /// 1 for 32 bits, 2 for 64.
    class: u8,
    /// As ELF numbers them.
    number: u16,
}

/// Why a file cannot be loaded. Completes "the file ...".
#[derive(Debug)]
pub(super) enum ElfError {
    Io(io::Error),
    /// What it is instead.
    NotElf(&'static str),
    OtherMachine(String),
    NotShared,
    /// How many bytes it should have, and has.
    CutShort(u64, u64),
    Damaged(&'static str),
}

/// The build id of the shared library, if it has one. All that the loader will map is there.
///
/// # Errors
/// It is not a shared library that this machine can load.
pub(super) fn build_id(file: &mut (impl Read + Seek), machine: Machine) -> Result<Option<Vec<u8>>, ElfError> {
    let len = file.seek(SeekFrom::End(0))?;
    let mut file = Parts { file, len };
    let mut start = [0; 64];
    let known = file.start(&mut start)?;
    let is_64 = header(known, machine)?;
    let header = file.part(0, if is_64 { 64 } else { 52 })?;
    let field = |at: (usize, usize)| {
        let (at, len) = if is_64 { (at.0, 8) } else { (at.1, 4) };
        number(&header, at, len)
    };
    let half = |at: (usize, usize)| number(&header, if is_64 { at.0 } else { at.1 }, 2);

    // The sections come last in most files, so one that was cut lacks them first.
    let sections = field((40, 32));
    if sections != 0 {
        file.has(sections, half((58, 46)) * half((60, 48)))?;
    }
    let (segment_len, segments) = (half((54, 42)), half((56, 44)));
    if segments == 0 || segments > MAX_SEGMENTS || segment_len < if is_64 { 56 } else { 32 } {
        return Err(ElfError::Damaged("its table of segments cannot be"));
    }
    let table = file.part(field((32, 28)), segments * segment_len)?;
    let mut build_id = None;
    for segment in table.chunks_exact(usize::try_from(segment_len).unwrap_or(usize::MAX)) {
        let kind = u32::try_from(number(segment, 0, 4)).unwrap_or(0);
        let [offset, size, align] = if is_64 {
            [8, 32, 48].map(|at| number(segment, at, 8))
        } else {
            [4, 16, 28].map(|at| number(segment, at, 4))
        };
        if kind == LOAD || kind == NOTE {
            file.has(offset, size)?;
        }
        if kind == NOTE && build_id.is_none() {
            build_id = build_id_of_notes(&file.part(offset, size.min(MAX_NOTES))?, align);
        }
    }
    Ok(build_id)
}

/// The build id among notes.
pub(super) fn build_id_of_notes(mut notes: &[u8], align: u64) -> Option<Vec<u8>> {
    let padded = |len: u64| {
        let unit = if align == 8 { 8 } else { 4 };
        usize::try_from(len.checked_next_multiple_of(unit)?).ok()
    };
    loop {
        let head = notes.get(..12)?;
        let (name_len, len) = (number(head, 0, 4), number(head, 4, 4));
        let kind = number(head, 8, 4);
        // The name begins where the head ends, and with notes of eight is aligned together with it.
        let content = padded(12 + name_len)?;
        let id = notes.get(content..)?.get(..usize::try_from(len).ok()?)?;
        let is_gnu = notes.get(12..16) == Some(b"GNU\0") && name_len == 4;
        if is_gnu && kind == u64::from(GNU_BUILD_ID) && (1..=MAX_BUILD_ID).contains(&id.len()) {
            return Some(id.to_vec());
        }
        notes = notes.get(content.checked_add(padded(len)?)?..)?;
    }
}

/// Checks the first bytes of the file, and says whether it is of 64 bits.
fn header(start: &[u8], machine: Machine) -> Result<bool, ElfError> {
    if !start.starts_with(b"\x7fELF") {
        return Err(ElfError::NotElf(what_it_is(start)));
    }
    let Some(&[class, order]) = start.get(4..6) else {
        return Err(ElfError::CutShort(64, start.len() as u64));
    };
    if start.len() < 20 {
        return Err(ElfError::CutShort(64, start.len() as u64));
    }
    let number = |at| u16::try_from(number(start, at, 2)).unwrap_or(0);
    if order != 1 {
        return Err(ElfError::OtherMachine("a big-endian machine".into()));
    }
    if (Machine { class, number: number(18) }) != machine {
        return Err(ElfError::OtherMachine(machine_name(class, number(18))));
    }
    if number(16) != SHARED_OBJECT {
        return Err(ElfError::NotShared);
    }
    Ok(class == 2)
}

fn what_it_is(start: &[u8]) -> &'static str {
    match start {
        [] => "empty",
        [b'M', b'Z', ..] => "a library for Windows",
        [0xCF | 0xCE, 0xFA, 0xED, 0xFE, ..] | [0xCA, 0xFE, 0xBA, 0xBE, ..] => "a library for macOS",
        [b'!', b'<', b'a', b'r', b'c', b'h', ..] => "a static library",
        _ if start.iter().all(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~')) => "text",
        _ => "something else",
    }
}

fn machine_name(class: u8, number: u16) -> String {
    let name = match number {
        3 => "x86",
        21 => "64-bit POWER",
        40 => "32-bit Arm",
        62 if class == 1 => "x32",
        62 => "64-bit x86",
        183 => "64-bit Arm",
        243 => "RISC-V",
        _ => return format!("machine {number} of ELF"),
    };
    name.into()
}

/// The little-endian number there; zero where there is none, which no caller asks for.
fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    let bytes = bytes.get(at..at + len).unwrap_or_default();
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

struct Parts<'a, F> {
    file: &'a mut F,
    len: u64,
}

impl<F: Read + Seek> Parts<'_, F> {
    fn start<'b>(&mut self, into: &'b mut [u8]) -> Result<&'b [u8], ElfError> {
        let len = into.len().min(usize::try_from(self.len).unwrap_or(usize::MAX));
        let into = &mut into[..len];
        self.file.seek(SeekFrom::Start(0))?;
        self.file.read_exact(into)?;
        Ok(into)
    }

    fn has(&self, at: u64, len: u64) -> Result<(), ElfError> {
        let end = at.checked_add(len).ok_or(ElfError::Damaged("an address in it cannot be"))?;
        if end <= self.len { Ok(()) } else { Err(ElfError::CutShort(end, self.len)) }
    }

    /// At most [`MAX_SEGMENTS`] segments or [`MAX_NOTES`] bytes.
    fn part(&mut self, at: u64, len: u64) -> Result<Vec<u8>, ElfError> {
        self.has(at, len)?;
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        self.file.seek(SeekFrom::Start(at))?;
        self.file.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

impl Machine {
    /// The one that this was compiled for.
    pub(super) const HOST: Self = Self {
        class: if cfg!(target_pointer_width = "64") { 2 } else { 1 },
        number: if cfg!(target_arch = "x86_64") {
            62
        } else if cfg!(target_arch = "aarch64") {
            183
        } else if cfg!(target_arch = "x86") {
            3
        } else if cfg!(target_arch = "arm") {
            40
        } else if cfg!(target_arch = "powerpc64") {
            21
        } else if cfg!(any(target_arch = "riscv32", target_arch = "riscv64")) {
            243
        } else {
            0
        },
    };
}

impl From<io::Error> for ElfError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for ElfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot be read: {error}"),
            Self::NotElf(what) => write!(f, "is no shared library: it is {what}"),
            Self::OtherMachine(machine) => write!(f, "is a library for another machine: {machine}"),
            Self::NotShared => f.write_str("is no shared library: it is a program or an object"),
            Self::CutShort(needed, found) => {
                write!(f, "is cut short: it has {found} bytes and should have {needed} or more")
            }
            Self::Damaged(what) => write!(f, "is damaged: {what}"),
        }
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

    /// A library of three segments, the last with these notes, then two sections.
    fn library(machine: Machine, notes: &[u8], align: u64) -> Vec<u8> {
        let is_64 = machine.class == 2;
        let pick = |a: usize, b: usize| if is_64 { a } else { b };
        let (header, segment, section, word) = (pick(64, 52), pick(56, 32), pick(64, 40), pick(8, 4));
        let notes_at = header + 3 * segment;
        let sections_at = notes_at + notes.len();
        let mut bytes = vec![0; sections_at + 2 * section];
        bytes[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', machine.class, 1, 1]);
        put(&mut bytes, 16, 2, 3);
        put(&mut bytes, 18, 2, u64::from(machine.number));
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

    const MACHINES: [Machine; 2] = [Machine { class: 2, number: 62 }, Machine { class: 1, number: 3 }];

    fn read(bytes: &[u8], machine: Machine) -> Result<Option<Vec<u8>>, ElfError> {
        build_id(&mut Cursor::new(bytes), machine)
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
                let is_noticed = if len < 4 {
                    matches!(error, ElfError::NotElf(_))
                } else {
                    matches!(error, ElfError::CutShort(..))
                };
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
        let said = |bytes: &[u8], machine| read(bytes, machine).unwrap_err().to_string();
        assert!(said(b"", machine).contains("empty"));
        assert!(said(b"INPUT(libnvrtc.so.13)\n", machine).contains("text"));
        assert!(said(b"MZ\x90\0", machine).contains("Windows"));
        assert!(said(b"\xcf\xfa\xed\xfe", machine).contains("macOS"));
        assert!(said(b"!<arch>\n", machine).contains("static library"));
        assert!(said(&library, other).contains("64-bit x86"));
        let mut program = library.clone();
        put(&mut program, 16, 2, 2);
        assert!(said(&program, machine).contains("a program"));
        let mut swapped = library;
        swapped[5] = 2;
        assert!(said(&swapped, machine).contains("big-endian"));
    }
}
