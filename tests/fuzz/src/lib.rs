//! Shared by the fuzz targets: arbitrary values of types of other crates.

use libfuzzer_sys::{
    arbitrary,
    arbitrary::{Arbitrary, Result, Unstructured},
};
use warmstart_core::{artifact::Metadata, key::KeyFields, recipe::Recipe};
use warmstart_tests::model::Program;
use xxhash_rust::xxh3::xxh3_64;

/// The fields of a key.
#[derive(Arbitrary, Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    /// The domain.
    pub domain: String,
    /// The schema.
    pub schema: u32,
    /// Labels and values, in order.
    pub fields: Vec<(String, Value)>,
}

/// The value of a field.
#[derive(Arbitrary, Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A digest, and what is noted of it.
    Digest(Vec<u8>, String),
    /// A number.
    Number(u64),
    /// A list of texts.
    List(Vec<String>),
}

/// A program for a store, of all the bytes that there are.
#[derive(Clone, Debug)]
pub struct AnyProgram(pub Program);

impl Fields {
    /// Returns the fields as those of the core.
    #[must_use]
    pub fn key_fields(&self) -> KeyFields<'_> {
        self.fields.iter().fold(KeyFields::new(&self.domain, self.schema), |fields, (label, value)| {
            let label = label.as_str();
            match value {
                Value::Text(text) => fields.text(label, text),
                Value::Bytes(bytes) => fields.bytes(label, bytes),
                Value::Digest(digest, note) => fields.digest(label, digest, note),
                Value::Number(number) => fields.number(label, *number),
                Value::List(items) => fields.list(label, items),
            }
        })
    }

    /// The recipe of the key.
    #[must_use]
    pub fn recipe(&self) -> Recipe {
        self.key_fields().recipe()
    }
}

impl<'a> Arbitrary<'a> for AnyProgram {
    fn arbitrary(input: &mut Unstructured<'a>) -> Result<Self> {
        let bytes = input.bytes(input.len())?;
        Ok(Self(Program::from_bytes(bytes)))
    }
}

/// Metadata of a recipe and attributes.
#[must_use]
pub fn metadata(recipe: Option<&Fields>, attributes: &[(String, Vec<u8>)]) -> Metadata {
    let metadata = recipe.map_or_else(Metadata::new, |fields| Metadata::new().with_recipe(fields.recipe()));
    attributes
        .iter()
        .fold(metadata, |metadata, (name, value)| metadata.with_attribute(name, value.as_slice()))
}

/// Corrects the checksum of an envelope or of statistics, of at least 16 bytes.
#[must_use]
pub fn with_sum(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = xxh3_64(&bytes[16..]);
    bytes[8..16].copy_from_slice(&sum.to_le_bytes());
    bytes
}
