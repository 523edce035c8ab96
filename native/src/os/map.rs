//! The file system as packs use it: allocation, shared mappings, write-back and locks.
//!
//! [`MapBackend`] has all operations, except canonical paths and the removal of files that dead processes left beside a pack, which
//! bypass it. [`LocalMapBackend`] is the real file system; tests substitute a disk that fails or blocks on
//! request, or that has no mappings.

#[cfg(not(unix))]
use std::io::{Read, Seek, SeekFrom, Write};
use std::{
    fmt,
    fs::{self, File, TryLockError},
    io,
    ops::Range,
    path::Path,
    ptr::NonNull,
    time::Duration,
};

use cfg_if::cfg_if;
use memmap2::{MmapOptions, MmapRaw};

use super::{
    disk::{FileMetadata, LocalBackend, make_private_directories, private_options, within},
    platform,
};

/// The alignment of every payload, in bytes, in a file and in memory.
pub const ALIGNMENT: usize = warmstart_core::trailer::ALIGNMENT as usize;

/// The file system as packs use it. No method follows a link in the last component of a path. Callers never truncate or rewrite
/// committed bytes.
pub trait MapBackend: fmt::Debug + Send + Sync {
    /// Opens a regular file.
    ///
    /// # Errors
    /// Any I/O error of the system.
    fn open(&self, path: &Path, access: Access) -> io::Result<File>;

    /// Opens a file for reading and writing. Creates it and its missing parent directories, accessible to their owner only.
    ///
    /// # Errors
    /// Any I/O error of the system.
    fn open_to_write(&self, path: &Path) -> io::Result<File>;

    /// Creates a file that must not exist, accessible to its owner only.
    ///
    /// # Errors
    /// Any I/O error of the system.
    fn create(&self, path: &Path) -> io::Result<File>;

    /// Returns the metadata of an open file.
    ///
    /// # Errors
    /// Any I/O error of the system.
    fn metadata(&self, file: &File) -> io::Result<FileMetadata>;

    /// Returns the metadata of a path, without opening it.
    ///
    /// # Errors
    /// Any I/O error of the system.
    fn metadata_at(&self, path: &Path) -> io::Result<FileMetadata>;

    /// Waits for an OS lock on a file, at most `timeout`. The system releases it when the holder dies.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] on a timeout, or any I/O error of the system.
    fn lock(&self, file: &File, lock: Lock, timeout: Duration) -> io::Result<()>;

    /// Releases all locks. Closing the file would not suffice: on Linux, a mapping of it keeps them, and so does a child that was
    /// just forked, until it executes another program.
    fn unlock(&self, file: &File);

    /// Takes [`Lock::Shared`] if it is free and compatible with [`Lock::Writer`], without waiting. It is held while the file is open
    /// or mapped. Returns whether it was taken.
    fn hold(&self, file: &File) -> bool;

    /// Allocates blocks for a range of a file and extends the file to its end, so that writing to a mapping of it cannot fail.
    ///
    /// # Errors
    /// [`io::ErrorKind::StorageFull`] and the like, or [`io::ErrorKind::Unsupported`] if the file system cannot guarantee it.
    fn allocate(&self, file: &File, range: Range<u64>) -> io::Result<()>;

    /// Maps a range of a file, shared with all other mappings of it.
    ///
    /// # Errors
    /// Any I/O error of the system; [`io::ErrorKind::Unsupported`] if mapping is unavailable.
    fn map(&self, file: &File, range: Range<u64>, access: Access) -> io::Result<Mapping>;

    /// Reads exactly `into.len()` bytes from offset `at`.
    ///
    /// # Errors
    /// Any I/O error of the system.
    fn read_at(&self, file: &File, at: u64, into: &mut [u8]) -> io::Result<()>;

