//! The one writer of a file: its lock, and the chunks that are packed into.

use std::{
    fs::File,
    hash::{BuildHasher, Hasher, RandomState},
    io,
    ops::{Deref, Range},
    path::{Path, PathBuf},
    sync::Arc,
};

use warmstart_core::{
    reason::Reason,
    trailer::{
        HEADER_LEN,
        header::{Commits, Header, Place},
    },
};

use super::{
    found::is_cut,
    segments::{FileNumber, Handle, PayloadPlace},
    state::Reservation,
};
use crate::os::{ALIGNMENT, Access, MapDisk, Mapping, fork::LockHolder, reason_of};

/// The smallest chunk that a file grows by, in bytes.
const SMALLEST_CHUNK: u64 = 4 << 20;

/// The largest that it grows by unasked.
const LARGEST_CHUNK: u64 = 4 << 30;

/// Holds the lock of a file and gives out space in it.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) file: LockedFile,
    pub(super) number: FileNumber,
    pub(super) header: Header,
    pub(super) commits: Commits,
    /// Where the slot of the index is that counts.
    pub(super) counting: Option<Place>,
    /// Up to where the file holds what was committed.
    pub(super) committed: u64,
    /// Where the index ends that was committed last. Unlike `committed`, not moved by one that failed.
    pub(super) passed: u64,
    /// Where the next chunk or index begins.
    pub(super) end: u64,
    /// How long the file is at least, unless another program cut it off.
    allocated: u64,
    /// Up to where the system was asked to begin writing.
    written_back: u64,
    chunk: Option<Chunk>,
    /// Up to where bytes may have been written to that were given back.
    pub(super) touched: u64,
    /// How many spaces behind what was committed were given out and not taken back. Their addresses may be in use, whether
    /// they will be saved or not, so they must not be cut off.
    in_use: usize,
}

/// A file whose lock is held until this is dropped.
#[derive(Debug)]
pub(super) struct LockedFile {
    /// Of the process that took the lock. A child that it forked must not write to the file, cut it or unlock it.
    file: LockHolder,
    /// The same file, opened again, not cloned: a clone shares the writer's lock. Mappings are made from it, because a mapping
    /// keeps the locks of its descriptor, also in a child that outlives this process: a shared one here.
    to_map: File,
    disk: Arc<dyn MapDisk>,
}

/// A mapped part of the file that spaces are given out of.
#[derive(Debug)]
struct Chunk {
    mapping: Arc<Mapping>,
    handle: Handle,
    start: u64,
    used: u64,
}

/// Gives a mapped part of a file handles.
pub(super) type AddSegment<'a> = dyn Fn(Arc<Mapping>, PayloadPlace) -> Option<Handle> + 'a;

impl Writer {
    /// Begins to write to a locked file: behind all that was ever committed.
    pub(super) fn new(
        disk: &dyn MapDisk,
        file: LockedFile,
        number: FileNumber,
        (header, commits, counting): (Header, Commits, Option<Place>),
    ) -> io::Result<Self> {
        let len = disk.facts(&file)?.len;
        // The end of everything that was ever committed, also of an index that is refused now: others may have it mapped.
        let ends = commits.iter().map(|(_, slot)| slot.end());
        // A slot that is damaged does not say how much that was.
        let known = if commits.refused().is_some() { len } else { ends.max().unwrap_or(0).min(len) };
        let committed = known.max(HEADER_LEN as u64);
        // What a writer left behind that died before it saved. Nobody else has it mapped. What cannot be cut off stays, as
        // dead bytes.
        let is_cut = len <= committed || disk.set_len(&file, committed).is_ok();
        let end = align(if is_cut { committed } else { len });
        Ok(Self {
            file,
            number,
            header,
            commits,
            counting,
            committed,
            passed: committed,
            end,
            allocated: committed.min(len),
            written_back: end,
            chunk: None,
            touched: 0,
            in_use: 0,
        })
    }

