//! The digests that identify models, and the checksum of a payload that is given in parts.

use alloc::vec::Vec;
use core::{fmt, hash::Hasher as _};

use blake2::{Blake2b256, Digest};

use super::ModelId;
use crate::bytes::Xxh3;

/// Prefixes the digested bytes, so that no other BLAKE2b digest of this project can equal a model's.
const TAG: &[u8] = b"warmstart model 1\0";

/// Digests the file that contains a model.
///
/// The digest is BLAKE2b-256 of the file's bytes, as `b2sum -l 256 FILE` prints it.
///
/// ```
/// use warmstart_core::trailer::ModelDigest;
///
/// let mut digest = ModelDigest::new();
/// digest.update(b"a");
/// digest.update(b"bc");
/// let model = digest.finish();
/// assert_eq!(model.to_string(), "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
/// ```
#[derive(Clone, Debug, Default)]
pub struct ModelDigest(Blake2b256);

impl ModelDigest {
    /// Creates the digest of an empty file.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next bytes of the file.
    pub fn update(&mut self, part: &[u8]) {
        self.0.update(part);
    }

    /// Returns the digest of all bytes added.
    #[must_use]
    pub fn finish(self) -> ModelId {
        ModelId::from_bytes(self.0.finalize().into())
    }
}

/// Computes the BLAKE2b-256 digest of weights: of their names and bytes, in ascending order of names. The order in which they
/// are given does not matter.
///
/// Pass all data that the model is packed from: weights, biases, and the scales of quantised weights. All data are read at each
/// start, at about 1 GB a second. A [digest of the model's file](ModelDigest) can be remembered, and is the better choice.
///
/// ```
/// use warmstart_core::trailer::model_of_weights;
///
/// let model = model_of_weights([("a", &[1, 2][..]), ("b", &[3])]);
/// assert_eq!(model, model_of_weights([("b", &[3][..]), ("a", &[1, 2])]));
/// assert_ne!(model, model_of_weights([("a", &[1][..]), ("b", &[2, 3])]));
/// ```
#[must_use]
pub fn model_of_weights<'a>(weights: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> ModelId {
    let mut weights: Vec<(&str, &[u8])> = weights.into_iter().collect();
    weights.sort_unstable();
    let mut digest = Blake2b256::new();
    digest.update(TAG);
    for (name, bytes) in weights {
        // With their lengths, so that no byte can move from one to the next.
        for part in [name.as_bytes(), bytes] {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
    }
    ModelId::from_bytes(digest.finalize().into())
}

/// The [checksum](super::checksum) of a payload that is given in parts.
///
/// ```
/// use warmstart_core::trailer::{Checksum, checksum};
///
/// let mut sum = Checksum::new();
/// sum.update(b"packed ");
/// sum.update(b"weights");
/// assert_eq!(sum.finish(), checksum(b"packed weights"));
/// ```
#[derive(Clone, Default)]
pub struct Checksum(Xxh3);

impl Checksum {
    /// Creates an empty checksum.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next bytes.
    pub fn update(&mut self, part: &[u8]) {
        self.0.write(part);
    }

    /// Returns the checksum of all bytes added.
    #[must_use]
    pub fn finish(&self) -> u64 {
        self.0.finish()
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Checksum").field(&self.finish()).finish()
    }
}