    /// Reads a range of a file into memory. The range is within the length that the file itself claims.
    ///
    /// # Errors
    /// Any I/O error of the system; [`io::ErrorKind::OutOfMemory`].
    fn read(&self, file: &File, range: Range<u64>) -> io::Result<Vec<u8>> {
        let len = len_of(&range)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len)?;
        bytes.resize(len, 0);
        self.read_at(file, range.start, &mut bytes)?;
        Ok(bytes)
    }

    /// Maps a range of a file, or reads it if it cannot be mapped.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    fn map_or_read(&self, file: &File, range: Range<u64>) -> io::Result<Mapping> {
        self.map(file, range.clone(), Access::Read)
            .or_else(|_| Mapping::filled(len_of(&range)?, |bytes| self.read_at(file, range.start, bytes)))
    }

    /// Writes all of `bytes` at offset `at`.
    ///
    /// # Errors
    /// Any I/O error of the system.
    fn write_at(&self, file: &File, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Starts writing a range to the medium, without waiting. Does nothing if the system does not support it.
    fn start_write_back(&self, file: &File, range: Range<u64>);

    /// Waits until the contents and the length of a file are on the medium.
    ///
    /// # Errors
    /// Any I/O error of the system.
    fn sync(&self, file: &File) -> io::Result<()>;

    /// Sets the length of a file.
    ///
    /// # Errors
    /// Any I/O error of the system.
    fn set_len(&self, file: &File, len: u64) -> io::Result<()>;

    /// Renames a file within its directory, replaces the file that had the new name, and waits until that is on the
    /// medium.
    ///
    /// # Errors
    /// Any I/O error of the system.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Waits until the name of a new file is on the medium, on systems where directories are synced separately.
    fn sync_name(&self, _path: &Path) {}

    /// Removes a file.
    ///
    /// # Errors
    /// Any I/O error of the system.
    fn remove(&self, path: &Path) -> io::Result<()>;
}

/// A lock of a file.
///
/// On a local file system of Linux, the two are independent: readers hold the shared one, which keeps other programs
/// from locking and truncating the file, as ExecuTorch does. Elsewhere they exclude each other, and readers hold none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Excludes exclusive locks of the whole file (`flock`, `LOCK_EX`).
    Shared,
    /// Excludes those and other writers of this library. The file must be open for writing.
    Writer,
}

/// The access that a file is opened or mapped for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading.
    Read,
    /// Reading and writing.
    Write,
}

/// The file system of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalMapBackend {
    disk: LocalBackend,
}

impl LocalMapBackend {
    /// Creates a disk with the permissions of the current user.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl MapBackend for LocalMapBackend {
    fn open(&self, path: &Path, access: Access) -> io::Result<File> {
        private_options().read(true).write(access == Access::Write).open(path)
    }

    fn open_to_write(&self, path: &Path) -> io::Result<File> {
        let open = || private_options().read(true).write(true).create(true).truncate(false).open(path);
        open().or_else(|error| match path.parent() {
            Some(parent) if error.kind() == io::ErrorKind::NotFound => {
                make_private_directories(parent)?;
                open()
            }
            _ => Err(error),
        })
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        private_options().read(true).write(true).create_new(true).open(path)
    }

    fn metadata(&self, file: &File) -> io::Result<FileMetadata> {
        Ok(self.disk.describe(&file.metadata()?))
    }

    fn metadata_at(&self, path: &Path) -> io::Result<FileMetadata> {
        Ok(self.disk.describe(&fs::symlink_metadata(path)?))
    }

    fn lock(&self, file: &File, lock: Lock, timeout: Duration) -> io::Result<()> {
        within(timeout, || match lock {
            Lock::Shared => file.try_lock_shared(),
            Lock::Writer if !has_two_kinds(file) => file.try_lock(),
            // On a local file system, readers hold a shared lock of the whole file, and the writer also holds one of its bytes,
            // which is independent of the former. Both belong to the open file description, like its mappings.
            Lock::Writer => {
                file.try_lock_shared()?;
                lock_bytes(file).inspect_err(|_| _ = file.unlock())
            }
        })
    }

    fn unlock(&self, file: &File) {
        // Unlocking an open file cannot fail, except through a bug.
        unlock_bytes(file);
        let _ = file.unlock();
    }

    fn hold(&self, file: &File) -> bool {
        has_two_kinds(file) && file.try_lock_shared().is_ok()
    }

    fn allocate(&self, file: &File, range: Range<u64>) -> io::Result<()> {
        #[cfg(all(unix, not(target_vendor = "apple")))]
        loop {
            use rustix::{fs::FallocateFlags, io::Errno};

            let len = range.end.saturating_sub(range.start);
            match rustix::fs::fallocate(file, FallocateFlags::empty(), range.start, len) {
                Err(Errno::INTR) => {}
                Err(Errno::NOSYS | Errno::OPNOTSUPP) => break,
                result => return Ok(result?),
            }
        }
        write_zeros(self, file, range)
    }

