//! Real mounts, where the tests run as root on Linux: media that are full or read-only.
//!
//! The build script includes this file as a module of its own, to try a mount.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// A mounted directory, unmounted when dropped.
#[derive(Debug)]
pub struct Mount {
    directory: PathBuf,
}

impl Mount {
    /// Mounts a file system in memory at `directory`, which is made; `size` is in bytes. Returns `None` where mounts are refused.
    #[must_use]
    pub fn memory(directory: &Path, size: u64) -> Option<Self> {
        std::fs::create_dir_all(directory).ok()?;
        let options = format!("size={size},mode=0700");
        Self::of(&["-t", "tmpfs", "-o", &options, "tmpfs"], directory)
    }

    /// Mounts `source` read-only at `directory`, which is made. Returns `None` where mounts are refused.
    #[must_use]
    pub fn read_only(source: &Path, directory: &Path) -> Option<Self> {
        std::fs::create_dir_all(directory).ok()?;
        let source = source.to_str()?;
        let mount = Self::of(&["--bind", source], directory)?;
        Self::run(&["-o", "remount,bind,ro"], directory).then_some(mount)
    }

    fn of(arguments: &[&str], directory: &Path) -> Option<Self> {
        Self::run(arguments, directory).then(|| Self { directory: directory.to_path_buf() })
    }

    fn run(arguments: &[&str], directory: &Path) -> bool {
        Command::new("mount")
            .args(arguments)
            .arg(directory)
            .output()
            .is_ok_and(|output| output.status.success())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily: a test that fails may have left something open.
        let unmounted = Command::new("umount").arg("-l").arg(&self.directory).output();
        if !unmounted.is_ok_and(|output| output.status.success()) {
            eprintln!("{} is still mounted", self.directory.display());
        }
    }
}
