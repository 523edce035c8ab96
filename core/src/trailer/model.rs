//! Which model weights are of: a digest of the model's file, or of all weights.

use alloc::vec::Vec;

use blake2::{Blake2b256, Digest};

use super::ModelId;

/// Stands first in what is digested, so that no other BLAKE2b digest of this project can equal a model's.
const TAG: &[u8] = b"warmstart model 1\0";

impl ModelId {
    /// The BLAKE2b-256 digest of weights: of their names and bytes, in ascending order of the names, in whatever order they
    /// are given.
    ///
    /// Give all that a model is packed from: weights, biases, and scales where weights are quantised. All of it is read, at
    /// about 1 GB a second, at each start: a [digest of the model's file](ModelDigest) can be remembered, and is the better
    /// choice.
    ///
    /// ```
    /// use warmstart_core::trailer::ModelId;
    ///
    /// let model = ModelId::of_weights([("a", &[1, 2][..]), ("b", &[3])]);
    /// assert_eq!(model, ModelId::of_weights([("b", &[3][..]), ("a", &[1, 2])]));
    /// assert_ne!(model, ModelId::of_weights([("a", &[1][..]), ("b", &[2, 3])]));
    /// ```
    #[must_use]
    pub fn of_weights<'a>(weights: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        let mut weights: Vec<(&str, &[u8])> = weights.into_iter().collect();
        weights.sort_unstable();
        let mut digest = Blake2b256::new();
        digest.update(TAG);
        for (name, bytes) in weights {
            // With their lengths, so that nothing moves from one into the next.
            for part in [name.as_bytes(), bytes] {
                digest.update((part.len() as u64).to_le_bytes());
                digest.update(part);
            }
        }
        Self(digest.finalize().into())
    }
}

/// Digests the file that a model is in.
///
/// The digest is BLAKE2b-256 of the file's bytes: what `b2sum -l 256 FILE` prints.
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
    /// Begins with an empty file.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next bytes of the file.
    pub fn update(&mut self, part: &[u8]) {
        self.0.update(part);
    }

    /// Returns the digest of all that was added.
    #[must_use]
    pub fn finish(self) -> ModelId {
        ModelId(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn any_change_of_a_name_or_a_byte_makes_another_model() {
        let weights = [("a", &b"one"[..]), ("b", b"two"), ("c", b"")];
        let model = ModelId::of_weights(weights);
        let others: [&[(&str, &[u8])]; 7] = [
            &[("a", b"one"), ("b", b"two")],
            &[("a", b"one"), ("b", b"twO"), ("c", b"")],
            &[("a", b"one"), ("bt", b"wo"), ("c", b"")],
            &[("a", b"one"), ("b", b"tw"), ("c", b"o")],
            &[("a", b"two"), ("b", b"one"), ("c", b"")],
            &[("a", b"one"), ("b", b"two"), ("c", b""), ("c", b"")],
            &[],
        ];
        for other in others {
            assert_ne!(ModelId::of_weights(other.iter().copied()), model, "{other:?}");
        }
        let [a, b, c] = weights;
        assert_eq!(ModelId::of_weights([c, a, b]), model);
    }

    #[test]
    fn the_digest_is_the_same_for_ever() {
        let model = ModelId::of_weights([("weight", &[0, 1, 2, 3][..])]);
        assert_eq!(model.to_string(), "6103f0a0829d9784b066682cbe72857fda64f4ba1f49ec21448e63885584a2c7");
    }
}
