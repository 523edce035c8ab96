//! Files of packed weights as ExecuTorch writes them: some that it wrote, and a reader that knows the text of the format alone.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

use crate::runtimes;

/// An entry, and its payload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The joined name of weight and bias.
    pub name: String,
    /// The offset of the payload in the file, in bytes.
    pub offset: usize,
    /// XNNPACK's seed.
    pub seed: u32,
    /// The payload.
    pub payload: Vec<u8>,
}

/// A file that ExecuTorch has open and so keeps locked.
#[derive(Debug)]
pub enum Opened {
    /// The file that it loaded: its mapping keeps the shared lock.
    Loaded(File),
    /// The file that it writes to, which it locked for itself and truncated.
    Writing(File),
    /// None: it packs into the heap.
    Nothing,
}

/// Does to the file under a path what ExecuTorch does when a model is initialised: the calls of `load_packed_cache` and
/// `initialize_for_runtime` in its XNNWeightsCache.cpp, in their order.
///
/// # Errors
/// If a call fails that does not fail for a lock.
pub fn initialize(path: &Path) -> io::Result<Opened> {
    if let Ok(file) = File::open(path)
        && file.try_lock_shared().is_ok()
        && has_footer(&file)?
    {
        return Ok(Opened::Loaded(file));
    }
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
    if file.try_lock().is_err() {
        return Ok(Opened::Nothing);
    }
    file.set_len(0)?;
    Ok(Opened::Writing(file))
}

fn has_footer(mut file: &File) -> io::Result<bool> {
    let mut footer = [0; 20];
    if file.metadata()?.len() < 20 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-20))?;
    file.read_exact(&mut footer)?;
    Ok(footer[12..] == *b"CWPX\x02\0\0\0")
}

/// Reads a file that ExecuTorch wrote.
///
/// # Panics
/// If it is not there: see [`runtimes::goldens`].
#[must_use]
pub fn golden(name: &str) -> Vec<u8> {
    let folder = runtimes::goldens().expect("WARMSTART_SHARED may name the folder above xpwc-goldens");
    let path = folder.join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The entries of a file of version 2, in the file's own order. A reader made from
/// `name_len u32 | name | file_offset u64 | data_size u64 | seed u32`, and a footer of 20 bytes,
/// `index_start u64 | entry_count u32 | magic u32 = 0x58505743 | version u32`.
///
/// # Panics
/// If the file is not as the text says.
#[must_use]
pub fn read(file: &[u8]) -> Vec<Entry> {
    let number = |at: usize, len: usize| {
        (0..len).rev().fold(0, |number, byte| number << 8 | u64::from(file[at + byte]))
    };
    let place = |at| usize::try_from(number(at, 8)).expect("it is within the file");
    let footer = file.len().checked_sub(20).expect("there is a footer");
    assert_eq!((number(footer + 12, 4), number(footer + 16, 4)), (0x5850_5743, 2));
    let start = place(footer);
    assert!(start <= footer);
    let (mut at, mut entries) = (start, Vec::new());
    for _ in 0..number(footer + 8, 4) {
        let name_len = number(at, 4) as usize;
        let name = String::from_utf8(file[at + 4..at + 4 + name_len].to_vec()).expect("names are UTF-8");
        at += 4 + name_len;
        let (offset, size, seed) = (place(at), place(at + 8), number(at + 16, 4) as u32);
        at += 20;
        assert!(offset + size <= start);
        entries.push(Entry { name, offset, seed, payload: file[offset..offset + size].to_vec() });
    }
    assert_eq!(at, footer, "the entries fill the index exactly");
    entries
}
