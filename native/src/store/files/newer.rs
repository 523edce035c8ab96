//! Entries that a newer version of warmstart wrote, as look-ups have found: a put leaves them alone.

use std::{collections::HashSet, sync::atomic::Ordering};

use warmstart_core::{envelope, key::Key, reason::Reason};

use super::FileStore;
use crate::os::fork::MutexGuard;

impl FileStore {
    pub(super) fn remember_newer(&self, name: Key) {
        self.newer().insert(name);
        self.found_newer.store(true, Ordering::Relaxed);
    }

    /// Whether the entry, which a look-up found to be a newer version's, still is.
    pub(super) fn is_newer(&self, name: &Key) -> bool {
        if !self.found_newer.load(Ordering::Relaxed) {
            return false;
        }
        if !self.newer().contains(name) {
            return false;
        }
        // Whole by its checksum: one that only says so is damaged, and may be replaced. Read without the lock: others that
        // are found meanwhile do not wait.
        let is_still = self
            .read_entry(&self.layout.entry(name))
            .is_ok_and(|(bytes, _)| envelope::verify(&bytes) == Err(Reason::NewerVersion));
        if !is_still {
            self.newer().remove(name);
        }
        is_still
    }

    fn newer(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.newer.lock()
    }
}