    /// Gives out space in the file.
    pub(super) fn reserve(
        &mut self,
        disk: &dyn MapDisk,
        len: usize,
        add: &AddSegment<'_>,
    ) -> Result<Reservation, Reason> {
        let wanted = (len.max(1) as u64).checked_next_multiple_of(ALIGNMENT as u64).ok_or(Reason::NoSpace)?;
        // To pack into what was cut off would kill the process, and to grow the file again would hide it.
        if disk.facts(&self.file).is_ok_and(|facts| facts.len < self.allocated) {
            return Err(Reason::Truncated);
        }
        if self.chunk.as_ref().is_none_or(|chunk| chunk.left() < wanted) {
            // To grow may cut the file, so that what is left of the chunk must not be given out any more.
            self.chunk = None;
            self.chunk = Some(self.grow(disk, wanted, add)?);
        }
        let chunk = self.chunk.as_mut().ok_or(Reason::Unavailable)?;
        let at = chunk.used;
        chunk.used += wanted;
        let start = chunk.start + at;
        self.end = chunk.start + chunk.used;
        let at = usize::try_from(at).map_err(|_| Reason::NoSpace)?;
        if self.touched > start {
            chunk.zero(at, usize::try_from(wanted).map_err(|_| Reason::NoSpace)?);
        }
        self.touched = self.touched.max(self.end);
        self.in_use += 1;
        Ok(Reservation {
            handle: Handle::from_number(chunk.handle.get() + at),
            len,
            mapping: Arc::clone(&chunk.mapping),
            at,
            place: Some((self.number, start)),
        })
    }

    /// Allocates and maps a chunk: as large as half of what there is, so that there are few, or just as large as it must be.
    fn grow(&mut self, disk: &dyn MapDisk, wanted: u64, add: &AddSegment<'_>) -> Result<Chunk, Reason> {
        let start = self.end;
        let generous =
            wanted.max((start / 2).clamp(SMALLEST_CHUNK, LARGEST_CHUNK).next_multiple_of(ALIGNMENT as u64));
        let end = |len: u64| start.checked_add(len).ok_or(Reason::NoSpace);
        let len = match self.allocate(disk, start..end(generous)?) {
            Ok(()) => generous,
            Err(_) => {
                // What was allocated of it is given back first.
                self.cut_to(disk, start.max(self.committed));
                self.allocate(disk, start..end(wanted)?).map_err(|error| {
                    self.cut_to(disk, start.max(self.committed));
                    reason_of(&error)
                })?;
                wanted
            }
        };
        let mapping = disk
            .map(self.file.to_map(), start..end(len)?, Access::Write)
            .map_err(|error| reason_of(&error))?;
        let mapping = Arc::new(mapping);
        let handle = add(Arc::clone(&mapping), (self.number, start)).ok_or(Reason::NoSpace)?;
        Ok(Chunk { mapping, handle, start, used: 0 })
    }

    /// Takes a space back. It can be given out again if it was the last.
    pub(super) fn give_back(&mut self, file: FileNumber, range: &Range<u64>) {
        if file == self.number && range.start >= self.committed {
            self.in_use = self.in_use.saturating_sub(1);
        }
        let Some(chunk) = &mut self.chunk else { return };
        let end = align(range.end);
        if file == self.number && end == self.end && range.start >= chunk.start {
            chunk.used = range.start - chunk.start;
            self.end = range.start;
        }
    }

    /// Asks the system to begin writing what was packed since it was asked last.
    pub(super) fn start_write_back(&mut self, disk: &dyn MapDisk) {
        if self.end > self.written_back {
            disk.start_write_back(&self.file, self.written_back..self.end);
            self.written_back = self.end;
        }
    }

    /// Where in the chunk's mapping a range of the file is, if all of it is there.
    pub(super) fn in_chunk(&self, range: Range<u64>) -> Option<(Arc<Mapping>, usize)> {
        let chunk = self.chunk.as_ref()?;
        let at = usize::try_from(range.start.checked_sub(chunk.start)?).ok()?;
        let fits = range.end.checked_sub(chunk.start)? <= chunk.mapping.len() as u64;
        fits.then(|| (Arc::clone(&chunk.mapping), at))
    }

    /// Closes the chunk: what comes next begins behind it. Returns where that is.
    pub(super) fn close_chunk(&mut self) -> u64 {
        self.chunk = None;
        self.end
    }

    /// Continues behind an index that was written, whether it counts or not. Nobody writes over it, or cuts it off, any more.
    pub(super) fn skip(&mut self, end: u64) {
        self.chunk = None;
        self.committed = self.committed.max(end);
        self.end = align(end);
    }

