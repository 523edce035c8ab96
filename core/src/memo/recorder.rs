//! The only door through which an evaluation sees the world.

use alloc::vec::Vec;
use core::{error, fmt, mem};

use super::{
    dependencies::{Dependencies, Observed, Seen, is_worn, see_argument, see_field, seen_extent},
    handle::HandleError,
    reduction::{Reduction, Unkept},
    specs::SpecTable,
    world::{ArgumentId, FieldId, World},
};

/// How a [`Reduction`] is computed in a world.
///
/// What it reads that may change, it reads through the [`Recorder`]. Beside that it may use `self`, which is registered
/// once and not changed, and nothing else: no global state, no clock. Neither function captures anything, and a spec
/// gets nothing of what its launch has read, so there is no other way in by accident.
///
/// ```
/// use std::convert::Infallible;
///
/// use warmstart_core::memo::{Evaluate, LaunchError, FieldId, LaunchMemo, Recorder, Reduction, Tracked, World};
///
/// /// Needs a stack as deep as the longest of several loops.
/// struct Kernel {
///     trip_counts: Vec<FieldId>,
/// }
///
/// impl Reduction for Kernel {
///     type Spec = usize;
///     type Value = u32;
///     type Output = Vec<u32>;
///     type Error = Infallible;
/// }
///
/// impl<W: World<Field = Vec<u32>>> Evaluate<W> for Kernel {
///     fn launch(&self, recorder: &mut Recorder<'_, Self, W>) -> Result<Vec<u32>, LaunchError<Infallible>> {
///         (0..self.trip_counts.len()).map(|spec| recorder.spec(spec)).collect()
///     }
///
///     fn spec(&self, spec: &usize, recorder: &mut Recorder<'_, Self, W>) -> Result<u32, LaunchError<Infallible>> {
///         let field = recorder.field(self.trip_counts[*spec]);
///         Ok(field.and_then(|counts| counts.iter().copied().max()).unwrap_or(0))
///     }
/// }
///
/// let mut world = Tracked::<Vec<u32>, ()>::new();
/// let trip_counts = vec![world.add_field(vec![3, 9, 4]), world.add_field(vec![7])];
/// let memo = LaunchMemo::new();
/// let kernel = memo.register(Kernel { trip_counts: trip_counts.clone() });
///
/// let depths = memo.launch(kernel, &world.with_arguments(&[])).unwrap();
/// assert_eq!((&depths[..], depths.is_hit()), (&[9, 7][..], false));
/// assert!(memo.launch(kernel, &world.with_arguments(&[])).unwrap().is_hit());
///
/// world.field_mut(trip_counts[1]).unwrap().push(20);
/// let again = memo.launch(kernel, &world.with_arguments(&[])).unwrap();
/// assert_eq!(again[..], [9, 20]);
/// assert_eq!(again.why().to_string(), "field 1 at generation 0 is now field 1 at generation 1");
/// assert_eq!(memo.statistics().spec_hits, 1, "the first spec did not move");
/// assert_eq!(depths[..], [9, 7], "who holds a result keeps it");
/// ```
pub trait Evaluate<W: World + ?Sized>: Reduction {
    /// Computes what a launch gets.
    ///
    /// # Errors
    /// As the reduction says. An error is handed on and not kept.
    fn launch(&self, recorder: &mut Recorder<'_, Self, W>) -> Result<Self::Output, LaunchError<Self::Error>>
    where
        Self: Sized;

    /// Computes one part.
    ///
    /// # Errors
    /// As the reduction says. An error is handed on and not kept.
    fn spec(
        &self,
        spec: &Self::Spec,
        recorder: &mut Recorder<'_, Self, W>,
    ) -> Result<Self::Value, LaunchError<Self::Error>>
    where
        Self: Sized;
}

/// Why a launch has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LaunchError<E> {
    /// The handle leads to nothing.
    Handle(HandleError),
    /// A spec needs its own value.
    Circle,
    /// The reduction failed.
    Reduction(E),
}

impl<E> From<E> for LaunchError<E> {
    fn from(error: E) -> Self {
        Self::Reduction(error)
    }
}

