//! An open pack, which all handles on one path in a process share.

use std::{
    collections::HashSet,
    fs::File,
    io,
    path::{Path, PathBuf},
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::os::{
    Access, FileKind, Lock, MapDisk, Mapping,
    fork::{LockHolder, Mutex, MutexGuard, ReadGuard, RwLock, WriteGuard},
    reason_of,
};

use warmstart_core::{
    reason::Reason,
    trailer::{self, Entry, Refusal, Wanted},
};

use super::{
    found::{Content, FileId, FirstPage, Found, NotFound, SeenPage, look_into},
    look::ATTEMPTS,
    options::{Checks, PackOptions},
    segments::{FileNumber, Handle, PayloadPlace},
    snapshot::{Hit, IndexBlock, Published, SavedIndex, Snapshot},
    state::{Fresh, Key, Reservation, State},
    statistics::{Counters, add},
    writer::{LockedFile, Writer, begin_file, replace},
};

/// An open pack.
#[derive(Debug)]
pub(crate) struct Instance {
    /// Nothing if the pack is of the heap alone.
    pub(super) path: Option<PathBuf>,
    pub(super) options: PackOptions,
    pub(super) counters: Counters,
    /// Locked before `state`, never after.
    pub(super) writer: Mutex<Option<Writer>>,
    /// Of files that are no longer under the path, and in which there are addresses behind what was committed: as long as
    /// their locks are held, nobody cuts them. Locked after `writer`.
    retired: Mutex<Vec<Writer>>,
    pub(super) state: RwLock<State>,
    /// Of `state`, and changed only by who may write to it.
    pub(super) published: Published,
    /// The payloads whose checksums held.
    pub(super) proved: Mutex<HashSet<PayloadPlace>>,
    pub(super) seen: Mutex<Seen>,
    /// Whether the lock was waited for in vain since the file was looked at last.
    pub(super) waited_in_vain: AtomicBool,
}

/// What was seen of the file when it was looked at last.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) page: Option<SeenPage>,
    pub(super) refusal: Option<Refusal>,
}

impl Instance {
    pub(super) fn new(path: Option<PathBuf>, options: PackOptions) -> Self {
        Self {
            path,
            options,
            counters: Counters::default(),
            writer: Mutex::new(None),
            retired: Mutex::default(),
            state: RwLock::default(),
            published: Published::default(),
            proved: Mutex::default(),
            seen: Mutex::default(),
            waited_in_vain: AtomicBool::new(false),
        }
    }

    /// Looks at the file again, and takes what it holds now. What was found before stays good, unless the file was cut off or
    /// written over.
    pub(super) fn refresh(&self) -> Result<(), NotFound> {
        let Some(path) = &self.path else { return Ok(()) };
        self.waited_in_vain.store(false, Ordering::Relaxed);
        let disk = &*self.options.disk;
        // A thread that saves meanwhile looks for itself.
        let is_cut = match self.writer.try_lock() {
            Some(mut writer) => self.forget_cut_files(&mut writer),
            None => self.forget_cut_files(&mut None),
        };
        if is_cut {
            self.counters.refuse(Reason::Truncated);
        }
        let mut seen = lock(&self.seen);
        let file = match disk.open(path, Access::Read) {
            Ok(file) => file,
            // Nothing was saved yet, or somebody removed the file: what is mapped stays.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(NotFound::Io(error)),
        };
        let is_locked = disk.hold(&file);
        let found = FirstPage::read(disk, &file).and_then(|page| {
            if page.is(seen.page.as_ref()) {
                return Ok(None);
            }
            let mapped = |identity: &FileId| self.read().mapped(identity);
            look_into(disk, &file, &page, &mapped).map(|found| Some((found, page)))
        });
        match found {
            Ok(None) => {
                let mut state = self.write();
                if let Some(number) = state.index_file() {
                    state.keep_open(number, file, is_locked);
                }
                Ok(())
            }
            Ok(Some((found, page))) => {
                seen.refusal.clone_from(&found.refusal);
                seen.page = Some(page.into_seen());
                // Still locked: what a save makes of the file meanwhile must not be replaced by what was there before.
                self.adopt(found, Some((file, is_locked)));
                Ok(())
            }
            Err(error) => {
                // The path leads to something else, so the host is to use something else. A file that cannot be read just
                // now says nothing of what was read before.
                if !matches!(error, NotFound::Io(_)) {
                    *seen = Seen::default();
                    let mut state = self.write();
                    state.index = None;
                    self.publish(&state);
                }
                Err(error)
            }
        }
    }

