//! A miss, as it is kept with a store so that it can be explained later and elsewhere.

use alloc::vec::Vec;

use crate::{
    artifact::{Artifact, Provenance},
    envelope,
    metadata::Metadata,
    reason::Reason,
    recipe::Recipe,
    seal::Seal,
};

/// A miss whose envelope would be longer, in bytes, is kept without its recipe.
pub const MAX_LEN: usize = 16 << 10;

/// The attributes that a miss is kept in.
const KEY: &str = "miss.key";
const REASON: &str = "miss.reason";
const REFUSAL: &str = "miss.refusal";

/// A look-up that missed, and whose artifact was then built.
///
/// It is kept in an envelope like any artifact, without payload: so it is checked, and sealed where entries are.
///
/// ```
/// use warmstart_core::{key::KeyFields, miss::Miss, reason::Reason};
///
/// let fields = KeyFields::new("example", 1).text("name", "softmax");
/// let miss = Miss {
///     key: fields.key().as_bytes().to_vec(),
///     reason: Reason::Absent,
///     refusal: None,
///     recipe: Some(fields.recipe()),
///     unix_ms: 1_700_000_000_000,
/// };
/// let encoded = miss.encode(None).unwrap();
/// assert_eq!(Miss::decode(encoded, None), Ok(miss));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miss {
    /// What was looked up. A target that finds its inputs out by building may have looked up another key first.
    pub key: Vec<u8>,
    /// Why nothing was found.
    pub reason: Reason,
    /// Why what was built could not be stored, if it could not.
    pub refusal: Option<Reason>,
    /// What the artifact was made of, if that is known.
    pub recipe: Option<Recipe>,
    /// When, in milliseconds since 1970 UTC.
    pub unix_ms: u64,
}

impl Miss {
    /// The key that envelopes of misses have.
    pub const KEY: &'static [u8] = b"warmstart last miss";

    /// The envelope of the miss, of at most [`MAX_LEN`] bytes: without the recipe if that is too long, and nothing if the
    /// key is.
    #[must_use]
    pub fn encode(&self, seal: Option<&Seal>) -> Option<Vec<u8>> {
        let seal = seal.map(Seal::of_notes);
        let encode = |miss: &Self| {
            let artifact = miss.to_artifact();
            let encoded = envelope::encode_with(Self::KEY, &artifact, seal.as_ref()).ok()?;
            (encoded.len() <= MAX_LEN as u64).then(|| encoded.to_vec())
        };
        encode(self).or_else(|| encode(&Self { recipe: None, ..self.clone() }))
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// Why the envelope is none of a miss, as [`envelope::decode_with`] has it; [`Reason::NewerVersion`] also if the miss
    /// has a reason that is not known here.
    pub fn decode(stored: Vec<u8>, seal: Option<&Seal>) -> Result<Self, Reason> {
        let seal = seal.map(Seal::of_notes);
        Self::from_artifact(&envelope::decode_with(stored, Self::KEY, seal.as_ref())?)
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

    fn from_artifact(artifact: &Artifact) -> Result<Self, Reason> {
        let metadata = artifact.metadata()?;
        let reason = |name: &[u8]| {
            let name = core::str::from_utf8(name).map_err(|_| Reason::Malformed)?;
            Reason::from_name(name).ok_or(Reason::NewerVersion)
        };
        Ok(Self {
            key: metadata.attribute(KEY).ok_or(Reason::Malformed)?.to_vec(),
            reason: reason(metadata.attribute(REASON).ok_or(Reason::Malformed)?)?,
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
    fn a_miss_without_a_recipe_and_one_that_could_not_be_stored_are_kept() {
        let mut miss =
            Miss { key: Vec::new(), reason: Reason::Busy, refusal: None, recipe: None, unix_ms: 0 };
        assert_eq!(Miss::from_artifact(&miss.to_artifact()), Ok(miss.clone()));
        miss.refusal = Some(Reason::NoSpace);
        assert_eq!(Miss::from_artifact(&miss.to_artifact()), Ok(miss));
    }

    #[test]
    fn one_that_is_long_is_kept_without_its_recipe() {
        let recipe = crate::key::KeyFields::new("d", 1).text("t".repeat(MAX_LEN), "").recipe();
        let mut miss = Miss {
            key: b"k".to_vec(),
            reason: Reason::Absent,
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
        let miss = Miss { key: Vec::new(), reason: Reason::Busy, refusal: None, recipe: None, unix_ms: 0 };
        let kept = miss.encode(Some(&seal)).unwrap();
        assert_eq!(envelope::decode_with(kept.clone(), Miss::KEY, Some(&seal)).unwrap_err(), Reason::Forged);
        assert_eq!(Miss::decode(kept, Some(&seal)), Ok(miss.clone()));
        let entry = envelope::encode_with(Miss::KEY, &miss.to_artifact(), Some(&seal)).unwrap().to_vec();
        assert_eq!(Miss::decode(entry, Some(&seal)), Err(Reason::Forged));
    }

    #[test]
    fn what_is_no_miss_is_refused() {
        assert_eq!(Miss::from_artifact(&Artifact::new(Vec::new())), Err(Reason::Malformed));
        let metadata = Metadata::new().with_attribute(KEY, b"k").with_attribute(REASON, b"unheard of");
        let artifact = Artifact::new(Vec::new()).with_metadata(&metadata);
        assert_eq!(Miss::from_artifact(&artifact), Err(Reason::NewerVersion));
    }
}
