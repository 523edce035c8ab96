//! How the nearest recipe is found: sketches propose, the entries decide.

use warmstart_core::{recipe::Recipe, sketch::Nearest};

use super::Entry;

/// So many entries are looked at to find the nearest one, at first. Sketches of recipes that differ in one field can look
/// alike, and proposals can be out of date.
const PROPOSALS: usize = 64;

/// If none of those was any good, so many are.
const MORE_PROPOSALS: usize = 1024;

/// Finds the entry with the nearest other recipe. `propose` offers the sketch of each entry, the one stored last at
/// last; `look` reads an entry's head.
pub(super) fn nearest<T>(
    recipe: &Recipe,
    mut propose: impl FnMut(&mut Nearest<T>),
    mut look: impl FnMut(&T) -> Option<Entry>,
) -> Option<Entry> {
    for most in [PROPOSALS, MORE_PROPOSALS] {
        let mut proposals = Nearest::new(recipe, most);
        propose(&mut proposals);
        let proposals = proposals.into_vec();
        let is_all = proposals.len() < most;
        let mut best: Option<((u64, bool), Entry)> = None;
        for entry in proposals.iter().filter_map(&mut look) {
            let Some(other) = entry.recipe().filter(|other| other.domain() == recipe.domain()) else {
                continue;
            };
            let remoteness = recipe.remoteness_of(other);
            // The first of equals is the one stored last.
            if remoteness.0 > 0 && best.as_ref().is_none_or(|(nearest, _)| remoteness < *nearest) {
                best = Some((remoteness, entry));
            }
        }
        if best.is_some() || is_all {
            return best.map(|(_, entry)| entry);
        }
    }
    None
}