    fn map(&self, file: &File, range: Range<u64>, access: Access) -> io::Result<Mapping> {
        let too_long = |_| io::Error::from(io::ErrorKind::Unsupported);
        let len = usize::try_from(range.end.saturating_sub(range.start)).map_err(too_long)?;
        let mut options = MmapOptions::new();
        options.offset(range.start).len(len);
        let map = match access {
            Access::Read => options.map_raw_read_only(file)?,
            Access::Write => options.map_raw(file)?,
        };
        Ok(Mapping { map, is_mapped: true })
    }

    fn read_at(&self, file: &File, at: u64, into: &mut [u8]) -> io::Result<()> {
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::read_exact_at(file, into, at);
        #[cfg(not(unix))]
        {
            seek(file, at)?.read_exact(into)
        }
    }

    fn write_at(&self, file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::write_all_at(file, bytes, at);
        #[cfg(not(unix))]
        {
            seek(file, at)?.write_all(bytes)
        }
    }

    #[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "other systems cannot be asked"))]
    fn start_write_back(&self, file: &File, range: Range<u64>) {
        #[cfg(target_os = "linux")]
        if let (Ok(start), Ok(end)) = (i64::try_from(range.start), i64::try_from(range.end)) {
            let (descriptor, len) = (std::os::fd::AsRawFd::as_raw_fd(file), end.saturating_sub(start));
            // SAFETY: a call on an open file, with numbers as its only arguments.
            unsafe { libc::sync_file_range(descriptor, start, len, libc::SYNC_FILE_RANGE_WRITE) };
        }
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        file.set_len(len)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)?;
        self.sync_name(to);
        Ok(())
    }

    fn sync_name(&self, path: &Path) {
        let Some(directory) = path.parent() else { return };
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        // The file already has its name; a failure only means that a loss of power may undo the rename.
        let _ = platform::sync_directory(directory);
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}

fn len_of(range: &Range<u64>) -> io::Result<usize> {
    let len = range.end.saturating_sub(range.start);
    Ok(usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?)
}

/// Writes zeros, where a file system cannot allocate: written bytes have blocks.
fn write_zeros(disk: &dyn MapBackend, file: &File, range: Range<u64>) -> io::Result<()> {
    static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
    let len = disk.metadata(file)?.len;
    // Existing bytes are not overwritten.
    let mut at = range.start.max(len);
    while at < range.end {
        let part = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(ZEROS.len());
        disk.write_at(file, at, &ZEROS[..part])?;
        at += part as u64;
    }
    Ok(())
}

#[cfg(not(unix))]
fn seek(mut file: &File, at: u64) -> io::Result<&File> {
    file.seek(SeekFrom::Start(at))?;
    Ok(file)
}

cfg_if! {
    // On 32-bit Android, the struct of the C library is not the one that the kernel reads.
    if #[cfg(any(target_os = "linux", all(target_os = "android", target_pointer_width = "64")))] {
        /// Returns whether locks of a whole file and of its bytes are both supported and independent: not so on network
        /// file systems, before Linux 3.15, and in some sandboxes.
        fn has_two_kinds(file: &File) -> bool {
            platform::is_local(file) && call(file, libc::F_OFD_GETLK, libc::F_RDLCK).is_ok()
        }

        /// Locks all bytes that a file has or may get.
        fn lock_bytes(file: &File) -> Result<(), TryLockError> {
            call(file, libc::F_OFD_SETLK, libc::F_WRLCK).map_err(|error| match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EACCES) => TryLockError::WouldBlock,
                _ => TryLockError::Error(error),
            })
        }

        fn unlock_bytes(file: &File) {
            let _ = call(file, libc::F_OFD_SETLK, libc::F_UNLCK);
        }

        /// Requests or queries a lock of all bytes that a file has or may get.
        fn call(file: &File, command: libc::c_int, kind: libc::c_int) -> io::Result<()> {
            use std::os::fd::AsRawFd;

            // SAFETY: `flock` consists of integers, for which zeros are valid.
            let mut lock: libc::flock = unsafe { std::mem::zeroed() };
            // From the start, of any length, of no process: these fields are zero.
            lock.l_type = kind as libc::c_short;
            // SAFETY: a call on an open file, which reads or writes the struct before it returns.
            match unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) } {
                -1 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            }
        }
    } else {
        const fn has_two_kinds(_: &File) -> bool {
            false
        }

        fn lock_bytes(file: &File) -> Result<(), TryLockError> {
            file.try_lock()
        }

        const fn unlock_bytes(_: &File) {}
    }
}

