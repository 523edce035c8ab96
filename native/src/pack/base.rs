//! What a file says that it holds: found, proved and mapped.

use std::{collections::HashMap, fs::File, io, ops::Range, sync::Arc};

use warmstart_core::{
    reason::Reason,
    trailer::{
        Entry, FOOTER_LEN, HEADER_LEN, ModelId, Refusal, Wanted,
        header::{Commits, Header, Place, Slot},
        index::{Index, Layout},
        version2,
    },
};

use super::{
    segments::{FileNumber, PayloadPlace},
    state::FileId,
};
use crate::os::{Access, FileFacts, FileKind, MapDisk, Mapping};

/// What look-ups find in a file.
#[derive(Debug, Default)]
pub(super) enum Base {
    /// Nothing was saved, or it cannot be used.
    #[default]
    Nothing,
    /// Version 3.
    Committed(Committed),
    /// Version 2.
    Imported(Imported),
}

/// A committed index, looked up where it is.
#[derive(Debug)]
pub(super) struct Committed {
    pub(super) file: FileNumber,
    pub(super) slot: Slot,
    layout: Layout,
    block: Block,
}

/// Where the bytes of an index are. Nobody writes to them: what is committed is never written again.
#[derive(Clone, Debug)]
enum Block {
    Mapped(Arc<Mapping>, Range<usize>),
    Owned(Arc<Vec<u8>>),
}

/// An index, and what keeps its bytes.
#[derive(Debug)]
pub(super) struct SharedIndex {
    /// In truth it lives no longer than `_block`.
    index: Index<'static>,
    file: FileNumber,
    _block: Block,
}

impl SharedIndex {
    pub(super) const fn file(&self) -> FileNumber {
        self.file
    }

    #[inline]
    pub(super) const fn index(&self) -> &Index<'_> {
        &self.index
    }
}

/// The entries of a file of version 2, by joined name.
#[derive(Debug)]
pub(super) struct Imported {
    pub(super) file: FileNumber,
    entries: HashMap<Box<str>, ImportedEntry, foldhash::fast::RandomState>,
}

#[derive(Clone, Debug)]
struct ImportedEntry {
    range: Range<u64>,
    seed: u32,
}

/// A saved entry.
#[derive(Clone, Debug)]
pub(super) struct Saved {
    pub(super) file: FileNumber,
    pub(super) range: Range<u64>,
    /// Of its payload. Version 2 has none.
    pub(super) checksum: Option<u64>,
    /// Whether the file proves that it is of this model and packed like this.
    pub(super) is_verified: bool,
}

impl Saved {
    pub(super) const fn place(&self) -> PayloadPlace {
        (self.file, self.range.start)
    }
}

impl Base {
    pub(super) fn look_up(&self, wanted: &Wanted<'_>, takes_unverified: bool) -> Result<Saved, Reason> {
        match self {
            Self::Nothing => Err(Reason::Absent),
            Self::Committed(committed) => {
                let entry = match committed.index().look_up(wanted) {
                    Err(Reason::Absent) => committed.look_up_imported(wanted, takes_unverified)?,
                    found => found?,
                };
                Ok(Saved {
                    file: committed.file,
                    range: entry.offset..entry.offset.saturating_add(entry.size),
                    checksum: entry.checksum,
                    is_verified: !entry.is_imported,
                })
            }
            Self::Imported(imported) => imported.look_up(wanted, takes_unverified),
        }
    }

    pub(super) fn committed(&self) -> Option<&Committed> {
        match self {
            Self::Committed(committed) => Some(committed),
            _ => None,
        }
    }

    /// Which file's it is.
    pub(super) const fn file(&self) -> Option<FileNumber> {
        match self {
            Self::Nothing => None,
            Self::Committed(committed) => Some(committed.file),
            Self::Imported(imported) => Some(imported.file),
        }
    }

    /// What a writer must know of the file with this first page, if its index is the one that look-ups ask.
    pub(super) fn known(&self, page: &[u8]) -> Option<(FileNumber, Header, Commits, Option<Place>)> {
        let committed = self.committed()?;
        let (header, commits) = (Header::decode(page).ok()?, Commits::read(page).ok()?);
        let (place, _) = commits.iter().find(|(_, slot)| *slot == committed.slot)?;
        Some((committed.file, header, commits, Some(place)))
    }

    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Committed(committed) => committed.index().len(),
            Self::Imported(imported) => imported.entries.len(),
        }
    }
}

impl Committed {
    /// The index that was just written, and where it is mapped, if it is.
    pub(super) fn written(
        file: FileNumber,
        slot: Slot,
        block: Vec<u8>,
        mapped: Option<(Arc<Mapping>, usize)>,
    ) -> Result<Self, Refusal> {
        let layout = Layout::check(&block, &slot)?;
        let block = match mapped {
            Some((mapping, at)) => Block::Mapped(mapping, at..at + block.len()),
            None => Block::Owned(Arc::new(block)),
        };
        Ok(Self { file, slot, layout, block })
    }

