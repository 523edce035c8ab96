//! Unix, where files have owners, modes and other names.

mod at;
pub(crate) mod lock;
#[cfg(feature = "packs")]
pub(crate) mod map;
mod shared;

use std::{
    fs::{DirBuilder, File, Metadata, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::Path,
    sync::Arc,
};

use rustix::{fs::OFlags, io::Errno};

use super::Disk;

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

/// The disk of a directory that others may write to.
pub(super) fn shared_disk(root: &Path) -> Option<Arc<dyn Disk>> {
    Some(Arc::new(shared::SharedDisk::below(root)?))
}

pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Whether a file was not opened because it is a link.
pub(super) fn is_refused_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// Whether a name still leads to an open file.
pub(crate) fn is_linked(metadata: &Metadata) -> bool {
    metadata.nlink() > 0
}

/// Whether an open file has one name and no other.
pub(crate) fn has_one_name(metadata: &Metadata) -> bool {
    metadata.nlink() == 1
}
