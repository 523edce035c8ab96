//! Payloads that tell whether they are whole and whose they are.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A payload of at least 16 bytes for `key`; each `version` gives another one.
#[must_use]
pub fn payload(key: &[u8], version: u64, len: usize) -> Vec<u8> {
    let seed = xxh3_64_with_seed(key, version);
    let mut bytes = version.to_le_bytes().to_vec();
    let mut word = seed;
    while bytes.len() < len.max(16) {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed | 1);
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.truncate(len.max(16));
    bytes
}

/// Whether `bytes` is, from the first byte to the last, a payload that was made for `key`.
#[must_use]
pub fn is_payload_of(key: &[u8], bytes: &[u8]) -> bool {
    let Some(version) = bytes.first_chunk() else { return false };
    bytes.len() >= 16 && payload(key, u64::from_le_bytes(*version), bytes.len()) == bytes
}
