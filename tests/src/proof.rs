//! Artifacts whose payload identifies the put that stored them, and a clock that tests set.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use warmstart::{Artifact, Clock};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The length of the shortest payload that identifies its put, in bytes.
pub const SHORTEST: usize = 16;

/// Returns a payload of `len` bytes, or [`SHORTEST`] if that is more. `key` and `version` determine every byte.
#[must_use]
pub fn payload(key: &[u8], version: u64, len: usize) -> Vec<u8> {
    let mut bytes = version.to_le_bytes().to_vec();
    let mut state = xxh3_64_with_seed(key, version);
    while bytes.len() < len.max(SHORTEST) {
        bytes.extend_from_slice(&state.to_le_bytes());
        state = xxh3_64(&state.to_le_bytes());
    }
    bytes.truncate(len.max(SHORTEST));
    bytes
}

/// Returns an artifact with this [`payload`].
#[must_use]
pub fn artifact(key: &[u8], version: u64, len: usize) -> Artifact {
    Artifact::new(payload(key, version, len))
}

/// Returns the version of an artifact that was found under `key`.
///
/// # Panics
/// If the payload differs in any byte from the [`payload`] of this key and version.
#[must_use]
pub fn verify(key: &[u8], found: &Artifact) -> u64 {
    let version = found.payload().first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    let version = version.expect("a payload begins with its version");
    assert!(found.payload() == payload(key, version, found.payload().len()), "another key's bytes: {key:?}");
    version
}

/// Returns the key of the artifact numbered `n`.
#[must_use]
pub fn numbered_key(n: u64) -> Vec<u8> {
    format!("artifact {n}").into_bytes()
}

/// Returns the length of the payload of the artifact numbered `n`: from 16 bytes to 50 KB.
#[must_use]
pub fn numbered_len(n: u64) -> usize {
    SHORTEST + usize::try_from(xxh3_64(&n.to_le_bytes()) % 50_000).unwrap_or_default()
}

/// A clock that shows the time to which it was set.
#[derive(Clone, Debug, Default)]
pub struct SetClock(Arc<AtomicU64>);

impl SetClock {
    /// Creates a clock at this time, in milliseconds since 1970 UTC.
    #[must_use]
    pub fn at(unix_ms: u64) -> Self {
        let clock = Self::default();
        clock.set(unix_ms);
        clock
    }

    /// Sets the time, in milliseconds since 1970 UTC, also for clones of this clock.
    pub fn set(&self, unix_ms: u64) {
        self.0.store(unix_ms, Ordering::Relaxed);
    }
}

impl Clock for SetClock {
    fn unix_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
