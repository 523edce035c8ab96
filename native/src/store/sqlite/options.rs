//! How a SQLite store is opened.

use std::{sync::Arc, time::Duration};

use warmstart_core::lru::Limits;

use crate::clock::{Clock, SystemClock};

/// How a [`SqliteStore`](super::SqliteStore) is opened: limits, patience, durability.
///
/// ```
/// use std::time::Duration;
/// use warmstart::store::SqliteOptions;
///
/// let options = SqliteOptions::new().max_bytes(1 << 30).busy_timeout(Duration::from_millis(10)).durable(true);
/// assert_eq!(options.limits_in_force().max_bytes, Some(1 << 30));
/// ```
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    pub(super) limits: Limits,
    pub(super) busy_timeout: Duration,
    pub(super) durable: bool,
    pub(super) clock: Arc<dyn Clock>,
}

impl SqliteOptions {
    /// No limits, a wait of 50 ms for a lock, the system's clock, not durable.
    ///
    /// ```
    /// # use warmstart::{Limits, store::SqliteOptions};
    /// assert_eq!(SqliteOptions::new().limits_in_force(), Limits::NONE);
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self {
            limits: Limits::NONE,
            busy_timeout: Duration::from_millis(50),
            durable: false,
            clock: Arc::new(SystemClock),
        }
    }

    /// Holds at most this much.
    ///
    /// ```
    /// # use warmstart::{Limits, store::SqliteOptions};
    /// let limits = Limits { max_entries: Some(100), max_bytes: None };
    /// assert_eq!(SqliteOptions::new().limits(limits).limits_in_force(), limits);
    /// ```
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Holds at most this many bytes.
    ///
    /// ```
    /// # use warmstart::{Limits, store::SqliteOptions};
    /// assert_eq!(SqliteOptions::new().max_bytes(100).limits_in_force(), Limits::bytes(100));
    /// ```
    #[must_use]
    pub fn max_bytes(mut self, max: u64) -> Self {
        self.limits.max_bytes = Some(max);
        self
    }

    /// Waits at most this long for a lock that another connection holds, then says
    /// [`Busy`](warmstart_core::reason::Reason::Busy).
    ///
    /// ```
    /// # use warmstart::store::SqliteOptions;
    /// let impatient = SqliteOptions::new().busy_timeout(std::time::Duration::ZERO);
    /// # let _ = impatient;
    /// ```
    #[must_use]
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// Whether what was stored survives the loss of power too: every put then waits for the disk. Without it, the loss
    /// of power may cost the latest entries, never correctness.
    ///
    /// ```
    /// # use warmstart::store::SqliteOptions;
    /// let durable = SqliteOptions::new().durable(true);
    /// # let _ = durable;
    /// ```
    #[must_use]
    pub fn durable(mut self, durable: bool) -> Self {
        self.durable = durable;
        self
    }

    /// Takes the time from `clock`.
    ///
    /// ```
    /// # use warmstart::{SystemClock, store::SqliteOptions};
    /// let options = SqliteOptions::new().clock(std::sync::Arc::new(SystemClock));
    /// # let _ = options;
    /// ```
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The limits that a store opened like this keeps to.
    ///
    /// ```
    /// # use warmstart::{Limits, store::SqliteOptions};
    /// assert_eq!(SqliteOptions::default().limits_in_force(), Limits::NONE);
    /// ```
    #[must_use]
    pub const fn limits_in_force(&self) -> Limits {
        self.limits
    }
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self::new()
    }
}
