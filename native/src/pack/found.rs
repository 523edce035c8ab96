//! What a file says that it holds: found, proved and mapped.

use std::{fs::File, io, ops::Range, sync::Arc};

use warmstart_core::{
    reason::Reason,
    trailer::{
        FOOTER_LEN, HEADER_LEN, Refusal,
        header::{Commits, Header, Place, SLOT_LEN, Slot},
        index::Layout,
        pick::Picked,
        version2,
    },
};

use super::look::{pick_index, read};
use crate::os::{Access, FileFacts, FileKind, MapDisk, Mapping, reason_of};

/// What tells a file from every other: what its header says, and what the system does, for a copy has the same header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    /// Of all zeros where the file has no header.
    pub(super) header: [u8; 16],
    pub(super) system: (u64, u64),
}

/// What was found under a path.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) facts: FileFacts,
    /// What a file of version 3 says about itself.
    pub(super) head: Option<(Header, Commits)>,
    /// What was committed and was not mapped before, and where in the file that begins.
    pub(super) mapping: Option<(Arc<Mapping>, u64)>,
    pub(super) content: Content,
    /// Why the newest index was not used, if an earlier one, or none, was used in its place.
    pub(super) refusal: Option<Refusal>,
}

/// What a file holds, before it has a number.
#[derive(Debug)]
pub(super) enum Content {
    /// Nothing was committed, or nothing that can be used.
    Empty,
    /// A file of ours of which nothing can be used: another may be put in its place.
    Damaged,
    /// Not to be written to: another version's, damaged and not known to be ours, or ours with payloads and no index that is
    /// whole.
    Refused,
    Index(Slot, Layout, Range<usize>),
}

impl Found {
    /// Where the slot of the index is that counts.
    pub(super) fn counting(&self) -> Option<Place> {
        let Content::Index(slot, ..) = &self.content else { return None };
        let (_, commits) = self.head.as_ref()?;
        commits.iter().find(|(_, other)| other == slot).map(|(place, _)| place)
    }

    /// What tells the file from every other.
    pub(super) fn identity(&self) -> FileId {
        let header = self.head.as_ref().map_or_else(Default::default, |(header, _)| header.file);
        FileId { header, system: self.facts.identity }
    }
}

/// Why nothing could be found out about a file.
#[derive(Debug)]
pub(super) enum NotFound {
    /// The system says so.
    Io(io::Error),
    /// It is no regular file.
    WrongKind(FileKind),
    /// It is no file of packed weights.
    Foreign,
    /// It is of version 2, which `warmstart convert` rewrites.
    Version2,
    /// Somebody else could have written it.
    Untrusted,
}

impl NotFound {
    /// What statistics count it by.
    pub(super) fn reason(&self) -> Reason {
        match self {
            Self::Io(error) => reason_of(error),
            Self::WrongKind(_) | Self::Untrusted => Reason::Untrusted,
            Self::Foreign => Reason::Foreign,
            Self::Version2 => Reason::OldVersion,
        }
    }
}

/// The first page of a file, which says whether anything was committed since it was looked at last.
#[derive(Debug)]
pub(super) struct FirstPage {
    facts: FileFacts,
    bytes: Vec<u8>,
}

/// A first page, and what was known of its file.
pub(super) type SeenPage = (FileFacts, Vec<u8>);

