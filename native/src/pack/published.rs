//! What look-ups ask without a lock, as long as all that they could find is saved.
//!
//! What is published does not change. When something else is to be found, something else is published, or nothing, and then
//! look-ups ask the state, under its lock. Whoever still asks what was published before finds what was true before: so all
//! that ever was published is kept until the pack is closed. That costs little, because the bytes of an index are the file's.

use std::{
    ptr,
    sync::{
        Arc,
        atomic::{AtomicPtr, Ordering},
    },
};

use crate::os::fork::Mutex;

use warmstart_core::{reason::Reason, trailer::Wanted};

use super::{
    base::SharedIndex,
    instance::{Hit, lock},
    segments::View,
};

/// What look-ups ask without a lock.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) index: SharedIndex,
    /// Where the file is mapped.
    pub(super) views: Vec<View>,
    pub(super) takes_unverified: bool,
}

/// The snapshot that look-ups ask, and those that they asked before.
#[derive(Debug, Default)]
pub(super) struct Published {
    /// One of `all`, or null.
    current: AtomicPtr<Snapshot>,
    /// Not boxes: who moves a box says that nobody else has its address.
    all: Mutex<Vec<Arc<Snapshot>>>,
}

impl Snapshot {
    #[inline]
    pub(super) fn find(&self, wanted: &Wanted<'_>) -> Result<Hit, Reason> {
        let entry = self.index.index().look_up(wanted)?;
        self.hit(entry.offset, entry.size, true)
    }

    /// Finds what was imported, where [`find`](Self::find) missed for this reason.
    pub(super) fn find_imported(&self, missed: Reason, wanted: &Wanted<'_>) -> Result<Hit, Reason> {
        let entry = self.index.index().after_miss(missed, wanted, self.takes_unverified)?;
        self.hit(entry.offset, entry.size, false)
    }

    #[inline]
    fn hit(&self, offset: u64, size: u64, is_verified: bool) -> Result<Hit, Reason> {
        let found = self.views.iter().find_map(|view| view.find(offset, size));
        let (handle, address, len) = found.ok_or(Reason::Malformed)?;
        Ok(Hit { handle, address, len, is_verified })
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
        lock(&self.all).push(snapshot);
        self.current.store(current, Ordering::Release);
    }
}
