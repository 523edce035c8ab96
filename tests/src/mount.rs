//! Small file systems of the tests' own: full ones and read-only ones.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// A tmpfs of a given size, unmounted when dropped.
#[derive(Debug)]
pub struct Mount {
    path: PathBuf,
    /// Removed after it is unmounted.
    _directory: tempfile::TempDir,
}

impl Mount {
    /// Mounts a tmpfs of `kib` KiB. Nothing, and a line that says so, where mounting is not allowed.
    #[must_use]
    pub fn tmpfs(kib: u32) -> Option<Self> {
        let directory = tempfile::tempdir().ok()?;
        let path = directory.path().to_path_buf();
        let options = format!("size={kib}k,mode=0700");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&path).status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self { path, _directory: directory });
        }
        eprintln!("SKIPPED: this test mounts a tmpfs, which needs Linux and root");
        None
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it read-only, or writable again.
    ///
    /// # Panics
    /// If the system refuses.
    pub fn set_read_only(&self, read_only: bool) {
        let options = if read_only { "remount,ro" } else { "remount,rw" };
        let status = Command::new("mount").args(["-o", options]).arg(&self.path).status();
        assert!(status.is_ok_and(|status| status.success()), "remounting failed");
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}
