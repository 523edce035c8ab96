//! Little-endian fields at fixed offsets, read without a panic, and the checksum XXH3-64.

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use twox_hash::XxHash3_64 as Xxh3;
#[cfg(target_arch = "wasm32")]
pub(crate) use xxhash_rust::xxh3::Xxh3Default as Xxh3;

/// Reads `N` bytes at offset `at`; `None` if the slice is too short.
#[inline]
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// Reads a little-endian `u16` at offset `at`; `None` if the slice is too short.
#[inline]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

/// Reads a little-endian `u32` at offset `at`; `None` if the slice is too short.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

/// Reads a little-endian `u64` at offset `at`; `None` if the slice is too short.
#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

/// Computes XXH3-64 of all bytes at once.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) const XXH3_64: fn(&[u8]) -> u64 = Xxh3::oneshot;

/// Computes XXH3-64. A web page downloads the streaming code anyway, so the one-shot code is left out there.
#[cfg(target_arch = "wasm32")]
pub(crate) const XXH3_64: fn(&[u8]) -> u64 = |bytes| {
    let mut hasher = Xxh3::new();
    hasher.update(bytes);
    hasher.digest()
};
