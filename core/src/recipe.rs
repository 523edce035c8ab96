//! Recipes: what a key was made of, kept beside the artifact so that a miss can be explained.

use alloc::{string::String, vec::Vec};

use serde::{Deserialize, Serialize};

/// The longest text of a field's value that a recipe keeps, in bytes; more is cut and marked with "...".
pub const MAX_TEXT: usize = 256;

/// Labels, short digests and short values of the fields of a key.
///
/// See [`KeyFields::recipe`](crate::key::KeyFields::recipe) for how one is made, and
/// [`changes_to`](Self::changes_to) for what it is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    domain: String,
    schema: u32,
    fields: Vec<RecipeField>,
}

/// One field of a [`Recipe`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecipeField {
    label: String,
    digest: [u8; 8],
    text: Option<String>,
}

/// A label under which two recipes differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldChange {
    /// The label of the field.
    pub label: String,
    /// The old value as text, or its short digest where it has no text; nothing if the field is new.
    pub old: Option<String>,
    /// The new value likewise; nothing if the field is gone.
    pub new: Option<String>,
}

impl Recipe {
    pub(crate) fn new(domain: &str, schema: u32, fields: Vec<RecipeField>) -> Self {
        Self { domain: String::from(domain), schema, fields }
    }

    /// The domain of the key.
    #[must_use]
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The schema number of the key.
    #[must_use]
    pub const fn schema(&self) -> u32 {
        self.schema
    }

    /// The fields, in the order of the key.
    #[must_use]
    pub fn fields(&self) -> &[RecipeField] {
        &self.fields
    }

    /// The labels under which `newer` differs from this recipe, each with its old and its new value.
    ///
    /// Fields of one label are paired in order. A schema that differs is reported under the label `schema`.
    #[must_use]
    pub fn changes_to(&self, newer: &Self) -> Vec<FieldChange> {
        let mut changes = Vec::new();
        if self.schema != newer.schema {
            changes.push(FieldChange {
                label: String::from("schema"),
                old: Some(alloc::format!("{}", self.schema)),
                new: Some(alloc::format!("{}", newer.schema)),
            });
        }
        let mut unpaired: Vec<&RecipeField> = newer.fields.iter().collect();
        for old in &self.fields {
            let Some(place) = unpaired.iter().position(|new| new.label == old.label) else {
                changes.push(FieldChange { label: old.label.clone(), old: Some(old.shown()), new: None });
                continue;
            };
            let new = unpaired.remove(place);
            if new.digest != old.digest {
                changes.push(FieldChange {
                    label: old.label.clone(),
                    old: Some(old.shown()),
                    new: Some(new.shown()),
                });
            }
        }
        changes.extend(unpaired.iter().map(|new| FieldChange {
            label: new.label.clone(),
            old: None,
            new: Some(new.shown()),
        }));
        changes
    }
}

impl RecipeField {
    pub(crate) fn new(label: &str, digest: &[u8; 32], text: Option<String>) -> Self {
        let mut short = [0; 8];
        short.copy_from_slice(&digest[..8]);
        Self { label: String::from(label), digest: short, text: text.map(shorten) }
    }

    /// The label of the field.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The first 8 bytes of the BLAKE2b-256 digest of the field's kind, length and value.
    #[must_use]
    pub const fn digest(&self) -> [u8; 8] {
        self.digest
    }

    /// The value as text, cut to [`MAX_TEXT`] bytes; nothing for bytes.
    #[must_use]
    pub fn value(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// The text of the value where it tells the value apart, else its short digest in hexadecimal.
    fn shown(&self) -> String {
        match &self.text {
            Some(text) => text.clone(),
            None => self.digest.iter().map(|byte| alloc::format!("{byte:02x}")).collect(),
        }
    }
}

/// Cuts at a character boundary, so that what is kept is still UTF-8.
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
    fn long_values_are_cut_between_characters_and_still_told_apart() {
        let (one, two) = ("é".repeat(300), "é".repeat(301));
        let old = KeyFields::new("d", 1).text("source", one).recipe();
        let new = KeyFields::new("d", 1).text("source", two).recipe();
        let kept = old.fields()[0].value().unwrap();
        assert!(kept.len() <= MAX_TEXT && kept.ends_with("..."));
        assert_eq!(old.changes_to(&new).len(), 1);
    }
}
