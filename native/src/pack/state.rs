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
    found::{FileId, is_cut},
    segments::{FileNumber, Handle, PayloadPlace, Segments},
    snapshot::SavedIndex,
};
use crate::os::{MapDisk, Mapping};

/// What an open pack has in memory.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) segments: Segments,
    /// What look-ups find that was saved; nothing if nothing was, or it cannot be used.
    pub(super) index: Option<Arc<SavedIndex>>,
    /// What was inserted and is not saved yet.
    pub(super) fresh: HashMap<Key, Fresh, foldhash::fast::RandomState>,
    /// Reserved and not yet inserted, by address.
    spaces: HashMap<usize, Reservation, foldhash::fast::RandomState>,
    /// Where in which file a payload is that its checksum disproves.
    pub(super) damaged: HashSet<PayloadPlace>,
    files: Vec<KnownFile>,
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
pub(crate) struct Reservation {
    pub(super) handle: Handle,
    /// At least what was asked for.
    pub(super) len: usize,
    pub(super) mapping: Arc<Mapping>,
    pub(super) at: usize,
    pub(super) place: Option<PayloadPlace>,
}

impl Reservation {
    pub(crate) fn address(&self) -> NonNull<u8> {
        let address = self.mapping.start().as_ptr().wrapping_add(self.at);
        NonNull::new(address).unwrap_or(NonNull::dangling())
    }

    /// Where in the file it is.
    pub(super) fn range(&self) -> Option<(FileNumber, Range<u64>)> {
        self.place.map(|(file, start)| (file, start..start + self.len as u64))
    }
}

impl State {
    /// The file whose index look-ups ask.
    pub(super) fn index_file(&self) -> Option<FileNumber> {
        self.index.as_ref().map(|index| index.file)
    }

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

    /// Keeps a file open that has handles: in place of the descriptor that is open already if this one is locked. Closes
    /// those of other files, of which nothing is to be saved.
    pub(super) fn keep_open(&mut self, number: FileNumber, file: File, is_locked: bool) {
        let file = Arc::new(file);
        let is_used = |number: u32| {
            let is_of = |place: &PayloadPlace| place.0.0 == number;
            self.fresh.values().any(|fresh| fresh.place.as_ref().is_some_and(is_of))
                || self.has_spaces_in(FileNumber(number))
        };
        let used: Vec<bool> = (0u32..).zip(&self.files).map(|(number, _)| is_used(number)).collect();
        for ((other, known), is_used) in (0u32..).zip(&mut self.files).zip(used) {
            if other != number.0 && !is_used {
                known.file = None;
            } else if other == number.0 && (is_locked || known.file.is_none()) {
                // One that is dropped here is mapped, and what is mapped stays locked.
                known.file = Some(Arc::clone(&file));
            }
        }
    }

    /// Returns the files that another program cut off or wrote over, of those that something is found in or is to be saved of.
    pub(super) fn cut_files(&self, disk: &dyn MapDisk) -> Vec<FileNumber> {
        let mut ends: HashMap<FileNumber, u64> = HashMap::new();
        for fresh in self.fresh.values() {
            if let Some((number, start)) = fresh.place {
                let end = ends.entry(number).or_default();
                *end = (*end).max(start + fresh.len as u64);
            }
        }
        if let Some(number) = self.index_file() {
            let mapped = self.files.get(number.0 as usize).map_or(0, |known| known.mapped);
            let end = ends.entry(number).or_default();
            *end = (*end).max(mapped);
        }
        let is_cut = |(number, end): &(FileNumber, u64)| {
            let Some(known) = self.files.get(number.0 as usize) else { return false };
            match (&known.identity, &known.file) {
                // It was cut off before.
                (None, _) => true,
                (Some(_), None) => false,
                (Some(identity), Some(file)) => is_cut(disk, file, &identity.header, *end),
            }
        };
        ends.into_iter().filter(is_cut).map(|(number, _)| number).collect()
    }

    /// Returns whether what was saved in a file is cut off, and not only what was packed behind it.
    pub(super) fn is_saved_part_cut(&self, number: FileNumber, disk: &dyn MapDisk) -> bool {
        let Some(known) = self.files.get(number.0 as usize) else { return false };
        let (Some(file), Some(identity)) = (&known.file, &known.identity) else { return true };
        is_cut(disk, file, &identity.header, known.mapped)
    }

    /// Forgets what was saved in a file that is no longer whole. What was packed into it is to be forgotten as well.
    pub(super) fn forget_saved(&mut self, number: FileNumber) {
        self.index = None;
        if let Some(known) = self.files.get_mut(number.0 as usize) {
            (known.identity, known.file) = (None, None);
        }
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
