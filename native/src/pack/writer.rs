//! The single writer of a file: its lock, and the chunks that are packed into.

use std::{
    cmp::Reverse,
    collections::HashMap,
    fs::File,
    io,
    ops::{Deref, Range},
    sync::Arc,
};

use warmstart_core::{
    reason::MissReason,
    trailer::{
        Commits, Entry, FormatError, HEADER_LEN, ModelId, Name, Packing, Place, Slot,
        index::{check, encode},
    },
};

use super::{
    contents::{Allocation, FileNumber, Handle, IndexBlock, Key, PayloadLocation, SavedIndex, is_cut},
    error::PackError,
};
use crate::os::{ALIGNMENT, Access, MapBackend, Mapping, fork::LockHolder, reason_of};

/// The smallest chunk that a file grows by, in bytes.
const SMALLEST_CHUNK: u64 = 4 << 20;

/// The largest chunk that a file grows by if no weight needs more, in bytes.
const LARGEST_CHUNK: u64 = 4 << 30;

/// The number of packings that are kept of one weight of one model, the newest ones: more than machines, or versions of a runtime,
/// that alternate on one file.
const MAX_PACKINGS: usize = 4;

/// A weight to save, and its offset in the file.
#[derive(Debug)]
pub(super) struct Packed {
    pub(super) key: Key,
    pub(super) pending: Allocation,
    pub(super) offset: u64,
    pub(super) checksum: u64,
}

/// Holds the lock of a file and allocates space in it.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) file: LockedFile,
    pub(super) number: FileNumber,
    pub(super) commits: Commits,
    /// The place of the slot of the active index.
    pub(super) active: Option<Place>,
    /// The end of the committed part of the file.
    pub(super) committed: u64,
    /// The end of the index whose slot was written last. Unlike `committed`, a commit that failed before its slot does not move it.
    pub(super) published_end: u64,
    /// The offset of the next reservation, chunk or index.
    pub(super) end: u64,
    /// The minimum length of the file, unless another program truncated it.
    allocated: u64,
    /// The end of the part for which write-back was started.
    written_back: u64,
    chunk: Option<Chunk>,
    /// The end of the part that may have been written to through released reservations.
    touched: u64,
    /// The number of reservations behind the committed part that are not released. Their addresses may be in use, whether
    /// they will be saved or not, so they must not be truncated.
    in_use: usize,
}

/// A file whose lock is held until this is dropped.
#[derive(Debug)]
pub(super) struct LockedFile {
    /// The descriptor with the lock, of the process that took it. A forked child must not write to the file, truncate or unlock it.
    pub(super) file: LockHolder,
    /// The same file, opened again. A clone would share the writer's lock, and mappings, which are made from this descriptor,
    /// keep its locks even in a child that outlives this process. Its only lock is a shared one.
    pub(super) to_map: File,
    pub(super) disk: Arc<dyn MapBackend>,
}

/// A mapped part of the file from which reservations are allocated.
#[derive(Debug)]
struct Chunk {
    mapping: Arc<Mapping>,
    handle: Handle,
    start: u64,
}

/// A function that assigns handles to a mapped part of a file.
pub(super) type AddSegment<'a> = dyn Fn(Arc<Mapping>, PayloadLocation) -> Option<Handle> + 'a;

impl Writer {
    /// Starts writing to a locked file, behind everything that was ever committed, and truncates what was written behind that.
    pub(super) fn new(
        file: LockedFile,
        number: FileNumber,
        commits: Commits,
        active: Option<Place>,
    ) -> io::Result<Self> {
        let len = file.disk.metadata(&file)?.len;
        // The end of everything that was ever committed, including a refused index: other processes may have it mapped.
        let ends = commits.iter().map(|(_, slot)| slot.end());
        // A damaged slot does not tell its end.
        let known = if commits.refused().is_some() { len } else { ends.max().unwrap_or(0).min(len) };
        let committed = known.max(HEADER_LEN as u64);
        // Truncates what a writer left that died before it saved. No other process has it mapped. If that fails, the bytes stay
        // unused.
        let is_cut = len <= committed || file.disk.set_len(&file, committed).is_ok();
        let end = align(if is_cut { committed } else { len });
        Ok(Self {
            file,
            number,
            commits,
            active,
            committed,
            published_end: committed,
            end,
            allocated: committed.min(len),
            written_back: end,
            chunk: None,
            touched: 0,
            in_use: 0,
        })
    }

