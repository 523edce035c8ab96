//! Opening, verifying and reading files of packed weights.
//!
//! Packs that are open for look-ups or writing map their file. Inspection, verification and rewriting read it instead: truncation in
//! the meantime is then an error and not a SIGBUS, so that files that other users may write to can be inspected.

use std::{fs::File, io, path::Path, sync::Arc, time::Duration};

use warmstart_core::trailer::{
    Checksum, Commits, Entry, FOOTER_LEN, Footer, FormatError, HEADER_LEN, Header, Place, SLOT_LEN, Slot,
    pick::{ActiveIndex, pick},
    version2::{self, Version2},
};

use super::{
    contents::{FileId, IndexBlock},
    error::PackError,
};
use crate::os::{Access, FileKind, FileMetadata, Lock, MapBackend};

/// How often to retry a lock because the locked file is no longer the one under the path.
pub(super) const ATTEMPTS: u32 = 16;

/// The first page of a file, which shows whether anything was committed since it was last read.
#[derive(Debug)]
pub(super) struct FirstPage {
    pub(super) metadata: FileMetadata,
    pub(super) bytes: Vec<u8>,
}

/// The trailer of a file, by version.
#[derive(Debug)]
pub(super) enum Trailer {
    /// Version 2.
    Version2(Vec<u8>),
    /// Version 3: the active index, or `None` if nothing was committed yet.
    Version3(Box<Commits>, Option<Box<ActiveIndex<Vec<u8>>>>),
}

/// An open file and its trailer. A lock on it is held until this is dropped.
#[derive(Debug)]
pub(super) struct PackReader<'d> {
    pub(super) disk: &'d dyn MapBackend,
    pub(super) file: File,
    pub(super) len: u64,
    pub(super) trailer: Trailer,
}

impl FirstPage {
    /// Reads the page, if the file may be used.
    pub(super) fn read(disk: &dyn MapBackend, file: &File) -> Result<Self, PackError> {
        let metadata = disk.metadata(file)?;
        is_regular(metadata.kind)?;
        if !metadata.is_trusted {
            return Err(PackError::Untrusted);
        }
        let bytes = disk.read(file, 0..metadata.len.min(HEADER_LEN as u64))?;
        Ok(Self { metadata, bytes })
    }

    /// Returns whether it equals an earlier one. A file without a header also changes with its length or time.
    pub(super) fn is(&self, seen: Option<&Self>) -> bool {
        let is_same = |metadata: &FileMetadata| {
            metadata.identity == self.metadata.identity
                && (Header::decode(&self.bytes).is_ok() || *metadata == self.metadata)
        };
        seen.is_some_and(|seen| is_same(&seen.metadata) && seen.bytes == self.bytes)
    }

    /// Returns the identity of the file.
    pub(super) fn identity(&self) -> FileId {
        let header = Header::decode(&self.bytes).map_or_else(|_| Default::default(), |header| header.file);
        FileId { header, system: self.metadata.identity }
    }

    /// Returns whether the file was created and never written to.
    pub(super) fn is_blank(&self) -> bool {
        self.bytes.len() as u64 == self.metadata.len && self.bytes.iter().all(|byte| *byte == 0)
    }

    /// Returns whether a refused file may be replaced by a new one: it is ours, and nothing in it is usable. Files
    /// of other versions stay, and so do files whose payloads may be all that is left of saved weights.
    pub(super) fn is_replaceable(&self, refusal: FormatError) -> bool {
        match Header::decode(&self.bytes) {
            // Slot A may belong to a first commit that a loss of power tore, or to a single one that was damaged later.
            Ok(_) => Commits::read(&self.bytes).is_err() && !was_written(&self.bytes, Place::B),
            Err(FormatError::Foreign) => refusal == FormatError::Headless,
            Err(refusal) => !matches!(refusal, FormatError::UnknownVersion(_)),
        }
    }

