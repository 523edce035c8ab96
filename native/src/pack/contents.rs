//! The contents of an open pack, and the snapshot of them that look-ups read without a lock while all findable weights are saved.
//!
//! A published snapshot does not change. When the findable weights change, another snapshot is published, or none; with none,
//! look-ups read the state under its lock. A look-up that still reads an older snapshot finds what was true before, so all
//! snapshots are kept until the pack is closed. That costs little: the bytes of an index belong to the mapped file.

#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    marker::PhantomData,
    ops::{Deref, Range},
    ptr::{self, NonNull},
    sync::{
        Arc,
        atomic::{AtomicPtr, Ordering},
    },
};

use warmstart_core::{
    reason::MissReason,
    trailer::{
        Entry, HEADER_LEN, Header, ModelId, Name, Packing, Place, WeightKey, checksum,
        index::{Index, Layout},
    },
};

use super::{
    options::{Checks, PackOptions},
    statistics::Counters,
};
use crate::os::{
    ALIGNMENT, MapBackend, Mapping,
    fork::{Mutex, RwLock},
};

/// The contents of an open pack: saved weights, and packed weights that are not saved yet.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(super) options: PackOptions,
    /// The counters of look-ups and of the writer.
    pub(super) counters: Counters,
    /// Locked after all other locks of an open pack, never before.
    pub(super) state: RwLock<State>,
    /// A view of `state`. Changed only under the write lock of that.
    pub(super) published: Published,
    /// The payloads whose checksums were verified.
    verified: Mutex<HashSet<PayloadLocation>>,
}

/// A snapshot that look-ups read without a lock.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// The index in `_saved`, which keeps it alive.
    index: Index<'static>,
    _saved: Arc<SavedIndex>,
    /// The mappings of the file.
    views: Vec<View>,
    takes_unverified: bool,
}

/// The current snapshot, and all earlier ones, which look-ups may still read.
#[derive(Debug, Default)]
pub(super) struct Published {
    /// One of `all`, or null.
    current: AtomicPtr<Snapshot>,
    /// `Arc` and not `Box`, because moving a box asserts that no other pointer to its contents is in use.
    all: Mutex<Vec<Arc<Snapshot>>>,
}

impl Contents {
    pub(super) fn new(options: PackOptions) -> Self {
        Self {
            options,
            counters: Counters::default(),
            state: RwLock::default(),
            published: Published::default(),
            verified: Mutex::default(),
        }
    }

    /// Finds a weight, counts the look-up, and returns the result of `make`.
    ///
    /// Mapping the result afterwards would copy a hit through memory once more, which costs a tenth of a look-up.
    #[inline]
    pub(crate) fn find<T>(&self, key: &WeightKey<'_>, make: impl FnOnce(Hit) -> T) -> Result<T, MissReason> {
        let missed = match self.published.get() {
            None => None,
            Some(snapshot) => match snapshot.find(key) {
                Ok(hit) => {
                    self.counters.hits.fetch_add(1, Ordering::Relaxed);
                    return Ok(make(hit));
                }
                Err(reason) => Some((snapshot, reason)),
            },
        };
        self.find_elsewhere(key, missed).map(make)
    }

    /// Finds a weight that this snapshot missed, or without a snapshot, and counts the look-up.
    #[inline(never)]
    fn find_elsewhere(
        &self,
        key: &WeightKey<'_>,
        missed: Option<(&Snapshot, MissReason)>,
    ) -> Result<Hit, MissReason> {
        let found = match missed {
            Some((snapshot, reason)) => snapshot.find_imported(reason, key),
            None => self.find_in_state(key),
        };
        match &found {
            Ok(hit) => {
                self.counters.hits.fetch_add(1, Ordering::Relaxed);
                if !hit.is_verified {
                    self.counters.unverified_hits.fetch_add(1, Ordering::Relaxed);
                }
            }
            Err(reason) => self.counters.misses.add(*reason),
        }
        found
    }

    fn find_in_state(&self, key: &WeightKey<'_>) -> Result<Hit, MissReason> {
        let state = self.state.read();
        if !state.pending.is_empty()
            && let Some(pending) = state.pending.get(&Key::from(key))
        {
            return Ok(pending.hit());
        }
        let (hit, place, checksum) = state.saved(key, self.options.unverified)?;
        drop(state);
        if self.options.checks != Checks::None {
            self.verify(&hit, place, checksum)?;
        }
        Ok(hit)
    }

