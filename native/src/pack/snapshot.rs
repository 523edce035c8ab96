//! The index of what is saved, and the snapshot of it that look-ups ask without a lock, as long as all that they could find is
//! saved.
//!
//! A published snapshot does not change. When something else is to be found, another one is published, or none, and then
//! look-ups ask the state, under its lock. A look-up that still asks an older snapshot finds what was true before, so all
//! snapshots are kept until the pack is closed. That costs little: the bytes of an index are the file's.

use std::{
    ops::Range,
    ptr::{self, NonNull},
    sync::{
        Arc,
        atomic::{AtomicPtr, Ordering},
    },
};

use warmstart_core::{
    reason::Reason,
    trailer::{
        Refusal, Wanted,
        header::{Commits, Header, Place, Slot},
        index::{Index, Layout},
    },
};

use super::segments::{FileNumber, Handle, View};
use crate::os::{Mapping, fork::Mutex};

/// A committed index and the bytes that it is in.
#[derive(Debug)]
pub(super) struct SavedIndex {
    pub(super) file: FileNumber,
    slot: Slot,
    /// Lives no longer than `_block`.
    index: Index<'static>,
    _block: IndexBlock,
}

/// Keeps the bytes of an index. They do not change: what is committed is never written again.
#[derive(Debug)]
pub(super) enum IndexBlock {
    Mapped(Arc<Mapping>, Range<usize>),
    Owned(Vec<u8>),
}

/// A weight that was found. It stays where it is until the instance is dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit {
    pub(crate) handle: Handle,
    pub(super) address: NonNull<u8>,
    pub(super) len: usize,
    pub(super) is_verified: bool,
}

/// What look-ups ask without a lock.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// That of `_saved`.
    index: Index<'static>,
    _saved: Arc<SavedIndex>,
    /// Where the file is mapped.
    views: Vec<View>,
    takes_unverified: bool,
}

/// The snapshot that look-ups ask, and those that they asked before.
#[derive(Debug, Default)]
pub(super) struct Published {
    /// One of `all`, or null.
    current: AtomicPtr<Snapshot>,
    /// Not boxes: to move a box is to say that nothing else has its address.
    all: Mutex<Vec<Arc<Snapshot>>>,
}

impl SavedIndex {
    /// Checks an index that was just written.
    pub(super) fn check(file: FileNumber, slot: Slot, block: IndexBlock) -> Result<Self, Refusal> {
        let layout = Layout::check(block.bytes(), &slot)?;
        Ok(Self::new(file, slot, layout, block))
    }

    /// The index in a block that was checked.
    pub(super) fn new(file: FileNumber, slot: Slot, layout: Layout, block: IndexBlock) -> Self {
        // SAFETY: the bytes do not move, and are freed with the block, which is kept beside the index.
        let bytes: &'static [u8] = unsafe { &*ptr::from_ref(block.bytes()) };
        Self { file, slot, index: layout.view(bytes), _block: block }
    }

    pub(super) const fn index(&self) -> Index<'_> {
        self.index
    }

    /// What a writer must know of the file with this first page, if its active index is this one.
    pub(super) fn known(&self, page: &[u8]) -> Option<(FileNumber, Header, Commits, Option<Place>)> {
        let (header, commits) = (Header::decode(page).ok()?, Commits::read(page).ok()?);
        let (place, _) = commits.iter().find(|(_, slot)| *slot == self.slot)?;
        Some((self.file, header, commits, Some(place)))
    }
}

impl IndexBlock {
    fn bytes(&self) -> &[u8] {
        match self {
            // SAFETY: an index is mapped once it is committed, and what is committed is never written again.
            Self::Mapped(mapping, range) => unsafe { mapping.bytes(range.clone()) }.unwrap_or_default(),
            Self::Owned(bytes) => bytes,
        }
    }
}

impl Snapshot {
    pub(super) fn new(saved: &Arc<SavedIndex>, views: Vec<View>, takes_unverified: bool) -> Self {
        Self { index: saved.index, _saved: Arc::clone(saved), views, takes_unverified }
    }

    #[inline]
    pub(super) fn find(&self, wanted: &Wanted<'_>) -> Result<Hit, Reason> {
        let entry = self.index.look_up(wanted)?;
        self.hit(entry.offset, entry.size, true)
    }

    /// Finds what was imported, where [`find`](Self::find) missed for this reason.
    pub(super) fn find_imported(&self, missed: Reason, wanted: &Wanted<'_>) -> Result<Hit, Reason> {
        let entry = self.index.after_miss(missed, wanted, self.takes_unverified)?;
        self.hit(entry.offset, entry.size, false)
    }

    #[inline]
    fn hit(&self, offset: u64, size: u64, is_verified: bool) -> Result<Hit, Reason> {
        let found = self.views.iter().find_map(|view| view.find(offset, size));
        let (handle, address, len) = found.ok_or(Reason::Malformed)?;
        Ok(Hit { handle, address, len, is_verified })
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

impl Published {
    #[inline]
    pub(super) fn get(&self) -> Option<&Snapshot> {
        // SAFETY: null, or one of `all`, of which none is dropped or changed before `self` is.
        unsafe { self.current.load(Ordering::Acquire).as_ref() }
    }

    /// Publishes nothing.
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
