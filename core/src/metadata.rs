//! What is known about an artifact beside its bytes.

use alloc::{string::String, vec::Vec};

use crate::{
    reason::Reason,
    recipe::{Recipe, RecipeField},
    wire::{Malformed, put_bytes, put_number, take, take_bytes, take_count, take_text},
};

pub use crate::wire::MAX_ITEMS;

/// The recipe of an artifact's key and the attributes that a target keeps with it (lowered names, dependencies).
///
/// ```
/// use warmstart_core::{key::KeyFields, metadata::Metadata};
///
/// let metadata = Metadata::new()
///     .with_recipe(KeyFields::new("cpu", 1).text("source", "int f;").recipe())
///     .with_attribute("entry_point", b"f");
/// let decoded = Metadata::decode(&metadata.encode())?;
/// assert_eq!(decoded.attribute("entry_point"), Some(&b"f"[..]));
/// assert_eq!(decoded, metadata);
/// # Ok::<(), warmstart_core::reason::Reason>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    recipe: Option<Recipe>,
    attributes: Vec<(String, Vec<u8>)>,
}

impl Metadata {
    /// The attribute that tells people what an artifact is, where it has no recipe: a short text.
    pub const LABEL: &'static str = "label";

    /// Nothing known.
    #[must_use]
    pub const fn new() -> Self {
        Self { recipe: None, attributes: Vec::new() }
    }

    /// Keeps what the key was made of.
    #[must_use]
    pub fn with_recipe(mut self, recipe: Recipe) -> Self {
        self.recipe = Some(recipe);
        self
    }

    /// Keeps `value` under `name`; an attribute of that name is replaced.
    #[must_use]
    pub fn with_attribute(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        let name = name.into();
        self.attributes.retain(|(other, _)| *other != name);
        self.attributes.push((name, value.into()));
        self
    }

    /// What the key was made of, if it was kept.
    #[must_use]
    pub const fn recipe(&self) -> Option<&Recipe> {
        self.recipe.as_ref()
    }

    /// The value kept under `name`.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&[u8]> {
        self.attributes.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_slice())
    }

    /// Every attribute, in the order in which they were added.
    pub fn attributes(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.attributes.iter().map(|(name, value)| (name.as_str(), value.as_slice()))
    }

    /// The metadata as postcard writes it; nothing known is no bytes at all. docs/format.md has the layout.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if *self == Self::new() {
            return bytes;
        }
        bytes.push(u8::from(self.recipe.is_some()));
        if let Some(recipe) = &self.recipe {
            put_bytes(&mut bytes, recipe.domain().as_bytes());
            put_number(&mut bytes, recipe.schema().into());
            put_number(&mut bytes, recipe.fields().len() as u64);
            for field in recipe.fields() {
                put_bytes(&mut bytes, field.label().as_bytes());
                bytes.extend_from_slice(&field.digest());
                bytes.push(u8::from(field.value().is_some()));
                if let Some(text) = field.value() {
                    put_bytes(&mut bytes, text.as_bytes());
                }
            }
        }
        put_number(&mut bytes, self.attributes.len() as u64);
        for (name, value) in &self.attributes {
            put_bytes(&mut bytes, name.as_bytes());
            put_bytes(&mut bytes, value);
        }
        bytes
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// Lists are read item by item, so that memory is only taken for items that are there, whatever a count claims.
    ///
    /// # Errors
    /// [`Reason::Malformed`] if the bytes are not exactly one encoded metadata.
    pub fn decode(bytes: &[u8]) -> Result<Self, Reason> {
        let mut rest = bytes;
        if rest.is_empty() {
            return Ok(Self::new());
        }
        let recipe = if take(&mut rest)? { Some(take_recipe(&mut rest)?) } else { None };
        let mut attributes = Vec::new();
        for _ in 0..take_count(&mut rest)? {
            attributes.push((String::from(take_text(&mut rest)?), take_bytes(&mut rest)?.to_vec()));
        }
        if rest.is_empty() { Ok(Self { recipe, attributes }) } else { Err(Reason::Malformed) }
    }
}

fn take_recipe(rest: &mut &[u8]) -> Result<Recipe, Reason> {
    let domain = take_text(rest)?;
    let schema = take(rest)?;
    let mut fields = Vec::new();
    for _ in 0..take_count(rest)? {
        let label = take_text(rest)?;
        let (digest, after) = rest.split_first_chunk().ok_or(Malformed)?;
        *rest = after;
        let text = if take(rest)? { Some(String::from(take_text(rest)?)) } else { None };
        fields.push(RecipeField::stored(label, *digest, text).ok_or(Malformed)?);
    }
    Ok(Recipe::new(domain, schema, fields))
}

impl From<Malformed> for Reason {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{key::KeyFields, wire::put};

    fn full() -> Metadata {
        let recipe =
            KeyFields::new("cpu", 3).text("source", "s").bytes("b", &[1u8][..]).number("n", 5).recipe();
        Metadata::new().with_recipe(recipe).with_attribute("a", b"1").with_attribute("b", b"")
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for metadata in [Metadata::new(), Metadata::new().with_attribute("x", b"y"), full()] {
            assert_eq!(Metadata::decode(&metadata.encode()), Ok(metadata));
        }
    }

    #[test]
    fn every_prefix_and_every_suffix_is_refused() {
        let bytes = full().encode();
        for end in 1..bytes.len() {
            assert_eq!(Metadata::decode(&bytes[..end]), Err(Reason::Malformed), "prefix of {end}");
        }
        let mut longer = bytes;
        longer.push(0);
        assert_eq!(Metadata::decode(&longer), Err(Reason::Malformed));
    }

    #[test]
    fn a_count_that_lies_takes_no_memory() {
        // No recipe, then 2^63 attributes of which none follows.
        let mut bytes = alloc::vec![0];
        bytes.extend_from_slice(&postcard::to_allocvec(&(1u64 << 63)).unwrap());
        assert_eq!(Metadata::decode(&bytes), Err(Reason::Malformed));
        // One attribute whose name claims 2^40 bytes.
        let mut bytes = alloc::vec![0, 1];
        bytes.extend_from_slice(&postcard::to_allocvec(&(1u64 << 40)).unwrap());
        assert_eq!(Metadata::decode(&bytes), Err(Reason::Malformed));
    }

    #[test]
    fn a_text_that_no_recipe_has_is_refused() {
        let bytes = |len: usize| {
            let mut bytes = Vec::new();
            put(&mut bytes, &true);
            put(&mut bytes, "d");
            put(&mut bytes, &1u32);
            put(&mut bytes, &1u64);
            put(&mut bytes, &("label", [0u8; 8], Some("t".repeat(len))));
            put(&mut bytes, &0u64);
            bytes
        };
        assert!(Metadata::decode(&bytes(256)).is_ok());
        assert_eq!(Metadata::decode(&bytes(257)), Err(Reason::Malformed));
    }

    #[test]
    fn an_attribute_of_the_same_name_is_replaced() {
        let metadata = Metadata::new().with_attribute("a", b"1").with_attribute("a", b"2");
        assert_eq!(metadata.attributes().count(), 1);
        assert_eq!(metadata.attribute("a"), Some(&b"2"[..]));
    }
}
