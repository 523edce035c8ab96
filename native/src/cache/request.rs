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
    key: Bytes<'a>,
    fields: Option<&'a KeyFields<'a>>,
}

/// A key that is handed over by value takes no memory either.
#[derive(Clone, Debug)]
enum Bytes<'a> {
    Any(Cow<'a, [u8]>),
    Key(Key),
}

impl<'a> Request<'a> {
    fn new(key: impl Into<Cow<'a, [u8]>>) -> Self {
        Self { key: Bytes::Any(key.into()), fields: None }
    }

    /// The bytes of the key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        match &self.key {
            Bytes::Any(bytes) => bytes,
            Bytes::Key(key) => key.as_bytes(),
        }
    }

    /// The key, if it was made of fields that are known.
    pub(super) const fn key_of_fields(&self) -> Option<Key> {
        match (&self.key, self.fields) {
            (Bytes::Key(key), Some(_)) => Some(*key),
            _ => None,
        }
    }

    /// Adds the recipe to an artifact, unless it has one. A hit never gets here.
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
        Self { key: Bytes::Key(fields.key()), fields: Some(fields) }
    }
}

impl From<Key> for Request<'_> {
    fn from(key: Key) -> Self {
        Self { key: Bytes::Key(key), fields: None }
    }
}

impl<'a> From<&'a Key> for Request<'a> {
    fn from(key: &'a Key) -> Self {
        Self::new(&key.as_bytes()[..])
    }
}

impl<'a> From<&'a [u8]> for Request<'a> {
    fn from(key: &'a [u8]) -> Self {
        Self::new(key)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Request<'a> {
    fn from(key: &'a [u8; N]) -> Self {
        Self::new(&key[..])
    }
}

impl<const N: usize> From<[u8; N]> for Request<'_> {
    fn from(key: [u8; N]) -> Self {
        Self::new(key.to_vec())
    }
}

impl<'a> From<&'a Vec<u8>> for Request<'a> {
    fn from(key: &'a Vec<u8>) -> Self {
        Self::new(key)
    }
}

impl From<Vec<u8>> for Request<'_> {
    fn from(key: Vec<u8>) -> Self {
        Self::new(key)
    }
}

impl<'a> From<&'a str> for Request<'a> {
    fn from(key: &'a str) -> Self {
        Self::new(key.as_bytes())
    }
}

impl<'a> From<&'a String> for Request<'a> {
    fn from(key: &'a String) -> Self {
        Self::new(key.as_bytes())
    }
}

impl From<String> for Request<'_> {
    fn from(key: String) -> Self {
        Self::new(key.into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_key_is_given_as_it_is_one_key() {
        let bytes = b"k".to_vec();
        let text = "k".to_owned();
        let requests: [Request<'_>; 8] = [
            "k".into(),
            b"k".into(),
            (*b"k").into(),
            (&b"k"[..]).into(),
            (&bytes).into(),
            bytes.clone().into(),
            (&text).into(),
            text.clone().into(),
        ];
        for request in requests {
            assert_eq!(request.key(), b"k");
        }
        let key = Key::digest(b"k");
        assert_eq!(Request::from(key).key(), key.as_bytes());
        assert_eq!(Request::from(&key).key(), key.as_bytes());
    }
}
