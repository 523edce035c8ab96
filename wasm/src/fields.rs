//! Keys from labelled fields, as the native crate derives them.

use alloc::{borrow::Cow, string::String, vec::Vec};

use wasm_bindgen::prelude::wasm_bindgen;

use warmstart_core::{
    artifact::Metadata,
    key::{Key, KeyFields},
};

/// The kinds of fields.
const TEXT: u8 = 1;
const BYTES: u8 = 2;
const NUMBER: u8 = 3;
const LIST: u8 = 4;

/// Returns the key of these fields, 32 bytes, followed by the recipe, as encoded metadata without attributes.
///
/// `fields` has for each field one byte for its kind, its label, and its value; a list is the number of its
/// items followed by the items. Labels and values are their length, 4 bytes, followed by their bytes; the number
/// of items is 4 bytes, and a number is 8 bytes. All are little-endian. Malformed fields add nothing.
#[wasm_bindgen]
#[must_use]
pub fn derive_key(domain: String, schema: u32, fields: &[u8]) -> Vec<u8> {
    let mut made = KeyFields::new(domain, schema);
    let mut rest = fields;
    while let Some(kind) = take(&mut rest, 1) {
        let Some(label) = text(&mut rest) else { break };
        made = match kind {
            [TEXT] => made.text(label, text(&mut rest).unwrap_or_default()),
            [BYTES] => made.bytes(label, piece(&mut rest).unwrap_or_default()),
            [NUMBER] => made.number(label, number(take(&mut rest, 8))),
            [LIST] => {
                let items = number(take(&mut rest, 4));
                made.list(label, (0..items).map_while(|_| text(&mut rest)))
            }
            _ => break,
        };
    }
    let mut derived = made.key().as_bytes().to_vec();
    derived.extend_from_slice(&Metadata::new().with_recipe(made.recipe()).encode());
    derived
}

/// Returns the name of a key, 32 bytes, which identifies its entry in the database. Locks and flights are named
/// by its hexadecimal digits.
#[wasm_bindgen]
#[must_use]
pub fn digest_of(key: &[u8]) -> Vec<u8> {
    Key::digest(key).as_bytes().to_vec()
}

fn text<'a>(rest: &mut &'a [u8]) -> Option<Cow<'a, str>> {
    core::str::from_utf8(piece(rest)?).ok().map(Cow::Borrowed)
}

fn piece<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = number(Some(take(rest, 4)?));
    take(rest, len as usize)
}

fn number(bytes: Option<&[u8]>) -> u64 {
    bytes.unwrap_or_default().iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(len)?;
    *rest = after;
    Some(taken)
}
