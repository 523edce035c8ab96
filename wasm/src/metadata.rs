//! Metadata and reasons, as JavaScript reads them.

use alloc::{string::String, vec::Vec};

use js_sys::{Array, JsString, Object, Reflect, Uint8Array};
use wasm_bindgen::{JsCast, JsValue, prelude::wasm_bindgen};

use warmstart_core::{metadata::Metadata, reason::Reason, recipe::Recipe};

use crate::entry::thrown;

/// Encodes what is kept beside an artifact: the recipe of its key, as `Fields.recipe` gives it, and named bytes, as pairs.
///
/// # Errors
/// Throws the number of a reason if `recipe` is none.
#[wasm_bindgen]
pub fn encode_metadata(recipe: &[u8], attributes: &Array) -> Result<Vec<u8>, JsValue> {
    let mut metadata = Metadata::decode(recipe).map_err(thrown)?;
    for pair in attributes.iter() {
        let pair: Array = pair.unchecked_into();
        let name: String = pair.get(0).unchecked_into::<JsString>().into();
        metadata = metadata.with_attribute(name, Uint8Array::new(&pair.get(1)).to_vec());
    }
    Ok(metadata.encode())
}

/// Decodes it: an object with `attributes`, which are pairs, and `recipe` if there is one.
///
/// # Errors
/// Throws the number of a reason if these are no such bytes.
#[wasm_bindgen]
pub fn decode_metadata(metadata: &[u8]) -> Result<Object, JsValue> {
    let metadata = Metadata::decode(metadata).map_err(thrown)?;
    let described = object();
    if let Some(recipe) = metadata.recipe() {
        set_value(&described, "recipe", &described_recipe(recipe));
    }
    let attributes = Array::new();
    for (name, value) in metadata.attributes() {
        attributes.push(&Array::of2(&name.into(), &Uint8Array::from(value)));
    }
    set_value(&described, "attributes", &attributes);
    Ok(described)
}

/// The name of the reason with this number, or the sentence about it for people; nothing if there is no such number.
#[wasm_bindgen]
#[must_use]
pub fn reason(number: u32, is_sentence: bool) -> Option<JsString> {
    let reason = Reason::ALL.get((number as usize).checked_sub(1)?)?;
    Some(if is_sentence { reason.explanation() } else { reason.as_str() }.into())
}

fn described_recipe(recipe: &Recipe) -> Object {
    let described = object();
    set(&described, "domain", recipe.domain());
    set_value(&described, "schema", &recipe.schema().into());
    let fields = Array::new();
    for field in recipe.fields() {
        let described = object();
        set(&described, "label", field.label());
        if let Some(value) = field.value() {
            set(&described, "value", value);
        }
        set(&described, "digest", &field.digest_hex());
        fields.push(&described);
    }
    set_value(&described, "fields", &fields);
    described
}

pub(crate) fn object() -> Object {
    Object::new()
}

pub(crate) fn set(object: &Object, name: &str, value: &str) {
    set_value(object, name, &value.into());
}

fn set_value(object: &Object, name: &str, value: &JsValue) {
    // It cannot fail: the object is plain and was not frozen.
    let _ = Reflect::set(object, &name.into(), value);
}
