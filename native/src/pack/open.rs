//! An open pack: its sharing within the process, its writer, packing into its file, and saving.

use std::{
    collections::HashMap,
    fs::File,
    io,
    path::{Path, PathBuf},
    ptr::NonNull,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use warmstart_core::{
    reason::MissReason,
    trailer::{Commits, FormatError, Header, ModelId, WeightKey, checksum},
};

use super::{
    contents::{Allocation, Contents, FileNumber, Handle, Hit, Key, SavedIndex, Weights},
    error::PackError,
    file::{ATTEMPTS, FirstPage},
    model,
    options::{Checks, PackOptions},
    publish::{NewFile, random},
    statistics::PackStatistics,
    writer::{LockedFile, Packed, Writer},
};
use crate::{
    OpenError,
    error::Problem,
    os::{
        Access, FileKind, Lock, MapBackend, Mapping,
        fork::{LockHolder, Mutex, MutexGuard},
        if_there, reason_of,
    },
};

/// The packs that are open in this process.
static OPEN: Mutex<Option<HashMap<PathBuf, Weak<OpenPack>>>> = Mutex::new(None);

/// An open file of packed weights. Clones of a handle, and handles opened under the same path, share one pack.
///
/// All methods can be called from any number of threads. The file is closed when the last handle is dropped; weights that were
/// not [saved](Self::save) are lost.
#[derive(Clone, Debug)]
pub struct Pack {
    open: Arc<OpenPack>,
}

/// The state that all handles on an open pack share.
#[derive(Debug)]
struct OpenPack {
    /// `None` if the pack is on the heap only.
    path: Option<PathBuf>,
    contents: Contents,
    /// Locked before the state, never after.
    writer: Mutex<Option<Writer>>,
    /// Writers of files that the path does not lead to any more, and that have addresses behind the committed part: while
    /// their locks are held, no process truncates the files. Locked after `writer`.
    retired: Mutex<Vec<Writer>>,
    /// Locked while the state of the file is adopted and while a save is published, so that neither undoes the other. Locked after
    /// `writer`.
    seen: Mutex<Seen>,
    /// Whether a lock timed out since the file was last refreshed.
    waited_in_vain: AtomicBool,
}

/// The state of the file when it was last read.
#[derive(Debug, Default)]
struct Seen {
    /// The first page. If it is unchanged, nothing was committed since.
    page: Option<FirstPage>,
    /// The reason why the contents of the file, or the newest part of them, are not used.
    refusal: Option<FormatError>,
}

/// The result of a save.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Saved {
    /// The number of new entries in the file.
    pub entries: usize,
    /// The bytes that the file grew by: payloads, index and padding.
    pub bytes: u64,
    /// The number of weights that stay on the heap because the file had no space for them. The next save retries.
    pub left: usize,
}