    /// What was imported from version 2, where nothing else is stored under the name.
    #[cold]
    fn look_up_imported<'w>(&self, wanted: &Wanted<'w>, takes_unverified: bool) -> Result<Entry<'w>, Reason> {
        let found = self.index().look_up_imported(&wanted.name, wanted.packing.seed);
        let is_named = wanted.model != ModelId::default();
        if found != Err(Reason::Absent) && is_named && !takes_unverified {
            return Err(Reason::OtherModel);
        }
        found
    }

    pub(super) fn index(&self) -> Index<'_> {
        self.layout.view(self.block.bytes())
    }

    /// The index, for as long as the bytes that it is in are kept.
    pub(super) fn share(&self) -> SharedIndex {
        let block = self.block.clone();
        // SAFETY: the bytes do not move and are freed with `block`, which is kept beside the index and outlives it.
        let bytes: &'static [u8] = unsafe { &*std::ptr::from_ref(block.bytes()) };
        SharedIndex { index: self.layout.view(bytes), file: self.file, _block: block }
    }
}

impl Block {
    fn bytes(&self) -> &[u8] {
        match self {
            // SAFETY: an index is mapped once it is committed, and nobody writes to what is committed.
            Self::Mapped(mapping, range) => unsafe { mapping.bytes(range.clone()) }.unwrap_or_default(),
            Self::Owned(bytes) => bytes,
        }
    }
}

impl Imported {
    fn look_up(&self, wanted: &Wanted<'_>, takes_unverified: bool) -> Result<Saved, Reason> {
        let mut joined = String::with_capacity(64);
        joined.push_str(wanted.name.weight);
        joined.push_str(wanted.name.bias.unwrap_or_default());
        let entry = self.entries.get(joined.as_str()).ok_or(Reason::Absent)?;
        if wanted.model != ModelId::default() && !takes_unverified {
            return Err(Reason::OtherModel);
        }
        if entry.seed != wanted.packing.seed {
            return Err(Reason::OtherSeed);
        }
        Ok(Saved { file: self.file, range: entry.range.clone(), checksum: None, is_verified: false })
    }
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
    /// Not to be written to: another version's, or damaged and not known to be ours.
    Others,
    Index(Slot, Layout, Range<usize>),
    Imported(Vec<(Box<str>, Range<u64>, u32)>),
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

    /// The base that look-ups ask, once the file has a number.
    pub(super) fn into_base(self, file: FileNumber) -> Base {
        match (self.content, self.mapping) {
            (Content::Index(slot, layout, range), Some((mapping, _))) => {
                Base::Committed(Committed { file, slot, layout, block: Block::Mapped(mapping, range) })
            }
            (Content::Imported(entries), Some(_)) => {
                let entries = entries
                    .into_iter()
                    .map(|(name, range, seed)| (name, ImportedEntry { range, seed }))
                    .collect();
                Base::Imported(Imported { file, entries })
            }
            _ => Base::Nothing,
        }
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

/// Proves what a file holds and maps it. `mapped` says up to where a file of this identity is mapped already.
pub(super) fn look_into(
    disk: &dyn MapDisk,
    file: &File,
    mapped: &dyn Fn(&FileId) -> u64,
) -> Result<Found, NotFound> {
    let facts = disk.facts(file).map_err(NotFound::Io)?;
    if facts.kind != FileKind::File {
        return Err(NotFound::WrongKind(facts.kind));
    }
    if !facts.is_trusted {
        return Err(NotFound::Untrusted);
    }
    let found = |head, mapping, content, refusal| Ok(Found { facts, head, mapping, content, refusal });
    let page = read(disk, file, 0, facts.len.min(HEADER_LEN as u64)).map_err(NotFound::Io)?;
    // Made, and never written to.
    if page.len() as u64 == facts.len && page.iter().all(|byte| *byte == 0) {
        return found(None, None, Content::Empty, None);
    }
    let header = match Header::decode(&page) {
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
    let commits = match Commits::read(&page) {
        Ok(commits) => commits,
        Err(refusal) => return found(None, None, Content::Damaged, Some(refusal)),
    };
    let mut refused = commits.refused();
    for (_, slot) in commits.iter() {
        match map_index(
            disk,
            file,
            facts.len,
            &slot,
            mapped(&FileId { header: header.file, system: facts.identity }),
        ) {
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

type ImportedEntries = Vec<(Box<str>, Range<u64>, u32)>;

fn import(disk: &dyn MapDisk, file: &File, len: u64) -> Result<(Arc<Mapping>, ImportedEntries), Problem> {
    let tail = read(disk, file, len.saturating_sub(FOOTER_LEN as u64), len.min(FOOTER_LEN as u64))?;
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
pub(super) fn read_into(disk: &dyn MapDisk, file: &File, at: u64, mapping: &Mapping) -> io::Result<()> {
    // SAFETY: the mapping is of the heap and the caller's own, so that nobody else reads or writes its bytes.
    let bytes = unsafe { std::slice::from_raw_parts_mut(mapping.start().as_ptr(), mapping.len()) };
    disk.read_at(file, at, bytes)
}

fn read(disk: &dyn MapDisk, file: &File, at: u64, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?];
    disk.read_at(file, at, &mut bytes)?;
    Ok(bytes)
}

fn to_usize(n: u64) -> Result<usize, Problem> {
    usize::try_from(n).map_err(|_| Problem::Io(io::ErrorKind::OutOfMemory.into()))
}