    /// Verifies the contents of the file, and maps the part that is not mapped yet. Returns the active index, if anything usable was
    /// committed, and the reason why the newest index is not used, if an earlier one, or none, is used instead.
    pub(super) fn verify(
        &self,
        disk: &dyn MapBackend,
        file: &File,
        mapped: u64,
    ) -> Result<(Option<ActiveIndex<IndexBlock>>, Option<FormatError>), PackError> {
        if self.is_blank() {
            return Ok((None, None));
        }
        let map = |slot: &Slot| map_index(disk, file, slot, mapped);
        let found = match is_version3(&self.bytes) {
            true => pick_index(&self.bytes, self.metadata.len, map),
            false => footer(disk, file, self.metadata.len).and(Err(PackError::WrongVersion(2))),
        };
        match found {
            Ok((_, index)) => {
                let refusal = index.as_ref().and_then(|picked| picked.refused);
                Ok((index, refusal))
            }
            // Too short for a trailer of version 2, and not the beginning of a header.
            Err(PackError::Refused(FormatError::Short { .. }))
                if Header::decode(&self.bytes) == Err(FormatError::Foreign) =>
            {
                Err(FormatError::Foreign.into())
            }
            // Part of an index may look like a footer of something else. It is refused like any damaged index.
            Err(PackError::Refused(refusal))
                if refusal != FormatError::Foreign || is_version3(&self.bytes) =>
            {
                Ok((None, Some(refusal)))
            }
            Err(error) => Err(error),
        }
    }
}

impl<'d> PackReader<'d> {
    /// Opens a file and reads its trailer.
    pub(super) fn open(disk: &'d dyn MapBackend, path: &Path) -> Result<Self, PackError> {
        Self::read(disk, open(disk, path, Access::Read)?)
    }

    /// Opens and locks a file, and reads its trailer. [`Lock::Writer`] requires a file that only this user can
    /// write to.
    pub(super) fn lock(
        disk: &'d dyn MapBackend,
        path: &Path,
        lock: Lock,
        timeout: Duration,
    ) -> Result<Self, PackError> {
        let access = if lock == Lock::Writer { Access::Write } else { Access::Read };
        for _ in 0..ATTEMPTS {
            let file = open(disk, path, access)?;
            let metadata = disk.metadata(&file)?;
            if lock == Lock::Writer && !metadata.is_trusted {
                return Err(PackError::Untrusted);
            }
            disk.lock(&file, lock, timeout).map_err(|error| match error.kind() {
                io::ErrorKind::WouldBlock => PackError::Busy,
                _ => PackError::Io(error),
            })?;
            if disk.metadata_at(path)?.identity == metadata.identity {
                return Self::read(disk, file);
            }
        }
        Err(PackError::Busy)
    }

    fn read(disk: &'d dyn MapBackend, file: File) -> Result<Self, PackError> {
        let len = disk.metadata(&file)?.len;
        let page = disk.read(&file, 0..len.min(HEADER_LEN as u64))?;
        let trailer = if is_version3(&page) {
            let index = |slot: &Slot| disk.read(&file, slot.index_start..slot.end());
            let (commits, picked) = pick_index(&page, len, index)?;
            Trailer::Version3(Box::new(commits), picked.map(Box::new))
        } else {
            let trailer = disk.read(&file, footer(disk, &file, len)?.index_start..len)?;
            version2::decode(&trailer, len)?;
            Trailer::Version2(trailer)
        };
        Ok(Self { disk, file, len, trailer })
    }

    /// Returns all entries, in ascending order of offset.
    pub(super) fn entries(&self) -> Vec<Entry<'_>> {
        match &self.trailer {
            Trailer::Version2(_) => {
                self.version2().map_or_else(Vec::new, |trailer| trailer.entries().collect())
            }
            Trailer::Version3(_, None) => Vec::new(),
            Trailer::Version3(_, Some(picked)) => picked.layout.view(&picked.block).entries().collect(),
        }
    }

    /// Reads a payload in parts, passes them to `take`, and returns the checksum.
    pub(super) fn each_part(
        &self,
        offset: u64,
        size: u64,
        take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<u64> {
        const PART: u64 = 1 << 20;
        let mut sum = Checksum::new();
        let mut buffer = vec![0; usize::try_from(size.min(PART)).unwrap_or_default()];
        let mut at = 0;
        while at < size {
            let len = usize::try_from((size - at).min(PART)).unwrap_or(buffer.len());
            let part = &mut buffer[..len];
            self.disk.read_at(&self.file, offset + at, part)?;
            sum.update(part);
            take(part)?;
            at += len as u64;
        }
        Ok(sum.finish())
    }

    /// Returns the trailer of version 2, if it is one.
    pub(super) fn version2(&self) -> Option<Version2<'_>> {
        let Trailer::Version2(trailer) = &self.trailer else { return None };
        version2::decode(trailer, self.len).ok()
    }
}

