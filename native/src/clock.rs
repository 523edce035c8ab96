//! The time, as an argument.

use std::{
    fmt::Debug,
    time::{SystemTime, UNIX_EPOCH},
};

/// Tells the time. A test gives its own and sets it back.
pub trait Clock: Debug + Send + Sync {
    /// Milliseconds since 1970 UTC.
    fn unix_ms(&self) -> u64;
}

/// The system's clock. A clock that was set to before 1970 tells 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn unix_ms(&self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}
