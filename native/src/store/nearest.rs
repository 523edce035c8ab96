//! The entry whose recipe is nearest to one that missed.

use std::ops::ControlFlow;

use warmstart_core::{reason::Reason, recipe::Recipe};

use super::{Entry, Store};

/// Reads the recipes of all entries and returns the entry whose recipe is of the same domain and another one, and differs
/// least; of equally near ones, the one used last. Passes over what `may_be_hit` says is never handed out.
pub(super) fn nearest(
    store: &(impl Store + ?Sized),
    recipe: &Recipe,
    may_be_hit: impl Fn(&Entry) -> bool,
) -> Result<Option<Entry>, Reason> {
    let mut best: Option<((u64, bool), Entry)> = None;
    store.entries(&mut |entry| {
        if let Some(other) = entry.recipe().filter(|other| other.domain() == recipe.domain()) {
            let distance = recipe.remoteness_of(other);
            let is_nearest = best.as_ref().is_none_or(|(nearest, _)| distance <= *nearest);
            if distance.0 > 0 && is_nearest && may_be_hit(&entry) {
                best = Some((distance, entry));
            }
        }
        ControlFlow::Continue(())
    })?;
    Ok(best.map(|(_, entry)| entry))
}
