//! Metadata: recipes and attributes, and explanations of misses by the nearest recipe.
//!
//! Texts are returned as bytes: each behind its length, 4 bytes, little-endian; an absent one has the length 2^32 - 1.

use alloc::{
    string::{String, ToString},
    vec::Vec,
};

use wasm_bindgen::prelude::wasm_bindgen;

use warmstart_core::{
    artifact::Metadata,
    recipe::{FieldChange, Recipe},
};

/// Metadata in the making.
#[wasm_bindgen]
#[derive(Debug)]
pub struct MetadataWriter(Metadata);

#[wasm_bindgen]
impl MetadataWriter {
    /// Begins with encoded metadata, such as a recipe, or no bytes.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new(begun: &[u8]) -> Self {
        Self(Metadata::decode(begun).unwrap_or_default())
    }

    /// Adds an attribute.
    pub fn set(&mut self, name: String, value: String) {
        self.0 = core::mem::take(&mut self.0).with_attribute(name, value);
    }

    /// Returns the encoded metadata.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.0.encode()
    }
}

/// Returns the texts of the recipe in encoded metadata: domain and schema, then for each field label, digest and value.
/// Returns nothing if there is none.
#[wasm_bindgen]
#[must_use]
pub fn recipe_of(metadata: &[u8]) -> Vec<u8> {
    let mut texts = Vec::new();
    if let Some(recipe) = recipe(metadata) {
        push(&mut texts, Some(recipe.domain()));
        push(&mut texts, Some(&recipe.schema().to_string()));
        for field in recipe.fields() {
            push(&mut texts, Some(field.label()));
            push(&mut texts, Some(&field.digest_hex()));
            push(&mut texts, field.value());
        }
    }
    texts
}

/// Returns the texts of the attributes in encoded metadata: name and value of each. Bytes that are no text are left out.
#[wasm_bindgen]
#[must_use]
pub fn attributes_of(metadata: &[u8]) -> Vec<u8> {
    let mut texts = Vec::new();
    for (name, value) in Metadata::decode(metadata).unwrap_or_default().attributes() {
        if let Ok(value) = core::str::from_utf8(value) {
            push(&mut texts, Some(name));
            push(&mut texts, Some(value));
        }
    }
    texts
}

/// Returns the distance of the recipe in `other` from that in `wanted`, both encoded metadata. Returns nothing
/// if one has no recipe, if the domains differ, or if the recipes are the same.
#[wasm_bindgen]
#[must_use]
pub fn distance(wanted: &[u8], other: &[u8]) -> Option<f64> {
    let (wanted, other) = (recipe(wanted)?, recipe(other)?);
    let (distance, has_other_name) = wanted.rank_of(&other);
    let is_candidate = wanted.domain() == other.domain() && distance > 0;
    // At equal distances, a recipe of the same name is nearer.
    is_candidate.then(|| 2.0 * distance as f64 + f64::from(u8::from(has_other_name)))
}

/// Returns the texts of the changes from the recipe in `other` to that in `wanted`: for each its label, the old and the new
/// value.
#[wasm_bindgen]
#[must_use]
pub fn changes(wanted: &[u8], other: &[u8]) -> Vec<u8> {
    let mut texts = Vec::new();
    if let (Some(wanted), Some(other)) = (recipe(wanted), recipe(other)) {
        for FieldChange { label, old, new } in other.changes_to(&wanted) {
            push(&mut texts, Some(&label));
            push(&mut texts, old.as_deref());
            push(&mut texts, new.as_deref());
        }
    }
    texts
}

fn push(texts: &mut Vec<u8>, text: Option<&str>) {
    let len = text.map_or(u32::MAX, |text| text.len() as u32);
    texts.extend_from_slice(&len.to_le_bytes());
    texts.extend_from_slice(text.unwrap_or_default().as_bytes());
}

fn recipe(metadata: &[u8]) -> Option<Recipe> {
    Metadata::decode(metadata).ok()?.recipe().cloned()
}