    /// Publishes a snapshot, so that look-ups need no lock, if all findable weights are saved and need no verification.
    pub(super) fn publish(&self, state: &State) {
        let is_verified = !matches!(self.options.checks, Checks::FirstUse);
        let is_plain = state.pending.is_empty() && state.damaged.is_empty() && is_verified;
        match state.index.as_ref().filter(|_| is_plain) {
            Some(saved) => {
                let views = state.segments.views(saved.file).collect();
                let (index, takes_unverified) = (saved.index, self.options.unverified);
                let snapshot = Snapshot { index, _saved: Arc::clone(saved), views, takes_unverified };
                self.published.set(snapshot);
            }
            None => self.published.clear(),
        }
    }

    /// Stops handing out saved and packed weights of files that were truncated or overwritten. Returns whether saved weights are
    /// lost too.
    pub(super) fn forget(&self, cut: Vec<FileNumber>) -> bool {
        let mut state = self.state.write();
        let mut is_saved_part_gone = false;
        for number in cut {
            let is_asked = state.index_file() == Some(number);
            state.pending.retain(|_, pending| pending.location.is_none_or(|(file, _)| file != number));
            // Saved weights before a truncated end are whole.
            if is_asked && state.is_saved_part_cut(number, &*self.options.disk) {
                state.forget_saved(number);
                is_saved_part_gone = true;
            }
        }
        self.publish(&state);
        is_saved_part_gone
    }

    /// Verifies a payload, unless that was done before. From now on, a damaged one is a miss.
    fn verify(&self, hit: &Hit, place: PayloadLocation, expected: Option<u64>) -> Result<(), MissReason> {
        if self.verified.lock().contains(&place) {
            return Ok(());
        }
        // SAFETY: committed bytes are never written again, and `self` lives.
        if expected.is_some_and(|expected| checksum(unsafe { hit.bytes() }) != expected) {
            let mut state = self.state.write();
            state.damaged.insert(place);
            self.publish(&state);
            return Err(MissReason::ChecksumMismatch);
        }
        self.counters.proved.fetch_add(1, Ordering::Relaxed);
        // An empty payload may be where another one begins, and says nothing about that.
        if hit.len > 0 {
            self.verified.lock().insert(place);
        }
        Ok(())
    }

    /// Verifies all saved weights.
    pub(super) fn verify_all(&self) {
        let state = self.state.read();
        let Some(saved) = state.index.clone() else { return };
        let hit = |entry| Some((state.locate(saved.file, &entry)?, entry));
        let hits: Vec<_> = saved.index().entries().filter_map(hit).collect();
        drop(state);
        for (hit, entry) in hits {
            // Damage is recorded, and is a miss when the weight is looked up.
            let _ = self.verify(&hit, (saved.file, entry.offset), entry.checksum);
        }
    }
}

impl Snapshot {
    #[inline]
    pub(super) fn find(&self, key: &WeightKey<'_>) -> Result<Hit, MissReason> {
        let entry = self.index.look_up(key)?;
        self.hit(entry.offset, entry.size, true)
    }

    /// Finds an imported weight, if [`find`](Self::find) missed for this reason.
    pub(super) fn find_imported(&self, missed: MissReason, key: &WeightKey<'_>) -> Result<Hit, MissReason> {
        let entry = self.index.after_miss(missed, key, self.takes_unverified)?;
        self.hit(entry.offset, entry.size, false)
    }

    #[inline]
    fn hit(&self, offset: u64, size: u64, is_verified: bool) -> Result<Hit, MissReason> {
        let found = self.views.iter().find_map(|view| view.find(offset, size, is_verified));
        found.ok_or(MissReason::Malformed)
    }
}

impl Published {
    #[inline]
    pub(super) fn get(&self) -> Option<&Snapshot> {
        // SAFETY: null, or one of `all`, none of which is dropped or changed before `self` is.
        unsafe { self.current.load(Ordering::Acquire).as_ref() }
    }

    /// Withdraws the snapshot, so that look-ups read the state.
    pub(super) fn clear(&self) {
        self.current.store(ptr::null_mut(), Ordering::Release);
    }

