//! Saving: what was packed becomes what the next process finds, in one step.

use std::{collections::HashMap, io, sync::Arc};

use warmstart_core::{
    reason::Reason,
    trailer::{
        ModelId, Name, Refusal,
        build::{IndexBuilder, NewEntry},
        checksum,
        header::{Commits, Slot},
    },
};

use super::{
    found::map_or_read,
    instance::{Instance, lock},
    segments::FileNumber,
    snapshot::{IndexBlock, SavedIndex},
    state::{Fresh, Key, State},
    statistics::add,
    writer::Writer,
};
use crate::os::{ALIGNMENT, Access, MapDisk, Mapping, reason_of};

/// How many packings of one weight of one model are kept: more than machines, or versions of a runtime, that take turns with
/// one file. Of more, the newest stay.
const MAX_PACKINGS: usize = 4;

/// What a save did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Saved {
    /// Entries that are in the file now and were not before.
    pub entries: usize,
    /// Bytes that the file grew by: payloads, index and padding.
    pub bytes: u64,
    /// Weights that are in the heap still, because the file had no room for them. The next save tries them again.
    pub left: usize,
}

/// A weight that is to be saved, and what is known of it.
struct Packed {
    key: Key,
    fresh: Fresh,
    offset: u64,
    checksum: u64,
}

impl Instance {
    /// Saves what was inserted since the last save. Where there is nothing, nothing is written.
    pub(super) fn save(&self) -> Result<Saved, Reason> {
        let mut writer = self.lock_writer();
        let saved = self.save_as(&mut writer);
        match &saved {
            Ok(Saved { entries: 0, .. }) => add(&self.counters.empty_saves, 1),
            Ok(saved) => {
                add(&self.counters.saves, 1);
                add(&self.counters.saved_entries, saved.entries as u64);
                add(&self.counters.written_bytes, saved.bytes);
            }
            Err(reason) => self.counters.refuse(*reason),
        }
        let state = self.read();
        let is_idle = |writer: &Writer| {
            writer.is_idle() && state.fresh.is_empty() && !state.has_spaces_in(writer.number)
        };
        if let Some(idle) = writer.take_if(|writer| is_idle(writer)) {
            drop(state);
            idle.abandon(&*self.options.disk);
        }
        saved
    }

    fn save_as(&self, writer: &mut Option<Writer>) -> Result<Saved, Reason> {
        // What was packed into a file that was cut off since must not be read.
        if self.forget_cut_files(writer) {
            return Err(Reason::Truncated);
        }
        if self.path.is_none() || self.read().fresh.is_empty() {
            return Ok(Saved::default());
        }
        // Into a file that was put in another's place, rather than into one that nobody finds any more.
        // The file is not cut: what was packed into it is in use, and is read to be saved elsewhere.
        let is_in_place = writer.as_ref().map_or(Ok(true), |writer| self.is_in_place(writer))?;
        if let Some(replaced) = writer.take_if(|_| !is_in_place) {
            self.retire(replaced);
        }
        let writer = match writer {
            Some(writer) => writer,
            none => none.insert(self.acquire(self.options.patience)?),
        };
        // A refresh may have looked at another file, which was under the path meanwhile.
        let is_known = self.read().index_file() == Some(writer.number);
        if !is_known && writer.counting.is_some() {
            self.adopt_from(&*self.options.disk, writer.file.to_map())?;
        }
        let mut fresh: Vec<(Key, Fresh)> =
            self.read().fresh.iter().map(|(key, fresh)| (key.clone(), fresh.clone())).collect();
        // In the order of the file, and what is in the heap behind.
        fresh.sort_by_key(|(_, fresh)| (fresh.place.map_or(u64::MAX, |(_, at)| at), fresh.handle));
        let before = writer.committed;
        let (packed, left) = self.place(writer, fresh)?;
        if packed.is_empty() {
            return Ok(Saved::default());
        }
        self.commit(writer, &packed)?;
        Ok(Saved { entries: packed.len(), bytes: writer.committed - before, left })
    }

    /// Whether the path still leads to the file that is written to. What cannot be asked just now is no reason to let go of what
    /// is in use, nor to save it where nobody may find it.
    fn is_in_place(&self, writer: &Writer) -> Result<bool, Reason> {
        let (disk, Some(path)) = (&*self.options.disk, self.path.as_deref()) else { return Ok(false) };
        let failed = |error: io::Error| reason_of(&error);
        let there = match disk.facts_at(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            there => there.map_err(failed)?,
        };
        Ok(there.identity == disk.facts(&writer.file).map_err(failed)?.identity)
    }