    /// Reserves space in the file.
    pub(super) fn reserve(&mut self, len: usize, add: &AddSegment<'_>) -> Result<Allocation, MissReason> {
        let wanted =
            (len.max(1) as u64).checked_next_multiple_of(ALIGNMENT as u64).ok_or(MissReason::NoSpace)?;
        // Packing into truncated pages would kill the process, and growing the file again would hide the damage.
        if self.file.disk.metadata(&self.file).is_ok_and(|metadata| metadata.len < self.allocated) {
            return Err(MissReason::Truncated);
        }
        let start = self.end;
        let left = |chunk: &Chunk| (chunk.start + chunk.mapping.len() as u64).saturating_sub(start);
        if self.chunk.as_ref().is_none_or(|chunk| left(chunk) < wanted) {
            // Growing may truncate the file, so the rest of the old chunk must not be used any more.
            self.chunk = None;
            self.chunk = Some(self.grow(wanted, add).map_err(|error| reason_of(&error))?);
        }
        let chunk = self.chunk.as_ref().ok_or(MissReason::Unavailable)?;
        self.end = start + wanted;
        let at = usize::try_from(start - chunk.start).map_err(|_| MissReason::NoSpace)?;
        if self.touched > start {
            let len = usize::try_from(wanted).map_err(|_| MissReason::NoSpace)?;
            let len = len.min(chunk.mapping.len().saturating_sub(at));
            // SAFETY: the range is within the mapping, and its earlier users have released it.
            unsafe { chunk.mapping.start().as_ptr().wrapping_add(at).write_bytes(0, len) };
        }
        self.touched = self.touched.max(self.end);
        self.in_use += 1;
        Ok(Allocation {
            handle: Handle::from_number(chunk.handle.get() + at),
            len,
            mapping: Arc::clone(&chunk.mapping),
            at,
            location: Some((self.number, start)),
        })
    }

    /// Allocates and maps a chunk: half the length of the file, so that there are few chunks, or only as much as needed.
    fn grow(&mut self, wanted: u64, add: &AddSegment<'_>) -> io::Result<Chunk> {
        let start = self.end;
        let generous =
            wanted.max((start / 2).clamp(SMALLEST_CHUNK, LARGEST_CHUNK).next_multiple_of(ALIGNMENT as u64));
        let end = |len: u64| start.checked_add(len).ok_or(io::ErrorKind::StorageFull);
        let mut range = start..end(generous)?;
        if self.allocate(range.clone()).is_err() {
            range.end = end(wanted)?;
            // First releases what was allocated of the larger chunk.
            self.cut_to(start.max(self.committed));
            self.allocate(range.clone()).inspect_err(|_| self.cut_to(start.max(self.committed)))?;
        }
        let mapping = Arc::new(self.file.disk.map(self.file.to_map(), range, Access::Write)?);
        let handle = add(Arc::clone(&mapping), (self.number, start)).ok_or(io::ErrorKind::StorageFull)?;
        Ok(Chunk { mapping, handle, start })
    }

    /// Releases reserved bytes. They can be reused if they were the last ones.
    pub(super) fn release(&mut self, (file, start): PayloadLocation, len: u64) {
        if file != self.number {
            return;
        }
        if start >= self.committed {
            self.in_use = self.in_use.saturating_sub(1);
        }
        if self.chunk.as_ref().is_some_and(|chunk| start >= chunk.start) && align(start + len) == self.end {
            self.end = start;
        }
    }