    pub(super) fn set(&self, snapshot: Snapshot) {
        let snapshot = Arc::new(snapshot);
        let current = Arc::as_ptr(&snapshot).cast_mut();
        self.all.lock().push(snapshot);
        self.current.store(current, Ordering::Release);
    }
}

/// The state of an open pack in memory.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) segments: Segments,
    /// The index of the saved weights; `None` if nothing is saved, or it cannot be used.
    pub(super) index: Option<Arc<SavedIndex>>,
    /// Weights that were inserted and are not saved yet.
    pub(super) pending: HashMap<Key, Allocation, foldhash::fast::RandomState>,
    /// Reservations that are not inserted yet, by address.
    reservations: HashMap<usize, Allocation, foldhash::fast::RandomState>,
    /// The locations of payloads that do not match their checksums.
    pub(super) damaged: HashSet<PayloadLocation>,
    files: Vec<KnownFile>,
}

/// The identity of a file: the identifier in its header, which a copy shares, and the identity that the system gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    /// The identifier in the header; zeros if the file has no header.
    pub(super) header: [u8; 16],
    pub(super) system: (u64, u64),
}

/// A file that the path has led to.
#[derive(Debug)]
struct KnownFile {
    /// `None` once the file was truncated: whatever is at its path then is treated as another file.
    identity: Option<FileId>,
    /// The end of the part of the file that has handles.
    mapped: u64,
    /// An open descriptor, to check that the file is whole. If it is locked, programs that lock a file before writing are kept away.
    file: Option<File>,
}

/// A key with owned names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    weight: Box<str>,
    bias: Option<Box<str>>,
    pub(super) model: ModelId,
    pub(super) packing: Packing,
}

/// Bytes that are reserved for packing, or that hold a packed weight that is not saved yet.
#[derive(Clone, Debug)]
pub(super) struct Allocation {
    pub(super) handle: Handle,
    /// At least the requested length; after packing, the length of the weight.
    pub(super) len: usize,
    pub(super) mapping: Arc<Mapping>,
    pub(super) at: usize,
    /// The location in a file, or `None` if it is on the heap.
    pub(super) location: Option<PayloadLocation>,
}

impl State {
    /// Returns the file whose index look-ups use.
    pub(super) fn index_file(&self) -> Option<FileNumber> {
        self.index.as_ref().map(|index| index.file)
    }

    /// Returns the number of the file with this identity.
    pub(super) fn number(&mut self, identity: FileId) -> FileNumber {
        let known = self.files.iter().position(|file| file.identity == Some(identity));
        let at = known.unwrap_or_else(|| {
            self.files.push(KnownFile { identity: Some(identity), mapped: 0, file: None });
            self.files.len() - 1
        });
        FileNumber(at)
    }

    /// Returns the end of the part with handles of the file with this identity.
    pub(super) fn mapped(&self, identity: &FileId) -> u64 {
        self.files.iter().find(|file| file.identity == Some(*identity)).map_or(0, |file| file.mapped)
    }

    /// Records that the file has handles up to `end`.
    pub(super) fn set_mapped(&mut self, file: FileNumber, end: u64) {
        if let Some(known) = self.files.get_mut(file.0) {
            known.mapped = known.mapped.max(end);
        }
    }

    /// Keeps a file with handles open. Replaces its earlier descriptor if the new one is locked. Closes the other files that have
    /// nothing to be saved.
    pub(super) fn keep_open(&mut self, number: FileNumber, file: File, is_locked: bool) {
        let file_of = |reservation: &Allocation| reservation.location.map(|(number, _)| number);
        let used: HashSet<FileNumber> =
            self.pending.values().chain(self.reservations.values()).filter_map(file_of).collect();
        // A dropped file is mapped, and a mapping keeps its lock.
        for (other, known) in (0..).map(FileNumber).zip(&mut self.files) {
            if other != number && !used.contains(&other) {
                known.file = None;
            }
        }
        if let Some(known) = self.files.get_mut(number.0)
            && (is_locked || known.file.is_none())
        {
            known.file = Some(file);
        }
    }