    /// Gives each weight its place in the file: what is in the heap is written there, where there is room. Says for how many
    /// there was none.
    fn place(&self, writer: &mut Writer, fresh: Vec<(Key, Fresh)>) -> Result<(Vec<Packed>, usize), Reason> {
        let disk = &*self.options.disk;
        let mut packed = Vec::with_capacity(fresh.len());
        let mut known = Vec::new();
        let (mut full, mut left) = (None, 0);
        for (key, fresh) in fresh {
            let bytes = fresh.bytes();
            let checksum = checksum(bytes);
            if self.read().has_saved(writer.number, &key, checksum) {
                known.push((key, fresh.handle));
                continue;
            }
            let offset = match fresh.place {
                // What a commit went past is never written again: others may have read it as it was then.
                Some((file, offset)) if file == writer.number && offset >= writer.passed => offset,
                _ if full.is_some() => {
                    left += 1;
                    continue;
                }
                _ => match writer.append(disk, bytes) {
                    Ok(offset) => offset,
                    Err(error) => {
                        full = Some(reason_of(&error));
                        left += 1;
                        continue;
                    }
                },
            };
            packed.push(Packed { key, fresh, offset, checksum });
        }
        if let Some(reason) = full {
            if packed.is_empty() {
                return Err(reason);
            }
            self.counters.refuse(reason);
        }
        let mut state = self.write();
        known.into_iter().for_each(|(key, handle)| state.settle(&key, handle));
        self.publish(&state);
        Ok((packed, left))
    }

    /// Writes the index behind the payloads, waits until both are on the medium, and then says that it counts.
    fn commit(&self, writer: &mut Writer, packed: &[Packed]) -> Result<(), Reason> {
        let disk = &*self.options.disk;
        let generation = writer.commits.next_generation();
        let start = writer.end;
        let block = {
            let state = self.read();
            index(&state, writer.number, packed, start, generation).ok_or(Reason::Malformed)?
        };
        let slot = Slot::of(generation, start, &block);
        let written = write_commit(disk, writer, &slot, &block);
        // Where the index is mapped already, if it fitted behind the payloads.
        let in_chunk = writer.in_chunk(slot.index_start..slot.end());
        // What is left of the chunk may be cut off. Should this fail, the slot may count all the same, and others may have the
        // index mapped.
        writer.skip(slot.end());
        let page = written.map_err(|error| reason_of(&error))?;
        let commits = Commits::read(&page).map_err(Refusal::reason)?;
        let mapped = in_chunk.or_else(|| {
            let mapping = disk.map(writer.file.to_map(), slot.index_start..slot.end(), Access::Read).ok()?;
            Some((Arc::new(mapping), 0))
        });
        let block = match mapped {
            Some((mapping, at)) => IndexBlock::Mapped(mapping, at..at + block.len()),
            None => IndexBlock::Owned(block),
        };
        let index = SavedIndex::check(writer.number, slot, block).map_err(Refusal::reason)?;
        let appended = map_appended(disk, writer, packed);
        let counting = writer.commits.place_beside(writer.counting);
        writer.continue_at(commits, counting, slot.end());
        let mut seen = lock(&self.seen);
        let mut state = self.write();
        if let Some((mapping, start)) = appended {
            state.segments.add(Arc::new(mapping), Some((writer.number, start)));
        }
        state.set_mapped(writer.number, slot.end());
        state.index = Some(Arc::new(index));
        packed.iter().for_each(|packed| state.settle(&packed.key, packed.fresh.handle));
        self.publish(&state);
        drop(state);
        seen.refusal = None;
        seen.page = disk.facts(&writer.file).ok().map(|facts| (facts, page));
        Ok(())
    }

    /// Asks the system to begin writing what was packed since the last time, and nothing else.
    pub(super) fn start_write_back(&self) {
        if let Some(writer) = &mut *self.lock_writer() {
            writer.start_write_back(&*self.options.disk);
        }
    }
}

impl State {
    /// Whether the file has this weight with this payload.
    fn has_saved(&self, file: FileNumber, key: &Key, checksum: u64) -> bool {
        let index = self.index.as_ref().filter(|index| index.file == file);
        let saved = index.and_then(|saved| saved.index().look_up(&key.wanted()).ok());
        saved.is_some_and(|entry| {
            entry.checksum == Some(checksum) && !self.damaged.contains(&(file, entry.offset))
        })
    }

