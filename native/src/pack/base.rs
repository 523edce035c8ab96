//! What look-ups find that was saved.

use std::{collections::HashMap, ops::Range, sync::Arc};

use warmstart_core::{
    reason::Reason,
    trailer::{
        ModelId, Refusal, Wanted,
        header::{Commits, Header, Place, Slot},
        index::{Index, Layout},
    },
};

use super::{
    found::{Content, Found},
    segments::{FileNumber, PayloadPlace},
};
use crate::os::Mapping;

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
    /// What was found in the file with this number.
    pub(super) fn of(found: Found, file: FileNumber) -> Self {
        match (found.content, found.mapping) {
            (Content::Index(slot, layout, range), Some((mapping, _))) => {
                Self::Committed(Committed { file, slot, layout, block: Block::Mapped(mapping, range) })
            }
            (Content::Imported(entries), Some(_)) => {
                let entries = entries
                    .into_iter()
                    .map(|(name, range, seed)| (name, ImportedEntry { range, seed }))
                    .collect();
                Self::Imported(Imported { file, entries })
            }
            _ => Self::Nothing,
        }
    }

    pub(super) fn look_up(&self, wanted: &Wanted<'_>, takes_unverified: bool) -> Result<Saved, Reason> {
        match self {
            Self::Nothing => Err(Reason::Absent),
            Self::Committed(committed) => {
                let index = committed.index();
                let found = index.look_up(wanted);
                let entry = found.or_else(|missed| index.after_miss(missed, wanted, takes_unverified))?;
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
            return Err(Reason::UnverifiedModel);
        }
        if entry.seed != wanted.packing.seed {
            return Err(Reason::OtherSeed);
        }
        Ok(Saved { file: self.file, range: entry.range.clone(), checksum: None, is_verified: false })
    }
}
