//! Keys from labelled fields, as the native crate derives them.

use alloc::{string::String, vec::Vec};

use wasm_bindgen::prelude::wasm_bindgen;

use warmstart_core::{artifact::Metadata, key::KeyFields};

/// The fields of a key, in their order.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Fields {
    made: KeyFields<'static>,
    /// The items of the next list.
    items: Vec<String>,
}

#[wasm_bindgen]
impl Fields {
    /// Begins a key of a domain and a version of its fields' meaning.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new(domain: String, schema: u32) -> Self {
        Self { made: KeyFields::new(domain, schema), items: Vec::new() }
    }

    /// Adds a text.
    pub fn text(&mut self, label: String, value: String) {
        self.add(|made| made.text(label, value));
    }

    /// Adds bytes.
    pub fn bytes(&mut self, label: String, value: Vec<u8>) {
        self.add(|made| made.bytes(label, value));
    }

    /// Adds a number.
    pub fn number(&mut self, label: String, value: u64) {
        self.add(|made| made.number(label, value));
    }

    /// Adds an item to the next list.
    pub fn item(&mut self, text: String) {
        self.items.push(text);
    }

    /// Adds a list of the items since the last one.
    pub fn list(&mut self, label: String) {
        let items = core::mem::take(&mut self.items);
        self.add(|made| made.list(label, items));
    }

    /// Returns the key, 32 bytes, followed by the recipe, as encoded metadata without attributes.
    #[must_use]
    pub fn derive(self) -> Vec<u8> {
        let mut derived = self.made.key().as_bytes().to_vec();
        derived.extend_from_slice(&Metadata::new().with_recipe(self.made.recipe()).encode());
        derived
    }

    fn add(&mut self, field: impl FnOnce(KeyFields<'static>) -> KeyFields<'static>) {
        self.made = field(core::mem::replace(&mut self.made, KeyFields::new("", 0)));
    }
}
