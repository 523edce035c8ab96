//! Keys from labelled fields, as the native crate derives them.

use alloc::{string::String, vec::Vec};
use core::mem;

use wasm_bindgen::prelude::wasm_bindgen;

use warmstart_core::{
    key::{Key, KeyFields},
    metadata::Metadata,
};

/// The fields that a key is made of.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Fields(KeyFields<'static>);

/// The name of a key: 64 hexadecimal digits. Names entries, locks and flights.
#[wasm_bindgen]
#[must_use]
pub fn name_of(key: &[u8]) -> String {
    Key::digest(key).to_hex().iter().map(|digit| char::from(*digit)).collect()
}

/// The name of a key as 32 bytes: the key of its entry in the database.
#[wasm_bindgen]
#[must_use]
pub fn digest_of(key: &[u8]) -> Vec<u8> {
    Key::digest(key).as_bytes().to_vec()
}

#[wasm_bindgen]
impl Fields {
    /// No fields yet.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new(domain: String, schema: u32) -> Self {
        Self(KeyFields::new(domain, schema))
    }

    /// Adds text.
    pub fn text(&mut self, label: String, value: String) {
        self.add(|fields| fields.text(label, value));
    }

    /// Adds bytes.
    pub fn bytes(&mut self, label: String, value: Vec<u8>) {
        self.add(|fields| fields.bytes(label, value));
    }

    /// Adds something long by its BLAKE2b-256 digest; `shown` is what the recipe says of it.
    pub fn digest(&mut self, label: String, value: &[u8], shown: String) {
        let digest = Key::digest(value).as_bytes().to_vec();
        self.add(|fields| fields.digest(label, digest, shown));
    }

    /// Adds a number.
    pub fn number(&mut self, label: String, value: u64) {
        self.add(|fields| fields.number(label, value));
    }

    /// Adds a list of texts, in their order.
    pub fn list(&mut self, label: String, values: Vec<String>) {
        self.add(|fields| fields.list(label, values));
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> Vec<u8> {
        self.0.key().as_bytes().to_vec()
    }

    /// The recipe, as encoded metadata without attributes.
    #[must_use]
    pub fn recipe(&self) -> Vec<u8> {
        Metadata::new().with_recipe(self.0.recipe()).encode()
    }

    fn add(&mut self, add: impl FnOnce(KeyFields<'static>) -> KeyFields<'static>) {
        let fields = mem::replace(&mut self.0, KeyFields::new("", 0));
        self.0 = add(fields);
    }
}
