//! The file systems of a benchmark: a tmpfs and a disk.

use std::{
    io,
    path::{Path, PathBuf},
};

/// A place for files, gone when dropped.
#[derive(Debug)]
pub struct Medium {
    /// The name in rows.
    pub name: &'static str,
    directory: tempfile::TempDir,
}

impl Medium {
    /// On a tmpfs, if this machine has one.
    ///
    /// # Errors
    /// If no directory can be made in it.
    pub fn tmpfs() -> io::Result<Option<Self>> {
        let shared = Path::new("/dev/shm");
        if !is_tmpfs(shared) {
            eprintln!("there is no tmpfs at /dev/shm: its rows are missing");
            return Ok(None);
        }
        Ok(Some(Self { name: "tmpfs", directory: tempfile::tempdir_in(shared)? }))
    }

    /// On the disk that holds the build.
    ///
    /// # Errors
    /// If no directory can be made in it.
    pub fn disk() -> io::Result<Self> {
        let target = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../target"));
        if is_tmpfs(target) {
            eprintln!("the build is on a tmpfs: so are the rows that say disk");
        }
        Ok(Self { name: "disk", directory: tempfile::tempdir_in(target)? })
    }

    /// In this directory.
    ///
    /// # Errors
    /// If no directory can be made in it.
    pub fn below(directory: &Path) -> io::Result<Self> {
        let name = if is_tmpfs(directory) { "tmpfs" } else { "disk" };
        Ok(Self { name, directory: tempfile::tempdir_in(directory)? })
    }

    /// Returns the free space in bytes, where the system tells.
    #[must_use]
    pub fn free(&self) -> Option<u64> {
        #[cfg(unix)]
        return rustix::fs::statvfs(self.directory.path())
            .ok()
            .map(|facts| facts.f_bavail.saturating_mul(facts.f_frsize));
        #[cfg(not(unix))]
        None
    }

    /// A directory in it.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

#[cfg(target_os = "linux")]
fn is_tmpfs(path: &Path) -> bool {
    const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;
    rustix::fs::statfs(path).is_ok_and(|statistics| statistics.f_type == TMPFS_MAGIC)
}

#[cfg(not(target_os = "linux"))]
fn is_tmpfs(_: &Path) -> bool {
    false
}
