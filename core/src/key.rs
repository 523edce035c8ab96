//! Keys: 32-byte digests of everything that determines an artifact.

use alloc::{
    borrow::Cow,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

use blake2::{Blake2b256, Digest};

use crate::recipe::{Recipe, RecipeField};

/// Prefixes every key's preimage, so that no other BLAKE2b digest of this project can equal a key.
const TAG: &[u8] = b"warmstart key 1\0";

/// A 32-byte BLAKE2b digest that identifies an artifact.
///
/// ```
/// use warmstart_core::key::{Key, KeyFields};
///
/// let key = KeyFields::new("example", 1).text("name", "softmax").key();
/// assert_eq!(key.to_string().len(), 64);
/// assert_eq!(Key::from_hex(&key.to_string()), Some(key));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key([u8; Key::LEN]);

impl Key {
    /// The length of a key in bytes.
    pub const LEN: usize = 32;

    /// Wraps 32 bytes that are already a digest.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// Computes the digest of arbitrary bytes, for a file name or an index slot.
    ///
    /// This is not the key of [`KeyFields`] with the same bytes in them: the preimages differ.
    #[must_use]
    pub fn digest(bytes: &[u8]) -> Self {
        Self(Blake2b256::digest(bytes).into())
    }

    /// Parses the output of [`Display`](fmt::Display); `None` unless `hex` is 64 lower-case hexadecimal digits.
    #[must_use]
    pub fn from_hex(hex: &str) -> Option<Self> {
        let digits = hex.as_bytes();
        if digits.len() != 2 * Self::LEN {
            return None;
        }
        let mut bytes = [0; Self::LEN];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = hex_value(pair[0])? << 4 | hex_value(pair[1])?;
        }
        Some(Self(bytes))
    }

    /// Returns the 64 lower-case hexadecimal digits of the key, in ASCII.
    #[must_use]
    pub fn to_hex(&self) -> [u8; 2 * Self::LEN] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hex = [0; 2 * Self::LEN];
        for (pair, byte) in hex.as_chunks_mut().0.iter_mut().zip(self.0) {
            *pair = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
        }
        hex
    }

    /// Returns the bytes of the key.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(core::str::from_utf8(&self.to_hex()).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// The labelled fields from which a key is derived.
///
/// Every field is hashed with its label, kind and length, so that no two lists of fields have the same preimage. The order of
/// the fields matters. Nothing is hashed before [`key`](Self::key) is called, and nothing is summarised before
/// [`recipe`](Self::recipe), so that a hit pays only for the key.
///
/// Do not put a path, a home directory or a time into a key: a moved checkout would miss.
///
/// ```
/// use warmstart_core::key::KeyFields;
///
/// let old = KeyFields::new("cpu", 1).text("source", "int f;").list("flags", ["-O2"]);
/// let new = KeyFields::new("cpu", 1).text("source", "int f;").list("flags", ["-O3"]);
/// assert_ne!(old.key(), new.key());
///
/// let changes = old.recipe().changes_to(&new.recipe());
/// assert_eq!(changes[0].label, "flags");
/// assert_eq!(changes[0].new.as_deref(), Some("-O3"));
/// ```
#[derive(Clone, Debug)]
pub struct KeyFields<'a> {
    domain: Cow<'a, str>,
    schema: u32,
    fields: Vec<Field<'a>>,
}

#[derive(Clone, Debug)]
struct Field<'a> {
    label: Cow<'a, str>,
    value: Value<'a>,
    /// The text that a recipe shows instead of the value; not part of the key.
    note: Option<Cow<'a, str>>,
}