impl Pack {
    /// Opens the pack at `path`. The file is created when something is first packed into it.
    ///
    /// If a handle on the path is open in this process, returns another handle on the same pack, which then also finds what other
    /// processes have saved since.
    ///
    /// # Errors
    /// The path leads to something else than a file of packed weights of version 3, another user could have written the file,
    /// or the pack is open in this process with other options. A file that is damaged, full, busy or read-only is no error:
    /// then look-ups miss, and packed weights stay on the heap.
    pub fn open(path: impl AsRef<Path>, options: PackOptions) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let io = |error| OpenError::new(path, Problem::Io(error));
        if path.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(io(io::Error::new(io::ErrorKind::InvalidInput, "the path contains a NUL byte")));
        }
        let place = canonical(path).map_err(io)?;
        let pack = {
            let mut packs = OPEN.lock();
            let packs = packs.get_or_insert_default();
            match packs.get(&place).and_then(Weak::upgrade) {
                Some(known) => {
                    if let Some(option) = known.contents.options.difference(&options) {
                        return Err(OpenError::new(path, Problem::OtherOptions(option)));
                    }
                    Self { open: known }
                }
                None => {
                    packs.retain(|_, open| open.strong_count() > 0);
                    let pack = Self::new(Some(place.clone()), options);
                    packs.insert(place, Arc::downgrade(&pack.open));
                    pack
                }
            }
        };
        let is_input = |error: &io::Error| error.kind() == io::ErrorKind::InvalidInput;
        let wrong_kind = |found| Problem::WrongKind {
            found,
            remedy: "name a file of packed weights, or one that does not exist yet",
        };
        let problem = match pack.try_refresh() {
            Ok(()) => return Ok(pack),
            Err(PackError::Io(error)) if is_input(&error) => Problem::Io(error),
            Err(PackError::WrongKind(found)) => wrong_kind(found),
            Err(PackError::Refused(_)) => wrong_kind("a file, but not of packed weights"),
            Err(PackError::WrongVersion(_)) => Problem::WrongKind {
                found: "a file of packed weights of version 2, which ExecuTorch writes",
                remedy: "convert it to version 3: warmstart convert FILE --to 3 --model MODEL",
            },
            Err(PackError::Untrusted) => Problem::Untrusted {
                found: "a file that another user owns or may write to".to_owned(),
                remedy: "packed weights are run by kernels: give the file to this user, with mode 0600",
            },
            Err(error) if error.reason() == MissReason::Untrusted => wrong_kind("a link"),
            Err(error) => {
                pack.open.contents.counters.refusals.add(error.reason());
                return Ok(pack);
            }
        };
        Err(OpenError::new(path, problem))
    }

    /// Creates a pack without a file: all weights stay on the heap, and nothing is saved.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::new(None, PackOptions::default())
    }

    fn new(path: Option<PathBuf>, options: PackOptions) -> Self {
        let open = OpenPack {
            path,
            contents: Contents::new(options),
            writer: Mutex::new(None),
            retired: Mutex::default(),
            seen: Mutex::default(),
            waited_in_vain: AtomicBool::new(false),
        };
        Self { open: Arc::new(open) }
    }

    /// Finds a packed weight.
    ///
    /// # Errors
    /// The reason why there is none: nothing is stored under the name, or the weight belongs to another model, was packed for
    /// another micro-kernel or by another algorithm, or is damaged.
    #[inline]
    pub fn look_up(&self, key: &WeightKey<'_>) -> Result<Weights<'_>, MissReason> {
        self.open.contents.find(key, Weights::of)
    }

    /// Reserves zeroed bytes to pack into: in the file, so that packing writes to the page cache only, or on the heap
    /// if the file is currently unavailable. Dropping the reservation releases them.
    ///
    /// # Errors
    /// [`io::ErrorKind::OutOfMemory`] if the heap is exhausted too.
    pub fn reserve(&self, len: usize) -> io::Result<Reservation> {
        let address = self.reserve_bytes(len, true)?;
        Ok(Reservation { address, len, pack: Some(self.clone()) })
    }

    /// Inserts the bytes packed into a reservation as this weight, and returns it. Look-ups find it from now on, and
    /// [`save`](Self::save) stores it. An existing weight with the same bytes is kept instead.
    ///
    /// # Panics
    /// The reservation is of another pack.
    pub fn insert(&self, key: &WeightKey<'_>, mut reservation: Reservation) -> Weights<'_> {
        let pack = reservation.pack.take();
        assert!(
            pack.is_some_and(|pack| Arc::ptr_eq(&pack.open, &self.open)),
            "the reservation is of another pack: insert it in the pack that made it"
        );
        let hit = self.insert_bytes(key, reservation.address, reservation.len);
        Weights::of(hit.expect("the reservation was made and not taken yet"))
    }

    /// Asks the system to start writing newly packed bytes to the medium, and does not wait. Saves nothing.
    pub fn finalize(&self) {
        if let Some(writer) = &mut *self.lock_writer() {
            writer.start_write_back();
        }
    }

    /// Saves the inserted weights, so that the next process finds them, and waits until they are on the medium. Writes nothing if
    /// nothing was inserted since the last save.
    ///
    /// # Errors
    /// The reason why nothing was saved. Inserted weights can still be found, and the next save retries. But if another program
    /// truncated or overwrote the file ([`MissReason::Truncated`]), weights saved in it or packed into it are lost.
    pub fn save(&self) -> Result<Saved, MissReason> {
        let mut writer = self.lock_writer();
        let (saved, counters) = (self.save_as(&mut writer), &self.open.contents.counters);
        match &saved {
            Ok(Saved { entries: 0, .. }) => _ = counters.empty_saves.fetch_add(1, Relaxed),
            Ok(saved) => {
                counters.saves.fetch_add(1, Relaxed);
                counters.saved_entries.fetch_add(saved.entries as u64, Relaxed);
                counters.written_bytes.fetch_add(saved.bytes, Relaxed);
            }
            Err(reason) => counters.refusals.add(*reason),
        }
        let state = self.open.contents.state.read();
        let is_unused = |number| state.pending.is_empty() && !state.has_reservations_in(number);
        if let Some(idle) = writer.take_if(|writer| writer.is_idle() && is_unused(writer.number)) {
            drop(state);
            idle.abandon();
        }
        saved
    }

    /// Reads the state of the file again, so that weights saved by other processes can be found. Weights found before
    /// stay valid, unless another program truncated or overwrote the file: then they are not found any more, and borrowed ones
    /// must not be used.
    pub fn refresh(&self) {
        if let Err(error) = self.try_refresh() {
            self.open.contents.counters.refusals.add(error.reason());
        }
    }

    /// Asks the system to read the whole file ahead, and does not wait.
    pub fn prefetch(&self) {
        self.open.contents.state.read().segments.mapped().for_each(Mapping::prefetch);
    }

    /// Releases the memory of the file's pages, until they are accessed again.
    pub fn release(&self) {
        self.open.contents.state.read().segments.mapped().for_each(Mapping::release);
    }

    /// Returns the digest of a model file, as [`model_of_file`](super::model_of_file) does, and caches it in a file beside the
    /// pack, `NAME.models`, so that the next start need not read the model. Another file of this name is left alone.
    ///
    /// A cached digest is used while the path leads to the same file with the same length and the same times of
    /// modification and of change. It is cached if the file has been unchanged for two seconds, plus one
    /// second per 4 MiB, because one call may take that long to write it. This requires a writable local file system whose times
    /// are stamped by the clock of this machine. Elsewhere the file is read each time: on network file systems, in FUSE,
    /// on overlayfs, in read-only images, where times have no fraction of a second, and on systems without
    /// times of change, such as Windows.
    ///
    /// Replace a model file by renaming another one over it. Do not use this method if a program writes to the file through a
    /// mapping, which may leave its times unchanged, or if the clock of the machine is set back.
    ///
    /// # Errors
    /// The model file cannot be read, or is not a regular file. A read-only pack caches no new digests, so it reads a file without
    /// a cached digest each time.
    pub fn model_of_file(&self, path: impl AsRef<Path>) -> io::Result<ModelId> {
        model::remembered(self.path(), &self.open.contents.options, path.as_ref())
    }

    /// Returns the counters of this pack since it was opened.
    #[must_use]
    pub fn statistics(&self) -> PackStatistics {
        self.open.contents.counters.snapshot()
    }

    /// Returns the number of weights that are saved in the file, as of the last time that it was read.
    #[must_use]
    pub fn len(&self) -> usize {
        self.open.contents.state.read().index.as_ref().map_or(0, |saved| saved.index().len())
    }

    /// Returns whether no weights are saved in the file.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the reason why the contents of the file, or the newest part of them, are not used; `None` if they are.
    #[must_use]
    pub fn refusal(&self) -> Option<FormatError> {
        self.open.seen.lock().refusal
    }

    /// Returns the path of the file, if there is one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.open.path.as_deref()
    }

    /// Returns the contents, for the providers of runtimes, which use addresses and handles without borrows. Weights stay in
    /// place until the pack is closed, except for released reservations and forgotten weights.
    pub(crate) fn contents(&self) -> &Contents {
        &self.open.contents
    }

    /// Reads the file again, and adopts its state. Weights found before stay valid, unless the file was truncated or
    /// overwritten.
    fn try_refresh(&self) -> Result<(), PackError> {
        let Some(path) = &self.open.path else { return Ok(()) };
        self.open.waited_in_vain.store(false, Relaxed);
        // A thread that is saving checks this itself.
        let mut writer = self.open.writer.try_lock();
        if self.forget_cut_files(writer.as_deref_mut().unwrap_or(&mut None)) {
            self.open.contents.counters.refusals.add(MissReason::Truncated);
        }
        drop(writer);
        let (disk, contents) = (self.disk(), &self.open.contents);
        let mut seen = self.open.seen.lock();
        // If nothing was saved yet, or the file was removed, what is mapped stays.
        let Some(file) = if_there(disk.open(path, Access::Read))? else { return Ok(()) };
        let is_locked = disk.hold(&file);
        let adopted =
            FirstPage::read(disk, &file).and_then(|page| self.adopt(&mut seen, page, &file)).map(|number| {
                if let Some(number) = number {
                    contents.state.write().keep_open(number, file, is_locked);
                }
            });
        // The path leads to something else, so its weights must not be used any more. A file that currently cannot be read
        // says nothing about the state read before.
        if adopted.as_ref().is_err_and(|error| !matches!(error, PackError::Io(_))) {
            *seen = Seen::default();
            let mut state = contents.state.write();
            state.index = None;
            contents.publish(&state);
        }
        adopted
    }

    /// Adopts the state of a file with this first page for look-ups. Does nothing if the page is the same as
    /// before. Returns the number of the active file, for the caller to keep it open.
    ///
    /// `seen` stays locked meanwhile, so that the result of a save is not replaced by an earlier state.
    fn adopt(&self, seen: &mut Seen, page: FirstPage, file: &File) -> Result<Option<FileNumber>, PackError> {
        let contents = &self.open.contents;
        if page.is(seen.page.as_ref()) {
            return Ok(contents.state.read().index_file());
        }
        let identity = page.identity();
        let mapped = contents.state.read().mapped(&identity);
        let (picked, refusal) = page.verify(self.disk(), file, mapped)?;
        seen.refusal = refusal;
        seen.page = Some(page);
        let mut state = contents.state.write();
        let number = state.number(identity);
        state.index = None;
        if let Some(picked) = picked {
            let (slot, block) = (picked.slot, picked.block);
            if contents.options.prefetch {
                block.mapping.prefetch();
            }
            let start = slot.index_start - block.range.start as u64;
            if state.segments.add(Arc::clone(&block.mapping), Some((number, start))).is_some() {
                state.set_mapped(number, slot.end());
            }
            state.index = Some(Arc::new(SavedIndex::new(number, picked.place, picked.layout, block)));
        }
        if contents.options.checks == Checks::All {
            // Until all payloads are verified, look-ups verify those they find.
            contents.published.clear();
            drop(state);
            contents.verify_all();
            state = contents.state.write();
        }
        contents.publish(&state);
        Ok(Some(number))
    }

    /// Adopts the state of a locked file for look-ups, and keeps the file open.
    fn adopt_locked(&self, seen: &mut Seen, page: FirstPage, file: &File) -> Result<(), PackError> {
        // A file that was refused may have been read during a write, or be whole again.
        if self.open.contents.state.read().index.is_none() {
            seen.page = None;
        }
        let number = self.adopt(seen, page, file)?;
        // Without another descriptor, truncation is only noticed later.
        if let (Some(number), Ok(file)) = (number, file.try_clone()) {
            self.open.contents.state.write().keep_open(number, file, true);
        }
        Ok(())
    }

    /// Stops handing out weights of files that another program truncated or overwrote, and drops a writer of such a
    /// file, with what was packed into it. Returns whether there was one.
    fn forget_cut_files(&self, writer: &mut Option<Writer>) -> bool {
        let mut cut = self.open.contents.state.read().cut_files(self.disk());
        if let Some(writer) = writer.take_if(|writer| writer.file.is_own() && writer.is_cut()) {
            cut.push(writer.number);
        }
        if cut.is_empty() {
            return false;
        }
        let mut seen = self.open.seen.lock();
        if self.open.contents.forget(cut) {
            *seen = Seen::default();
        }
        true
    }

    /// Reserves zeroed bytes to pack into: in the file if `in_file` and if that is possible, otherwise on the heap.
    pub(crate) fn reserve_bytes(&self, len: usize, in_file: bool) -> io::Result<NonNull<u8>> {
        let counters = &self.open.contents.counters;
        counters.reservations.fetch_add(1, Relaxed);
        counters.reserved_bytes.fetch_add(len as u64, Relaxed);
        let reservation = match self.open.path {
            Some(_) if in_file => {
                self.reserve_in_file(len).map_err(|reason| counters.refusals.add(reason)).ok()
            }
            _ => None,
        };
        let reservation = reservation.map_or_else(|| self.reserve_in_heap(len), Ok)?;
        let address = reservation.address();
        self.open.contents.state.write().keep_reservation(reservation);
        Ok(address)
    }

    /// Reserves bytes in the file. Takes its lock if necessary, allocates and maps.
    fn reserve_in_file(&self, len: usize) -> Result<Allocation, MissReason> {
        let mut writer = self.lock_writer();
        let writer = match &mut *writer {
            Some(writer) => writer,
            none => {
                // Waits once only, because a model has a thousand weights.
                let in_vain = self.open.waited_in_vain.load(Relaxed);
                let timeout = if in_vain { Duration::ZERO } else { self.open.contents.options.timeout };
                let acquired = self.acquire(timeout);
                self.open.waited_in_vain.store(acquired.is_err(), Relaxed);
                none.insert(acquired.map_err(|error| error.reason())?)
            }
        };
        let add = |mapping, place| self.open.contents.state.write().segments.add(mapping, Some(place));
        writer.reserve(len, &add)
    }

    fn reserve_in_heap(&self, len: usize) -> io::Result<Allocation> {
        let mapping = Arc::new(Mapping::heap(len)?);
        let handle = self.open.contents.state.write().segments.add(Arc::clone(&mapping), None);
        let handle = handle.ok_or(io::ErrorKind::OutOfMemory)?;
        self.open.contents.counters.heap_entries.fetch_add(1, Relaxed);
        self.open.contents.counters.heap_bytes.fetch_add(len as u64, Relaxed);
        Ok(Allocation { handle, len, mapping, at: 0, location: None })
    }

    /// Inserts the first `len` bytes of a reservation as the requested weight. If that exists already with the same bytes,
    /// returns the existing one and releases the reservation, because some operators of XNNPACK pack before they look up.
    /// Returns `None` if there is no such reservation.
    pub(crate) fn insert_bytes(&self, key: &WeightKey<'_>, address: NonNull<u8>, len: usize) -> Option<Hit> {
        let mut state = self.open.contents.state.write();
        let reservation = state.take_reservation(address, len)?;
        let owned_key = Key::from(key);
        let pending = Allocation { len, ..reservation.clone() };
        let there = match state.pending.get(&owned_key) {
            Some(pending) => Some(pending.hit()),
            None => state.saved(key, self.open.contents.options.unverified).ok().map(|(hit, ..)| hit),
        };
        // SAFETY: inserted or committed bytes are never written again, and `self` lives.
        let is_same = |there: &Hit| there.is_verified && unsafe { there.bytes() } == pending.bytes();
        if let Some(there) = there.filter(is_same) {
            drop(state);
            self.release_allocation(&reservation);
            return Some(there);
        }
        self.open.contents.counters.packed.fetch_add(1, Relaxed);
        let hit = pending.hit();
        state.pending.insert(owned_key, pending);
        self.open.contents.published.clear();
        Some(hit)
    }

    /// Keeps packed bytes without a name for the runtime that packed them. Bytes in the file are moved to the heap.
    pub(crate) fn keep_unnamed(&self, address: NonNull<u8>, len: usize) -> Option<Handle> {
        let reservation = self.open.contents.state.write().take_reservation(address, len)?;
        let mut handle = reservation.handle;
        if reservation.location.is_some() {
            let Ok(moved) = self.reserve_in_heap(len) else {
                self.open.contents.state.write().keep_reservation(reservation);
                return None;
            };
            // SAFETY: the reservation is at least as long, and was packed before; no other code has the new bytes yet.
            unsafe { moved.address().as_ptr().copy_from_nonoverlapping(address.as_ptr(), len) };
            self.release_allocation(&reservation);
            handle = moved.handle;
        }
        self.open.contents.counters.refusals.add(MissReason::Unnamed);
        Some(handle)
    }

    /// Frees bytes that were kept without a name. They must not be used any more.
    pub(crate) fn forget_unnamed(&self, handle: Handle) {
        self.open.contents.state.write().segments.forget(handle);
    }

    /// Releases a reservation that was not inserted.
    pub(crate) fn release_reservation(&self, address: NonNull<u8>) {
        let reservation = self.open.contents.state.write().take_reservation(address, 0);
        if let Some(reservation) = reservation {
            self.release_allocation(&reservation);
        }
    }

    fn release_allocation(&self, allocation: &Allocation) {
        match allocation.location {
            Some(place) => {
                if let Some(writer) = &mut *self.lock_writer() {
                    writer.release(place, allocation.len as u64);
                }
            }
            None => self.forget_unnamed(allocation.handle),
        }
    }

    /// Locks the file at the path, creates it if it is missing, and adopts what other writers saved.
    fn acquire(&self, timeout: Duration) -> Result<Writer, PackError> {
        let path = match &self.open.path {
            Some(path) if !self.open.contents.options.read_only => path,
            Some(_) => return Err(PackError::Io(io::ErrorKind::ReadOnlyFilesystem.into())),
            None => return Err(PackError::Io(io::ErrorKind::Unsupported.into())),
        };
        let disk = self.disk();
        for _ in 0..ATTEMPTS {
            let file = LockHolder::open(|| disk.open_to_write(path))?;
            let metadata = disk.metadata(&file)?;
            if metadata.kind != FileKind::File || !metadata.is_trusted {
                return Err(PackError::Untrusted);
            }
            if let Some(writer) = self.take_retired(metadata.identity) {
                return match self.adopt_from(&writer) {
                    Ok(()) => Ok(writer),
                    Err(error) => {
                        self.retire(writer);
                        Err(error)
                    }
                };
            }
            disk.lock(&file, Lock::Writer, timeout)?;
            let to_map = disk.open_to_write(path)?;
            let _ = disk.hold(&to_map);
            let there = disk.metadata(&to_map)?;
            let file = LockedFile { file, to_map, disk: Arc::clone(&self.open.contents.options.disk) };
            // Compaction replaces the file by another one.
            if there.identity != metadata.identity {
                continue;
            }
            if let Some(writer) = self.begin(path, file)? {
                return Ok(writer);
            }
        }
        Err(PackError::Busy)
    }

    /// Adopts the state of a writer's file for look-ups.
    fn adopt_from(&self, writer: &Writer) -> Result<(), PackError> {
        let mut seen = self.open.seen.lock();
        let page = FirstPage::read(self.disk(), writer.file.to_map())?;
        self.adopt_locked(&mut seen, page, writer.file.to_map())?;
        let is_known =
            writer.active.is_none() || self.open.contents.state.read().index_file() == Some(writer.number);
        if is_known { Ok(()) } else { Err(seen.refusal.unwrap_or(FormatError::SlotPlace).into()) }
    }

    /// Prepares writing to a locked file. Returns `None` if it was replaced by an empty one, which must be locked instead.
    fn begin(&self, path: &Path, file: LockedFile) -> Result<Option<Writer>, PackError> {
        let disk = self.disk();
        let mut seen = self.open.seen.lock();
        let mut page = FirstPage::read(disk, &file)?;
        if page.is_blank() {
            disk.write_at(&file, 0, &Header::encode(random()))?;
            // If a loss of power removed the header, the file could not be identified as ours.
            disk.sync(&file)?;
            disk.sync_name(path);
            page = FirstPage::read(disk, &file)?;
        }
        let identity = page.identity();
        let Ok(commits) = Commits::read(&page.bytes) else {
            let refusal = page.verify(disk, file.to_map(), 0)?.1.unwrap_or(FormatError::Foreign);
            if !page.is_replaceable(refusal) {
                return Err(refusal.into());
            }
            // Readers keep their mappings.
            let mut empty = NewFile::beside(disk, path)?;
            empty.write(0, &Header::encode(random()))?;
            empty.publish(path)?;
            return Ok(None);
        };
        self.adopt_locked(&mut seen, page, file.to_map())?;
        let mut state = self.open.contents.state.write();
        let number = state.number(identity);
        let index = state.index.as_ref().filter(|index| index.file == number);
        let active = index.map(|index| index.place);
        drop(state);
        if active.is_none() && !commits.is_empty() {
            return Err(seen.refusal.unwrap_or(FormatError::SlotPlace).into());
        }
        drop(seen);
        Ok(Some(Writer::new(file, number, commits, active)?))
    }

    /// Locks the writer. A forked child has none, because the lock of the file belongs to its parent.
    fn lock_writer(&self) -> MutexGuard<'_, Option<Writer>> {
        let mut writer = self.open.writer.lock();
        drop(writer.take_if(|writer| !writer.file.is_own()));
        writer
    }

    /// Keeps a writer whose file was replaced, if addresses of unsaved weights in it may be in use.
    fn retire(&self, writer: Writer) {
        if !writer.is_idle() {
            self.open.retired.lock().push(writer);
        }
    }

    /// Returns the writer of the file with this identity, if it was [retired](Self::retire) and the path leads to the file again.
    fn take_retired(&self, identity: (u64, u64)) -> Option<Writer> {
        let (disk, mut retired) = (self.disk(), self.open.retired.lock());
        let is_of_it = |writer: &Writer| {
            writer.file.is_own()
                && disk.metadata(&writer.file).is_ok_and(|metadata| metadata.identity == identity)
        };
        let at = retired.iter().position(is_of_it)?;
        Some(retired.swap_remove(at))
    }

    fn save_as(&self, writer: &mut Option<Writer>) -> Result<Saved, MissReason> {
        // Bytes packed into a file that was truncated must not be read.
        if self.forget_cut_files(writer) {
            return Err(MissReason::Truncated);
        }
        let Some(path) = &self.open.path else { return Ok(Saved::default()) };
        if self.open.contents.state.read().pending.is_empty() {
            return Ok(Saved::default());
        }
        // Saves into a file that replaced the writer's, because no path leads to the latter any more.
        // The old file is not truncated: the bytes packed into it are in use, and are read to save them elsewhere.
        let is_in_place = writer.as_ref().map_or(Ok(true), |writer| self.is_in_place(path, writer));
        let is_in_place = is_in_place.map_err(|error| reason_of(&error))?;
        if let Some(replaced) = writer.take_if(|_| !is_in_place) {
            self.retire(replaced);
        }
        let writer = match writer {
            Some(writer) => writer,
            none => {
                let acquired = self.acquire(self.open.contents.options.timeout);
                none.insert(acquired.map_err(|error| error.reason())?)
            }
        };
        // A refresh may have adopted another file that the path led to meanwhile.
        let is_known = self.open.contents.state.read().index_file() == Some(writer.number);
        if !is_known && writer.active.is_some() {
            self.adopt_from(writer).map_err(|error| error.reason())?;
        }
        let state = self.open.contents.state.read();
        let mut pending: Vec<(Key, Allocation)> =
            state.pending.iter().map(|(key, pending)| (key.clone(), pending.clone())).collect();
        drop(state);
        // In the order of the file, followed by what is on the heap.
        pending.sort_by_key(|(_, pending)| (pending.location.map_or(u64::MAX, |(_, at)| at), pending.handle));
        let before = writer.committed;
        let (packed, left) = self.assign_locations(writer, pending)?;
        if packed.is_empty() {
            return Ok(Saved::default());
        }
        self.commit(writer, &packed).map_err(|error| error.reason())?;
        Ok(Saved { entries: packed.len(), bytes: writer.committed - before, left })
    }

    /// Returns whether the path still leads to the writer's file. An error is not taken for a no, which would release weights in
    /// use, or for a yes, which would save them where no process may find them.
    fn is_in_place(&self, path: &Path, writer: &Writer) -> io::Result<bool> {
        let Some(there) = if_there(self.disk().metadata_at(path))? else { return Ok(false) };
        Ok(there.identity == self.disk().metadata(&writer.file)?.identity)
    }

    /// Assigns each weight an offset in the file. Weights on the heap are written there if there is space. Also returns for how
    /// many there was none.
    fn assign_locations(
        &self,
        writer: &mut Writer,
        pending: Vec<(Key, Allocation)>,
    ) -> Result<(Vec<Packed>, usize), MissReason> {
        let mut packed = Vec::with_capacity(pending.len());
        let (mut full, mut left) = (None, 0);
        for (key, pending) in pending {
            let bytes = pending.bytes();
            let checksum = checksum(bytes);
            let mut state = self.open.contents.state.write();
            if state.has_saved(writer.number, &key, checksum) {
                state.settle(&key, pending.handle);
                continue;
            }
            drop(state);
            let offset = match pending.location {
                // Bytes before an earlier commit are never written again, because other processes may have read them.
                Some((file, offset)) if file == writer.number && offset >= writer.published_end => {
                    Some(offset)
                }
                _ if full.is_some() => None,
                _ => writer.append(bytes).map_err(|error| full = Some(reason_of(&error))).ok(),
            };
            match offset {
                Some(offset) => packed.push(Packed { key, pending, offset, checksum }),
                None => left += 1,
            }
        }
        if let Some(reason) = full {
            if packed.is_empty() {
                return Err(reason);
            }
            self.open.contents.counters.refusals.add(reason);
        }
        // A refresh that adopted another index may still be verifying it.
        let seen = self.open.seen.lock();
        self.open.contents.publish(&self.open.contents.state.write());
        drop(seen);
        Ok((packed, left))
    }

    /// Commits packed weights, so that look-ups and the next process find them in the file.
    fn commit(&self, writer: &mut Writer, packed: &[Packed]) -> Result<(), PackError> {
        let before =
            self.open.contents.state.read().index.clone().filter(|index| index.file == writer.number);
        let (page, index) = writer.commit(before.as_deref(), packed)?;
        let appended = writer.map_appended(packed);
        let mut seen = self.open.seen.lock();
        let mut state = self.open.contents.state.write();
        if let Some((mapping, start)) = appended {
            state.segments.add(Arc::new(mapping), Some((writer.number, start)));
        }
        state.set_mapped(writer.number, writer.committed);
        state.index = Some(Arc::new(index));
        packed.iter().for_each(|packed| state.settle(&packed.key, packed.pending.handle));
        self.open.contents.publish(&state);
        drop(state);
        seen.refusal = None;
        seen.page =
            self.disk().metadata(&writer.file).ok().map(|metadata| FirstPage { metadata, bytes: page });
        Ok(())
    }

    fn disk(&self) -> &dyn MapBackend {
        &*self.open.contents.options.disk
    }

    pub(crate) fn address(&self, handle: Handle) -> Option<NonNull<u8>> {
        self.open.contents.state.read().segments.address(handle)
    }
}

