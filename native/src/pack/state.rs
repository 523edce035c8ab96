//! What an open pack has in memory, apart from the file that it writes to.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    ops::Range,
    ptr::NonNull,
    sync::Arc,
};

use warmstart_core::trailer::{ModelId, Name, Packing, Wanted};

use super::{
    base::Base,
    segments::{FileNumber, Handle, PayloadPlace, Segments},
};
use crate::os::Mapping;

/// What an open pack has in memory.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) segments: Segments,
    /// What look-ups find that was saved.
    pub(super) base: Base,
    /// What was inserted and is not saved yet.
    pub(super) fresh: HashMap<Key, Fresh, foldhash::fast::RandomState>,
    /// Reserved and not yet inserted, by address.
    spaces: HashMap<usize, Reservation, foldhash::fast::RandomState>,
    /// Where in which file a payload is that its checksum disproves.
    pub(super) damaged: HashSet<PayloadPlace>,
    files: Vec<KnownFile>,
}

/// What tells a file from every other: what its header says, and what the system does, for a copy has the same header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    /// Of all zeros in version 2.
    pub(super) header: [u8; 16],
    pub(super) system: (u64, u64),
}

/// A file that the path has led to.
#[derive(Debug)]
struct KnownFile {
    /// Nothing once the file was cut off: what is under its path then is looked at as another one.
    identity: Option<FileId>,
    /// Up to where what it holds has handles.
    mapped: u64,
    /// Says whether the file is whole. As long as it is open, those stay away who lock a file before they write to it.
    file: Option<Arc<File>>,
}

/// A key that owns its names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    weight: Box<str>,
    bias: Option<Box<str>>,
    pub(super) model: ModelId,
    pub(super) packing: Packing,
}

/// A packed weight that is not saved yet.
#[derive(Clone, Debug)]
pub(super) struct Fresh {
    pub(super) handle: Handle,
    pub(super) len: usize,
    pub(super) mapping: Arc<Mapping>,
    pub(super) at: usize,
    /// Where in which file it is already; nowhere if it is in the heap.
    pub(super) place: Option<PayloadPlace>,
}

/// Bytes to pack into.
#[derive(Clone, Debug)]
pub(super) struct Reservation {
    pub(super) handle: Handle,
    /// At least what was asked for.
    pub(super) len: usize,
    pub(super) mapping: Arc<Mapping>,
    pub(super) at: usize,
    pub(super) place: Option<PayloadPlace>,
}

impl Reservation {
    pub(super) fn address(&self) -> NonNull<u8> {
        let address = self.mapping.start().as_ptr().wrapping_add(self.at);
        NonNull::new(address).unwrap_or(NonNull::dangling())
    }

    /// Where in the file it is.
    pub(super) fn range(&self) -> Option<(FileNumber, Range<u64>)> {
        self.place.map(|(file, start)| (file, start..start + self.len as u64))
    }
}

impl State {
    /// The number of the file with this identity.
    pub(super) fn number(&mut self, identity: FileId) -> FileNumber {
        let known = self.files.iter().position(|file| file.identity == Some(identity));
        let at = known.unwrap_or_else(|| {
            self.files.push(KnownFile { identity: Some(identity), mapped: 0, file: None });
            self.files.len() - 1
        });
        FileNumber(u32::try_from(at).unwrap_or(u32::MAX))
    }

    /// Up to where the file with this identity has handles.
    pub(super) fn mapped(&self, identity: &FileId) -> u64 {
        self.files.iter().find(|file| file.identity == Some(*identity)).map_or(0, |file| file.mapped)
    }

    /// Notes that the file has handles up to `end`.
    pub(super) fn set_mapped(&mut self, file: FileNumber, end: u64) {
        if let Some(known) = self.files.get_mut(file.0 as usize) {
            known.mapped = known.mapped.max(end);
        }
    }

    /// Keeps a file open that has handles.
    pub(super) fn keep_open(&mut self, number: FileNumber, file: File) {
        if let Some(known) = self.files.get_mut(number.0 as usize) {
            known.file.get_or_insert_with(|| Arc::new(file));
        }
    }

    /// Returns the file that look-ups find something in, what its header says, and up to where it has handles.
    pub(super) fn base_file(&self) -> Option<(FileNumber, Arc<File>, [u8; 16], u64)> {
        let number = self.base.file()?;
        let known = self.files.get(number.0 as usize)?;
        Some((number, Arc::clone(known.file.as_ref()?), known.identity?.header, known.mapped))
    }

    /// Forgets what was saved in a file that is no longer whole, and packed into it.
    pub(super) fn forget_saved(&mut self, number: FileNumber) {
        self.base = Base::Nothing;
        if let Some(known) = self.files.get_mut(number.0 as usize) {
            (known.identity, known.file) = (None, None);
        }
        self.forget_packed(number);
    }

    /// Forgets what was packed into a file and not saved.
    pub(super) fn forget_packed(&mut self, number: FileNumber) {
        self.fresh.retain(|_, fresh| fresh.place.is_none_or(|(file, _)| file != number));
    }

    pub(super) fn keep_space(&mut self, space: Reservation) {
        self.spaces.insert(space.address().as_ptr() as usize, space);
    }

    pub(super) fn take_space(&mut self, address: *const u8) -> Option<Reservation> {
        self.spaces.remove(&(address as usize))
    }

    /// Whether a packer may still be writing to this file.
    pub(super) fn has_spaces_in(&self, file: FileNumber) -> bool {
        self.spaces.values().any(|space| space.place.is_some_and(|(number, _)| number == file))
    }
}

impl Key {
    pub(super) fn name(&self) -> Name<'_> {
        Name { weight: &self.weight, bias: self.bias.as_deref() }
    }

    pub(super) fn wanted(&self) -> Wanted<'_> {
        Wanted { name: self.name(), model: self.model, packing: self.packing }
    }
}

impl From<&Wanted<'_>> for Key {
    fn from(wanted: &Wanted<'_>) -> Self {
        Self {
            weight: wanted.name.weight.into(),
            bias: wanted.name.bias.map(Into::into),
            model: wanted.model,
            packing: wanted.packing,
        }
    }
}