    /// Stops handing out what is saved in a file that another program cut off or wrote over, and lets go of such a file that
    /// is written to, with what was packed into it. Returns whether there was one.
    pub(super) fn forget_cut_files(&self, writer: &mut Option<Writer>) -> bool {
        let disk = &*self.options.disk;
        let mut cut = self.read().cut_files(disk);
        if let Some(writer) = writer.take_if(|writer| writer.file.is_own() && writer.is_cut(disk)) {
            cut.push(writer.number);
        }
        if cut.is_empty() {
            return false;
        }
        let mut seen = lock(&self.seen);
        let mut state = self.write();
        for number in cut {
            let is_asked = state.index_file() == Some(number);
            state.forget_packed(number);
            // Where only the end was cut off, what was saved before it is whole.
            if is_asked && state.is_saved_part_cut(number, disk) {
                *seen = Seen::default();
                state.forget_saved(number);
            }
        }
        self.publish(&state);
        true
    }

    /// Takes what was found in a file as what look-ups ask, keeps the file open, and returns its number.
    pub(super) fn adopt(&self, found: Found, open: Option<(File, bool)>) -> FileNumber {
        let mut state = self.write();
        let file = state.number(found.identity());
        if let Some((open, is_locked)) = open {
            state.keep_open(file, open, is_locked);
        }
        if let Some((mapping, start)) = &found.mapping {
            if self.options.prefetch {
                mapping.prefetch();
            }
            let end = start.saturating_add(mapping.len() as u64);
            if state.segments.add(Arc::clone(mapping), Some((file, *start))).is_some() {
                state.set_mapped(file, end);
            }
        }
        state.index = match (found.content, found.mapping) {
            (Content::Index(slot, layout, range), Some((mapping, _))) => {
                Some(Arc::new(SavedIndex::new(file, slot, layout, IndexBlock::Mapped(mapping, range))))
            }
            _ => None,
        };
        if self.options.checks == Checks::All {
            // Until all is proved, look-ups prove what they find.
            self.published.clear();
            drop(state);
            self.prove_all();
            state = self.write();
        }
        self.publish(&state);
        file
    }

    /// Finds a weight, counts that, and returns what `make` makes of it.
    ///
    /// Mapping the result would move a hit through memory, byte by byte out of step: a tenth of a look-up.
    #[inline]
    pub(crate) fn find<T>(&self, wanted: &Wanted<'_>, make: impl FnOnce(Hit) -> T) -> Result<T, Reason> {
        let missed = match self.published.get() {
            None => None,
            Some(snapshot) => match snapshot.find(wanted) {
                Ok(hit) => {
                    add(&self.counters.hits, 1);
                    return Ok(make(hit));
                }
                Err(reason) => Some((snapshot, reason)),
            },
        };
        self.find_elsewhere(wanted, missed).map(make)
    }

    /// Finds a weight that this snapshot missed, or that no snapshot could be asked for, and counts that.
    #[inline(never)]
    fn find_elsewhere(
        &self,
        wanted: &Wanted<'_>,
        missed: Option<(&Snapshot, Reason)>,
    ) -> Result<Hit, Reason> {
        let found = match missed {
            Some((snapshot, reason)) => snapshot.find_imported(reason, wanted),
            None => self.find_in_state(wanted),
        };
        match &found {
            Ok(hit) => {
                add(&self.counters.hits, 1);
                if !hit.is_verified {
                    add(&self.counters.unverified_hits, 1);
                }
            }
            Err(reason) => self.counters.miss(*reason),
        }
        found
    }