impl Drop for OpenPack {
    fn drop(&mut self) {
        let retired = self.retired.get_mut().drain(..);
        retired.chain(self.writer.get_mut().take()).for_each(Writer::abandon);
    }
}

/// Returns the path that identifies a pack in this process. If the directory is missing, nothing can be found or
/// written there.
fn canonical(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::IsADirectory.into());
    };
    let parent = if_there(parent.canonicalize())?;
    Ok(parent.map_or_else(|| path.clone(), |parent| parent.join(name)))
}

/// Reserved bytes to pack into, aligned to [`ALIGNMENT`](crate::os::ALIGNMENT), and owned by the caller.
#[derive(Debug)]
pub struct Reservation {
    address: NonNull<u8>,
    len: usize,
    /// `None` once it was inserted.
    pack: Option<Pack>,
}

// SAFETY: until it is inserted, a reservation is the only access to its bytes, as a boxed slice is.
unsafe impl Send for Reservation {}
// SAFETY: as above, and writing through it needs a unique borrow.
unsafe impl Sync for Reservation {}

impl Reservation {
    /// Returns the bytes to pack into.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the bytes belong to this reservation only, are initialised, and live as long as the pack.
        unsafe { std::slice::from_raw_parts_mut(self.address.as_ptr(), self.len) }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(pack) = &self.pack {
            pack.release_reservation(self.address);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Instant};

