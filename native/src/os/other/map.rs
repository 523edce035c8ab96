//! Files of packed weights.

use std::{
    fs::{File, TryLockError},
    io::{self, Read, Seek, SeekFrom, Write},
    ops::Range,
    path::Path,
};

use memmap2::MmapRaw;

pub(crate) fn allocate(_: &File, _: &Range<u64>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn read_at(mut file: &File, at: u64, into: &mut [u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(into)
}

pub(crate) fn write_at(mut file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(at))?;
    file.write_all(bytes)
}

pub(crate) const fn start_write_back(_: &File, _: &Range<u64>) {}

pub(crate) fn try_lock_to_write(file: &File) -> Result<(), TryLockError> {
    file.try_lock()
}

pub(crate) fn unlock(file: &File) {
    // Of a file that is open and locked, nothing but a bug could fail here.
    let _ = file.unlock();
}

pub(crate) const fn hold(_: &File) -> bool {
    false
}

pub(crate) const fn sync_name(_: &Path) {}

pub(crate) const fn prefetch(_: &MmapRaw) {}

pub(crate) const fn release(_: &MmapRaw) {}
