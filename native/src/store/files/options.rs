//! How a file store is opened.

use std::{sync::Arc, time::Duration};

use warmstart_core::{lru::Limits, seal::Seal};

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
    pub(super) seal: Option<Seal>,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) is_disk_given: bool,
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

    /// Seals every entry, and takes none that this secret has not sealed: whoever has the secret wrote it, under this key.
    ///
    /// Then others may write to the directory, and own it. What is made in it gets the permissions that group and others
    /// have on it. An entry there is at most 1 GiB long. SECURITY.md of the repository says what is protected and what is
    /// not, and how such a directory is made.
    ///
    /// ```
    /// use warmstart::{Artifact, Reason, Seal, Store, store::{FileOptions, FileStore}};
    ///
    /// let directory = tempfile::tempdir()?;
    /// // 32 bytes of /dev/urandom, from a file that only those who are to share the cache can read.
    /// let secret = [7; 32];
    /// let sealed = FileOptions::default().with_seal(Seal::new(&secret));
    /// let store = FileStore::open(directory.path(), sealed)?;
    /// store.put(b"k", &Artifact::new(vec![1, 2, 3]))?;
    /// assert_eq!(store.get(b"k").hit().unwrap().payload(), [1, 2, 3]);
    ///
    /// let another = FileOptions::default().with_seal(Seal::new(&[8; 32]));
    /// let stranger = FileStore::open(directory.path(), another)?;
    /// assert_eq!(stranger.get(b"k").miss(), Some(Reason::Forged));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_seal(mut self, seal: Seal) -> Self {
        self.seal = Some(seal);
        self
    }

    /// Goes through `disk` instead of the real file system.
    #[must_use]
    pub fn with_disk(mut self, disk: Arc<dyn Disk>) -> Self {
        (self.disk, self.is_disk_given) = (disk, true);
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
            seal: None,
            disk: Arc::new(LocalDisk::new()),
            is_disk_given: false,
        }
    }
}
