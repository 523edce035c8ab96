//! What is asked for.

use std::borrow::Cow;

use warmstart_core::{
    artifact::Artifact,
    key::{Key, KeyFields},
    metadata::Metadata,
};

/// A key, and what it was made of where that is known.
///
/// Made from [`KeyFields`], from a [`Key`], or from any bytes or text: `"k"` and `b"k"` are one key.
///
/// ```
/// use warmstart::{KeyFields, cache::Request};
///
/// let fields = KeyFields::new("example", 1).text("name", "softmax");
/// assert_eq!(Request::from(&fields).key(), fields.key().as_bytes());
/// assert_eq!(Request::from("k").key(), Request::from(b"k").key());
/// ```
#[derive(Clone, Debug)]
pub struct Request<'a> {
    key: Cow<'a, [u8]>,
    fields: Option<&'a KeyFields<'a>>,
}

impl Request<'_> {
    /// The bytes of the key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Adds the recipe to a freshly built artifact, unless it has one. A hit never gets here.
    pub(super) fn describe(&self, artifact: Artifact) -> Artifact {
        let Some(fields) = self.fields else { return artifact };
        let metadata = artifact.metadata().unwrap_or_else(|_| Metadata::new());
        if metadata.recipe().is_some() {
            return artifact;
        }
        artifact.with_metadata(&metadata.with_recipe(fields.recipe()))
    }
}

impl<'a> From<&'a KeyFields<'a>> for Request<'a> {
    fn from(fields: &'a KeyFields<'a>) -> Self {
        Self { key: Cow::Owned(fields.key().as_bytes().to_vec()), fields: Some(fields) }
    }
}

impl From<Key> for Request<'_> {
    fn from(key: Key) -> Self {
        Self { key: Cow::Owned(key.as_bytes().to_vec()), fields: None }
    }
}

impl<'a> From<&'a [u8]> for Request<'a> {
    fn from(key: &'a [u8]) -> Self {
        Self { key: Cow::Borrowed(key), fields: None }
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Request<'a> {
    fn from(key: &'a [u8; N]) -> Self {
        Self::from(&key[..])
    }
}

impl<'a> From<&'a str> for Request<'a> {
    fn from(key: &'a str) -> Self {
        Self::from(key.as_bytes())
    }
}
