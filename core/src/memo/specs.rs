//! The parts of a launch's result, kept one by one.

use alloc::{vec, vec::Vec};
use core::{
    fmt,
    hash::{BuildHasher, Hash},
    ops::Range,
};

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::{
    dependencies::{Observations, see},
    notes::Notes,
    reduction::Reduction,
    world::World,
};

/// The specs of one launch that are kept, each with what it was computed from.
///
/// A memo keeps it beside the result of the launch, in the same place, so that both are invalidated together.
///
/// Rows lie in the order in which they were first asked for, which is mostly that in which they are asked for again: memory
/// that is long out of the processor's caches is then read from one end to the other.
pub struct SpecTable<K: Reduction> {
    rows: Vec<Row<K::Spec, K::Value>>,
    /// Where the row of a spec is.
    index: HashTable<u32>,
    /// What rows were computed from: places of notes.
    from: Vec<u32>,
    pub(super) notes: Notes,
    /// How many specs the current evaluation asked for, and how many of these it found.
    asked: usize,
    found: usize,
    /// So many may be kept before it is looked who needs them.
    limits: Limits,
}

#[derive(Clone, Debug)]
struct Row<S, V> {
    spec: S,
    value: V,
    /// What it was computed from, each thing once.
    from: Range<usize>,
    /// The evaluation that made it.
    made: u64,
    /// The evaluation that asked for it last.
    asked: u64,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    rows: usize,
    from: usize,
    notes: usize,
}

impl<K: Reduction> SpecTable<K> {
    /// Specs that are no longer asked for stay until there are twice as many as there were when some had to go last, and so many more:
    /// what one evaluation does not need the next one may, and a spec that is kept does not ask for those that it needs.
    const SPARE: usize = 16;

    /// No specs.
    #[must_use]
    pub const fn new() -> Self {
        let limits = Limits { rows: Self::SPARE, from: Self::SPARE, notes: Self::SPARE };
        Self {
            rows: Vec::new(),
            index: HashTable::new(),
            from: Vec::new(),
            notes: Notes::new(),
            asked: 0,
            found: 0,
            limits,
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
        let rows = if self.notes.are_of(world.identity()) { self.rows.as_slice() } else { &[] };
        rows.iter().filter_map(|row| {
            let from = self.from[row.from.clone()].iter().map(|&place| {
                let (observed, seen, since) = self.notes.note(place);
                (since <= row.made && see(world, observed) == seen).then_some((observed, seen))
            });
            Some((&row.spec, &row.value, from.collect::<Option<_>>()?))
        })
    }

    /// The launch is evaluated again, in `world`.
    pub(super) fn begin<W: World + ?Sized>(&mut self, world: &W) {
        if self.notes.begin(world.identity()) {
            self.rows.clear();
            self.index.clear();
            self.from.clear();
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
        let place = place_of(&self.index, &self.rows, spec)?;
        let row = &mut self.rows[place];
        let from = &self.from[row.from.clone()];
        if !from.iter().all(|&place| self.notes.look(place, world) <= row.made) {
            return None;
        }
        row.asked = self.notes.round();
        self.found += 1;
        Some((&row.value, from, &mut self.notes))
    }

    /// Keeps a spec that this evaluation made; one that is kept already is replaced.
    pub(super) fn keep(&mut self, spec: K::Spec, value: K::Value, from: &[u32]) {
        let round = self.notes.round();
        let Some(place) = place_of(&self.index, &self.rows, &spec) else {
            self.push(spec, value, from);
            return;
        };
        let row = &mut self.rows[place];
        if from.len() <= row.from.len() {
            row.from.end = row.from.start + from.len();
            self.from[row.from.clone()].copy_from_slice(from);
        } else {
            row.from = self.from.len()..self.from.len() + from.len();
            self.from.extend_from_slice(from);
        }
        (row.value, row.made, row.asked) = (value, round, round);
    }

    /// Keeps a spec that was computed from what is seen so now, unless it is kept already.
    pub(super) fn keep_if_new(&mut self, spec: K::Spec, value: K::Value, from: Observations) -> bool {
        if place_of(&self.index, &self.rows, &spec).is_some() {
            return false;
        }
        let notes = &mut self.notes;
        let places = from.into_iter().map(|(observed, seen)| {
            let (place, is_same) = notes.observe(observed, seen);
            is_same.then_some(place)
        });
        let places: Option<Vec<_>> = places.collect();
        places.map(|places| self.push(spec, value, &places)).is_some()
    }

    fn push(&mut self, spec: K::Spec, value: K::Value, from: &[u32]) {
        let round = self.notes.round();
        let place = u32::try_from(self.rows.len()).expect("there is no memory for 2^32 specs");
        let hash = HASHER.hash_one(&spec);
        let start = self.from.len();
        self.from.extend_from_slice(from);
        self.rows.push(Row { spec, value, from: start..self.from.len(), made: round, asked: round });
        let rows = &self.rows;
        self.index.insert_unique(hash, place, |&place| HASHER.hash_one(&rows[place as usize].spec));
    }

    /// The launch was evaluated, or failed: how many specs were asked for, and how many of these were kept.
    pub(super) fn end(&mut self) -> (usize, usize) {
        if self.rows.len() > self.limits.rows {
            self.drop_rows();
            self.limits.rows = Self::grown(self.rows.len());
        }
        let has_old_notes = self.notes.len() > self.limits.notes;
        if has_old_notes || self.from.len() > self.limits.from {
            self.close_gaps();
            self.limits.from = Self::grown(self.from.len());
        }
        if has_old_notes {
            let mut uses = vec![false; self.notes.len()];
            self.from.iter().for_each(|&place| uses[place as usize] = true);
            let moved = self.notes.sweep(&uses);
            self.from.iter_mut().for_each(|place| *place = moved[*place as usize]);
            self.limits.notes = Self::grown(self.notes.len());
        }
        (self.asked, self.found)
    }

    /// Drops the rows that this evaluation did not ask for.
    fn drop_rows(&mut self) {
        let round = self.notes.round();
        self.rows.retain(|row| row.asked == round);
        self.index.clear();
        for (place, row) in (0..).zip(&self.rows) {
            let hash = |&place: &u32| HASHER.hash_one(&self.rows[place as usize].spec);
            self.index.insert_unique(HASHER.hash_one(&row.spec), place, hash);
        }
    }

    /// Drops what rows that were replaced or dropped were computed from.
    fn close_gaps(&mut self) {
        let mut from = Vec::with_capacity(self.from.len());
        for row in &mut self.rows {
            let start = from.len();
            from.extend_from_slice(&self.from[row.from.clone()]);
            row.from = start..from.len();
        }
        self.from = from;
    }

    const fn grown(len: usize) -> usize {
        len.saturating_mul(2).saturating_add(Self::SPARE)
    }
}

const HASHER: FixedState = FixedState::with_seed(0);

/// Where the row of `spec` is.
#[inline]
fn place_of<S: Hash + Eq, V>(index: &HashTable<u32>, rows: &[Row<S, V>], spec: &S) -> Option<usize> {
    let place = index.find(HASHER.hash_one(spec), |&place| rows[place as usize].spec == *spec)?;
    Some(*place as usize)
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
