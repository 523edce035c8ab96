//! Recipes: short forms of a key's labelled fields, stored with the artifact so that a miss can be explained.

use alloc::{
    collections::BinaryHeap,
    string::{String, ToString},
    vec,
    vec::Vec,
};

use serde::{Deserialize, Deserializer, Serialize, de::Error};

/// The longest text of a field's value that a recipe keeps, in bytes. A longer text is cut and marked with "...".
pub const MAX_TEXT: usize = 256;

/// The labels of fields whose value names the artifact.
const NAMES: [&str; 3] = ["name", "kernel", "label"];

/// The labels, short digests and short values of a key's fields.
///
/// [`KeyFields::recipe`](crate::key::KeyFields::recipe) creates a recipe, and [`changes_to`](Self::changes_to) compares two.
/// Serde writes a digest as 16 hexadecimal digits in human-readable formats such as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipe {
    domain: String,
    schema: u32,
    fields: Vec<RecipeField>,
}

/// One field of a [`Recipe`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecipeField {
    label: String,
    #[serde(with = "digest")]
    digest: [u8; 8],
    #[serde(deserialize_with = "short_text")]
    text: Option<String>,
}

/// A field in which two recipes differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldChange {
    /// The label of the field.
    pub label: String,
    /// The old value as text, or its short digest if it has no text; `None` if the field is new.
    pub old: Option<String>,
    /// The new value, likewise; `None` if the field was removed.
    pub new: Option<String>,
}

impl Recipe {
    pub(crate) fn new(domain: &str, schema: u32, fields: Vec<RecipeField>) -> Self {
        Self { domain: String::from(domain), schema, fields }
    }

    /// Returns the domain of the key.
    #[must_use]
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Returns the schema number of the key.
    #[must_use]
    pub const fn schema(&self) -> u32 {
        self.schema
    }

    /// Returns the fields, in the order of the key.
    #[must_use]
    pub fn fields(&self) -> &[RecipeField] {
        &self.fields
    }