    use warmstart_core::trailer::{Name, Packing};

    use super::*;

    /// A save that only finds out that its weights are saved already must not publish an index that another thread adopted and
    /// is still verifying.
    #[test]
    fn save_during_verification_publishes_no_snapshot() {
        let directory = tempfile::tempdir().unwrap();
        let options = PackOptions::default().with_checks(Checks::All);
        let pack = Pack::open(directory.path().join("weights.xpwc"), options).unwrap();
        let wanted = WeightKey {
            name: Name { weight: "w", bias: None },
            model: ModelId::from_bytes([1; ModelId::LEN]),
            packing: Packing { seed: 1, fingerprint: None },
        };
        pack.insert(&wanted, pack.reserve(100).unwrap());
        // A reservation keeps the writer.
        let _reserved = pack.reserve(100).unwrap();
        pack.save().unwrap();
        let contents = &pack.open.contents;
        // The weight is packed before the index that has it is adopted.
        let index = contents.state.write().index.take();
        pack.insert(&wanted, pack.reserve(100).unwrap());
        contents.state.write().index = index;
        thread::scope(|scope| {
            // As if this thread had adopted the index and were verifying it.
            let seen = pack.open.seen.lock();
            let saving = scope.spawn(|| pack.save());
            while !contents.state.read().pending.is_empty() {
                thread::yield_now();
            }
            let settled = Instant::now();
            while !saving.is_finished() && settled.elapsed() < Duration::from_millis(100) {
                thread::yield_now();
            }
            assert!(contents.published.get().is_none());
            drop(seen);
            assert_eq!(saving.join().unwrap(), Ok(Saved::default()));
        });
        assert!(contents.published.get().is_some());
        assert_eq!(pack.look_up(&wanted).unwrap().len(), 100);
    }
}
