//! Explanations of misses: the nearest entry and the fields that differ.

use std::fmt;

use warmstart_core::recipe::{FieldChange, Recipe};

use crate::store::Entry;

/// The entry nearest to a look-up, and the fields in which it differs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The entry, as its head describes it. Its checksum is not verified.
    pub nearest: Entry,
    /// The fields that differ: the entry's value and that of the look-up.
    pub changes: Vec<FieldChange>,
}

impl Explanation {
    /// Compares `recipe` with that of an entry. Returns nothing if the entry has no recipe.
    #[must_use]
    pub fn new(nearest: Entry, recipe: &Recipe) -> Option<Self> {
        let changes = nearest.recipe()?.changes_to(recipe);
        Some(Self { nearest, changes })
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the nearest entry, {}, differs in:", self.nearest.digest)?;
        for (at, FieldChange { label, old, new }) in self.changes.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match (old, new) {
                (Some(old), Some(new)) => write!(f, "{comma} {label} ({old:?}, now {new:?})")?,
                (Some(old), None) => write!(f, "{comma} {label} ({old:?}, now gone)")?,
                (None, new) => write!(f, "{comma} {label} (now {:?})", new.as_deref().unwrap_or_default())?,
            }
        }
        Ok(())
    }
}