#[derive(Clone, Debug)]
enum Value<'a> {
    Text(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
    Number(u64),
    List(Vec<Cow<'a, str>>),
}

impl<'a> KeyFields<'a> {
    /// Creates an empty list of fields. `domain` separates kinds of artifacts; raise `schema` when the meaning of the fields
    /// changes.
    pub fn new(domain: impl Into<Cow<'a, str>>, schema: u32) -> Self {
        Self { domain: domain.into(), schema, fields: Vec::with_capacity(12) }
    }

    /// Adds a field of text.
    #[must_use]
    pub fn text(self, label: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) -> Self {
        self.field(label.into(), Value::Text(value.into()), None)
    }

    /// Adds a field of bytes. It never equals a text with the same bytes.
    #[must_use]
    pub fn bytes(self, label: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, [u8]>>) -> Self {
        self.field(label.into(), Value::Bytes(value.into()), None)
    }

    /// Adds a digest computed elsewhere, with a note on what was digested. Recipes show the note; it is not part of the key.
    #[must_use]
    pub fn digest(
        self,
        label: impl Into<Cow<'a, str>>,
        digest: impl Into<Cow<'a, [u8]>>,
        note: impl Into<Cow<'a, str>>,
    ) -> Self {
        self.field(label.into(), Value::Bytes(digest.into()), Some(note.into()))
    }

    /// Adds a number.
    #[must_use]
    pub fn number(self, label: impl Into<Cow<'a, str>>, value: u64) -> Self {
        self.field(label.into(), Value::Number(value), None)
    }

    /// Adds a list of texts. The boundaries between them count: `["ab"]` is not `["a", "b"]`.
    #[must_use]
    pub fn list<T: Into<Cow<'a, str>>>(
        self,
        label: impl Into<Cow<'a, str>>,
        values: impl IntoIterator<Item = T>,
    ) -> Self {
        self.field(label.into(), Value::List(values.into_iter().map(Into::into).collect()), None)
    }

    /// Computes the key: BLAKE2b-256 over a tag, the domain, the schema and every field. docs/format.md has the preimage.
    #[must_use]
    pub fn key(&self) -> Key {
        let mut hasher = Blake2b256::new();
        hasher.update(TAG);
        update_prefixed(&mut hasher, self.domain.as_bytes());
        hasher.update(self.schema.to_le_bytes());
        hasher.update(len_bytes(self.fields.len()));
        for field in &self.fields {
            update_prefixed(&mut hasher, field.label.as_bytes());
            field.value.update(&mut hasher);
        }
        Key(hasher.finalize().into())
    }

    /// Returns a short summary of the fields, to be stored with the artifact.
    #[must_use]
    pub fn recipe(&self) -> Recipe {
        let fields = self.fields.iter().map(|field| {
            let mut hasher = Blake2b256::new();
            field.value.update(&mut hasher);
            let digest: [u8; 32] = hasher.finalize().into();
            let text =
                field.note.as_deref().map_or_else(|| field.value.shown(), |note| Some(String::from(note)));
            RecipeField::new(&field.label, &digest, text)
        });
        Recipe::new(&self.domain, self.schema, fields.collect())
    }

    fn field(mut self, label: Cow<'a, str>, value: Value<'a>, note: Option<Cow<'a, str>>) -> Self {
        self.fields.push(Field { label, value, note });
        self
    }
}

impl Value<'_> {
    /// Hashes the kind, the length and the value.
    fn update(&self, hasher: &mut Blake2b256) {
        match self {
            Self::Text(text) => {
                hasher.update([1]);
                update_prefixed(hasher, text.as_bytes());
            }
            Self::Bytes(bytes) => {
                hasher.update([2]);
                update_prefixed(hasher, bytes);
            }
            Self::Number(number) => {
                hasher.update([3]);
                hasher.update(number.to_le_bytes());
            }
            Self::List(items) => {
                hasher.update([4]);
                hasher.update(len_bytes(items.len()));
                for item in items {
                    update_prefixed(hasher, item.as_bytes());
                }
            }
        }
    }

    /// Returns the value as human-readable text; `None` for bytes.
    fn shown(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(String::from(&**text)),
            Self::Bytes(_) => None,
            Self::Number(number) => Some(number.to_string()),
            Self::List(items) => Some(items.join(" ")),
        }
    }
}

/// Returns the value of a lower-case digit. Upper case is refused, so that a key has one spelling and a file name one owner.
fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

fn update_prefixed(hasher: &mut Blake2b256, bytes: &[u8]) {
    hasher.update(len_bytes(bytes.len()));
    hasher.update(bytes);
}

/// Encodes a length as 8 little-endian bytes: the same on 32-bit and 64-bit targets.
fn len_bytes(len: usize) -> [u8; 8] {
    (len as u64).to_le_bytes()
}

/// A key to look up, and the fields from which it was derived, if they are known.
///
/// Created from [`KeyFields`], from a [`Key`], or from any bytes or text: `"k"` and `b"k"` are the same key.
///
/// ```
/// use warmstart_core::key::{KeyFields, Request};
///
/// let fields = KeyFields::new("example", 1).text("name", "softmax");
/// assert_eq!(Request::from(&fields).key(), fields.key().as_bytes());
/// assert_eq!(Request::from("k").key(), Request::from(b"k").key());
/// ```
#[derive(Clone, Debug)]
pub struct Request<'a> {
    key: RequestKey<'a>,
    fields: Option<&'a KeyFields<'a>>,
}

/// The bytes of a key, or a [`Key`] by value, which needs no allocation.
#[derive(Clone, Debug)]
enum RequestKey<'a> {
    Any(Cow<'a, [u8]>),
    Key(Key),
}

impl<'a> Request<'a> {
    fn new(key: impl Into<Cow<'a, [u8]>>) -> Self {
        Self { key: RequestKey::Any(key.into()), fields: None }
    }

    /// Returns the bytes of the key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        match &self.key {
            RequestKey::Any(bytes) => bytes,
            RequestKey::Key(key) => key.as_bytes(),
        }
    }

    /// Returns the fields that the key was derived from, if they are known.
    #[must_use]
    pub const fn fields(&self) -> Option<&'a KeyFields<'a>> {
        self.fields
    }
}

