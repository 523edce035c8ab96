//! Keys from labelled fields, as the native crate derives them.

use alloc::{borrow::Cow, string::String, vec::Vec};

use wasm_bindgen::prelude::wasm_bindgen;

use warmstart_core::{
    key::{Key, KeyFields},
    metadata::Metadata,
};

/// The kinds of fields.
const TEXT: u8 = 1;
const BYTES: u8 = 2;
const NUMBER: u8 = 3;
const LIST: u8 = 4;

/// The key that these fields make, which is 32 bytes, and behind it the recipe, as encoded metadata without
/// attributes.
///
/// `fields` is one byte for the kind of a field, its label, and then its value; of a list the number of its
/// items, and then each. Labels and values are their bytes behind their length, which is 4 bytes, as is the
/// number of items; a number is 8 bytes. All little-endian. What is not written so adds nothing.
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

/// The name of a key as 32 bytes: the key of its entry in the database. As hexadecimal digits it names locks
/// and flights.
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