    /// Returns a human-readable name of the artifact: the text of the field `name`, `kernel` or `label`, or else of the first
    /// field that has a text.
    ///
    /// ```
    /// use warmstart_core::key::KeyFields;
    ///
    /// let recipe = KeyFields::new("cpu", 1).text("flags", "-O2").text("kernel", "softmax").recipe();
    /// assert_eq!(recipe.name(), Some("softmax"));
    /// ```
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        let has_text = |field: &&RecipeField| field.value().is_some_and(|value| !value.is_empty());
        let is_name = |field: &&RecipeField| NAMES.contains(&field.label()) && has_text(field);
        self.fields.iter().find(is_name).or_else(|| self.fields.iter().find(has_text))?.value()
    }

    /// Ranks `other` by similarity: first by [distance](Self::distance_to), then by whether the [name](Self::name) differs. The
    /// lowest rank is the nearest.
    ///
    /// ```
    /// use warmstart_core::key::KeyFields;
    ///
    /// let of = |name: &'static str, flags: &'static str| {
    ///     KeyFields::new("cpu", 1).text("name", name).text("flags", flags).recipe()
    /// };
    /// let wanted = of("softmax", "-O3");
    /// assert!(wanted.rank_of(&of("softmax", "-O2")) < wanted.rank_of(&of("layer norm", "-O3")));
    /// ```
    #[must_use]
    pub fn rank_of(&self, other: &Self) -> (u64, bool) {
        (self.distance_to(other), self.name() != other.name())
    }

    /// Returns the distance to `other`: 2 for each field that differs, or 1 if both values have the same text, such as two
    /// digests with the same note. If only the order of the fields differs, the distance is 1.
    ///
    /// ```
    /// use warmstart_core::key::KeyFields;
    ///
    /// let of = |digest: u8, name: &'static str| {
    ///     KeyFields::new("cpu", 1).digest("source", [digest; 32].to_vec(), name).recipe()
    /// };
    /// assert_eq!(of(1, "softmax").distance_to(&of(2, "softmax")), 1);
    /// assert_eq!(of(1, "softmax").distance_to(&of(2, "layer norm")), 2);
    /// ```
    #[must_use]
    pub fn distance_to(&self, other: &Self) -> u64 {
        let fields = self.differing(other).into_iter().map(|pair| match pair {
            (Some(old), Some(new)) if old.looks_like(new) => 1,
            _ => 2,
        });
        let distance = fields.sum::<u64>() + 2 * u64::from(self.schema != other.schema);
        if distance == 0 { u64::from(self.is_reordered(other)) } else { distance }
    }

    /// Lists the fields in which `newer` differs from this recipe, each with its old and its new value.
    ///
    /// Fields with the same label are paired in order. A different schema is reported under the label `schema`. Values that
    /// look the same are shown with their short digests. If only the order of the fields differs, which changes the key, that
    /// is reported under the label `order of the fields`.
    #[must_use]
    pub fn changes_to(&self, newer: &Self) -> Vec<FieldChange> {
        let mut changes = Vec::new();
        let mut of_whole = |label: &str, show: fn(&Self) -> String| {
            let (old, new) = (Some(show(self)), Some(show(newer)));
            changes.push(FieldChange { label: String::from(label), old, new });
        };
        if self.schema != newer.schema {
            of_whole("schema", |recipe| recipe.schema.to_string());
        }
        if self.is_reordered(newer) {
            of_whole("order of the fields", Self::labels);
        }
        changes.extend(self.differing(newer).into_iter().map(|(old, new)| {
            let field = old.or(new);
            let show = |field: &RecipeField| {
                let looks_same = old.zip(new).is_some_and(|(old, new)| old.looks_like(new));
                if looks_same { field.shown_with_digest() } else { field.shown() }
            };
            FieldChange {
                label: field.map(|field| field.label.clone()).unwrap_or_default(),
                old: old.map(show),
                new: new.map(show),
            }
        }));
        changes
    }

    /// Returns whether both recipes have the same fields in a different order.
    fn is_reordered(&self, other: &Self) -> bool {
        let same = |(one, other): (&RecipeField, &RecipeField)| {
            one.label == other.label && one.digest == other.digest
        };
        !self.fields.iter().zip(&other.fields).all(same) && self.differing(other).is_empty()
    }

    fn labels(&self) -> String {
        let labels: Vec<&str> = self.fields.iter().map(RecipeField::label).collect();
        shorten(labels.join(", "))
    }

    /// Pairs the fields that differ: first the fields of this recipe, each with its partner, then those that only `newer` has.
    fn differing<'a>(&'a self, newer: &'a Self) -> Vec<(Option<&'a RecipeField>, Option<&'a RecipeField>)> {
        // Sorted by label, so that thousands of fields do not take quadratic time: a stored head is unverified input.
        let labels: BinaryHeap<(&str, usize)> =
            newer.fields.iter().enumerate().map(|(place, new)| (&*new.label, place)).collect();
        let labels = labels.into_sorted_vec();
        // At the index of the first field with a label: the number of fields with that label that already have a partner.
        let mut taken = vec![0; labels.len()];
        let mut is_paired = vec![false; labels.len()];
        let mut differing = Vec::new();
        for old in &self.fields {
            let first = labels.partition_point(|(label, _)| *label < &*old.label);
            let next = first + taken.get(first).copied().unwrap_or(0);
            let partner = labels.get(next).filter(|(label, _)| *label == old.label);
            let new = partner.map(|&(_, place)| {
                taken[first] += 1;
                is_paired[place] = true;
                &newer.fields[place]
            });
            if new.is_none_or(|new| new.digest != old.digest) {
                differing.push((Some(old), new));
            }
        }
        let left = newer.fields.iter().zip(is_paired).filter(|(_, is_paired)| !is_paired);
        differing.extend(left.map(|(new, _)| (None, Some(new))));
        differing
    }
}

impl RecipeField {
    pub(crate) fn new(label: &str, digest: &[u8; 32], text: Option<String>) -> Self {
        let mut short = [0; 8];
        short.copy_from_slice(&digest[..8]);
        Self { label: String::from(label), digest: short, text: text.map(shorten) }
    }

    /// Recreates a stored field; `None` if its text is longer than any that this crate writes.
    pub(crate) fn stored(label: &str, digest: [u8; 8], text: Option<String>) -> Option<Self> {
        let is_short = text.as_ref().is_none_or(|text| text.len() <= MAX_TEXT);
        is_short.then(|| Self { label: String::from(label), digest, text })
    }

    /// Returns the label of the field.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Returns the first 8 bytes of the BLAKE2b-256 digest of the field's kind, length and value.
    #[must_use]
    pub const fn digest(&self) -> [u8; 8] {
        self.digest
    }

    /// Returns the [digest](Self::digest) as 16 hexadecimal digits.
    #[must_use]
    pub fn digest_hex(&self) -> String {
        digest::hex(self.digest)
    }

    /// Returns the value as text, cut to [`MAX_TEXT`] bytes, or its note; `None` for bytes without a note.
    #[must_use]
    pub fn value(&self) -> Option<&str> {
        self.text.as_deref()
    }

    fn looks_like(&self, other: &Self) -> bool {
        self.text.is_some() && self.text == other.text
    }

    fn shown_with_digest(&self) -> String {
        let digest = self.digest_hex();
        match &self.text {
            Some(text) => [text, " (", &digest, ")"].concat(),
            None => digest,
        }
    }

