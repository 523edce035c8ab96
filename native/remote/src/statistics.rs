//! What a fleet counts, and the file with the counts of all processes of a machine.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, Write},
    path::Path,
    thread,
    time::Duration,
};

use serde::Serialize;
use warmstart::os::fork::Mutex;

use crate::files;

/// The counts of a [`Fleet`](crate::Fleet) since it was opened, or of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FleetStatistics {
    /// Look-ups that the local store answered. A call for many fetches what others have built since its first look-up, and then looks it
    /// up: that is a local hit.
    pub local_hits: u64,
    /// Look-ups that the remote answered.
    pub remote_hits: u64,
    /// Look-ups that neither answered. A call that builds looks up once, or twice where it cannot know that nothing is stored; a call for
    /// many looks up each artifact once more.
    pub misses: u64,
    /// Entries of the remote that were refused as damaged, forged or of another version. They are left where they are.
    pub refused: u64,
    /// Bytes of entries that came from the remote.
    pub bytes_received: u64,
    /// Bytes of those that were returned, or kept in the local store. The rest was refused, found no room, or was read by an upload to
    /// find out what is there.
    pub bytes_used: u64,
    /// Bytes of entries that were sent to the remote.
    pub bytes_sent: u64,
    /// Entries that were sent to the remote.
    pub uploads: u64,
    /// Entries that the remote did not take, that the local store evicted before, or for which the queue had no room.
    pub uploads_dropped: u64,
    /// Uploads that wait.
    pub uploads_waiting: u64,
    /// Waits for builds of other machines. A call for many artifacts waits from when it finds that all that is left to begin is built
    /// elsewhere, until it finds more.
    pub lease_waits: u64,
    /// The time of these waits in nanoseconds.
    pub lease_wait_nanos: u64,
    /// Whether the remote failed, and is left alone for a while.
    pub is_breaker_open: bool,
}

/// A count that only grows: its name in the file of the machine, and its field.
type Count = (&'static str, fn(&mut FleetStatistics) -> &mut u64);

const COUNTS: [Count; 11] = [
    ("local_hits", |counts| &mut counts.local_hits),
    ("remote_hits", |counts| &mut counts.remote_hits),
    ("misses", |counts| &mut counts.misses),
    ("refused", |counts| &mut counts.refused),
    ("bytes_received", |counts| &mut counts.bytes_received),
    ("bytes_used", |counts| &mut counts.bytes_used),
    ("bytes_sent", |counts| &mut counts.bytes_sent),
    ("uploads", |counts| &mut counts.uploads),
    ("uploads_dropped", |counts| &mut counts.uploads_dropped),
    ("lease_waits", |counts| &mut counts.lease_waits),
    ("lease_wait_nanos", |counts| &mut counts.lease_wait_nanos),
];

/// The name of the file in the directory of a machine.
pub(crate) const FILE: &str = "statistics";

/// The longest file of counts that is read, in bytes.
const MAX_FILE: u64 = 4096;

/// How often the lock of the file is tried, and the pauses in between. Another process that stops while it has the lock does not stop
/// this one.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(2);

/// Adds what was counted since `earlier` to the counts of the machine. Returns whether that was possible. A fleet calls this while it
/// has a [`Mutex`], so that no thread forks meanwhile: the child would keep the lock of the file.
pub(crate) fn add(mut counts: FleetStatistics, mut earlier: FleetStatistics, file: &Path) -> bool {
    let mut add = || {
        // Creates it, and refuses what is no file.
        files::write(file, &[])?;
        let mut file = OpenOptions::new().read(true).write(true).open(file)?;
        let mut attempts = 1..ATTEMPTS;
        while let Err(error) = file.try_lock() {
            attempts.next().ok_or(error)?;
            thread::sleep(PAUSE);
        }
        let mut sum = read(&file)?;
        let mut text = String::new();
        for (name, field) in COUNTS {
            let new = field(&mut counts).saturating_sub(*field(&mut earlier));
            // Each line has the same length, so that nothing of the former text is left.
            text += &format!("{name:<18}{:>20}\n", field(&mut sum).saturating_add(new));
        }
        file.rewind()?;
        file.write_all(text.as_bytes())
    };
    add().is_ok()
}

/// Reads counts. A line that is damaged counts from zero.
pub(crate) fn read(file: &File) -> io::Result<FleetStatistics> {
    let mut bytes = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut bytes)?;
    let mut counts = FleetStatistics::default();
    for line in String::from_utf8_lossy(&bytes).lines() {
        let mut words = line.split_whitespace();
        if let (Some(name), Some(Ok(count))) = (words.next(), words.next().map(str::parse))
            && let Some((_, field)) = COUNTS.into_iter().find(|(known, _)| *known == name)
        {
            *field(&mut counts) = count;
        }
    }
    Ok(counts)
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
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.add(|counts| &mut counts.lease_wait_nanos, nanos);
    }

    pub(crate) fn snapshot(&self) -> FleetStatistics {
        *self.0.lock()
    }
}
