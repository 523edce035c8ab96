//! A miss, as it is kept with a store so that it can be explained later and elsewhere.

use alloc::vec::Vec;

use crate::{
    artifact::{Artifact, Provenance},
    metadata::Metadata,
    reason::Reason,
    recipe::Recipe,
};

/// The attributes that a miss is kept in.
const KEY: &str = "miss.key";
const REASON: &str = "miss.reason";
const REFUSAL: &str = "miss.refusal";

/// A look-up that missed, and whose artifact was then built.
///
/// It is kept as an [`Artifact`] without payload, in an envelope like any other: so it is checked, and sealed where
/// entries are.
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
/// assert_eq!(Miss::from_artifact(&miss.to_artifact()), Ok(miss));
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

    /// The miss as it is kept.
    #[must_use]
    pub fn to_artifact(&self) -> Artifact {
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

    /// Reads what [`to_artifact`](Self::to_artifact) made.
    ///
    /// # Errors
    /// [`Reason::Malformed`] if it was made by something else, [`Reason::NewerVersion`] if its reason is not known here.
    pub fn from_artifact(artifact: &Artifact) -> Result<Self, Reason> {
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
    fn what_is_no_miss_is_refused() {
        assert_eq!(Miss::from_artifact(&Artifact::new(Vec::new())), Err(Reason::Malformed));
        let metadata = Metadata::new().with_attribute(KEY, b"k").with_attribute(REASON, b"unheard of");
        let artifact = Artifact::new(Vec::new()).with_metadata(&metadata);
        assert_eq!(Miss::from_artifact(&artifact), Err(Reason::NewerVersion));
    }
}
