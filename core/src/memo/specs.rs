//! The parts of a launch's result, kept one by one.

use alloc::{boxed::Box, vec};
use core::fmt;

use foldhash::fast::FixedState;
use hashbrown::{HashMap, hash_map::Entry};

use super::{
    dependencies::{Observations, see},
    notes::Notes,
    recorder::Reduction,
    world::World,
};

/// The specs of one launch that are kept, each with what it was computed from.
///
/// A memo keeps it beside the result of the launch, in the same place, so that both are invalidated together.
pub struct SpecTable<K: Reduction> {
    rows: HashMap<K::Spec, Row<K::Value>, FixedState>,
    pub(super) notes: Notes,
    /// How many specs the current evaluation asked for, and how many of these it found.
    asked: usize,
    found: usize,
    /// So many rows and notes may be kept.
    limits: (usize, usize),
}

#[derive(Clone, Debug)]
struct Row<V> {
    value: V,
    /// What it was computed from, by the places of its notes, each once.
    from: Box<[u32]>,
    /// The evaluation that made it.
    made: u64,
    /// The evaluation that asked for it last.
    asked: u64,
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
            notes: Notes::new(),
            asked: 0,
            found: 0,
            limits: (Self::SPARE, Self::SPARE),
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

    /// Each spec that holds in `world`, what it evaluated to, and from what.
    pub(super) fn current<W: World + ?Sized>(
        &self,
        world: &W,
    ) -> impl Iterator<Item = (&K::Spec, &K::Value, Observations)> {
        let rows = self.notes.are_of(world.identity()).then_some(&self.rows);
        rows.into_iter().flatten().filter_map(|(spec, row)| {
            let from = row.from.iter().map(|&place| {
                let (observed, seen, since) = self.notes.note(place);
                (since <= row.made && see(world, observed) == seen).then_some((observed, seen))
            });
            Some((spec, &row.value, from.collect::<Option<_>>()?))
        })
    }

    /// The launch is evaluated again, in `world`.
    pub(super) fn begin<W: World + ?Sized>(&mut self, world: &W) {
        if self.notes.begin(world.identity()) {
            self.rows.clear();
        }
        (self.asked, self.found) = (0, 0);
    }

    /// What is kept of `spec`, if nothing has moved: its value, and the places of what it was computed from. And the notes, to list
    /// these.
    #[inline]
    pub(super) fn find<W: World + ?Sized>(
        &mut self,
        spec: &K::Spec,
        world: &W,
    ) -> Option<(&K::Value, &[u32], &mut Notes)> {
        self.asked += 1;
        let row = self.rows.get_mut(spec)?;
        if !row.from.iter().all(|&place| self.notes.look(place, world) <= row.made) {
            return None;
        }
        row.asked = self.notes.round();
        self.found += 1;
        Some((&row.value, &row.from, &mut self.notes))
    }

    /// Keeps a spec that this evaluation made; one that is kept already is replaced.
    pub(super) fn keep(&mut self, spec: K::Spec, value: K::Value, from: Box<[u32]>) {
        let round = self.notes.round();
        self.rows.insert(spec, Row { value, from, made: round, asked: round });
    }

    /// Keeps a spec that was computed from what is seen so now, unless it is kept already.
    pub(super) fn keep_if_new(&mut self, spec: K::Spec, value: K::Value, from: Observations) -> bool {
        let Entry::Vacant(vacant) = self.rows.entry(spec) else { return false };
        let notes = &mut self.notes;
        let places = from.into_iter().map(|(observed, seen)| {
            let (place, is_same) = notes.observe(observed, seen);
            is_same.then_some(place)
        });
        let Some(from) = places.collect() else { return false };
        let round = self.notes.round();
        vacant.insert(Row { value, from, made: round, asked: round });
        true
    }

    /// The launch was evaluated, or failed: how many specs were asked for, and how many of these were kept.
    pub(super) fn end(&mut self) -> (usize, usize) {
        let grown = |len: usize| len.saturating_mul(2).saturating_add(Self::SPARE);
        if self.rows.len() > self.limits.0 {
            let round = self.notes.round();
            self.rows.retain(|_, row| row.asked == round);
            self.limits.0 = grown(self.rows.len());
        }
        if self.notes.len() > self.limits.1 {
            let mut uses = vec![false; self.notes.len()];
            self.rows.values().flat_map(|row| &row.from).for_each(|&place| uses[place as usize] = true);
            let moved = self.notes.sweep(&uses);
            let from = self.rows.values_mut().flat_map(|row| &mut row.from);
            from.for_each(|place| *place = moved[*place as usize]);
            self.limits.1 = grown(self.notes.len());
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
