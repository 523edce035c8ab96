//! How a pack is opened.

use std::{sync::Arc, time::Duration};

use crate::os::{LocalMapDisk, MapDisk};

/// How a pack is opened. The [default](Self::default) proves the index and no payloads, gives no advice to the system, and
/// never waits for another writer.
#[derive(Clone, Debug)]
pub struct PackOptions {
    pub(super) checks: Checks,
    pub(super) prefetch: bool,
    pub(super) patience: Duration,
    pub(super) read_only: bool,
    pub(super) unverified: bool,
    pub(super) disk: Arc<dyn MapDisk>,
}

/// Which payloads are proved by their checksums. The index always is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Checks {
    /// None: to read 600 MB at every start would defeat mapping it.
    #[default]
    None,
    /// Each at the first look-up that finds it.
    FirstUse,
    /// All when the pack is opened.
    All,
}

impl Default for PackOptions {
    fn default() -> Self {
        Self {
            checks: Checks::None,
            prefetch: false,
            patience: Duration::ZERO,
            read_only: false,
            unverified: false,
            disk: Arc::new(LocalMapDisk::new()),
        }
    }
}

impl PackOptions {
    /// Says which payloads are proved by their checksums.
    #[must_use]
    pub fn with_checks(self, checks: Checks) -> Self {
        Self { checks, ..self }
    }

    /// Has the system read the whole file ahead when it is opened: for a file that is not in the page cache and will all be
    /// used. See also [`Pack::prefetch`](super::Pack::prefetch).
    #[must_use]
    pub fn with_prefetch(self, prefetch: bool) -> Self {
        Self { prefetch, ..self }
    }

    /// Waits this long for another writer, of this or another process, before weights go to the heap instead.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Never writes to the file: what is packed goes to the heap.
    #[must_use]
    pub fn with_read_only(self, read_only: bool) -> Self {
        Self { read_only, ..self }
    }

    /// Takes entries of an unverified model for look-ups that name a model too: those
    /// [imported](super::import) without saying of which model they are. A model that was changed under the same names gets
    /// the old weights.
    #[must_use]
    pub fn with_unverified(self, unverified: bool) -> Self {
        Self { unverified, ..self }
    }

    /// The first option that differs from another handle's, the disk aside.
    pub(super) fn difference(&self, other: &Self) -> Option<&'static str> {
        let Self { checks, prefetch, patience, read_only, unverified, disk: _ } = self;
        let differs = [
            (*checks != other.checks, "checks"),
            (*prefetch != other.prefetch, "prefetch"),
            (*patience != other.patience, "patience"),
            (*read_only != other.read_only, "read_only"),
            (*unverified != other.unverified, "unverified"),
        ];
        differs.into_iter().find_map(|(differs, name)| differs.then_some(name))
    }

    /// Asks another file system than the machine's: for tests.
    #[must_use]
    pub fn with_disk(self, disk: Arc<dyn MapDisk>) -> Self {
        Self { disk, ..self }
    }
}