    /// Returns the files that another program truncated or overwrote, among those with findable or pending weights.
    pub(super) fn cut_files(&self, disk: &dyn MapBackend) -> Vec<FileNumber> {
        let is_cut = |number: FileNumber, known: &KnownFile| {
            let end = |pending: &Allocation| match pending.location {
                Some((file, start)) if file == number => Some(start + pending.len as u64),
                _ => None,
            };
            let packed = self.pending.values().filter_map(end).max();
            let saved = (self.index_file() == Some(number)).then_some(known.mapped);
            match (packed.max(saved), &known.identity, &known.file) {
                (None, ..) | (_, Some(_), None) => false,
                // It was truncated earlier.
                (Some(_), None, _) => true,
                (Some(end), Some(identity), Some(file)) => is_cut(disk, file, &identity.header, end),
            }
        };
        let known = (0..).map(FileNumber).zip(&self.files);
        known.filter(|(number, known)| is_cut(*number, known)).map(|(number, _)| number).collect()
    }

    /// Returns whether saved weights of a file are truncated, and not only pending ones behind them.
    pub(super) fn is_saved_part_cut(&self, number: FileNumber, disk: &dyn MapBackend) -> bool {
        let Some(known) = self.files.get(number.0) else { return false };
        let (Some(file), Some(identity)) = (&known.file, &known.identity) else { return true };
        is_cut(disk, file, &identity.header, known.mapped)
    }

    /// Forgets the saved weights of a file that is no longer whole. The caller must also forget its pending weights.
    pub(super) fn forget_saved(&mut self, number: FileNumber) {
        self.index = None;
        if let Some(known) = self.files.get_mut(number.0) {
            (known.identity, known.file) = (None, None);
        }
    }

    /// Returns a saved weight, its location in the file and its checksum.
    pub(super) fn saved(
        &self,
        key: &WeightKey<'_>,
        takes_unverified: bool,
    ) -> Result<(Hit, PayloadLocation, Option<u64>), MissReason> {
        let saved = self.index.as_ref().ok_or(MissReason::Absent)?;
        let index = saved.index();
        let found = index.look_up(key);
        let entry = found.or_else(|missed| index.after_miss(missed, key, takes_unverified))?;
        let place = (saved.file, entry.offset);
        let hit = self.locate(saved.file, &entry).ok_or(MissReason::Malformed)?;
        if self.damaged.contains(&place) {
            return Err(MissReason::ChecksumMismatch);
        }
        Ok((hit, place, entry.checksum))
    }

    /// Returns the mapped payload of an entry of a file.
    pub(super) fn locate(&self, file: FileNumber, entry: &Entry<'_>) -> Option<Hit> {
        let mut views = self.segments.views(file);
        views.find_map(|view| view.find(entry.offset, entry.size, !entry.is_imported))
    }

    /// Returns whether the file has this weight with this payload.
    pub(super) fn has_saved(&self, file: FileNumber, key: &Key, checksum: u64) -> bool {
        let index = self.index.as_ref().filter(|index| index.file == file);
        let saved = index.and_then(|saved| saved.index().look_up(&key.weight_key()).ok());
        saved.is_some_and(|entry| {
            entry.checksum == Some(checksum) && !self.damaged.contains(&(file, entry.offset))
        })
    }

    /// Removes a saved weight from the pending ones, unless it was packed again meanwhile.
    pub(super) fn settle(&mut self, key: &Key, handle: Handle) {
        if self.pending.get(key).is_some_and(|pending| pending.handle == handle) {
            self.pending.remove(key);
        }
    }

    pub(super) fn keep_reservation(&mut self, reservation: Allocation) {
        self.reservations.insert(reservation.address().as_ptr() as usize, reservation);
    }

    /// Takes the reservation that begins at an address, if it is at least this long.
    pub(super) fn take_reservation(&mut self, address: NonNull<u8>, len: usize) -> Option<Allocation> {
        let address = address.as_ptr() as usize;
        let is_long_enough = self.reservations.get(&address)?.len >= len;
        is_long_enough.then(|| self.reservations.remove(&address)).flatten()
    }

    /// Returns whether this file has a reservation, so that a packer may still write to it.
    pub(super) fn has_reservations_in(&self, file: FileNumber) -> bool {
        self.reservations
            .values()
            .any(|reservation| reservation.location.is_some_and(|(number, _)| number == file))
    }
}

/// Returns whether another program truncated a file to less than `end`, or overwrote its header. A file that
/// currently cannot be read counts as whole.
pub(super) fn is_cut(disk: &dyn MapBackend, file: &File, header: &[u8; 16], end: u64) -> bool {
    if disk.metadata(file).is_ok_and(|metadata| metadata.len < end) {
        return true;
    }
    let is_other = |page: Vec<u8>| Header::decode(&page).map_or(true, |found| found.file != *header);
    disk.read(file, 0..HEADER_LEN as u64).is_ok_and(is_other)
}

