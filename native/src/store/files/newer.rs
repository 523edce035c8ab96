//! Entries that a newer version of warmstart wrote, as look-ups have found: a put leaves them alone.

use std::sync::{PoisonError, atomic::Ordering};

use warmstart_core::{envelope, key::Key, reason::Reason};

use super::FileStore;
use crate::os::retry_sharing;

impl FileStore {
    pub(super) fn remember_newer(&self, name: Key) {
        self.newer.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
        self.found_newer.store(true, Ordering::Relaxed);
    }

    /// Whether the entry, which a look-up found to be a newer version's, still is.
    pub(super) fn is_newer(&self, name: &Key) -> bool {
        if !self.found_newer.load(Ordering::Relaxed) {
            return false;
        }
        let mut newer = self.newer.lock().unwrap_or_else(PoisonError::into_inner);
        if !newer.contains(name) {
            return false;
        }
        // Whole by its checksum: one that only says so is damaged, and may be replaced.
        let disk = &*self.options.disk;
        let is_still = retry_sharing(disk, || disk.read(&self.layout.entry(name), &|facts| facts.len))
            .is_ok_and(|(bytes, _)| envelope::verify(&bytes) == Err(Reason::NewerVersion));
        if !is_still {
            newer.remove(name);
        }
        is_still
    }
}