/// Bytes of a mapped file, or memory without a file instead. They do not move.
pub struct Mapping {
    map: MmapRaw,
    /// Whether these are pages of a file. Their mapping is shared, so writes to it reach the file.
    is_mapped: bool,
}

impl Mapping {
    /// Allocates zeroed bytes on the heap. They begin at a page, and so at a multiple of [`ALIGNMENT`].
    ///
    /// # Errors
    /// [`io::ErrorKind::OutOfMemory`].
    pub fn heap(len: usize) -> io::Result<Self> {
        let map = MmapOptions::new().len(len).map_anon().map_err(|_| io::ErrorKind::OutOfMemory)?;
        Ok(Self { map: map.into(), is_mapped: false })
    }

    /// Allocates bytes on the heap, which `fill` initialises.
    pub(crate) fn filled(len: usize, fill: impl FnOnce(&mut [u8]) -> io::Result<()>) -> io::Result<Self> {
        let mapping = Self::heap(len)?;
        // SAFETY: the mapping is on the heap and not shared yet, so no other code reads or writes its bytes.
        fill(unsafe { std::slice::from_raw_parts_mut(mapping.start().as_ptr(), mapping.len()) })?;
        Ok(mapping)
    }

    /// Returns the address of the first byte.
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        NonNull::new(self.map.as_mut_ptr()).unwrap_or(NonNull::dangling())
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Returns whether the length is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether these are pages of a file, and not heap memory.
    #[must_use]
    pub const fn is_mapped(&self) -> bool {
        self.is_mapped
    }

    /// Returns the bytes of a range, or `None` if it is out of bounds.
    ///
    /// # Safety
    /// No code writes to the range while the returned slice lives.
    #[must_use]
    pub unsafe fn bytes(&self, range: Range<usize>) -> Option<&[u8]> {
        if range.start > range.end || range.end > self.len() {
            return None;
        }
        // SAFETY: the range is within the bytes, which live as long as `self`; the caller guarantees that no code writes to them.
        Some(unsafe { std::slice::from_raw_parts(self.start().as_ptr().add(range.start), range.len()) })
    }

    /// Asks the system to read the pages ahead of their use, without waiting.
    pub fn prefetch(&self) {
        #[cfg(unix)]
        if self.is_mapped {
            // If the system ignores this advice, only its benefit is lost.
            let _ = self.map.advise(memmap2::Advice::WillNeed);
        }
    }

    /// Releases the memory of the pages, which the file still has. Accessing them reads them again.
    pub fn release(&self) {
        #[cfg(target_os = "linux")]
        if self.is_mapped {
            // SAFETY: the mapping is shared and of a file, so changes to its pages stay in the file.
            let _ = unsafe { self.map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
        }
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapping").field("len", &self.len()).field("is_mapped", &self.is_mapped()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heap_is_zeroed_aligned_and_refused_if_too_long() {
        for len in [0, 1, 4095, 4096, 4097, 1 << 20] {
            let mapping = Mapping::heap(len).unwrap();
            assert_eq!((mapping.len(), mapping.is_mapped()), (len, false));
            assert!(mapping.start().as_ptr().addr().is_multiple_of(ALIGNMENT));
            // Neither does anything: the bytes are in no file.
            mapping.prefetch();
            mapping.release();
            // SAFETY: nothing writes to the mapping.
            assert!(unsafe { mapping.bytes(0..len) }.unwrap().iter().all(|byte| *byte == 0));
        }
        for len in [usize::MAX, isize::MAX.cast_unsigned() + 1, isize::MAX.cast_unsigned(), usize::MAX - 4095]
        {
            assert_eq!(Mapping::heap(len).unwrap_err().kind(), io::ErrorKind::OutOfMemory, "{len}");
        }
    }

    /// Tests the path for file systems that cannot allocate blocks.
    #[test]
    fn zeros_are_written_behind_existing_bytes_only() {
        let directory = tempfile::tempdir().unwrap();
        let (path, disk) = (directory.path().join("file"), LocalMapBackend::new());
        let file = disk.create(&path).unwrap();
        disk.write_at(&file, 0, b"1234").unwrap();
        for (range, len) in [(0..2, 4), (1..4, 4), (2..100, 100), (150..200_000, 200_000)] {
            write_zeros(&disk, &file, range.clone()).unwrap();
            let bytes = fs::read(&path).unwrap();
            assert_eq!((bytes.len(), &bytes[..4]), (len, &b"1234"[..]), "{range:?}");
            assert!(bytes[4..].iter().all(|byte| *byte == 0));
        }
    }
}
