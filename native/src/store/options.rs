//! Options of the stores on disk.

use std::{sync::Arc, time::Duration};

use warmstart_core::{lru::Limits, seal::Seal};

use crate::{
    clock::{Clock, SystemClock},
    os::{LocalBackend, StorageBackend},
};

/// Options to open a [`FileStore`](super::FileStore) or a [`SqliteStore`](super::SqliteStore) with. By default there is no cap,
/// calls wait 2 s for a lock, and entries survive the death of any process, but not every loss of power.
///
/// ```
/// use std::time::Duration;
/// use warmstart::store::StoreOptions;
///
/// let options = StoreOptions::default()
///     .with_max_bytes(1 << 30)
///     .with_timeout(Duration::from_millis(10))
///     .with_durability(true);
/// ```
#[derive(Clone, Debug)]
pub struct StoreOptions {
    pub(super) limits: Limits,
    pub(super) durable: bool,
    pub(super) read_only: bool,
    pub(super) timeout: Duration,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) seal: Option<Seal>,
    pub(super) disk: Arc<dyn StorageBackend>,
    pub(super) is_backend_given: bool,
}

impl StoreOptions {
    /// Limits the bytes of all entries, whichever process stores them.
    ///
    /// In a directory the shared accounting and temp files are not included: the latter add at most one entry per active writer.
    /// In a database the limit is for its pages on disk.
    #[must_use]
    pub fn with_max_bytes(self, max: u64) -> Self {
        Self { limits: Limits { max_bytes: Some(max), ..self.limits }, ..self }
    }

    /// Limits the bytes, as [`with_max_bytes`](Self::with_max_bytes) does, and the number of the entries.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Sets whether entries also survive a loss of power. Each put then waits for the medium.
    #[must_use]
    pub fn with_durability(self, durable: bool) -> Self {
        Self { durable, ..self }
    }

    /// Sets how long a put waits for the lock of another process, 2 s by default, before it is refused as
    /// [busy](warmstart_core::reason::MissReason::Busy). A look-up in a database waits at most 50 ms; one in a directory takes no
    /// lock.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Sets whether the store never changes what is on disk: hits record no uses, puts are refused as
    /// [read-only](warmstart_core::reason::MissReason::ReadOnly), damaged entries stay, and nothing is created, recovered or
    /// quarantined. Without a directory or database, every look-up misses. Meant for inspection, and for caches that were
    /// installed.
    ///
    /// Other processes may write meanwhile. In a database, the last of them to close leaves the log and its index in place while a
    /// read-only store reads them; the next process that opens the database empties them. While a read-only store of a database in
    /// use lives in a process, a writing store of the same process may find the database read-only, because SQLite shares the index
    /// of the log within a process.
    ///
    /// ```
    /// use warmstart::{Artifact, MissReason, Store, store::{FileStore, StoreOptions}};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let path = directory.path().join("cache");
    /// let store = FileStore::open(&path, StoreOptions::default().with_read_only(true))?;
    /// assert_eq!(store.put(b"k", &Artifact::new(vec![1])), Err(MissReason::ReadOnly));
    /// assert!(!path.exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_read_only(self, read_only: bool) -> Self {
        Self { read_only, ..self }
    }

    /// Takes the time from `clock`. Times are informative: no decision depends on them.
    #[doc(hidden)]
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Seals every entry with a secret, and accepts only entries sealed with it, so that only holders of the secret can write them.
    ///
    /// Other users may then own the directory of a [`FileStore`](super::FileStore) and write to it. New files get the permissions
    /// that group and others have on it. An entry there is at most 1 GiB long. SECURITY.md of the repository says what is
    /// protected, what is not, and how to create such a directory.
    ///
    /// A database must still belong to this user, in a directory that no other user may write to: SQLite does not defend against
    /// maliciously modified files.
    ///
    /// ```
    /// use warmstart::{Artifact, MissReason, Seal, Store, store::{FileStore, StoreOptions}};
    ///
    /// let directory = tempfile::tempdir()?;
    /// // 32 bytes of /dev/urandom, from a file that only users of the shared cache can read.
    /// let secret = [7; 32];
    /// let sealed = StoreOptions::default().with_seal(Seal::new(&secret));
    /// let store = FileStore::open(directory.path(), sealed)?;
    /// store.put(b"k", &Artifact::new(vec![1, 2, 3]))?;
    /// assert_eq!(store.get(b"k")?.payload(), [1, 2, 3]);
    ///
    /// let another = StoreOptions::default().with_seal(Seal::new(&[8; 32]));
    /// let stranger = FileStore::open(directory.path(), another)?;
    /// assert_eq!(stranger.get(b"k").unwrap_err(), MissReason::Forged);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_seal(self, seal: Seal) -> Self {
        Self { seal: Some(seal), ..self }
    }

    /// Uses `disk` instead of the real file system. SQLite has an access of its own and ignores it.
    #[doc(hidden)]
    #[must_use]
    pub fn with_backend(self, disk: Arc<dyn StorageBackend>) -> Self {
        Self { disk, is_backend_given: true, ..self }
    }
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            limits: Limits::NONE,
            durable: false,
            read_only: false,
            timeout: Duration::from_secs(2),
            clock: Arc::new(SystemClock),
            seal: None,
            disk: Arc::new(LocalBackend::new()),
            is_backend_given: false,
        }
    }
}
