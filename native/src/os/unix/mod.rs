//! Unix, where files have owners, modes and other names.

mod at;
pub(crate) mod lock;
#[cfg(feature = "packs")]
pub(crate) mod map;
mod shared;

pub(crate) use shared::shared_disk;

use std::{
    fs::{DirBuilder, File, Metadata, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::Path,
};

use rustix::{fs::OFlags, io::Errno};

/// Options that make a file for its owner only, follow no link in the last part of a path, and do not wait for the other
/// end of a pipe.
pub(crate) fn private_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600).custom_flags((OFlags::NOFOLLOW.bits() | OFlags::NONBLOCK.bits()) as i32);
    options
}

pub(super) fn private_directories() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// The user that this process runs for.
#[derive(Clone, Copy, Debug)]
pub(super) struct User(u32);

impl User {
    pub(super) fn current() -> Self {
        Self(rustix::process::geteuid().as_raw())
    }

    /// Which file it is, the nanoseconds of its last modification, and whether no other user but root could have
    /// written it.
    pub(super) fn identify(self, metadata: &Metadata) -> ((u64, u64), i128, bool) {
        let modified_ns = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
        let is_trusted = self.owns(metadata) && metadata.mode() & 0o022 == 0;
        ((metadata.dev(), metadata.ino()), modified_ns, is_trusted)
    }

    /// Whether others may make files in a directory of ours, as in `/tmp`, but not rename or remove those of ours.
    #[cfg(feature = "sqlite")]
    pub(super) fn is_sticky(self, directory: &Path) -> bool {
        directory
            .symlink_metadata()
            .is_ok_and(|metadata| metadata.is_dir() && self.owns(&metadata) && metadata.mode() & 0o1000 != 0)
    }

    fn owns(self, metadata: &Metadata) -> bool {
        metadata.uid() == self.0 || metadata.uid() == 0
    }
}

pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Whether a file was not opened because it is a link.
pub(super) fn is_refused_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// overlayfs: what is below it may be on another machine, or in an image.
#[cfg(all(feature = "packs", any(target_os = "linux", target_os = "android")))]
const OVERLAY: u32 = 0x794c_7630;

/// Whether a file is known to be on a file system of this machine, which tells kinds of locks apart.
#[cfg(all(feature = "packs", any(target_os = "linux", target_os = "android")))]
pub(crate) fn is_local(file: &File) -> bool {
    /// ext2 to ext4, XFS, Btrfs, tmpfs, F2FS, ZFS, bcachefs.
    const LOCAL: [u32; 7] =
        [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0xf2f5_2010, 0x2fc1_2fc1, 0xca45_1a4e];
    // The type of the field differs between machines; what identifies a file system has 32 bits.
    rustix::fs::fstatfs(file)
        .is_ok_and(|system| system.f_type as u32 == OVERLAY || LOCAL.contains(&(system.f_type as u32)))
}

/// Whether the times of a file are this machine's, and not those of an image or of another machine.
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

/// Whether a name still leads to an open file.
pub(crate) fn is_linked(metadata: &Metadata) -> bool {
    metadata.nlink() > 0
}

/// Whether an open file has one name and no other.
pub(crate) fn has_one_name(metadata: &Metadata) -> bool {
    metadata.nlink() == 1
}
