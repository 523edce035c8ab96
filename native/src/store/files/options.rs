//! How a file store is opened.

use std::{sync::Arc, time::Duration};

use warmstart_core::lru::Limits;

use crate::{
    clock::{Clock, SystemClock},
    os::{Disk, LocalDisk},
};

/// How a [`FileStore`](super::FileStore) is opened. The default has no cap and survives the death of any process, but
/// not every loss of power.
///
/// ```
/// use warmstart::store::FileOptions;
///
/// let options = FileOptions::default().with_max_bytes(512 << 20).with_durability(true);
/// ```
#[derive(Clone, Debug)]
pub struct FileOptions {
    pub(super) limits: Limits,
    pub(super) durable: bool,
    pub(super) read_only: bool,
    pub(super) patience: Duration,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) disk: Arc<dyn Disk>,
}

impl FileOptions {
    /// Caps the bytes of all entries in the directory, whoever stores them. The shared accounting and what is being
    /// written come on top: at most one entry for each writer at work.
    #[must_use]
    pub fn with_max_bytes(mut self, max: u64) -> Self {
        self.limits.max_bytes = Some(max);
        self
    }

    /// Caps the bytes and the number of the entries.
    #[must_use]
    pub const fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Whether what was stored also survives a loss of power. Each put then waits for the medium.
    #[must_use]
    pub const fn with_durability(mut self, durable: bool) -> Self {
        self.durable = durable;
        self
    }

    /// How long a put waits for the directory's lock, 2 s by default, before it is refused as [busy](warmstart_core::reason::Reason::Busy).
    #[must_use]
    pub const fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Whether nothing is ever changed: hits are served without recency, puts are refused as
    /// [read-only](warmstart_core::reason::Reason::ReadOnly), nothing is made where there is nothing, and what is damaged
    /// stays where it is. For looking into a directory, and for one that was installed.
    ///
    /// ```
    /// use warmstart::{Artifact, Reason, Store, store::{FileOptions, FileStore}};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let path = directory.path().join("cache");
    /// let store = FileStore::open(&path, FileOptions::default().with_read_only(true))?;
    /// assert_eq!(store.put(b"k", &Artifact::new(vec![1])), Err(Reason::ReadOnly));
    /// assert!(!path.exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn with_read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Takes the time from `clock`. It informs, and decides nothing.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Goes through `disk` instead of the real file system.
    #[must_use]
    pub fn with_disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.disk = disk;
        self
    }
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            limits: Limits::NONE,
            durable: false,
            read_only: false,
            patience: Duration::from_secs(2),
            clock: Arc::new(SystemClock),
            disk: Arc::new(LocalDisk::new()),
        }
    }
}