    fn find_in_state(&self, wanted: &Wanted<'_>) -> Result<Hit, Reason> {
        let state = self.read();
        if !state.fresh.is_empty()
            && let Some(fresh) = state.fresh.get(&Key::from(wanted))
        {
            return Ok(fresh.hit());
        }
        let (hit, place, checksum) = self.saved(&state, wanted)?;
        drop(state);
        if self.options.checks != Checks::None
            && let Some(checksum) = checksum
            && !lock(&self.proved).contains(&place)
        {
            self.prove(&hit, place, checksum)?;
        }
        Ok(hit)
    }

    /// Lets look-ups do without the lock, if all that they could find is saved and is not to be proved.
    pub(super) fn publish(&self, state: &State) {
        let is_plain =
            state.fresh.is_empty() && state.damaged.is_empty() && self.options.checks != Checks::FirstUse;
        match state.index.as_ref().filter(|_| is_plain) {
            Some(saved) => {
                let views = state.segments.views(saved.file);
                self.published.set(Snapshot::new(saved, views, self.options.unverified));
            }
            None => self.published.clear(),
        }
    }

    /// What is saved of a weight, where in the file it is, and its checksum.
    fn saved(&self, state: &State, wanted: &Wanted<'_>) -> Result<(Hit, PayloadPlace, Option<u64>), Reason> {
        let saved = state.index.as_ref().ok_or(Reason::Absent)?;
        let index = saved.index();
        let found = index.look_up(wanted);
        let entry = found.or_else(|missed| index.after_miss(missed, wanted, self.options.unverified))?;
        let hit = Self::hit_of(state, saved.file, &entry).ok_or(Reason::Malformed)?;
        let place = (saved.file, entry.offset);
        if state.damaged.contains(&place) {
            return Err(Reason::ChecksumMismatch);
        }
        Ok((hit, place, entry.checksum))
    }

    /// Where the payload of an entry of a file is mapped.
    fn hit_of(state: &State, file: FileNumber, entry: &Entry<'_>) -> Option<Hit> {
        let range = entry.offset..entry.offset.saturating_add(entry.size);
        let handle = state.segments.handle(file, &range)?;
        let address = state.segments.address(handle)?;
        let len = usize::try_from(entry.size).ok()?;
        Some(Hit { handle, address, len, is_verified: !entry.is_imported })
    }

    /// Reserves zeroed bytes to pack into, in the file if `in_file`, else or if the file takes none, in the heap.
    pub(crate) fn reserve(&self, len: usize, in_file: bool) -> io::Result<Reservation> {
        add(&self.counters.reservations, 1);
        add(&self.counters.reserved_bytes, len as u64);
        if in_file && self.path.is_some() {
            match self.reserve_in_file(len) {
                Ok(space) => {
                    self.write().keep_space(space.clone());
                    return Ok(space);
                }
                Err(reason) => self.counters.refuse(reason),
            }
        }
        let mapping = Arc::new(Mapping::heap(len)?);
        add(&self.counters.heap_entries, 1);
        add(&self.counters.heap_bytes, len as u64);
        let mut state = self.write();
        let handle = state.segments.add(Arc::clone(&mapping), None).ok_or(io::ErrorKind::OutOfMemory)?;
        let space = Reservation { handle, len, mapping, at: 0, place: None };
        state.keep_space(space.clone());
        Ok(space)
    }

