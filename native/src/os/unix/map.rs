//! Files of packed weights.

use std::{fs::File, io, ops::Range, os::unix::fs::FileExt, path::Path};

use memmap2::{Advice, MmapRaw};

/// Gives a range of a file blocks.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] where the file system cannot, or what the system reports.
#[cfg(not(target_vendor = "apple"))]
pub(crate) fn allocate(file: &File, range: &Range<u64>) -> io::Result<()> {
    use rustix::{fs::FallocateFlags, io::Errno};

    let len = range.end.saturating_sub(range.start);
    loop {
        match rustix::fs::fallocate(file, FallocateFlags::empty(), range.start, len) {
            Err(Errno::INTR) => {}
            Err(Errno::NOSYS | Errno::OPNOTSUPP) => return Err(io::ErrorKind::Unsupported.into()),
            result => return Ok(result?),
        }
    }
}

#[cfg(target_vendor = "apple")]
pub(crate) fn allocate(_: &File, _: &Range<u64>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn read_at(file: &File, at: u64, into: &mut [u8]) -> io::Result<()> {
    file.read_exact_at(into, at)
}

pub(crate) fn write_at(file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
    file.write_all_at(bytes, at)
}

#[cfg(target_os = "linux")]
pub(crate) fn start_write_back(file: &File, range: &Range<u64>) {
    use std::os::fd::AsRawFd;

    let len = i64::try_from(range.end.saturating_sub(range.start));
    let (Ok(start), Ok(len)) = (i64::try_from(range.start), len) else { return };
    // SAFETY: a call about an open file, with nothing but numbers.
    unsafe {
        libc::sync_file_range(file.as_raw_fd(), start, len, libc::SYNC_FILE_RANGE_WRITE);
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) const fn start_write_back(_: &File, _: &Range<u64>) {}

pub(crate) fn sync_name(path: &Path) {
    let Some(directory) = path.parent() else { return };
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    // The file has its name; that power loss may take it away again is all that a failure means.
    let _ = super::sync_directory(directory);
}

pub(crate) fn prefetch(map: &MmapRaw) {
    // Advice that is not taken costs nothing but what it would have saved.
    let _ = map.advise(Advice::WillNeed);
}

#[cfg(target_os = "linux")]
pub(crate) fn release(map: &MmapRaw) {
    // SAFETY: the mapping is shared and of a file, so what was written to its pages stays in the file's.
    let _ = unsafe { map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
}

#[cfg(not(target_os = "linux"))]
pub(crate) const fn release(_: &MmapRaw) {}
