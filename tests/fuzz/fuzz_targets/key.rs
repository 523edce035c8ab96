//! Two lists of fields have one key if they have one preimage, and that is the one which docs/format.md describes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use warmstart_core::key::Key;
use warmstart_fuzz::{Fields, Value};

fuzz_target!(|pair: (Fields, Fields)| {
    let (one, other) = pair;
    let key = one.key_fields().key();
    assert_eq!(key, Key::digest(&preimage(&one)));
    assert_eq!(Key::from_hex(&key.to_string()), Some(key));
    let is_same = without_notes(one) == without_notes(other.clone());
    assert_eq!(key == other.key_fields().key(), is_same);
});

/// Returns the fields as the key sees them: without notes, and digests as bytes.
fn without_notes(mut fields: Fields) -> Fields {
    for (_, value) in &mut fields.fields {
        if let Value::Digest(bytes, _) = value {
            *value = Value::Bytes(std::mem::take(bytes));
        }
    }
    fields
}

fn preimage(fields: &Fields) -> Vec<u8> {
    let mut bytes = b"warmstart key 1\0".to_vec();
    put(&mut bytes, fields.domain.as_bytes());
    bytes.extend(fields.schema.to_le_bytes());
    bytes.extend((fields.fields.len() as u64).to_le_bytes());
    for (label, value) in &fields.fields {
        put(&mut bytes, label.as_bytes());
        match value {
            Value::Text(text) => {
                bytes.push(1);
                put(&mut bytes, text.as_bytes());
            }
            Value::Bytes(value) | Value::Digest(value, _) => {
                bytes.push(2);
                put(&mut bytes, value);
            }
            Value::Number(number) => {
                bytes.push(3);
                bytes.extend(number.to_le_bytes());
            }
            Value::List(items) => {
                bytes.push(4);
                bytes.extend((items.len() as u64).to_le_bytes());
                items.iter().for_each(|item| put(&mut bytes, item.as_bytes()));
            }
        }
    }
    bytes
}

fn put(bytes: &mut Vec<u8>, part: &[u8]) {
    bytes.extend((part.len() as u64).to_le_bytes());
    bytes.extend(part);
}