impl<'a> From<&'a KeyFields<'a>> for Request<'a> {
    fn from(fields: &'a KeyFields<'a>) -> Self {
        Self { key: RequestKey::Key(fields.key()), fields: Some(fields) }
    }
}

impl From<Key> for Request<'_> {
    fn from(key: Key) -> Self {
        Self { key: RequestKey::Key(key), fields: None }
    }
}

impl<'a, T: AsRef<[u8]> + ?Sized> From<&'a T> for Request<'a> {
    fn from(key: &'a T) -> Self {
        Self::new(key.as_ref())
    }
}

impl<const N: usize> From<[u8; N]> for Request<'_> {
    fn from(key: [u8; N]) -> Self {
        Self::new(key.to_vec())
    }
}

impl From<Vec<u8>> for Request<'_> {
    fn from(key: Vec<u8>) -> Self {
        Self::new(key)
    }
}

impl From<String> for Request<'_> {
    fn from(key: String) -> Self {
        Self::new(key.into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards the preimage. A change makes every stored entry unreachable, so it must be a deliberate decision.
    #[test]
    fn the_preimage_is_the_one_that_format_md_describes() {
        let mut preimage = Vec::new();
        let put = |preimage: &mut Vec<u8>, bytes: &[u8]| {
            preimage.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            preimage.extend_from_slice(bytes);
        };
        preimage.extend_from_slice(b"warmstart key 1\0");
        put(&mut preimage, b"dom");
        preimage.extend_from_slice(&7u32.to_le_bytes());
        preimage.extend_from_slice(&4u64.to_le_bytes());
        put(&mut preimage, b"a");
        preimage.push(1);
        put(&mut preimage, b"text");
        put(&mut preimage, b"b");
        preimage.push(2);
        put(&mut preimage, &[0, 255]);
        put(&mut preimage, b"c");
        preimage.push(3);
        preimage.extend_from_slice(&9u64.to_le_bytes());
        put(&mut preimage, b"d");
        preimage.push(4);
        preimage.extend_from_slice(&2u64.to_le_bytes());
        put(&mut preimage, b"x");
        put(&mut preimage, b"");
        let fields = KeyFields::new("dom", 7)
            .text("a", "text")
            .bytes("b", &[0u8, 255][..])
            .number("c", 9)
            .list("d", ["x", ""]);
        assert_eq!(fields.key(), Key::digest(&preimage));
    }

    #[test]
    fn borrowed_and_owned_values_are_one_key() {
        let number = 7;
        let owned = KeyFields::new(String::from("dom"), 1)
            .text("k", number.to_string())
            .bytes("b", alloc::vec![1])
            .list("l", [String::from("x")]);
        let borrowed = KeyFields::new("dom", 1).text("k", "7").bytes("b", &[1u8][..]).list("l", ["x"]);
        assert_eq!(owned.key(), borrowed.key());
    }

    #[test]
    fn no_two_different_field_lists_share_a_key() {
        let base = || KeyFields::new("d", 1);
        let keys = [
            base().key(),
            KeyFields::new("d", 2).key(),
            KeyFields::new("e", 1).key(),
            base().text("a", "b").key(),
            base().bytes("a", &b"b"[..]).key(),
            base().text("ab", "").key(),
            base().text("", "ab").key(),
            base().text("a", "b").text("c", "d").key(),
            base().text("c", "d").text("a", "b").key(),
            base().list("a", ["b"]).key(),
            base().list("a", ["b", ""]).key(),
            base().list("a", ["", "b"]).key(),
            base().number("a", 98).key(),
        ];
        for (i, one) in keys.iter().enumerate() {
            for other in &keys[i + 1..] {
                assert_ne!(one, other);
            }
        }
    }

    #[test]
    fn a_note_is_not_in_the_key() {
        let noted = |note: &'static str| KeyFields::new("d", 1).digest("h", &[1u8; 32][..], note);
        assert_eq!(noted("a.h").key(), noted("b.h").key());
    }

    #[test]
    fn hexadecimal_has_one_spelling() {
        let key = Key::digest(b"x");
        let hex = key.to_string();
        assert_eq!(Key::from_hex(&hex), Some(key));
        assert_eq!(Key::from_hex(&hex.to_uppercase()), None);
        assert_eq!(Key::from_hex(&hex[1..]), None);
        assert_eq!(Key::from_hex(&hex.replace(&hex[..1], "g")), None);
    }

    #[test]
    fn request_from_any_type_of_bytes_has_the_same_key() {
        let bytes = b"k".to_vec();
        let text = String::from("k");
        let requests: [Request<'_>; 8] = [
            "k".into(),
            b"k".into(),
            (*b"k").into(),
            (&b"k"[..]).into(),
            (&bytes).into(),
            bytes.clone().into(),
            (&text).into(),
            text.clone().into(),
        ];
        for request in requests {
            assert_eq!(request.key(), b"k");
        }
        let key = Key::digest(b"k");
        assert_eq!(Request::from(key).key(), key.as_bytes());
        assert_eq!(Request::from(&key).key(), key.as_bytes());
    }
}