    /// Takes the first `len` bytes of a space as the weight that was wanted. If that is there already, with the same bytes,
    /// the one that is there is it, and the space is given back: some operators of XNNPACK pack before they look. Nothing if
    /// there is no such space.
    pub(crate) fn insert(&self, wanted: &Wanted<'_>, address: NonNull<u8>, len: usize) -> Option<Hit> {
        let mut state = self.write();
        let space = state.take_space(address.as_ptr())?;
        if len > space.len {
            state.keep_space(space);
            return None;
        }
        let key = Key::from(wanted);
        let fresh = Fresh {
            handle: space.handle,
            len,
            mapping: Arc::clone(&space.mapping),
            at: space.at,
            place: space.place,
        };
        let there = state
            .fresh
            .get(&key)
            .map(Fresh::hit)
            .or_else(|| self.saved(&state, wanted).ok().map(|(hit, ..)| hit));
        // SAFETY: what was inserted or committed is not written to again, and `self` lives.
        let is_same = |there: &Hit| there.is_verified && unsafe { there.bytes() } == fresh.bytes();
        if let Some(there) = there.filter(is_same) {
            drop(state);
            self.put_back(&space);
            return Some(there);
        }
        add(&self.counters.packed, 1);
        let hit = fresh.hit();
        state.fresh.insert(key, fresh);
        self.published.clear();
        Some(hit)
    }

    /// Leaves a space to whoever packed into it, under no name. What is in the file is moved to the heap.
    pub(crate) fn keep_unnamed(&self, address: NonNull<u8>, len: usize) -> Option<Handle> {
        let mut state = self.write();
        let space = state.take_space(address.as_ptr())?;
        if len > space.len {
            state.keep_space(space);
            return None;
        }
        if space.place.is_none() {
            self.counters.refuse(Reason::Unnamed);
            return Some(space.handle);
        }
        let moved = Mapping::heap(len).ok().map(Arc::new);
        let handle = moved.as_ref().and_then(|moved| state.segments.add(Arc::clone(moved), None));
        let (Some(moved), Some(handle)) = (moved, handle) else {
            state.keep_space(space);
            return None;
        };
        drop(state);
        // SAFETY: the space is as long at least, and was packed into before; nobody else has the new bytes yet.
        unsafe { moved.start().as_ptr().copy_from_nonoverlapping(address.as_ptr(), len) };
        add(&self.counters.heap_entries, 1);
        add(&self.counters.heap_bytes, len as u64);
        self.counters.refuse(Reason::Unnamed);
        self.put_back(&space);
        Some(handle)
    }

    /// Frees what was kept without a name. Nobody may use it any more.
    pub(crate) fn forget_unnamed(&self, handle: Handle) {
        self.write().segments.forget(handle);
    }

    /// Gives a space back that nothing was packed into.
    pub(crate) fn give_back(&self, address: NonNull<u8>) {
        let space = self.write().take_space(address.as_ptr());
        if let Some(space) = space {
            self.put_back(&space);
        }
    }

    fn put_back(&self, space: &Reservation) {
        match space.range() {
            Some((file, range)) => {
                if let Some(writer) = &mut *self.lock_writer() {
                    writer.give_back(file, &range);
                }
            }
            None => self.write().segments.forget(space.handle),
        }
    }

    /// Proves a payload. One that is damaged is a miss from now on.
    fn prove(&self, hit: &Hit, place: PayloadPlace, checksum: u64) -> Result<(), Reason> {
        // SAFETY: what was committed is not written to again, and `self` lives.
        if trailer::checksum(unsafe { hit.bytes() }) != checksum {
            let mut state = self.write();
            state.damaged.insert(place);
            self.publish(&state);
            return Err(Reason::ChecksumMismatch);
        }
        add(&self.counters.proved, 1);
        // What has no bytes may be where another begins, and says nothing about that.
        if hit.len > 0 {
            lock(&self.proved).insert(place);
        }
        Ok(())
    }

