//! The parts of a launch's result, kept one by one.

use core::fmt;

use foldhash::fast::FixedState;
use hashbrown::{HashMap, hash_map::Entry};

use super::{dependencies::Dependencies, recorder::Reduction, world::World};

/// The specs of one launch that are kept, each with what it was computed from.
///
/// A memo keeps it beside the result of the launch, in the same place, so that both are invalidated together.
pub struct SpecTable<K: Reduction> {
    rows: HashMap<K::Spec, Row<K::Value>, FixedState>,
    /// Counts evaluations of the launch.
    round: u64,
    /// How many specs the current evaluation asked for, and how many of these it found.
    asked: usize,
    found: usize,
    /// So many may be kept.
    limit: usize,
}

#[derive(Clone, Debug)]
struct Row<V> {
    value: V,
    dependencies: Dependencies,
    /// When it was last asked for.
    round: u64,
}

impl<K: Reduction> SpecTable<K> {
    /// Specs that are no longer asked for stay until there are twice as many as there were when some had to go last, and so many more:
    /// what one evaluation does not need the next one may, and a spec that is kept does not ask for those that it needs.
    const SPARE: usize = 16;

    /// No specs.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            rows: HashMap::with_hasher(FixedState::with_seed(0)),
            round: 0,
            asked: 0,
            found: 0,
            limit: Self::SPARE,
        }
    }

    /// How many are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether none is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// What each spec evaluated to, and from what.
    pub fn iter(&self) -> impl Iterator<Item = (&K::Spec, &K::Value, &Dependencies)> {
        self.rows.iter().map(|(spec, row)| (spec, &row.value, &row.dependencies))
    }

    /// Keeps a spec; one that is kept already is replaced.
    pub(super) fn keep(&mut self, spec: K::Spec, value: K::Value, dependencies: Dependencies) {
        self.rows.insert(spec, Row { value, dependencies, round: self.round });
    }

    /// Keeps a spec unless one is kept already.
    pub(super) fn keep_if_new(&mut self, spec: K::Spec, value: K::Value, dependencies: Dependencies) -> bool {
        match self.rows.entry(spec) {
            Entry::Occupied(_) => false,
            Entry::Vacant(vacant) => {
                vacant.insert(Row { value, dependencies, round: self.round });
                true
            }
        }
    }

    /// What is kept of `spec`, if nothing has moved.
    pub(super) fn current<W: World + ?Sized>(
        &mut self,
        spec: &K::Spec,
        world: &W,
    ) -> Option<(&K::Value, &Dependencies)> {
        self.asked += 1;
        let row = self.rows.get_mut(spec)?;
        if !row.dependencies.hold(world) {
            return None;
        }
        row.round = self.round;
        self.found += 1;
        Some((&row.value, &row.dependencies))
    }

    /// The launch is evaluated again.
    pub(super) const fn begin(&mut self) {
        self.round += 1;
        (self.asked, self.found) = (0, 0);
    }

    /// The launch was evaluated, or failed: how many specs were asked for, and how many of these were kept.
    pub(super) fn end(&mut self) -> (usize, usize) {
        if self.rows.len() > self.limit {
            let round = self.round;
            self.rows.retain(|_, row| row.round == round);
            self.limit = self.rows.len().saturating_mul(2).saturating_add(Self::SPARE);
        }
        (self.asked, self.found)
    }
}

impl<K: Reduction> Default for SpecTable<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Reduction> fmt::Debug for SpecTable<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpecTable").field("rows", &self.rows.len()).finish_non_exhaustive()
    }
}