    /// Continues behind an index that was committed.
    pub(super) fn continue_at(&mut self, commits: Commits, counting: Place, end: u64) {
        self.commits = commits;
        self.counting = Some(counting);
        self.chunk = None;
        self.committed = end;
        self.passed = end;
        self.end = align(end);
        self.written_back = self.end;
        self.in_use = 0;
    }

    /// Gives a range of the file blocks.
    pub(super) fn allocate(&mut self, disk: &dyn MapDisk, range: Range<u64>) -> io::Result<()> {
        disk.allocate(&self.file, range.clone())?;
        self.allocated = self.allocated.max(range.end);
        Ok(())
    }

    /// Cuts the file, where that can be done.
    pub(super) fn cut_to(&mut self, disk: &dyn MapDisk, end: u64) {
        let _ = disk.set_len(&self.file, end);
        self.allocated = self.allocated.min(end);
    }

    /// Returns whether another program cut the file off, or wrote over its header.
    pub(super) fn is_cut(&self, disk: &dyn MapDisk) -> bool {
        is_cut(disk, &self.file, &self.header.file, self.allocated)
    }

    /// Whether nobody has an address behind what was committed.
    pub(super) const fn is_idle(&self) -> bool {
        self.in_use == 0
    }

    /// Lets the file go, without what was not saved. The pack is gone, or the writer [idle](Self::is_idle).
    pub(super) fn abandon(self, disk: &dyn MapDisk) {
        // What another program cut off or wrote over is not ours to cut.
        if !self.file.is_own() || self.is_cut(disk) {
            return;
        }
        // A mapping of what is cut off may live on, and touching it would kill the process. Nobody does: nobody has an address
        // there.
        let _ = disk.set_len(&self.file, self.committed);
    }
}

impl LockedFile {
    pub(super) const fn new(file: LockHolder, to_map: File, disk: Arc<dyn MapDisk>) -> Self {
        Self { file, to_map, disk }
    }

    /// Whether this process took the lock.
    pub(super) fn is_own(&self) -> bool {
        self.file.is_own()
    }

    /// Returns the descriptor that mappings are made from.
    pub(super) fn to_map(&self) -> &File {
        // Elsewhere a lock shuts other handles out, and no child is forked.
        if cfg!(unix) { &self.to_map } else { &self.file }
    }
}

impl Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
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

impl Chunk {
    /// Makes bytes of a space that was given back what new ones are.
    fn zero(&self, at: usize, len: usize) {
        let len = len.min(self.mapping.len().saturating_sub(at));
        // SAFETY: the range is within the mapping, and whoever it was given out to has given it back.
        unsafe { self.mapping.start().as_ptr().wrapping_add(at).write_bytes(0, len) };
    }

    fn left(&self) -> u64 {
        (self.mapping.len() as u64).saturating_sub(self.used)
    }
}

/// Makes an empty file a pack.
pub(super) fn begin_file(disk: &dyn MapDisk, file: &File) -> io::Result<()> {
    disk.write_at(file, 0, &Header::encode(random()))?;
    // A header that power loss took away would make the file nobody's.
    disk.sync(file)
}

/// Puts an empty pack in the place of a file.
pub(super) fn replace(disk: &dyn MapDisk, path: &Path) -> io::Result<()> {
    let new = beside(path);
    let made = disk.create(&new).and_then(|file| {
        begin_file(disk, &file)?;
        disk.rename(&new, path)
    });
    made.inspect_err(|_| {
        let _ = disk.remove(&new);
    })
}

/// A name in the same directory that no other file has.
pub(super) fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{:016x}.tmp", u64::from_le_bytes(random()[..8].try_into().unwrap_or_default())));
    path.with_file_name(name)
}

/// Bytes that nobody else draws: the standard library seeds its hashers from the system.
pub(super) fn random() -> [u8; 16] {
    let draw = || RandomState::new().build_hasher().finish();
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&draw().to_le_bytes());
    bytes[8..].copy_from_slice(&draw().to_le_bytes());
    bytes
}

fn align(end: u64) -> u64 {
    end.next_multiple_of(ALIGNMENT as u64)
}
