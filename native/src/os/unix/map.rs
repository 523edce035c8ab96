//! Files of packed weights.

use std::{
    fs::{File, TryLockError},
    io,
    ops::Range,
    os::unix::fs::FileExt,
    path::Path,
};

use cfg_if::cfg_if;
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

cfg_if! {
    // On 32-bit Android, the lock that the C library declares is not the one that the kernel reads.
    if #[cfg(any(target_os = "linux", all(target_os = "android", target_pointer_width = "64")))] {
        /// Tries to take the lock of a writer: on a local file system a shared lock of the whole file, as readers hold it, and
        /// a lock of its bytes, which is another kind. Both belong to the open file, like its mappings.
        pub(crate) fn try_lock_to_write(file: &File) -> Result<(), TryLockError> {
            if !has_two_kinds(file) {
                return file.try_lock();
            }
            file.try_lock_shared()?;
            lock_bytes(file, libc::F_WRLCK).inspect_err(|_| _ = file.unlock())
        }

        pub(crate) fn unlock(file: &File) {
            // Of a file that is open and locked, nothing but a bug could fail here.
            let _ = lock_bytes(file, libc::F_UNLCK);
            let _ = file.unlock();
        }

        pub(crate) fn hold(file: &File) -> bool {
            has_two_kinds(file) && file.try_lock_shared().is_ok()
        }

        /// Whether locks of a whole file and of its bytes know nothing of each other, and there are both: not so on network
        /// file systems, before Linux 3.15, and in some sandboxes.
        fn has_two_kinds(file: &File) -> bool {
            super::is_local(file) && call(file, libc::F_OFD_GETLK, libc::F_RDLCK).is_ok()
        }

        /// Locks or unlocks all bytes that a file has or may have.
        fn lock_bytes(file: &File, kind: libc::c_int) -> Result<(), TryLockError> {
            call(file, libc::F_OFD_SETLK, kind).map_err(|error| match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EACCES) => TryLockError::WouldBlock,
                _ => TryLockError::Error(error),
            })
        }

        /// Asks for, or about, a lock of all bytes that a file has or may have.
        fn call(file: &File, command: libc::c_int, kind: libc::c_int) -> io::Result<()> {
            use std::os::fd::AsRawFd;

            // SAFETY: `flock` holds numbers alone, for which zeros are right.
            let mut lock: libc::flock = unsafe { std::mem::zeroed() };
            // From the start, of any length, for no process: what is not set is zero.
            lock.l_type = kind as libc::c_short;
            // SAFETY: a call about an open file, which reads the numbers, or writes others, before it returns.
            match unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) } {
                -1 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            }
        }
    } else {
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
    }
}

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
