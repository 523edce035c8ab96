//! Why something missed: the nearest recipe, and how it differs.

use alloc::vec::Vec;

use wasm_bindgen::prelude::wasm_bindgen;

use warmstart_core::{
    metadata::Metadata,
    recipe::{FieldChange, Recipe},
};

/// How far the recipe in `other` is from that in `wanted`, both encoded metadata: less is nearer. Nothing if
/// one has none, if they are of different domains, or if they are the same.
#[wasm_bindgen]
#[must_use]
pub fn remoteness(wanted: &[u8], other: &[u8]) -> Option<f64> {
    let (wanted, other) = (recipe(wanted)?, recipe(other)?);
    let (distance, has_other_name) = wanted.remoteness_of(&other);
    let is_candidate = wanted.domain() == other.domain() && distance > 0;
    is_candidate.then(|| 2.0 * distance as f64 + f64::from(u8::from(has_other_name)))
}

/// What differs, from the recipe in `other` to that in `wanted`: for each change its label, the old value and
/// the new one, as bytes behind their length, which is 4 bytes, little-endian. One that there is not has a
/// length of 2^32 - 1.
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