impl<E: fmt::Display> fmt::Display for LaunchError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handle(error) => error.fmt(f),
            Self::Circle => f.write_str("a spec needs its own value: let it read what that is computed from"),
            Self::Reduction(error) => error.fmt(f),
        }
    }
}

impl<E: error::Error> error::Error for LaunchError<E> {}

/// Gives an evaluation its values, and writes down what it asked for.
#[derive(Debug)]
pub struct Recorder<'a, K: Reduction, W: ?Sized> {
    kernel: &'a K,
    world: &'a W,
    specs: &'a mut SpecTable<K>,
    /// What is being evaluated: the launch, in it a spec, in it the spec that this one needs, and so on.
    levels: Vec<Level<K::Spec>>,
    /// What each of them has observed, by the places of the notes: that of the launch first.
    from: Vec<u32>,
    /// The world was asked and has not answered. If that is still so later, it panicked, and somebody caught that.
    asks: bool,
}

/// An evaluation that has not ended.
#[derive(Debug)]
struct Level<S> {
    /// Which, and its number; nothing for the launch.
    spec: Option<(S, u64)>,
    /// Where what it has observed begins.
    start: usize,
    /// Why that is not a complete account of what the result is computed from: the first reason.
    flaw: Option<Unkept>,
    constant: bool,
}

impl<'a, K: Evaluate<W>, W: World + ?Sized> Recorder<'a, K, W> {
    pub(super) fn new(kernel: &'a K, world: &'a W, specs: &'a mut SpecTable<K>) -> Self {
        let launch = Level { spec: None, start: 0, flaw: None, constant: false };
        Self { kernel, world, specs, levels: Vec::from([launch]), from: Vec::new(), asks: false }
    }