impl FirstPage {
    /// Reads it, if the file may be used.
    pub(super) fn read(disk: &dyn MapDisk, file: &File) -> Result<Self, NotFound> {
        let facts = disk.facts(file).map_err(NotFound::Io)?;
        if facts.kind != FileKind::File {
            return Err(NotFound::WrongKind(facts.kind));
        }
        if !facts.is_trusted {
            return Err(NotFound::Untrusted);
        }
        let bytes = read(disk, file, 0..facts.len.min(HEADER_LEN as u64)).map_err(NotFound::Io)?;
        Ok(Self { facts, bytes })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether it is as it was seen before. A file without a header is another one if its length or its time is.
    pub(super) fn is(&self, seen: Option<&SeenPage>) -> bool {
        let is_same = |facts: &FileFacts| {
            facts.identity == self.facts.identity
                && (Header::decode(&self.bytes).is_ok() || *facts == self.facts)
        };
        seen.is_some_and(|(facts, bytes)| is_same(facts) && *bytes == self.bytes)
    }

    /// What is to be remembered of it.
    pub(super) fn into_seen(self) -> SeenPage {
        (self.facts, self.bytes)
    }
}

/// Proves what a file with this first page holds and maps it. `mapped` says up to where a file of this identity is mapped
/// already.
pub(super) fn look_into(
    disk: &dyn MapDisk,
    file: &File,
    page: &FirstPage,
    mapped: &dyn Fn(&FileId) -> u64,
) -> Result<Found, NotFound> {
    let FirstPage { facts, bytes: page } = page;
    let found =
        |head, mapping, content, refusal| Ok(Found { facts: *facts, head, mapping, content, refusal });
    // Made, and never written to.
    if page.len() as u64 == facts.len && page.iter().all(|byte| *byte == 0) {
        return found(None, None, Content::Empty, None);
    }
    let header = match Header::decode(page) {
        Ok(header) => header,
        Err(Refusal::Foreign) => {
            let tail = read(disk, file, facts.len.saturating_sub(FOOTER_LEN as u64)..facts.len);
            return match version2::footer(&tail.map_err(NotFound::Io)?, facts.len) {
                Ok(_) => Err(NotFound::Version2),
                Err(Refusal::Foreign | Refusal::Short { .. }) => Err(NotFound::Foreign),
                Err(Refusal::Headless) => found(None, None, Content::Damaged, Some(Refusal::Headless)),
                Err(refusal) => found(None, None, Content::Refused, Some(refusal)),
            };
        }
        Err(refusal @ Refusal::UnknownVersion(_)) => {
            return found(None, None, Content::Refused, Some(refusal));
        }
        Err(refusal) => return found(None, None, Content::Damaged, Some(refusal)),
    };
    // Its payloads may be all that is left of what was saved, so the file stays as it is.
    let refuse = |refusal| found(None, None, Content::Refused, Some(refusal));
    let commits = match Commits::read(page) {
        Ok(commits) => commits,
        // Slot A may be of a first commit that power loss tore, or of a single one that was damaged since: a writer replaces both.
        Err(refusal) if !was_written(page, Place::B) => {
            return found(None, None, Content::Damaged, Some(refusal));
        }
        Err(refusal) => return refuse(refusal),
    };
    let identity = FileId { header: header.file, system: facts.identity };
    let mapped = mapped(&identity);
    match pick_index(&commits, facts.len, |slot| map_index(disk, file, slot, mapped)).map_err(NotFound::Io)? {
        Ok(None) => found(Some((header, commits)), None, Content::Empty, None),
        Ok(Some(Picked { slot, layout, block, refused, .. })) => {
            let content = Content::Index(slot, layout, block.range);
            found(Some((header, commits)), Some((block.mapping, block.start)), content, refused)
        }
        Err(refusal) => refuse(refusal),
    }
}

/// Returns whether another program cut a file off before `end`, or wrote over its header. A file that
/// cannot be read just now counts as whole.
pub(super) fn is_cut(disk: &dyn MapDisk, file: &File, header: &[u8; 16], end: u64) -> bool {
    if disk.facts(file).is_ok_and(|facts| facts.len < end) {
        return true;
    }
    let is_other = |page: Vec<u8>| Header::decode(&page).map_or(true, |found| found.file != *header);
    read(disk, file, 0..HEADER_LEN as u64).is_ok_and(is_other)
}

/// Whether a slot of the first page is of a commit, whole or not. The first commit is in slot A.
fn was_written(page: &[u8], place: Place) -> bool {
    let slot = usize::try_from(place.offset()).ok().and_then(|at| page.get(at..at + SLOT_LEN));
    slot.is_some_and(|slot| slot.iter().any(|byte| *byte != 0))
}

/// An index block in a mapping that begins at byte `start` of its file.
struct MappedIndex {
    mapping: Arc<Mapping>,
    start: u64,
    range: Range<usize>,
}

impl AsRef<[u8]> for MappedIndex {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the index is committed, and committed bytes are never written again; `Mapping::bytes` checks the range.
        unsafe { self.mapping.bytes(self.range.clone()) }.unwrap_or_default()
    }
}

/// Maps a file from where it is not mapped yet up to the end of an index, which is in the file.
fn map_index(disk: &dyn MapDisk, file: &File, slot: &Slot, mapped: u64) -> io::Result<MappedIndex> {
    let start = mapped.min(slot.index_start);
    let mapping = Arc::new(map_or_read(disk, file, start..slot.end())?);
    let at = |byte: u64| usize::try_from(byte - start).map_err(|_| io::ErrorKind::OutOfMemory);
    Ok(MappedIndex { mapping, start, range: at(slot.index_start)?..at(slot.end())? })
}

/// Maps a range of a file, or reads it where it cannot be mapped.
pub(super) fn map_or_read(disk: &dyn MapDisk, file: &File, range: Range<u64>) -> io::Result<Mapping> {
    disk.map(file, range.clone(), Access::Read).or_else(|_| {
        let len = usize::try_from(range.end - range.start).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let mapping = Mapping::heap(len)?;
        read_into(disk, file, range.start, &mapping)?;
        Ok(mapping)
    })
}

/// Fills bytes of the heap that nobody has seen yet from `at` of a file.
fn read_into(disk: &dyn MapDisk, file: &File, at: u64, mapping: &Mapping) -> io::Result<()> {
    // SAFETY: the mapping is of the heap and the caller's own, so that nobody else reads or writes its bytes.
    let bytes = unsafe { std::slice::from_raw_parts_mut(mapping.start().as_ptr(), mapping.len()) };
    disk.read_at(file, at, bytes)
}
