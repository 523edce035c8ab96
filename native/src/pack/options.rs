//! Options of a pack.

use std::{sync::Arc, time::Duration};

use crate::os::{LocalMapBackend, MapBackend};

/// Options to open a pack with. The [default](Self::default) verifies the index and no payloads, does not prefetch, and
/// does not wait for another writer.
#[derive(Clone, Debug)]
pub struct PackOptions {
    pub(super) checks: Checks,
    pub(super) prefetch: bool,
    pub(super) timeout: Duration,
    pub(super) read_only: bool,
    pub(super) unverified: bool,
    pub(super) disk: Arc<dyn MapBackend>,
}

/// The payloads that are verified by their checksums. The index always is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Checks {
    /// None, because reading 600 MB at every start would defeat the purpose of mapping them.
    #[default]
    None,
    /// Each payload, when a look-up first finds it.
    FirstUse,
    /// All payloads, when the pack is opened.
    All,
}

impl Default for PackOptions {
    fn default() -> Self {
        Self {
            checks: Checks::None,
            prefetch: false,
            timeout: Duration::ZERO,
            read_only: false,
            unverified: false,
            disk: Arc::new(LocalMapBackend::new()),
        }
    }
}

impl PackOptions {
    /// Sets which payloads are verified by their checksums.
    #[must_use]
    pub fn with_checks(self, checks: Checks) -> Self {
        Self { checks, ..self }
    }

    /// Sets whether the system reads the whole file ahead when it is opened. Useful if the file is not in the page cache and all of it
    /// will be used. See also [`Pack::prefetch`](super::Pack::prefetch).
    #[must_use]
    pub fn with_prefetch(self, prefetch: bool) -> Self {
        Self { prefetch, ..self }
    }

    /// Sets how long to wait for another writer, of any process, before weights go to the heap instead.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Sets whether the file is never written to. Packed weights then stay on the heap.
    #[must_use]
    pub fn with_read_only(self, read_only: bool) -> Self {
        Self { read_only, ..self }
    }

    /// Sets whether look-ups that name a model also find entries of an unknown model: those
    /// [imported](super::import) without one. If a model was changed and its weights kept their names, look-ups then find the old
    /// weights.
    #[must_use]
    pub fn with_unverified(self, unverified: bool) -> Self {
        Self { unverified, ..self }
    }

    /// Returns the first option that differs from another handle's, except for the disk.
    pub(super) fn difference(&self, other: &Self) -> Option<&'static str> {
        let Self { checks, prefetch, timeout, read_only, unverified, disk: _ } = self;
        let differs = [
            (*checks != other.checks, "checks"),
            (*prefetch != other.prefetch, "prefetch"),
            (*timeout != other.timeout, "timeout"),
            (*read_only != other.read_only, "read_only"),
            (*unverified != other.unverified, "unverified"),
        ];
        differs.into_iter().find_map(|(differs, name)| differs.then_some(name))
    }

    /// Uses `disk` instead of the real file system, for tests.
    #[must_use]
    pub fn with_backend(self, disk: Arc<dyn MapBackend>) -> Self {
        Self { disk, ..self }
    }
}
