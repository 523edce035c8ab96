//! What a fleet counts.

use std::time::Duration;

use warmstart::os::fork::Mutex;

/// The counts of a [`Fleet`](crate::Fleet) since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FleetStatistics {
    /// Look-ups that the local store answered.
    pub local_hits: u64,
    /// Look-ups that the remote answered.
    pub remote_hits: u64,
    /// Look-ups that neither answered.
    pub misses: u64,
    /// Entries of the remote that were refused as damaged, forged or of another version. They are left where they are.
    pub refused: u64,
    /// Bytes of the entries that came from the remote and were accepted.
    pub bytes_received: u64,
    /// Bytes of entries that were sent to the remote.
    pub bytes_sent: u64,
    /// Entries that were sent to the remote.
    pub uploads: u64,
    /// Entries that the remote did not take, or for which the queue had no room.
    pub uploads_dropped: u64,
    /// Uploads that wait.
    pub uploads_waiting: u64,
    /// Waits for builds of other machines.
    pub lease_waits: u64,
    /// The time of these waits, in nanoseconds.
    pub lease_wait_nanos: u64,
    /// Whether the remote failed, and is left alone for a while.
    pub is_breaker_open: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<FleetStatistics>);

impl Counters {
    pub(crate) fn add(&self, count: impl FnOnce(&mut FleetStatistics) -> &mut u64, n: u64) {
        let mut counts = self.0.lock();
        let count = count(&mut counts);
        *count = count.saturating_add(n);
    }

    pub(crate) fn waited(&self, time: Duration) {
        self.add(|counts| &mut counts.lease_waits, 1);
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.add(|counts| &mut counts.lease_wait_nanos, nanos);
    }

    pub(crate) fn snapshot(&self) -> FleetStatistics {
        *self.0.lock()
    }
}
