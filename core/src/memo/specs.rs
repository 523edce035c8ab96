//! The parts of a launch's result, kept one by one.

use alloc::boxed::Box;
use core::fmt;

use foldhash::fast::FixedState;
use hashbrown::{HashMap, hash_map::Entry};

use super::{
    dependencies::{Observation, Observations, see},
    reduction::Reduction,
    world::{World, WorldId},
};

/// The specs of one launch that are kept, each with what it was computed from.
///
/// A memo keeps it beside the result of the launch, in the same slot, so that both are invalidated together.
pub struct SpecTable<K: Reduction> {
    rows: HashMap<K::Spec, Row<K::Value>, FixedState>,
    world: Option<WorldId>,
    /// Counts evaluations.
    round: u64,
    /// The number of rows above which those are removed that the last evaluation did not use.
    limit: usize,
    /// The hits and the evaluations of specs in the current evaluation.
    pub(super) counted: [u64; 2],
}

#[derive(Clone, Debug)]
struct Row<V> {
    value: V,
    /// The dependencies, each once.
    from: Box<[Observation]>,
    /// The evaluation that asked for it last.
    asked: u64,
}

impl<K: Reduction> SpecTable<K> {
    /// Specs that are no longer asked for stay until there are twice as many as there were when some had to go last, and so many more:
    /// what one evaluation does not need the next one may, and a spec that is kept does not ask for those that it needs.
    const SPARE: usize = 16;

    /// Returns the number of kept specs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether no spec is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Each spec that holds in `world`, what it evaluated to, and from what.
    pub(super) fn current<W: World + ?Sized>(
        &self,
        world: &W,
    ) -> impl Iterator<Item = (&K::Spec, &K::Value, &[Observation])> {
        let is_of_world = self.world == Some(world.identity());
        self.rows
            .iter()
            .filter(move |(_, row)| is_of_world && row.holds(world))
            .map(|(spec, row)| (spec, &row.value, &*row.from))
    }

    /// The launch is evaluated again, in `world`.
    pub(super) fn begin<W: World + ?Sized>(&mut self, world: &W) {
        let world = world.identity();
        if self.world.replace(world) != Some(world) {
            self.rows.clear();
        }
        self.round += 1;
        self.counted = [0; 2];
    }

    /// Returns the kept value of `spec` and its dependencies, if these are unchanged.
    pub(super) fn find<W: World + ?Sized>(
        &mut self,
        spec: &K::Spec,
        world: &W,
    ) -> Option<(&K::Value, &[Observation])> {
        match self.rows.get_mut(spec) {
            Some(row) if row.holds(world) => {
                row.asked = self.round;
                self.counted[0] += 1;
                Some((&row.value, &row.from))
            }
            _ => {
                self.counted[1] += 1;
                None
            }
        }
    }

    /// Keeps a spec that this evaluation made; one that is kept already is replaced.
    pub(super) fn keep(&mut self, spec: K::Spec, value: K::Value, from: &Observations) {
        let from = from.iter().map(|(&observed, &seen)| (observed, seen)).collect();
        self.rows.insert(spec, Row { value, from, asked: self.round });
    }

    /// Keeps a spec that was computed from what is seen so now, unless it is kept already. Whether it was not.
    pub(super) fn keep_if_new(&mut self, spec: K::Spec, value: K::Value, from: Box<[Observation]>) -> bool {
        let Entry::Vacant(vacant) = self.rows.entry(spec) else { return false };
        vacant.insert(Row { value, from, asked: self.round });
        true
    }

    /// The launch was evaluated, or failed: drops rows that were not asked for, if there are too many.
    pub(super) fn end(&mut self) {
        if self.rows.len() > self.limit {
            self.rows.retain(|_, row| row.asked == self.round);
            self.limit = self.rows.len().saturating_mul(2).saturating_add(Self::SPARE);
        }
    }
}

impl<V> Row<V> {
    fn holds<W: World + ?Sized>(&self, world: &W) -> bool {
        self.from.iter().all(|&(observed, seen)| see(world, observed) == seen)
    }
}

impl<K: Reduction> Default for SpecTable<K> {
    fn default() -> Self {
        Self { rows: HashMap::default(), world: None, round: 0, limit: 0, counted: [0; 2] }
    }
}

impl<K: Reduction> fmt::Debug for SpecTable<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpecTable").field("rows", &self.rows.len()).finish_non_exhaustive()
    }
}
