//! Explanations of misses: the nearest recipe, and its differences.

use alloc::vec::Vec;

use wasm_bindgen::prelude::wasm_bindgen;

use warmstart_core::{
    artifact::Metadata,
    recipe::{FieldChange, Recipe},
};

/// Returns the distance of the recipe in `other` from that in `wanted`, both encoded metadata. Returns nothing
/// if one has no recipe, if the domains differ, or if the recipes are the same.
#[wasm_bindgen]
#[must_use]
pub fn remoteness(wanted: &[u8], other: &[u8]) -> Option<f64> {
    let (wanted, other) = (recipe(wanted)?, recipe(other)?);
    let (distance, has_other_name) = wanted.rank_of(&other);
    let is_candidate = wanted.domain() == other.domain() && distance > 0;
    is_candidate.then(|| 2.0 * distance as f64 + f64::from(u8::from(has_other_name)))
}

/// Returns the changes from the recipe in `other` to that in `wanted`: for each its label, the old and the new
/// value, as their length, 4 bytes, little-endian, followed by their bytes. An absent value has the length
/// 2^32 - 1.
#[wasm_bindgen]
#[must_use]
pub fn changes(wanted: &[u8], other: &[u8]) -> Vec<u8> {
    let mut described = Vec::new();
    if let (Some(wanted), Some(other)) = (recipe(wanted), recipe(other)) {
        for FieldChange { label, old, new } in other.changes_to(&wanted) {
            for text in [Some(label), old, new] {
                let len = text.as_ref().map_or(u32::MAX, |text| text.len() as u32);
                described.extend_from_slice(&len.to_le_bytes());
                described.extend_from_slice(text.unwrap_or_default().as_bytes());
            }
        }
    }
    described
}

fn recipe(metadata: &[u8]) -> Option<Recipe> {
    Metadata::decode(metadata).ok()?.recipe().cloned()
}
