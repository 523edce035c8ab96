//! Systems of which the standard library shows neither owners nor other names, such as Windows.

pub(crate) mod lock;
#[cfg(feature = "packs")]
pub(crate) mod map;
mod shared;

pub(crate) use shared::shared_disk;

use std::{
    fs::{DirBuilder, Metadata, OpenOptions},
    io,
    path::Path,
    time::UNIX_EPOCH,
};

/// The standard library does not tell.
#[cfg(feature = "packs")]
pub(crate) const fn keeps_times(_: &std::fs::File) -> bool {
    false
}

pub(crate) fn private_options() -> OpenOptions {
    OpenOptions::new()
}

pub(super) fn private_directories() -> DirBuilder {
    DirBuilder::new()
}

/// Access is a matter of lists that the standard library does not show: the user's own directories are the user's own.
#[derive(Clone, Copy, Debug)]
pub(super) struct User;

impl User {
    pub(super) const fn current() -> Self {
        Self
    }

    pub(super) fn identify(self, metadata: &Metadata) -> ((u64, u64), i128, bool) {
        let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        ((0, 0), modified.map_or(0, |since| since.as_nanos().cast_signed()), true)
    }

    #[cfg(feature = "sqlite")]
    pub(super) const fn is_sticky(self, _: &Path) -> bool {
        false
    }
}

/// Windows has no such call; its file systems order names by themselves.
pub(super) const fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}

pub(super) const fn is_refused_link(_: &io::Error) -> bool {
    false
}

/// A file that is open is not removed, so its name stays.
pub(crate) const fn is_linked(_: &Metadata) -> bool {
    true
}

pub(crate) const fn has_one_name(_: &Metadata) -> bool {
    true
}
