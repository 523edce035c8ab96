//! The keys and values that every side is given.

use warmstart::Artifact;
use xxhash_rust::xxh3::xxh3_64;

/// A key: 32 bytes that look random.
pub(crate) type Key = [u8; 32];

/// The key of the entry numbered `n`.
pub(crate) fn key(n: u64) -> Key {
    *warmstart::Key::digest(&n.to_le_bytes()).as_bytes()
}

/// Bytes that no compression makes smaller, in the forms that the sides take.
pub(crate) struct Value {
    /// The payload, and behind it its checksum for peers that are helped to one.
    with_sum: Vec<u8>,
    /// The same payload, as our stores take it.
    pub(crate) artifact: Artifact,
}

/// Values of one size, made before anything is timed. They repeat: most peers do not look at contents, and deduplication
/// helps the others little.
pub(crate) struct Values(Vec<Value>);

impl Value {
    fn new(seed: u64, size: usize) -> Self {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut bytes = Vec::with_capacity(size + 8);
        while bytes.len() < size {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend_from_slice(&state.to_le_bytes());
        }
        bytes.truncate(size);
        let artifact = Artifact::new(bytes.clone());
        bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
        Self { with_sum: bytes, artifact }
    }

    /// The bytes that are stored.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.with_sum[..self.with_sum.len() - 8]
    }

    /// The same, its checksum behind it.
    pub(crate) fn with_sum(&self) -> &[u8] {
        &self.with_sum
    }
}

impl Values {
    /// The most bytes of different values.
    const BYTES: usize = 64 << 20;

    pub(crate) fn new(size: usize) -> Self {
        let many = (Self::BYTES / size).clamp(1, 256) as u64;
        Self((0..many).map(|seed| Value::new(seed, size)).collect())
    }

    /// The value of the entry numbered `n`.
    pub(crate) fn of(&self, n: u64) -> &Value {
        &self.0[n as usize % self.0.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_payload() {
        let value = Value::new(7, 1001);
        assert_eq!(value.payload().len(), 1001);
        assert_eq!(value.payload(), value.artifact.payload());
        let sum = u64::from_le_bytes(value.with_sum()[1001..].try_into().unwrap());
        assert_eq!(sum, xxh3_64(value.payload()));
    }

    #[test]
    fn neighbours_have_different_values() {
        let values = Values::new(1024);
        assert_ne!(values.of(0).payload(), values.of(1).payload());
        assert_eq!(values.of(0).payload(), values.of(256).payload());
    }
}
