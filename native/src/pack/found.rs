//! What a file says that it holds: found, proved and mapped.

use std::{fs::File, io, ops::Range, sync::Arc};

use warmstart_core::{
    reason::Reason,
    trailer::{
        FOOTER_LEN, HEADER_LEN, Refusal,
        header::{Commits, Header, Place, Slot},
        index::Layout,
        version2,
    },
};

use super::{look::read, state::FileId};
use crate::os::{Access, FileFacts, FileKind, MapDisk, Mapping, reason_of};

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
    /// Not to be written to: another version's, or damaged and not known to be ours.
    Others,
    Index(Slot, Layout, Range<usize>),
    Imported(ImportedEntries),
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
        }
    }
}

/// The first page of a file, which says whether anything was committed since it was looked at last.
#[derive(Debug)]
pub(super) struct FirstPage {
    facts: FileFacts,
    bytes: Vec<u8>,
}

/// A first page, and which file it was of.
pub(super) type SeenPage = ((u64, u64), Vec<u8>);

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

    /// Whether it is as it was seen before.
    pub(super) fn is(&self, seen: Option<&SeenPage>) -> bool {
        seen.is_some_and(|(identity, bytes)| *identity == self.facts.identity && *bytes == self.bytes)
    }

    /// What is to be remembered of it.
    pub(super) fn into_seen(self) -> SeenPage {
        (self.facts.identity, self.bytes)
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
            return match import(disk, file, facts.len) {
                Ok((mapping, entries)) => found(None, Some((mapping, 0)), Content::Imported(entries), None),
                Err(Problem::Refused(Refusal::Foreign | Refusal::Short { .. })) => Err(NotFound::Foreign),
                Err(Problem::Refused(Refusal::Headless)) => {
                    found(None, None, Content::Damaged, Some(Refusal::Headless))
                }
                Err(Problem::Refused(refusal)) => found(None, None, Content::Others, Some(refusal)),
                Err(Problem::Io(error)) => Err(NotFound::Io(error)),
            };
        }
        Err(refusal @ Refusal::UnknownVersion(_)) => {
            return found(None, None, Content::Others, Some(refusal));
        }
        Err(refusal) => return found(None, None, Content::Damaged, Some(refusal)),
    };
    let commits = match Commits::read(page) {
        Ok(commits) => commits,
        Err(refusal) => return found(None, None, Content::Damaged, Some(refusal)),
    };
    let mut refused = commits.refused();
    let identity = FileId { header: header.file, system: facts.identity };
    for (_, slot) in commits.iter() {
        match map_index(disk, file, facts.len, &slot, mapped(&identity)) {
            Ok((mapping, start, layout, range)) => {
                let content = Content::Index(slot, layout, range);
                return found(Some((header, commits)), Some((mapping, start)), content, refused);
            }
            Err(Problem::Refused(refusal)) => refused = refused.or(Some(refusal)),
            Err(Problem::Io(error)) => return Err(NotFound::Io(error)),
        }
    }
    found(Some((header, commits)), None, Content::Empty, refused)
}

enum Problem {
    Refused(Refusal),
    Io(io::Error),
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Maps a file from where it is not mapped yet up to the end of an index, and checks the index.
fn map_index(
    disk: &dyn MapDisk,
    file: &File,
    len: u64,
    slot: &Slot,
    mapped: u64,
) -> Result<(Arc<Mapping>, u64, Layout, Range<usize>), Problem> {
    let range = slot.index_start..slot.end();
    if range.end > len {
        return Err(Refusal::Outside { end: range.end, len }.into());
    }
    let start = mapped.min(range.start);
    let mapping = map_or_read(disk, file, start..range.end)?;
    let block = to_usize(range.start - start)?..to_usize(range.end - start)?;
    // SAFETY: the index is committed, and nobody writes to what is committed.
    let bytes = unsafe { mapping.bytes(block.clone()) }.unwrap_or_default();
    let layout = Layout::check(bytes, slot)?;
    Ok((Arc::new(mapping), start, layout, block))
}

/// Of version 2: under which joined name, where, and with which seed.
type ImportedEntries = Vec<(Box<str>, Range<u64>, u32)>;

fn import(disk: &dyn MapDisk, file: &File, len: u64) -> Result<(Arc<Mapping>, ImportedEntries), Problem> {
    let tail = read(disk, file, len.saturating_sub(FOOTER_LEN as u64)..len)?;
    let footer = version2::footer(&tail, len)?;
    let mapping = map_or_read(disk, file, 0..len)?;
    let trailer = to_usize(footer.index_start)?..to_usize(len)?;
    // SAFETY: nobody writes to a file that ExecuTorch saved while it is in use: it locks it.
    let bytes = unsafe { mapping.bytes(trailer) }.unwrap_or_default();
    let decoded = version2::decode(bytes, len)?;
    let entries = decoded
        .entries()
        .map(|entry| {
            (
                entry.name.weight.into(),
                entry.offset..entry.offset.saturating_add(entry.size),
                entry.packing.seed,
            )
        })
        .collect();
    Ok((Arc::new(mapping), entries))
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

fn to_usize(n: u64) -> Result<usize, Problem> {
    usize::try_from(n).map_err(|_| Problem::Io(io::ErrorKind::OutOfMemory.into()))
}
