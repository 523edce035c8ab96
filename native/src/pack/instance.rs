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
};

use crate::os::{
    Access,
    fork::{Mutex, MutexGuard, ReadGuard, RwLock, WriteGuard},
};

use warmstart_core::{
    reason::Reason,
    trailer::{Refusal, Wanted},
};

use super::{
    base::{Base, Saved},
    found::{FirstPage, Found, NotFound, SeenPage, look_into},
    options::{Checks, PackOptions},
    published::{Published, Snapshot},
    segments::{FileNumber, Handle, PayloadPlace},
    state::{FileId, Fresh, Key, State},
    statistics::{Counters, add},
    writer::Writer,
};

/// An open pack.
#[derive(Debug)]
pub(super) struct Instance {
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

/// A weight that was found. It stays where it is until the instance is dropped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    pub(super) handle: Handle,
    pub(super) address: NonNull<u8>,
    pub(super) len: usize,
    pub(super) is_verified: bool,
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
                if let Some(number) = state.base.file() {
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
                    state.base = Base::Nothing;
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
            let is_base = state.base.file() == Some(number);
            state.forget_packed(number);
            // Where only the end was cut off, what was saved before it is whole.
            if is_base && state.is_saved_part_cut(number, disk) {
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
        state.base = Base::of(found, file);
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
    pub(super) fn find<T>(&self, wanted: &Wanted<'_>, make: impl FnOnce(Hit) -> T) -> Result<T, Reason> {
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
        let (hit, saved) = self.saved(&state, wanted)?;
        drop(state);
        if self.options.checks != Checks::None
            && let Some(checksum) = saved.checksum
            && !lock(&self.proved).contains(&saved.place())
        {
            self.prove(&hit, saved.place(), checksum)?;
        }
        Ok(hit)
    }

    /// Lets look-ups do without the lock, if all that they could find is saved and is not to be proved.
    pub(super) fn publish(&self, state: &State) {
        let is_plain =
            state.fresh.is_empty() && state.damaged.is_empty() && self.options.checks != Checks::FirstUse;
        match state.base.committed().filter(|_| is_plain) {
            Some(committed) => {
                let index = committed.share();
                let views = state.segments.views(index.file());
                let takes_unverified = self.options.unverified;
                self.published.set(Snapshot { index, views, takes_unverified });
            }
            None => self.published.clear(),
        }
    }

    /// What is saved of a weight.
    pub(super) fn saved(&self, state: &State, wanted: &Wanted<'_>) -> Result<(Hit, Saved), Reason> {
        let saved = state.base.look_up(wanted, self.options.unverified)?;
        let handle = state.segments.handle(saved.file, &saved.range).ok_or(Reason::Malformed)?;
        let address = state.segments.address(handle).ok_or(Reason::Malformed)?;
        let len = usize::try_from(saved.range.end - saved.range.start).map_err(|_| Reason::Malformed)?;
        if !state.damaged.is_empty() && state.damaged.contains(&saved.place()) {
            return Err(Reason::ChecksumMismatch);
        }
        Ok((Hit { handle, address, len, is_verified: saved.is_verified }, saved))
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

    pub(super) fn address(&self, handle: Handle) -> Option<NonNull<u8>> {
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

impl Hit {
    /// The bytes.
    ///
    /// # Safety
    /// The instance that found them lives, and nobody writes to them.
    pub(super) unsafe fn bytes<'a>(self) -> &'a [u8] {
        // SAFETY: the range was within a segment when it was found, and segments of what was inserted or committed stay.
        unsafe { std::slice::from_raw_parts(self.address.as_ptr(), self.len) }
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