    /// The field, if there is such a field.
    pub fn field(&mut self, field: FieldId) -> Option<&'a W::Field> {
        // Before the value: if that is written meanwhile, the generation is older than it.
        let world = self.ask();
        self.observe(Observed::Field(field), (see_field(world, field), 0));
        self.world.field(field)
    }

    /// The array that is bound to `argument`, if one is. Depends on which array it is, and on all that can be read of
    /// it.
    pub fn array(&mut self, argument: ArgumentId) -> Option<&'a W::Array> {
        let world = self.ask();
        let seen = see_argument(world, argument);
        self.observe(Observed::Argument(argument), seen);
        let world = self.ask();
        let array = world.array(argument);
        // Another thread may have bound another array between the two questions.
        let after = see_argument(world, argument);
        self.asks = false;
        if after != seen {
            self.observe(Observed::Argument(argument), after);
        }
        array
    }

    /// The length along `axis`, in elements, of the array that is bound to `argument`; nothing if there is no such axis.
    /// Depends on this length alone, whichever array has it.
    pub fn extent(&mut self, argument: ArgumentId, axis: u32) -> Option<u64> {
        let extent = self.ask().extent(argument, axis);
        self.observe(Observed::Extent(argument, axis), seen_extent(extent));
        extent
    }

    /// What `spec` evaluates to: as it is kept, if nothing that it was computed from has moved.
    ///
    /// # Errors
    /// As [`Evaluate::spec`]; [`LaunchError::Circle`] if this spec is being evaluated.
    pub fn spec(&mut self, spec: K::Spec) -> Result<K::Value, LaunchError<K::Error>> {
        let world = self.ask();
        let found = self.specs.find(&spec, world);
        self.asks = false;
        if let Some((value, from, notes)) = found {
            let number = self.levels.last().and_then(Level::number);
            self.from.extend(from.iter().filter(|place| notes.list(**place, number)));
            return Ok(value.clone());
        }
        if self.levels.iter().any(|level| level.spec.as_ref().is_some_and(|(other, _)| *other == spec)) {
            self.spoil(Unkept::Within);
            return Err(LaunchError::Circle);
        }
        let depth = self.levels.len();
        let named = Some((spec.clone(), self.specs.notes.next_spec()));
        self.levels.push(Level { spec: named, start: self.from.len(), flaw: None, constant: false });
        let kernel = self.kernel;
        let value = kernel.spec(&spec, self);
        let (level, unkept) = self.end(depth);
        if let Ok(value) = &value
            && unkept.is_none()
        {
            self.specs.keep(spec, value.clone(), &self.from[level.start..]);
        }
        // Whether it failed or not: what comes of it depends on what it read.
        self.hand_down(level.start);
        match unkept {
            Some(Unkept::NoDependency) => self.spoil(Unkept::Within),
            Some(flaw) => self.spoil(flaw),
            None => {}
        }
        value
    }

    /// Declares that what is being evaluated, the launch or the spec, depends on nothing: it is kept although nothing was observed.
    pub fn constant(&mut self) {
        if let Some(level) = self.levels.last_mut() {
            level.constant = true;
        }
    }

    pub(super) fn finish(mut self) -> (Dependencies, Option<Unkept>) {
        let (_, unkept) = self.end(0);
        let list = self.from.iter().map(|&place| {
            let (observed, seen, _) = self.specs.notes.note(place);
            (observed, seen)
        });
        (Dependencies::new(self.world.identity(), list.collect()), unkept)
    }

    /// The evaluation at `depth` has ended. What it observed lies behind its start, each thing once. Also why its result must not be
    /// kept, if it must not.
    fn end(&mut self, depth: usize) -> (Level<K::Spec>, Option<Unkept>) {
        self.give_up_question();
        let caught_panic = self.levels.len() > depth + 1;
        // Somebody caught a panic: what was observed above belongs to this one, and why it was given up is not known.
        let above = self.levels.drain(depth + 1..).fold(None, |flaw, above| flaw.or(above.flaw));
        let mut level = self.levels.swap_remove(depth);
        level.flaw = level.flaw.or(above).or(caught_panic.then_some(Unkept::Within));
        self.from[level.start..].sort_unstable();
        let mut last = None;
        retain_behind(&mut self.from, level.start, |place| last.replace(place) != Some(place));
        let observed_nothing = self.from.len() == level.start && !level.constant;
        let unkept = level.flaw.or(observed_nothing.then_some(Unkept::NoDependency));
        (level, unkept)
    }

    /// What lies behind `start` was observed by an evaluation that has ended: the one around it depends on it too.
    fn hand_down(&mut self, start: usize) {
        let number = self.levels.last().and_then(Level::number);
        let notes = &mut self.specs.notes;
        retain_behind(&mut self.from, start, |place| notes.list(place, number));
    }

    /// The world, to be asked something that is then observed.
    fn ask(&mut self) -> &'a W {
        self.give_up_question();
        self.asks = true;
        self.world
    }

    /// What comes of a question that has no answer depends on something that is not known.
    fn give_up_question(&mut self) {
        if mem::take(&mut self.asks) {
            self.spoil(Unkept::Within);
        }
    }

    fn observe(&mut self, observed: Observed, now: Seen) {
        self.asks = false;
        let (place, is_same) = self.specs.notes.observe(observed, now);
        let number = self.levels.last().and_then(Level::number);
        if self.specs.notes.list(place, number) {
            self.from.push(place);
        }
        if is_worn(observed, now) {
            self.spoil(Unkept::Worn);
        }
        if !is_same {
            self.spoil(Unkept::Torn);
        }
    }

    fn spoil(&mut self, flaw: Unkept) {
        if let Some(level) = self.levels.last_mut() {
            level.flaw.get_or_insert(flaw);
        }
    }
}

impl<S> Level<S> {
    fn number(&self) -> Option<u64> {
        self.spec.as_ref().map(|(_, number)| *number)
    }
}

/// As [`Vec::retain`], but that what lies before `start` stays.
fn retain_behind(places: &mut Vec<u32>, start: usize, mut stays: impl FnMut(u32) -> bool) {
    let mut end = start;
    for at in start..places.len() {
        let place = places[at];
        if stays(place) {
            places[end] = place;
            end += 1;
        }
    }
    places.truncate(end);
}
