//! A new file that takes another's place, whole: written beside it, then renamed.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{inspect::each_part, look::FileError, writer::beside};
use crate::os::{Access, FileKind, Lock, MapDisk};

const SUFFIX: &str = ".tmp";

/// Digits between the name and the suffix of a file that is not published yet.
const DIGITS: usize = 16;

/// A file that nobody sees yet. Dropped before it is published, it is removed.
#[derive(Debug)]
pub(super) struct NewFile<'a> {
    disk: &'a dyn MapDisk,
    file: File,
    path: PathBuf,
    end: u64,
    is_published: bool,
}

impl<'a> NewFile<'a> {
    /// Makes a file beside `place`, and locks it. Files of processes that died before they published theirs are removed first.
    pub(super) fn beside(disk: &'a dyn MapDisk, place: &Path) -> Result<Self, FileError> {
        sweep(disk, place);
        let path = beside(place);
        let file = disk.create(&path)?;
        let new = Self { disk, file, path, end: 0, is_published: false };
        // Says that somebody is at work on it, and, once it is published, that somebody writes.
        disk.lock(&new.file, Lock::Writer, Duration::from_secs(1))?;
        Ok(new)
    }

    /// Gives the file blocks up to `end`, so that a full disk is known at once.
    pub(super) fn allocate(&self, end: u64) -> io::Result<()> {
        if end == 0 { Ok(()) } else { self.disk.allocate(&self.file, 0..end) }
    }

    /// Copies a payload to `at`, and says whether it is what its checksum says. Without one it is.
    pub(super) fn copy(
        &self,
        from: &File,
        (offset, size): (u64, u64),
        at: u64,
        checksum: Option<u64>,
    ) -> io::Result<(bool, u64)> {
        let mut written = at;
        let actual = each_part(self.disk, from, offset, size, &mut |part| {
            self.disk.write_at(&self.file, written, part)?;
            written += part.len() as u64;
            Ok(())
        })?;
        Ok((checksum.is_none_or(|expected| expected == actual), actual))
    }

    /// Writes zeros.
    pub(super) fn zero(&self, from: u64, to: u64) -> io::Result<()> {
        // At most a page.
        let len = usize::try_from(to.saturating_sub(from)).map_err(|_| io::ErrorKind::InvalidInput)?;
        if len == 0 { Ok(()) } else { self.disk.write_at(&self.file, from, &vec![0; len]) }
    }

    /// Writes what is no payload.
    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.write_at(&self.file, at, bytes)?;
        self.end = self.end.max(at + bytes.len() as u64);
        Ok(())
    }

    /// Waits until the file is on the medium, and gives it its name. It ends where what was [written](Self::write) last ends;
    /// returns its length.
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
            // What cannot be removed now, the next who writes here removes.
            let _ = self.disk.remove(&self.path);
        }
    }
}

/// Removes what processes left beside a file that died while they wrote: that nobody has locked any more.
fn sweep(disk: &dyn MapDisk, place: &Path) {
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
        let is_left =
            disk.facts_at(&path).is_ok_and(|facts| facts.kind == FileKind::File && facts.is_trusted)
                && disk
                    .open(&path, Access::Write)
                    .is_ok_and(|file| disk.lock(&file, Lock::Writer, Duration::ZERO).is_ok());
        if is_left {
            let _ = disk.remove(&path);
        }
    }
}