impl Allocation {
    pub(super) fn address(&self) -> NonNull<u8> {
        let address = self.mapping.start().as_ptr().wrapping_add(self.at);
        NonNull::new(address).unwrap_or(NonNull::dangling())
    }

    /// Returns the packed bytes as a hit.
    pub(super) fn hit(&self) -> Hit {
        Hit { handle: self.handle, address: self.address(), len: self.len, is_verified: true }
    }

    /// Returns the packed bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: inserted bytes were packed before, and are never written again.
        unsafe { self.mapping.bytes(self.at..self.at + self.len) }.unwrap_or_default()
    }
}

impl Key {
    pub(super) fn name(&self) -> Name<'_> {
        Name { weight: &self.weight, bias: self.bias.as_deref() }
    }

    pub(super) fn weight_key(&self) -> WeightKey<'_> {
        WeightKey { name: self.name(), model: self.model, packing: self.packing }
    }
}

impl From<&WeightKey<'_>> for Key {
    fn from(key: &WeightKey<'_>) -> Self {
        Self {
            weight: key.name.weight.into(),
            bias: key.name.bias.map(Into::into),
            model: key.model,
            packing: key.packing,
        }
    }
}

/// A committed index and the bytes that it is in.
#[derive(Debug)]
pub(super) struct SavedIndex {
    pub(super) file: FileNumber,
    /// The place of its commit slot.
    pub(super) place: Place,
    /// Valid as long as `_block`: a copy of it needs a copy of that.
    pub(super) index: Index<'static>,
    _block: IndexBlock,
}

/// The bytes of an index, a range of a mapping. They do not change, because committed bytes are never written
/// again.
#[derive(Debug)]
pub(super) struct IndexBlock {
    pub(super) mapping: Arc<Mapping>,
    pub(super) range: Range<usize>,
}

impl SavedIndex {
    /// Creates the index of a block that was verified.
    pub(super) fn new(file: FileNumber, place: Place, layout: Layout, block: IndexBlock) -> Self {
        // SAFETY: the bytes do not move, and are freed with the block, which is stored beside the index.
        let bytes: &'static [u8] = unsafe { &*ptr::from_ref(block.as_ref()) };
        Self { file, place, index: layout.view(bytes), _block: block }
    }

    pub(super) const fn index(&self) -> Index<'_> {
        self.index
    }
}

impl AsRef<[u8]> for IndexBlock {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: an index is mapped after it is committed, and committed bytes are never written again.
        unsafe { self.mapping.bytes(self.range.clone()) }.unwrap_or_default()
    }
}

/// A weight that was found. It stays in place until the pack is closed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit {
    pub(crate) handle: Handle,
    pub(super) address: NonNull<u8>,
    pub(super) len: usize,
    pub(super) is_verified: bool,
}

impl Hit {
    /// Returns the bytes.
    ///
    /// # Safety
    /// The pack that found them is open, and no code writes to them.
    pub(super) unsafe fn bytes<'a>(self) -> &'a [u8] {
        // SAFETY: the range was within a segment when it was found, and segments of inserted or committed weights stay.
        unsafe { std::slice::from_raw_parts(self.address.as_ptr(), self.len) }
    }
}

/// Packed weights, in the file or on the heap. They stay in place while the pack is open.
#[derive(Clone, Copy, Debug)]
pub struct Weights<'a> {
    hit: Hit,
    pack: PhantomData<&'a Contents>,
}

impl<'a> Weights<'a> {
    /// A borrow of the pack.
    #[inline]
    pub(super) const fn of(hit: Hit) -> Self {
        Self { hit, pack: PhantomData }
    }

    /// Returns the bytes.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        // SAFETY: inserted or committed bytes are never written again, and stay in place until the pack is closed,
        // which the borrow prevents.
        unsafe { self.hit.bytes() }
    }

    /// Returns the handle, which is valid while the pack is open.
    #[must_use]
    pub const fn handle(&self) -> Handle {
        self.hit.handle
    }

    /// Returns whether the file proves that the weights belong to the requested model and packing. It does not for
    /// entries that were imported from version 2.
    #[must_use]
    pub const fn is_verified(&self) -> bool {
        self.hit.is_verified
    }
}