    /// Asks the system to start writing what was packed since the last call.
    pub(super) fn start_write_back(&mut self) {
        if self.end > self.written_back {
            self.file.disk.start_write_back(&self.file, self.written_back..self.end);
            self.written_back = self.end;
        }
    }

    /// Returns the mapping of the chunk and the offset of a range of the file in it, if all of the range is there.
    fn in_chunk(&self, range: Range<u64>) -> Option<(Arc<Mapping>, usize)> {
        let chunk = self.chunk.as_ref()?;
        let at = usize::try_from(range.start.checked_sub(chunk.start)?).ok()?;
        let fits = range.end.checked_sub(chunk.start)? <= chunk.mapping.len() as u64;
        fits.then(|| (Arc::clone(&chunk.mapping), at))
    }

    /// Writes a payload at the end, and returns its offset.
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<u64> {
        self.chunk = None;
        let start = self.end;
        // An empty payload has an offset of its own too.
        let end = start.checked_add(bytes.len().max(1) as u64).ok_or(io::ErrorKind::StorageFull)?;
        self.allocate(start..end)?;
        // A partial write counts too.
        self.touched = self.touched.max(end);
        self.file.disk.write_at(&self.file, start, bytes)?;
        self.end = align(end);
        Ok(start)
    }

    /// Maps weights that this save wrote to the file instead of packing them there, so that they can be found. If that fails, they are
    /// packed again.
    pub(super) fn map_appended(&self, packed: &[Packed]) -> Option<(Mapping, u64)> {
        // All of these are behind the weights that were packed in the file.
        let mut appended =
            packed.iter().filter(|packed| packed.pending.location != Some((self.number, packed.offset)));
        let start = appended.next()?.offset;
        self.file.disk.map_or_read(self.file.to_map(), start..self.end).ok().map(|mapping| (mapping, start))
    }

    /// Commits packed weights together with the current entries of the index `before`: writes an index of both behind the
    /// payloads, waits until all is on the medium, and then writes the slot that makes it active. Reads and verifies what was written.
    /// Returns the file's first page and the index.
    pub(super) fn commit(
        &mut self,
        before: Option<&SavedIndex>,
        packed: &[Packed],
    ) -> Result<(Vec<u8>, SavedIndex), PackError> {
        let (start, generation) = (self.end, self.commits.next_generation());
        let bytes = encode_index(before, packed, start, generation)?;
        let slot = Slot::of(generation, start, &bytes);
        let written = self.write_commit(&slot, &bytes);
        // The mapping of the index, if it fitted behind the payloads.
        let in_chunk = self.in_chunk(start..slot.end());
        // The rest of the chunk may be truncated. If the commit fails, its slot may be valid all the same, and other processes
        // may have the index mapped: it is not overwritten or truncated any more.
        self.chunk = None;
        self.committed = slot.end();
        self.end = align(slot.end());
        let place = written?;
        let page = self.file.disk.read(&self.file, 0..HEADER_LEN as u64)?;
        let (mapping, at) = match in_chunk {
            Some(mapped) => mapped,
            // The slot is valid now, so the written bytes replace an index that cannot be mapped or read back.
            None => {
                let mapped = self.file.disk.map_or_read(self.file.to_map(), start..slot.end());
                let copy = |_| {
                    Mapping::filled(bytes.len(), |copy| {
                        copy.copy_from_slice(&bytes);
                        Ok(())
                    })
                };
                (Arc::new(mapped.or_else(copy)?), 0)
            }
        };
        let block = IndexBlock { mapping, range: at..at + bytes.len() };
        let commits = Commits::read(&page)?;
        if commits.iter().next() != Some((place, slot)) {
            return Err(FormatError::SlotChecksum.into());
        }
        let layout = check(block.as_ref(), &slot)?;
        self.commits = commits;
        self.active = Some(place);
        self.written_back = self.end;
        self.in_use = 0;
        Ok((page, SavedIndex::new(self.number, place, layout, block)))
    }

