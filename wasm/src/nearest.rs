//! Why something missed: the nearest recipe, and how it differs.

use alloc::vec::Vec;

use wasm_bindgen::prelude::wasm_bindgen;

use warmstart_core::{
    journal,
    key::Key,
    metadata::Metadata,
    recipe::{FieldChange, Recipe},
    sketch::{self, Sketch},
};

/// So many entries are looked at to find the nearest: sketches of recipes that differ in one field can look
/// alike.
const PROPOSALS: usize = 64;

/// Finds the entries whose recipes look most like one that was looked for.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Nearest(sketch::Nearest<Key>);

#[wasm_bindgen]
impl Nearest {
    /// Of the recipe in this encoded metadata; nothing if it has none.
    #[must_use]
    pub fn of(metadata: &[u8]) -> Option<Self> {
        recipe(metadata).map(|recipe| Self(sketch::Nearest::new(&recipe, PROPOSALS)))
    }

    /// Looks at the sketches in a row of the journal.
    pub fn offer_row(&mut self, row: &[u8]) {
        for (name, sketch) in journal::sketches(row) {
            self.0.offer(&sketch, name);
        }
    }

    /// Looks at an entry's metadata.
    pub fn offer(&mut self, name: &[u8], metadata: &[u8]) {
        if let (Ok(name), Some(sketch)) = (name.try_into(), Sketch::of_metadata(metadata)) {
            self.0.offer(&sketch, Key::from_bytes(name));
        }
    }

    /// The names of the entries that are to be looked at, 32 bytes each, the nearest first.
    #[must_use]
    pub fn names(self) -> Vec<u8> {
        let mut names = Vec::new();
        self.0.into_vec().iter().for_each(|name| names.extend_from_slice(name.as_bytes()));
        names
    }
}

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