    /// Proves all that is saved.
    fn prove_all(&self) {
        let hits: Vec<_> = {
            let state = self.read();
            let Some(saved) = &state.index else { return };
            let hit_of = |entry: Entry<'_>| {
                Some((Self::hit_of(&state, saved.file, &entry)?, (saved.file, entry.offset), entry.checksum?))
            };
            saved.index().entries().filter_map(hit_of).collect()
        };
        for (hit, place, checksum) in hits {
            if !lock(&self.proved).contains(&place) {
                // Damage is noted, and a miss when it is looked up.
                let _ = self.prove(&hit, place, checksum);
            }
        }
    }

    /// Reserves bytes in the file: takes its lock if need be, allocates, maps.
    pub(super) fn reserve_in_file(&self, len: usize) -> Result<Reservation, Reason> {
        let mut writer = self.lock_writer();
        let writer = match &mut *writer {
            Some(writer) => writer,
            none => {
                // Once: a model has a thousand weights.
                let in_vain = self.waited_in_vain.load(Ordering::Relaxed);
                let patience = if in_vain { Duration::ZERO } else { self.options.patience };
                let acquired = self.acquire(patience);
                self.waited_in_vain.store(acquired.is_err(), Ordering::Relaxed);
                none.insert(acquired?)
            }
        };
        let add = |mapping, place| self.write().segments.add(mapping, Some(place));
        writer.reserve(&*self.options.disk, len, &add)
    }

    /// Takes the lock of the file under the path, makes the file if there is none, and takes what another writer saved.
    pub(super) fn acquire(&self, patience: Duration) -> Result<Writer, Reason> {
        let path = self.path.as_deref().ok_or(Reason::Unavailable)?;
        if self.options.read_only {
            return Err(Reason::ReadOnly);
        }
        let disk = &*self.options.disk;
        let failed = |error: io::Error| reason_of(&error);
        for _ in 0..ATTEMPTS {
            let file = LockHolder::open(|| disk.open_to_write(path)).map_err(failed)?;
            let facts = disk.facts(&file).map_err(failed)?;
            if facts.kind != FileKind::File || !facts.is_trusted {
                return Err(Reason::Untrusted);
            }
            if let Some(writer) = self.take_retired(facts.identity) {
                let adopted = self.adopt_from(disk, writer.file.to_map());
                return match adopted {
                    Ok(()) => Ok(writer),
                    Err(reason) => {
                        self.retire(writer);
                        Err(reason)
                    }
                };
            }
            disk.lock(&file, Lock::Writer, patience).map_err(failed)?;
            let to_map = disk.open_to_write(path).map_err(failed)?;
            let _ = disk.hold(&to_map);
            let there = disk.facts(&to_map).map_err(failed)?;
            let file = LockedFile::new(file, to_map, Arc::clone(&self.options.disk));
            // Whoever compacts a file puts another in its place.
            if there.identity != facts.identity {
                continue;
            }
            if let Some(writer) = self.begin(disk, path, file)? {
                return Ok(writer);
            }
        }
        Err(Reason::Busy)
    }

    /// Takes what a file holds as what look-ups ask.
    pub(super) fn adopt_from(&self, disk: &dyn MapDisk, file: &File) -> Result<(), Reason> {
        let mapped = |identity: &FileId| self.read().mapped(identity);
        let mut seen = lock(&self.seen);
        let refused = |not_found: NotFound| not_found.reason();
        let page = FirstPage::read(disk, file).map_err(refused)?;
        let found = look_into(disk, file, &page, &mapped).map_err(refused)?;
        seen.refusal.clone_from(&found.refusal);
        seen.page = Some(page.into_seen());
        self.adopt(found, file.try_clone().ok().map(|file| (file, true)));
        Ok(())
    }

    /// Begins to write to a locked file. Nothing if it was replaced by an empty one, which is to be locked instead.
    fn begin(&self, disk: &dyn MapDisk, path: &Path, file: LockedFile) -> Result<Option<Writer>, Reason> {
        let failed = |error: io::Error| reason_of(&error);
        let refused = |not_found: NotFound| not_found.reason();
        let mapped = |identity: &FileId| self.read().mapped(identity);
        let mut seen = lock(&self.seen);
        let mut page = FirstPage::read(disk, &file).map_err(refused)?;
        let is_known = page.is(seen.page.as_ref());
        let index = self.read().index.clone().filter(|_| is_known);
        let known = index.and_then(|index| index.known(page.bytes()));
        let (number, header, commits, counting) = if let Some(known) = known {
            known
        } else {
            let mut found = look_into(disk, file.to_map(), &page, &mapped).map_err(refused)?;
            if found.head.is_none() {
                match found.content {
                    Content::Empty => {
                        begin_file(disk, &file).map_err(failed)?;
                        disk.sync_name(path);
                        page = FirstPage::read(disk, &file).map_err(refused)?;
                        found = look_into(disk, file.to_map(), &page, &mapped).map_err(refused)?;
                    }
                    // Readers keep what they have mapped.
                    Content::Damaged => {
                        replace(disk, path).map_err(failed)?;
                        return Ok(None);
                    }
                    _ => return Err(found.refusal.map_or(Reason::OldVersion, Refusal::reason)),
                }
            }
            seen.refusal.clone_from(&found.refusal);
            seen.page = Some(page.into_seen());
            let (header, commits) = found.head.ok_or(Reason::Malformed)?;
            let counting = found.counting();
            let to_map = file.to_map().try_clone().ok().map(|file| (file, true));
            (self.adopt(found, to_map), header, commits, counting)
        };
        drop(seen);
        Writer::new(disk, file, number, (header, commits, counting)).map(Some).map_err(failed)
    }

    /// Locks the writer. In a child that was forked, there is none: the lock of the file is the parent's.
    pub(super) fn lock_writer(&self) -> MutexGuard<'_, Option<Writer>> {
        let mut writer = lock(&self.writer);
        drop(writer.take_if(|writer| !writer.file.is_own()));
        writer
    }

    /// Keeps a writer whose file is no longer under the path, if anything in it is in use that was not saved there.
    pub(super) fn retire(&self, writer: Writer) {
        if !writer.is_idle() {
            lock(&self.retired).push(writer);
        }
    }

    /// The writer of the file with this identity, if it was [retired](Self::retire) and the file is back.
    pub(super) fn take_retired(&self, identity: (u64, u64)) -> Option<Writer> {
        let mut retired = lock(&self.retired);
        let at = retired.iter().position(|writer| {
            writer.file.is_own()
                && self.options.disk.facts(&writer.file).is_ok_and(|facts| facts.identity == identity)
        })?;
        Some(retired.swap_remove(at))
    }

    pub(crate) fn address(&self, handle: Handle) -> Option<NonNull<u8>> {
        self.read().segments.address(handle)
    }

    pub(super) fn read(&self) -> ReadGuard<'_, State> {
        self.state.read()
    }

    pub(super) fn write(&self) -> WriteGuard<'_, State> {
        self.state.write()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let retired = self.retired.get_mut().drain(..);
        let writer = self.writer.get_mut().take();
        for writer in retired.chain(writer) {
            writer.abandon(&*self.options.disk);
        }
    }
}

impl Fresh {
    pub(super) fn hit(&self) -> Hit {
        let address = self.mapping.start().as_ptr().wrapping_add(self.at);
        let address = NonNull::new(address).unwrap_or(NonNull::dangling());
        Hit { handle: self.handle, address, len: self.len, is_verified: true }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: what was inserted was packed before, and is not written to again.
        unsafe { self.mapping.bytes(self.at..self.at + self.len) }.unwrap_or_default()
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// The path under which a pack is known in this process.
pub(super) fn canonical(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok(parent.canonicalize()?.join(name)),
        _ => Err(io::ErrorKind::IsADirectory.into()),
    }
}
