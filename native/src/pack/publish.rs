//! A new file that replaces another: written beside it, then renamed.

use std::{
    fs::{self, File},
    hash::{BuildHasher, Hasher, RandomState},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use warmstart_core::trailer::Entry;

use super::{error::PackError, file::PackReader};
use crate::os::{Access, FileKind, Lock, MapBackend, with_suffix};

const SUFFIX: &str = ".tmp";

/// The number of digits between the name and the suffix of an unpublished file.
const DIGITS: usize = 16;

/// A file that is not published yet. Dropping it unpublished removes it.
#[derive(Debug)]
pub(super) struct NewFile<'a> {
    disk: &'a dyn MapBackend,
    file: File,
    path: PathBuf,
    end: u64,
    is_published: bool,
}

impl<'a> NewFile<'a> {
    /// Creates a file beside `place`, and locks it. First removes files that dead processes left unpublished.
    pub(super) fn beside(disk: &'a dyn MapBackend, place: &Path) -> Result<Self, PackError> {
        sweep(disk, place);
        // No other file has this name.
        let number = u64::from_le_bytes(random()[..8].try_into().unwrap_or_default());
        let path = with_suffix(place, format!(".{number:016x}.tmp"));
        let file = disk.create(&path)?;
        let new = Self { disk, file, path, end: 0, is_published: false };
        // Shows other processes that the file is in use, and that its path has a writer once it is published.
        disk.lock(&new.file, Lock::Writer, Duration::from_secs(1))?;
        Ok(new)
    }

    /// Allocates blocks for the file up to `end`, so that a full disk is noticed at once.
    pub(super) fn allocate(&self, end: u64) -> io::Result<()> {
        if end == 0 { Ok(()) } else { self.disk.allocate(&self.file, 0..end) }
    }

    /// Copies a payload to offset `at`, and returns its checksum.
    pub(super) fn copy(&self, from: &PackReader<'_>, entry: &Entry<'_>, at: u64) -> io::Result<u64> {
        let mut written = at;
        from.each_part(entry.offset, entry.size, &mut |part| {
            self.disk.write_at(&self.file, written, part)?;
            written += part.len() as u64;
            Ok(())
        })
    }

    /// Writes bytes other than a payload, if there are any.
    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.disk.write_at(&self.file, at, bytes)?;
        self.end = self.end.max(at + bytes.len() as u64);
        Ok(())
    }

    /// Waits until the file is on the medium, and renames it to `place`. Truncates it to the end of the last [write](Self::write), and
    /// returns that length.
    pub(super) fn publish(mut self, place: &Path) -> io::Result<u64> {
        self.disk.set_len(&self.file, self.end)?;
        self.disk.sync(&self.file)?;
        self.disk.rename(&self.path, place)?;
        self.is_published = true;
        Ok(self.end)
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        self.disk.unlock(&self.file);
        if !self.is_published {
            // If this fails, the next process that writes here removes it.
            let _ = self.disk.remove(&self.path);
        }
    }
}

/// Removes unpublished files of dead processes beside a file: those that are not locked any more.
fn sweep(disk: &dyn MapBackend, place: &Path) {
    let directory = match place.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    let name = place.file_name().unwrap_or_default().as_encoded_bytes();
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let other = entry.file_name();
        let digits = other.as_encoded_bytes().strip_prefix(name).and_then(|rest| rest.strip_prefix(b"."));
        let digits = digits.and_then(|rest| rest.strip_suffix(SUFFIX.as_bytes()));
        if !digits.is_some_and(|digits| digits.len() == DIGITS && digits.iter().all(u8::is_ascii_hexdigit)) {
            continue;
        }
        let path = directory.join(&other);
        let is_left = disk
            .metadata_at(&path)
            .is_ok_and(|metadata| metadata.kind == FileKind::File && metadata.is_trusted)
            && disk
                .open(&path, Access::Write)
                .is_ok_and(|file| disk.lock(&file, Lock::Writer, Duration::ZERO).is_ok());
        if is_left {
            let _ = disk.remove(&path);
        }
    }
}

/// Returns bytes that are different for each caller: the standard library seeds its hashers from the system.
pub(super) fn random() -> [u8; 16] {
    let draw = || RandomState::new().build_hasher().finish();
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&draw().to_le_bytes());
    bytes[8..].copy_from_slice(&draw().to_le_bytes());
    bytes
}
