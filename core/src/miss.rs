//! The record of a miss. A store keeps the last one, so that it can be explained later, also by other processes.

use alloc::vec::Vec;

use crate::{
    artifact::{Artifact, Metadata, Provenance},
    envelope,
    reason::MissReason,
    recipe::Recipe,
    seal::Seal,
};

/// The maximum length of the envelope of a miss, in bytes. A longer miss is stored without its recipe.
pub const MAX_LEN: usize = 16 << 10;

/// The names of the attributes that hold the fields of a miss.
const KEY: &str = "miss.key";
const REASON: &str = "miss.reason";
const REFUSAL: &str = "miss.refusal";

/// A look-up that missed and whose artifact was then built.
///
/// A miss is encoded as an envelope without a payload, so it has a checksum, and a seal where entries have one.
///
/// ```
/// use warmstart_core::{key::KeyFields, miss::Miss, reason::MissReason};
///
/// let fields = KeyFields::new("example", 1).text("name", "softmax");
/// let miss = Miss {
///     key: fields.key().as_bytes().to_vec(),
///     reason: MissReason::Absent,
///     refusal: None,
///     recipe: Some(fields.recipe()),
///     unix_ms: 1_700_000_000_000,
/// };
/// let encoded = miss.encode(None).unwrap();
/// assert_eq!(Miss::decode(encoded, None), Ok(miss));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miss {
    /// The key that was looked up. A target that discovers its inputs while building may have looked up another key first.
    pub key: Vec<u8>,
    /// The reason why the look-up missed.
    pub reason: MissReason,
    /// The reason why the store refused the built artifact, if it did.
    pub refusal: Option<MissReason>,
    /// The recipe of the key, if it is known.
    pub recipe: Option<Recipe>,
    /// The time of the miss, in milliseconds since 1970 UTC.
    pub unix_ms: u64,
}

impl Miss {
    /// The key of the envelope of every miss.
    pub const KEY: &'static [u8] = b"warmstart last miss";

    /// Encodes the miss as an envelope of at most [`MAX_LEN`] bytes, without the recipe if that is too long; `None` if the key
    /// is too long.
    #[must_use]
    pub fn encode(&self, seal: Option<&Seal>) -> Option<Vec<u8>> {
        let seal = seal.map(Seal::of_notes);
        let encode = |miss: &Self| {
            let artifact = miss.to_artifact();
            let encoded = envelope::encode(Self::KEY, &artifact, seal.as_ref()).ok()?;
            (encoded.len() <= MAX_LEN as u64).then(|| encoded.to_vec())
        };
        encode(self).or_else(|| encode(&Self { recipe: None, ..self.clone() }))
    }

    /// Decodes the envelope that [`encode`](Self::encode) returns.
    ///
    /// # Errors
    /// As [`envelope::decode`]; [`MissReason::Malformed`] if the bytes are not a miss; [`MissReason::NewerVersion`] also
    /// if the reason of the miss is unknown here.
    pub fn decode(stored: Vec<u8>, seal: Option<&Seal>) -> Result<Self, MissReason> {
        let seal = seal.map(Seal::of_notes);
        Self::from_artifact(&envelope::decode(stored, Self::KEY, seal.as_ref())?)
    }

    fn to_artifact(&self) -> Artifact {
        let mut metadata =
            Metadata::new().with_attribute(KEY, &*self.key).with_attribute(REASON, self.reason.as_str());
        if let Some(refusal) = self.refusal {
            metadata = metadata.with_attribute(REFUSAL, refusal.as_str());
        }
        if let Some(recipe) = &self.recipe {
            metadata = metadata.with_recipe(recipe.clone());
        }
        Artifact::new(Vec::new())
            .with_metadata(&metadata)
            .with_provenance(Provenance { created_unix_ms: self.unix_ms, build_nanos: 0 })
    }

    fn from_artifact(artifact: &Artifact) -> Result<Self, MissReason> {
        let metadata = artifact.metadata()?;
        let reason = |name: &[u8]| {
            let name = core::str::from_utf8(name).map_err(|_| MissReason::Malformed)?;
            MissReason::from_name(name).ok_or(MissReason::NewerVersion)
        };
        Ok(Self {
            key: metadata.attribute(KEY).ok_or(MissReason::Malformed)?.to_vec(),
            reason: reason(metadata.attribute(REASON).ok_or(MissReason::Malformed)?)?,
            refusal: metadata.attribute(REFUSAL).map(reason).transpose()?,
            recipe: metadata.recipe().cloned(),
            unix_ms: artifact.provenance().created_unix_ms,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn miss_without_recipe_and_miss_with_refusal_round_trip() {
        let mut miss =
            Miss { key: Vec::new(), reason: MissReason::Busy, refusal: None, recipe: None, unix_ms: 0 };
        assert_eq!(Miss::from_artifact(&miss.to_artifact()), Ok(miss.clone()));
        miss.refusal = Some(MissReason::NoSpace);
        assert_eq!(Miss::from_artifact(&miss.to_artifact()), Ok(miss));
    }

    #[test]
    fn long_miss_is_kept_without_its_recipe() {
        let recipe = crate::key::KeyFields::new("d", 1).text("t".repeat(MAX_LEN), "").recipe();
        let mut miss = Miss {
            key: b"k".to_vec(),
            reason: MissReason::Absent,
            refusal: None,
            recipe: Some(recipe),
            unix_ms: 1,
        };
        let kept = Miss::decode(miss.encode(None).unwrap(), None).unwrap();
        assert_eq!(kept, Miss { recipe: None, ..miss.clone() });
        miss.key = alloc::vec![0; MAX_LEN];
        assert_eq!(miss.encode(None), None);
    }

    #[test]
    fn a_sealed_miss_is_no_entry_and_a_sealed_entry_no_miss() {
        let seal = Seal::new(&[7; 32]);
        let miss =
            Miss { key: Vec::new(), reason: MissReason::Busy, refusal: None, recipe: None, unix_ms: 0 };
        let kept = miss.encode(Some(&seal)).unwrap();
        assert_eq!(envelope::decode(kept.clone(), Miss::KEY, Some(&seal)).unwrap_err(), MissReason::Forged);
        assert_eq!(Miss::decode(kept, Some(&seal)), Ok(miss.clone()));
        let entry = envelope::encode(Miss::KEY, &miss.to_artifact(), Some(&seal)).unwrap().to_vec();
        assert_eq!(Miss::decode(entry, Some(&seal)), Err(MissReason::Forged));
    }

    #[test]
    fn artifact_that_is_no_miss_is_refused() {
        assert_eq!(Miss::from_artifact(&Artifact::new(Vec::new())), Err(MissReason::Malformed));
        let metadata = Metadata::new().with_attribute(KEY, b"k").with_attribute(REASON, b"unheard of");
        let artifact = Artifact::new(Vec::new()).with_metadata(&metadata);
        assert_eq!(Miss::from_artifact(&artifact), Err(MissReason::NewerVersion));
    }
}
