//! Unix, where files have owners, modes and several names.

pub(super) mod at;
mod shared;

pub(crate) use shared::shared_backend;

use std::{
    fs::{DirBuilder, File, Metadata},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::Path,
};

use rustix::io::Errno;

pub(super) fn private_directories() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// Returns the user that this process runs for.
pub(super) fn current_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Returns whether a file was not opened because it is a link.
pub(super) fn is_refused_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// The type number of overlayfs, whose lower layers may be on another machine or in an image.
#[cfg(all(feature = "packs", any(target_os = "linux", target_os = "android")))]
const OVERLAY: u32 = 0x794c_7630;

/// Returns whether a file is known to be on a local file system, where both kinds of locks are independent.
#[cfg(all(feature = "packs", any(target_os = "linux", target_os = "android")))]
pub(crate) fn is_local(file: &File) -> bool {
    /// ext2 to ext4, XFS, Btrfs, tmpfs, F2FS, ZFS, bcachefs.
    const LOCAL: [u32; 7] =
        [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0xf2f5_2010, 0x2fc1_2fc1, 0xca45_1a4e];
    // The type of the field differs between machines; what identifies a file system has 32 bits.
    rustix::fs::fstatfs(file)
        .is_ok_and(|system| system.f_type as u32 == OVERLAY || LOCAL.contains(&(system.f_type as u32)))
}

/// Returns whether the times of a file are set by this machine, and not taken from an image or another machine.
#[cfg(all(feature = "packs", any(target_os = "linux", target_os = "android")))]
pub(crate) fn keeps_times(file: &File) -> bool {
    let is_image = || {
        let flags = rustix::fs::fstatvfs(file).map(|system| system.f_flag);
        flags.map_or(true, |flags| flags.contains(rustix::fs::StatVfsMountFlags::RDONLY))
    };
    let is_overlay = || rustix::fs::fstatfs(file).is_ok_and(|system| system.f_type as u32 == OVERLAY);
    is_local(file) && !is_overlay() && !is_image()
}

#[cfg(all(feature = "packs", target_vendor = "apple"))]
pub(crate) fn keeps_times(file: &File) -> bool {
    let flags = rustix::fs::fstatfs(file).map_or(0, |system| system.f_flags);
    flags & libc::MNT_LOCAL as u32 != 0 && flags & libc::MNT_RDONLY as u32 == 0
}

#[cfg(all(feature = "packs", not(any(target_os = "linux", target_os = "android", target_vendor = "apple"))))]
pub(crate) const fn keeps_times(_: &File) -> bool {
    false
}

/// Returns whether an open file still has a name.
pub(crate) fn is_linked(metadata: &Metadata) -> bool {
    metadata.nlink() > 0
}

/// Returns whether an open file has exactly one name.
pub(crate) fn has_one_name(metadata: &Metadata) -> bool {
    metadata.nlink() == 1
}