    /// Forgets that a weight is to be saved, unless it was packed anew meanwhile.
    fn settle(&mut self, key: &Key, handle: super::Handle) {
        if self.fresh.get(key).is_some_and(|fresh| fresh.handle == handle) {
            self.fresh.remove(key);
        }
    }
}

/// The index of what is saved and is still wanted, and of what was packed.
fn index(state: &State, file: FileNumber, packed: &[Packed], start: u64, generation: u64) -> Option<Vec<u8>> {
    let mut builder = IndexBuilder::new();
    if let Some(before) = state.index.as_ref().filter(|index| index.file == file) {
        // How many packings of each weight there are, the new ones first.
        let mut packings: HashMap<(Name<'_>, ModelId), Vec<&Key>> = HashMap::new();
        for packed in packed {
            packings.entry((packed.key.name(), packed.key.model)).or_default().push(&packed.key);
        }
        let mut saved: Vec<_> = before.index().entries().collect();
        saved.sort_by_key(|entry| std::cmp::Reverse(entry.generation));
        let mut kept: HashMap<(Name<'_>, ModelId), usize> = HashMap::new();
        for entry in saved {
            let Some(checksum) = entry.checksum else { continue };
            let kept_entry = NewEntry {
                name: entry.name,
                model: entry.model,
                packing: entry.packing,
                offset: entry.offset,
                size: entry.size,
                checksum,
                generation: entry.generation,
            };
            if entry.is_imported {
                builder.push_imported(kept_entry);
                continue;
            }
            if let Some(new) = packings.get(&(entry.name, entry.model)) {
                if new.iter().any(|key| key.packing == entry.packing) {
                    continue;
                }
                let kept = kept.entry((entry.name, entry.model)).or_insert(new.len());
                *kept += 1;
                if *kept > MAX_PACKINGS {
                    continue;
                }
            }
            builder.push(kept_entry);
        }
    }
    for packed in packed {
        builder.push(NewEntry {
            name: packed.key.name(),
            model: packed.key.model,
            packing: packed.key.packing,
            offset: packed.offset,
            size: packed.fresh.len as u64,
            checksum: packed.checksum,
            generation,
        });
    }
    builder.finish(start, generation).ok()
}

/// Maps what was not packed in the file but written to it by this save, so that it is found there. Where that fails, it is
/// packed again.
fn map_appended(disk: &dyn MapDisk, writer: &Writer, packed: &[Packed]) -> Option<(Mapping, u64)> {
    let is_appended = |packed: &&Packed| packed.fresh.place != Some((writer.number, packed.offset));
    // All of it is behind what was packed in the file.
    let mut appended = packed.iter().filter(is_appended);
    let start = appended.next()?.offset;
    map_or_read(disk, writer.file.to_map(), start..writer.end).ok().map(|mapping| (mapping, start))
}

/// Writes an index and the slot that makes it count, and returns the file's first page.
fn write_commit(disk: &dyn MapDisk, writer: &mut Writer, slot: &Slot, block: &[u8]) -> io::Result<Vec<u8>> {
    let end = slot.end();
    writer.allocate(disk, slot.index_start..end)?;
    disk.write_at(&writer.file, slot.index_start, block)?;
    // What is left of the last chunk. Where it cannot be cut off, because it is mapped, it stays.
    writer.cut_to(disk, end);
    disk.sync(&writer.file)?;
    let place = writer.commits.place_beside(writer.counting);
    disk.write_at(&writer.file, place.offset(), &slot.encode(&writer.header.file))?;
    disk.sync(&writer.file)?;
    let mut page = vec![0; warmstart_core::trailer::HEADER_LEN];
    disk.read_at(&writer.file, 0, &mut page)?;
    Ok(page)
}

impl Writer {
    /// Writes a payload behind everything else, and returns where.
    fn append(&mut self, disk: &dyn MapDisk, bytes: &[u8]) -> io::Result<u64> {
        let start = self.close_chunk();
        // Also what has no bytes has a place of its own.
        let end = start.checked_add(bytes.len().max(1) as u64).ok_or(io::ErrorKind::StorageFull)?;
        self.allocate(disk, start..end)?;
        // Also what is written by half.
        self.touched = self.touched.max(end);
        disk.write_at(&self.file, start, bytes)?;
        self.end = end.next_multiple_of(ALIGNMENT as u64);
        Ok(start)
    }
}
