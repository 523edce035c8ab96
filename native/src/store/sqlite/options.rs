//! How a SQLite store is opened.

use std::{sync::Arc, time::Duration};

use warmstart_core::{lru::Limits, seal::Seal};

use crate::clock::{Clock, SystemClock};

/// How a [`SqliteStore`](super::SqliteStore) is opened. The default has no cap, waits 2 s for a lock, and survives the
/// death of any process, but not every loss of power.
///
/// ```
/// use std::time::Duration;
/// use warmstart::store::SqliteOptions;
///
/// let options = SqliteOptions::default()
///     .with_max_bytes(1 << 30)
///     .with_patience(Duration::from_millis(10))
///     .with_durability(true);
/// ```
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    pub(super) limits: Limits,
    pub(super) durable: bool,
    pub(super) read_only: bool,
    pub(super) patience: Duration,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) seal: Option<Seal>,
}

impl SqliteOptions {
    /// Caps the bytes on disk, whoever stores them.
    #[must_use]
    pub const fn with_max_bytes(mut self, max: u64) -> Self {
        self.limits.max_bytes = Some(max);
        self
    }

    /// Caps the bytes on disk and the number of the entries.
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

    /// Whether the database is only looked at: nothing is made, changed, removed, set aside or recovered, no use is written
    /// down, and what would change something is refused as
    /// [read-only](warmstart_core::reason::Reason::ReadOnly). Where there is no database, everything is a miss, because of
    /// [`Unavailable`](warmstart_core::reason::Reason::Unavailable).
    ///
    /// Others may write meanwhile. The last of them to close leaves its log and the log's index where they are while they
    /// are read here; who opens the database next empties them. While a read-only store of a database in use lives in a
    /// process, another store of that process opened for writing may find the database read-only, because SQLite shares the
    /// index of the log within a process.
    ///
    /// ```
    /// use warmstart::{Artifact, Reason, Store, store::{SqliteOptions, SqliteStore}};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let path = directory.path().join("kernels.db");
    /// let options = SqliteOptions::default().with_read_only(true);
    /// let store = SqliteStore::open(&path, options)?;
    /// assert_eq!(store.get(b"k").miss(), Some(Reason::Unavailable));
    /// assert_eq!(store.put(b"k", &Artifact::new(vec![1])), Err(Reason::ReadOnly));
    /// assert!(!path.exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn with_read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// How long a call that writes waits for a lock that another connection holds before it is refused as
    /// [busy](warmstart_core::reason::Reason::Busy). A look-up waits 50 ms at most.
    #[must_use]
    pub const fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
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
    /// The database must still be this user's own, in a directory that no other may write to: SQLite was not made to read a
    /// file that an enemy writes to. A [`FileStore`](super::super::FileStore) may be shared.
    ///
    /// ```
    /// use warmstart::{Artifact, Seal, Store, store::{SqliteOptions, SqliteStore}};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let sealed = SqliteOptions::default().with_seal(Seal::new(&[7; 32]));
    /// let store = SqliteStore::open(directory.path().join("kernels.db"), sealed)?;
    /// store.put(b"k", &Artifact::new(vec![1, 2, 3]))?;
    /// assert_eq!(store.get(b"k").hit().unwrap().payload(), [1, 2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_seal(mut self, seal: Seal) -> Self {
        self.seal = Some(seal);
        self
    }
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            limits: Limits::NONE,
            durable: false,
            read_only: false,
            patience: Duration::from_secs(2),
            clock: Arc::new(SystemClock),
            seal: None,
        }
    }
}