    /// Returns the text of the value, or its short digest in hexadecimal if it has no text.
    fn shown(&self) -> String {
        match &self.text {
            Some(text) => text.clone(),
            None => self.shown_with_digest(),
        }
    }
}

/// Deserializes the text of a field. Refuses a text that is longer than any that this crate writes.
fn short_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    if text.as_ref().is_some_and(|text| text.len() > MAX_TEXT) {
        return Err(D::Error::custom("the text of a recipe's field is longer than 256 bytes: shorten it"));
    }
    Ok(text)
}

/// Serializes a short digest as hexadecimal text in human-readable formats, else as its bytes.
mod digest {
    use alloc::{format, string::String};

    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub(super) fn hex(digest: [u8; 8]) -> String {
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(super) fn serialize<S: Serializer>(digest: &[u8; 8], serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(&hex(*digest))
        } else {
            digest.serialize(serializer)
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 8], D::Error> {
        if !deserializer.is_human_readable() {
            return <[u8; 8]>::deserialize(deserializer);
        }
        let text = String::deserialize(deserializer)?;
        let is_digest = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u64::from_str_radix(&text, 16).ok().filter(|_| is_digest);
        number
            .map(|number| number.swap_bytes().to_le_bytes())
            .ok_or_else(|| D::Error::custom("a digest is 16 hexadecimal digits"))
    }
}

/// Cuts a text to [`MAX_TEXT`] bytes at a character boundary, so that it is still UTF-8.
fn shorten(mut text: String) -> String {
    const MARK: &str = "...";
    if text.len() > MAX_TEXT {
        let mut end = MAX_TEXT - MARK.len();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(MARK);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyFields;
    use alloc::string::ToString;

    fn change(label: &str, old: Option<&str>, new: Option<&str>) -> FieldChange {
        FieldChange {
            label: label.to_string(),
            old: old.map(ToString::to_string),
            new: new.map(ToString::to_string),
        }
    }

    #[test]
    fn changes_name_what_differs_and_nothing_else() {
        let old =
            KeyFields::new("d", 1).text("same", "x").list("flags", ["-O2", "-g"]).text("gone", "1").recipe();
        let new =
            KeyFields::new("d", 2).text("same", "x").list("flags", ["-O3", "-g"]).number("more", 7).recipe();
        assert_eq!(
            old.changes_to(&new),
            [
                change("schema", Some("1"), Some("2")),
                change("flags", Some("-O2 -g"), Some("-O3 -g")),
                change("gone", Some("1"), None),
                change("more", None, Some("7")),
            ]
        );
        assert_eq!(old.changes_to(&old), []);
    }

    #[test]
    fn fields_of_one_label_are_paired_in_order() {
        let old = KeyFields::new("d", 1).text("h", "a").text("h", "b").recipe();
        let new = KeyFields::new("d", 1).text("h", "a").text("h", "c").recipe();
        assert_eq!(old.changes_to(&new), [change("h", Some("b"), Some("c"))]);
    }

    #[test]
    fn the_order_of_the_fields_is_a_change_if_nothing_else_is() {
        let one = KeyFields::new("d", 1).text("a", "1").text("b", "2").recipe();
        let other = KeyFields::new("d", 1).text("b", "2").text("a", "1").recipe();
        assert_eq!((one.distance_to(&other), one.distance_to(&one)), (1, 0));
        assert_eq!(one.changes_to(&other), [change("order of the fields", Some("a, b"), Some("b, a"))]);
        let third = KeyFields::new("d", 1).text("b", "3").text("a", "1").recipe();
        assert_eq!(one.changes_to(&third), [change("b", Some("2"), Some("3"))]);
    }

    #[test]
    fn values_with_the_same_text_are_shown_with_digests() {
        let of =
            |digest: u8| KeyFields::new("d", 1).digest("source", [digest; 32].to_vec(), "softmax").recipe();
        let [change] = &of(1).changes_to(&of(2))[..] else { panic!("one field differs") };
        let (old, new) = (change.old.as_deref().unwrap(), change.new.as_deref().unwrap());
        assert_ne!(old, new);
        for value in [old, new] {
            assert!(value.starts_with("softmax (") && value.len() == "softmax ()".len() + 16, "{value}");
        }
    }

    #[test]
    fn long_values_are_cut_between_characters_and_still_differ() {
        let (one, two) = ("é".repeat(300), "é".repeat(301));
        let old = KeyFields::new("d", 1).text("source", one).recipe();
        let new = KeyFields::new("d", 1).text("source", two).recipe();
        let kept = old.fields()[0].value().unwrap();
        assert!(kept.len() <= MAX_TEXT && kept.ends_with("..."));
        assert_eq!(old.changes_to(&new).len(), 1);
    }
}
