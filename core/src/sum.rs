//! XXH3-64 of bytes that are all there.

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use xxhash_rust::xxh3::xxh3_64;

/// The same. A page downloads the code for bytes that come in pieces anyway, and then none besides.
#[cfg(target_arch = "wasm32")]
pub(crate) fn xxh3_64(bytes: &[u8]) -> u64 {
    let mut hasher = xxhash_rust::xxh3::Xxh3Default::new();
    hasher.update(bytes);
    hasher.digest()
}