// SAFETY: these bytes are never written to, as in a shared slice.
unsafe impl Send for Weights<'_> {}
// SAFETY: as above.
unsafe impl Sync for Weights<'_> {}

impl Deref for Weights<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes()
    }
}

/// The position of a packed weight, which XNNPACK calls an offset.
///
/// A handle stays valid, and refers to the same bytes, until the last handle on the pack is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(usize);

impl Handle {
    /// Returns the handle as a number. It is never [`usize::MAX`], with which XNNPACK marks an absent weight.
    #[inline]
    #[must_use]
    pub const fn get(self) -> usize {
        self.0
    }

    /// Returns the handle whose number [`get`](Self::get) returned.
    #[inline]
    #[must_use]
    pub(crate) const fn from_number(number: usize) -> Self {
        Self(number)
    }
}

/// The number of one of the files that the path of a pack has led to since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileNumber(usize);

/// The location of a payload: its file, and its offset in that.
pub(super) type PayloadLocation = (FileNumber, u64);

/// A mapped part of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    /// The offset in the file where it begins.
    start: u64,
    len: u64,
    first: Handle,
    address: *const u8,
}

// SAFETY: only an address, of bytes that are shared anyway.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl View {
    /// Returns a payload, if all of it is mapped here. An empty payload has the address that its first byte would have.
    #[inline]
    pub(super) fn find(&self, offset: u64, size: u64, is_verified: bool) -> Option<Hit> {
        let at = offset.wrapping_sub(self.start);
        if at >= self.len || size > self.len - at {
            return None;
        }
        // Both are at most the length of a mapping.
        let (at, len) = (at as usize, size as usize);
        let address = NonNull::new(self.address.wrapping_add(at).cast_mut())?;
        Some(Hit { handle: Handle(self.first.0 + at), address, len, is_verified })
    }
}

/// Segments of memory with handles, in the order of these.
#[derive(Debug, Default)]
pub(super) struct Segments {
    all: Vec<Segment>,
    next: usize,
}

#[derive(Debug)]
struct Segment {
    first: usize,
    mapping: Arc<Mapping>,
    /// The file of the bytes, and the offset where they begin.
    file: Option<PayloadLocation>,
}

impl Segments {
    /// Assigns handles to bytes, and returns that of the first. Returns `None` if no handles are left.
    pub(super) fn add(&mut self, mapping: Arc<Mapping>, file: Option<PayloadLocation>) -> Option<Handle> {
        let first = self.next;
        // At least one number lies between two segments, so that the end of one is not the start of another.
        let next = first.checked_add(mapping.len())?.checked_add(1)?.checked_next_multiple_of(ALIGNMENT)?;
        self.next = next;
        self.all.push(Segment { first, mapping, file });
        Some(Handle(first))
    }

    /// Releases the handles of a whole segment of the heap, which must not be used any more. Handles of a file stay,
    /// because a mapping has others too.
    pub(super) fn forget(&mut self, first: Handle) {
        if let Ok(at) = self.all.binary_search_by_key(&first.0, |segment| segment.first)
            && self.all[at].file.is_none()
        {
            self.all.remove(at);
        }
    }

    /// Returns the address of a handle.
    pub(super) fn address(&self, handle: Handle) -> Option<NonNull<u8>> {
        let behind = self.all.partition_point(|segment| segment.first <= handle.0);
        let segment = self.all.get(behind.checked_sub(1)?)?;
        let at = handle.0 - segment.first;
        let address = segment.mapping.start().as_ptr().wrapping_add(at);
        NonNull::new(address).filter(|_| at < segment.mapping.len())
    }

    /// Returns the mappings of one file.
    pub(super) fn views(&self, file: FileNumber) -> impl Iterator<Item = View> {
        self.all.iter().filter_map(move |segment| {
            let (number, start) = segment.file?;
            let len = segment.mapping.len() as u64;
            let address = segment.mapping.start().as_ptr().cast_const();
            (number == file).then_some(View { start, len, first: Handle(segment.first), address })
        })
    }

    /// Returns the mappings of all files.
    pub(super) fn mapped(&self) -> impl Iterator<Item = &Mapping> {
        self.all.iter().map(|segment| &*segment.mapping).filter(|mapping| mapping.is_mapped())
    }
}