    /// Writes an index and then its slot. Returns the place of the slot.
    fn write_commit(&mut self, slot: &Slot, block: &[u8]) -> io::Result<Place> {
        let end = slot.end();
        self.allocate(slot.index_start..end)?;
        self.file.disk.write_at(&self.file, slot.index_start, block)?;
        // The rest of the last chunk. It stays if it cannot be truncated because it is mapped.
        self.cut_to(end);
        self.file.disk.sync(&self.file)?;
        // The slot of the active index is not overwritten.
        let place = self.commits.place_beside(self.active);
        // Even if this fails, the slot may be valid from now on, and other processes may have read everything up to its end.
        self.published_end = end;
        self.file.disk.write_at(&self.file, place.offset(), &slot.encode(&self.commits.header().file))?;
        self.file.disk.sync(&self.file)?;
        Ok(place)
    }

    /// Allocates blocks for a range of the file.
    fn allocate(&mut self, range: Range<u64>) -> io::Result<()> {
        self.file.disk.allocate(&self.file, range.clone())?;
        self.allocated = self.allocated.max(range.end);
        Ok(())
    }

    /// Truncates the file, if possible.
    fn cut_to(&mut self, end: u64) {
        let _ = self.file.disk.set_len(&self.file, end);
        self.allocated = self.allocated.min(end);
    }

    /// Returns whether another program truncated the file, or overwrote its header.
    pub(super) fn is_cut(&self) -> bool {
        is_cut(&*self.file.disk, &self.file, &self.commits.header().file, self.allocated)
    }

    /// Returns whether no addresses behind the committed part are in use.
    pub(super) const fn is_idle(&self) -> bool {
        self.in_use == 0
    }

    /// Releases the file, without unsaved weights. The pack is closed, or the writer [idle](Self::is_idle).
    pub(super) fn abandon(self) {
        // Bytes that another program truncated or overwrote are not ours to truncate.
        if !self.file.is_own() || self.is_cut() {
            return;
        }
        // A mapping of the truncated part may live on, and accessing it would kill the process. No code does, because no addresses
        // there are in use.
        let _ = self.file.disk.set_len(&self.file, self.committed);
    }
}

impl LockedFile {
    /// Returns the descriptor that mappings are made from.
    pub(super) fn to_map(&self) -> &File {
        // On other systems a lock excludes other descriptors of the same process, and there is no fork.
        if cfg!(unix) { &self.to_map } else { &self.file }
    }
}

impl Deref for LockedFile {
    type Target = LockHolder;

    fn deref(&self) -> &LockHolder {
        &self.file
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        if self.is_own() {
            self.disk.unlock(&self.file);
        }
    }
}

fn align(end: u64) -> u64 {
    end.next_multiple_of(ALIGNMENT as u64)
}

/// Returns the index of the current saved weights and of the packed ones.
fn encode_index(
    before: Option<&SavedIndex>,
    packed: &[Packed],
    start: u64,
    generation: u64,
) -> Result<Vec<u8>, FormatError> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    if let Some(before) = before {
        // The number of packings of each weight, counted from the new ones.
        let mut packings: HashMap<(Name<'_>, ModelId), Vec<Packing>> = HashMap::new();
        for Packed { key, .. } in packed {
            packings.entry((key.name(), key.model)).or_default().push(key.packing);
        }
        let mut saved: Vec<_> = before.index().entries().collect();
        saved.sort_by_key(|entry| Reverse(entry.generation));
        for entry in saved {
            if !entry.is_imported
                && let Some(kept) = packings.get_mut(&(entry.name, entry.model))
            {
                if kept.contains(&entry.packing) || kept.len() >= MAX_PACKINGS {
                    continue;
                }
                kept.push(entry.packing);
            }
            entries.push(entry);
        }
    }
    entries.extend(packed.iter().map(|Packed { key, pending, offset, checksum }| Entry {
        name: key.name(),
        model: key.model,
        packing: key.packing,
        offset: *offset,
        size: pending.len as u64,
        checksum: Some(*checksum),
        generation,
        is_imported: false,
    }));
    encode(entries, start, generation)
}