impl Drop for PackReader<'_> {
    fn drop(&mut self) {
        self.disk.unlock(&self.file);
    }
}

/// Returns whether a path leads to a file that is, or was intended to be, a file of packed weights, of any version and in any state.
/// Follows no link, and waits for no other process.
///
/// # Errors
/// Any I/O error of the system.
pub fn detect(path: impl AsRef<Path>) -> io::Result<bool> {
    let disk = crate::os::LocalMapBackend::new();
    let path = path.as_ref();
    if disk.metadata_at(path)?.kind != FileKind::File {
        return Ok(false);
    }
    let file = disk.open(path, Access::Read)?;
    let len = disk.metadata(&file)?.len;
    let begin = disk.read(&file, 0..len.min(HEADER_LEN as u64))?;
    let end = disk.read(&file, len.saturating_sub(FOOTER_LEN as u64)..len)?;
    Ok(is_version3(&begin)
        || !matches!(Footer::decode(&end, len), Err(FormatError::Foreign | FormatError::Short { .. })))
}

/// Returns whether a file with this first page can only be of version 3. An empty page may begin any file.
fn is_version3(page: &[u8]) -> bool {
    !page.is_empty() && Header::decode(page) != Err(FormatError::Foreign)
}

/// Reads the footer of a file of version 2.
fn footer(disk: &dyn MapBackend, file: &File, len: u64) -> Result<Footer, PackError> {
    let tail = disk.read(file, len.saturating_sub(FOOTER_LEN as u64)..len)?;
    Ok(version2::footer(&tail, len)?)
}

/// Picks the newest whole index of a file of version 3 with this length. An index that `block` cannot read is not taken for
/// damaged, because using the one before would lose it.
fn pick_index<B: AsRef<[u8]>>(
    page: &[u8],
    len: u64,
    mut block: impl FnMut(&Slot) -> io::Result<B>,
) -> Result<(Commits, Option<ActiveIndex<B>>), PackError> {
    let (commits, mut failed) = (Commits::read(page)?, None);
    let picked = pick(&commits, len, |slot| block(slot).map_err(|error| failed = Some(error)).ok());
    failed.map_or(Ok(()), Err)?;
    Ok((commits, picked?))
}

/// Opens a regular file, without following a link or waiting for another process.
fn open(disk: &dyn MapBackend, path: &Path, access: Access) -> Result<File, PackError> {
    is_regular(disk.metadata_at(path)?.kind)?;
    let file = disk.open(path, access)?;
    is_regular(disk.metadata(&file)?.kind)?;
    Ok(file)
}

const fn is_regular(kind: FileKind) -> Result<(), PackError> {
    match kind {
        FileKind::File => Ok(()),
        FileKind::Directory => Err(PackError::WrongKind("a directory")),
        FileKind::Link => Err(PackError::WrongKind("a link")),
        FileKind::Other => Err(PackError::WrongKind("not a regular file")),
    }
}

/// Returns whether a commit, whole or not, was written to a slot of the first page. The first commit is in slot A.
fn was_written(page: &[u8], place: Place) -> bool {
    let slot = usize::try_from(place.offset()).ok().and_then(|at| page.get(at..at + SLOT_LEN));
    slot.is_some_and(|slot| slot.iter().any(|byte| *byte != 0))
}

/// Maps the part of a file that is not mapped yet, up to the end of an index that is in the file.
fn map_index(disk: &dyn MapBackend, file: &File, slot: &Slot, mapped: u64) -> io::Result<IndexBlock> {
    let start = mapped.min(slot.index_start);
    let mapping = Arc::new(disk.map_or_read(file, start..slot.end())?);
    let at = |byte: u64| usize::try_from(byte - start).map_err(|_| io::ErrorKind::OutOfMemory);
    Ok(IndexBlock { mapping, range: at(slot.index_start)?..at(slot.end())? })
}
