//! Why a look-up missed: the nearest entry, and what is different.

use std::fmt;

use warmstart_core::{
    reason::Reason,
    recipe::{FieldChange, Recipe},
};

use super::Cache;
use crate::store::{Entry, Store};

/// The entry that is nearest to what was looked for, and the fields in which it differs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The entry, by what its head says of it. Nothing of it is proved.
    pub nearest: Entry,
    /// The fields that differ: the entry's value, and the one that was looked for.
    pub changes: Vec<FieldChange>,
}

impl<S: Store> Cache<S> {
    /// Explains why nothing is stored for a recipe: the stored entry of the same domain that differs least, and how.
    /// Nothing if no other entry of the domain has a recipe.
    ///
    /// Costs nothing until it is asked for, and then milliseconds, however many entries there are. What else a look-up can
    /// miss for, [`Fetched::miss`](super::Fetched::miss) says. A target that finds the fields of its keys by building keeps
    /// the recipe with what it built: see [`Metadata::recipe`](crate::Metadata::recipe).
    ///
    /// ```
    /// use warmstart::{Cache, KeyFields, Limits, store::MemoryStore};
    ///
    /// let cache = Cache::new(MemoryStore::new(Limits::NONE));
    /// let fields = |flags| KeyFields::new("example", 1).text("name", "softmax").text("flags", flags);
    /// cache.put(&fields("-O2"), &vec![1].into())?;
    ///
    /// let wanted = fields("-O3");
    /// assert!(cache.get(&wanted).hit().is_none());
    /// let explanation = cache.explain(&wanted.recipe())?.unwrap();
    /// assert_eq!(explanation.changes[0].label, "flags");
    /// assert!(explanation.to_string().ends_with("differs in: flags (\"-O2\", now \"-O3\")"));
    /// # Ok::<(), warmstart::Reason>(())
    /// ```
    ///
    /// # Errors
    /// The reason why the store cannot be asked.
    pub fn explain(&self, recipe: &Recipe) -> Result<Option<Explanation>, Reason> {
        let nearest = self.store.nearest(recipe)?;
        Ok(nearest.and_then(|nearest| Explanation::new(nearest, recipe)))
    }
}

impl Explanation {
    /// How `recipe` differs from that of an entry. Nothing if the entry has none.
    #[must_use]
    pub fn new(nearest: Entry, recipe: &Recipe) -> Option<Self> {
        let changes = nearest.recipe()?.changes_to(recipe);
        Some(Self { nearest, changes })
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the nearest entry, {}, differs in:", self.nearest.name)?;
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
