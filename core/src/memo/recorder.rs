//! The evaluation of a reduction, and the recorder through which it reads the world.

use alloc::vec::Vec;
use core::mem;

use thiserror::Error;

use super::{
    dependencies::{Dependencies, NotCached, Observations, Observed, Seen, is_exhausted, see},
    handle::HandleError,
    reduction::Reduction,
    specs::SpecTable,
    world::{ArgumentId, FieldId, World},
};

/// Computes a [`Reduction`] in a world.
///
/// An evaluation reads everything that may change through the [`Recorder`]. Apart from that it may use `self`, which does not
/// change once it is registered, and nothing else: no global state, no clock. Neither function captures anything, and a
/// spec gets no values that its launch has read, so no other input slips in by accident.
pub trait Evaluate<W: World + ?Sized>: Reduction {
    /// Computes the output of a launch.
    ///
    /// # Errors
    /// Defined by the reduction. An error is returned to the caller and not kept.
    fn launch(&self, recorder: &mut Recorder<'_, Self, W>) -> Result<Self::Output, LaunchError<Self::Error>>
    where
        Self: Sized;

    /// Computes the value of one spec.
    ///
    /// # Errors
    /// Defined by the reduction. An error is returned to the caller and not kept.
    fn spec(
        &self,
        spec: &Self::Spec,
        recorder: &mut Recorder<'_, Self, W>,
    ) -> Result<Self::Value, LaunchError<Self::Error>>
    where
        Self: Sized;
}

/// The reason why a launch has no result.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LaunchError<E> {
    /// The handle is unknown or stale.
    #[error("{0}")]
    Handle(HandleError),
    /// A spec depends on its own value.
    #[error("a spec needs its own value: compute it from fields, arguments and other specs")]
    Circle,
    /// The reduction failed.
    #[error("{0}")]
    Reduction(E),
}

impl<E> From<E> for LaunchError<E> {
    fn from(error: E) -> Self {
        Self::Reduction(error)
    }
}

/// Gives an evaluation its inputs and records each of them as a dependency.
#[derive(Debug)]
pub struct Recorder<'a, K: Reduction, W: ?Sized> {
    kernel: &'a K,
    world: &'a W,
    specs: &'a mut SpecTable<K>,
    /// The stack of evaluations: the launch, a spec that it needs, a spec that this one needs, and so on.
    levels: Vec<Level<K::Spec>>,
    /// An empty table whose memory the next spec uses.
    spare: Observations,
    /// Set while the world answers. If it is still set later, the world panicked and the evaluation caught the panic.
    asks: bool,
}

/// An evaluation that has not ended.
#[derive(Debug)]
struct Level<S> {
    /// The spec; nothing for the launch.
    spec: Option<S>,
    /// The observations, each with the state first seen.
    seen: Observations,
    /// The first reason why the observations do not account for the whole result.
    flaw: Option<NotCached>,
    constant: bool,
}

impl<'a, K: Evaluate<W>, W: World + ?Sized> Recorder<'a, K, W> {
    pub(super) fn new(kernel: &'a K, world: &'a W, specs: &'a mut SpecTable<K>) -> Self {
        Self {
            kernel,
            world,
            specs,
            levels: Vec::from([Level::new(None, Observations::default())]),
            spare: Observations::default(),
            asks: false,
        }
    }

    /// Returns the field, or nothing if there is none, and records it.
    pub fn field(&mut self, field: FieldId) -> Option<&'a W::Field> {
        // Before the value: if that is written meanwhile, the generation is older than it.
        self.observe(Observed::Field(field));
        self.world.field(field)
    }

    /// Returns the array bound to `argument`, if there is one. Records which array it is, and its contents.
    pub fn array(&mut self, argument: ArgumentId) -> Option<&'a W::Array> {
        self.observe(Observed::Argument(argument));
        let array = self.ask().array(argument);
        self.asks = false;
        // Another thread may have bound another array between the two questions.
        self.observe(Observed::Argument(argument));
        array
    }

    /// Returns the length along `axis`, in elements, of the array bound to `argument`; nothing if there is no such axis.
    /// Records this length alone, whichever array has it.
    pub fn extent(&mut self, argument: ArgumentId, axis: u32) -> Option<u64> {
        let (extent, axes) = self.observe(Observed::Extent(argument, axis));
        (axes > 0).then_some(extent)
    }

    /// Returns the value of `spec`: the kept one if its dependencies are unchanged, else a new one.
    ///
    /// # Errors
    /// As [`Evaluate::spec`]; [`LaunchError::Circle`] if this spec is being evaluated.
    pub fn spec(&mut self, spec: K::Spec) -> Result<K::Value, LaunchError<K::Error>> {
        let world = self.ask();
        let found = self.specs.find(&spec, world);
        self.asks = false;
        if let Some((value, from)) = found {
            // Before the clone, which may panic; the launch may catch the panic.
            if let Some(level) = self.levels.last_mut() {
                from.iter().for_each(|&(observed, seen)| level.see(observed, seen));
            }
            return Ok(value.clone());
        }
        if self.levels.iter().any(|level| level.spec.as_ref() == Some(&spec)) {
            self.spoil(NotCached::Within);
            return Err(LaunchError::Circle);
        }
        let depth = self.levels.len();
        let seen = mem::take(&mut self.spare);
        self.levels.push(Level::new(Some(spec.clone()), seen));
        let kernel = self.kernel;
        let value = kernel.spec(&spec, self);
        let (mut seen, not_cached) = self.end(depth);
        match not_cached {
            Some(NotCached::NoDependency) => self.spoil(NotCached::Within),
            Some(flaw) => self.spoil(flaw),
            None => {}
        }
        // After a failure too: the caller's result depends on what the spec read.
        if let Some(level) = self.levels.last_mut() {
            level.see_all(&seen);
        }
        if let Ok(value) = &value
            && not_cached.is_none()
        {
            self.specs.keep(spec, value.clone(), &seen);
        }
        seen.clear();
        self.spare = seen;
        value
    }

    /// Declares that the launch or spec being evaluated depends on nothing, so that its result is kept without observations.
    pub fn constant(&mut self) {
        if let Some(level) = self.levels.last_mut() {
            level.constant = true;
        }
    }

    pub(super) fn finish(mut self) -> (Dependencies, Option<NotCached>) {
        let (seen, not_cached) = self.end(0);
        (Dependencies::new(self.world.identity(), seen.into_iter().collect()), not_cached)
    }

    /// Ends the evaluation at `depth`. Returns its observations, and the reason why its result must not be kept, if there is one.
    fn end(&mut self, depth: usize) -> (Observations, Option<NotCached>) {
        self.give_up_question();
        let above = self.levels.split_off(depth + 1);
        let mut level = self.levels.swap_remove(depth);
        // The launch caught a panic: the observations above belong to this evaluation, and the cause of the panic is unknown.
        let caught_panic = (!above.is_empty()).then_some(NotCached::Within);
        for above in above {
            level.flaw = level.flaw.or(above.flaw);
            level.see_all(&above.seen);
        }
        let observed_nothing = level.seen.is_empty() && !level.constant;
        let not_cached = level.flaw.or(caught_panic).or(observed_nothing.then_some(NotCached::NoDependency));
        (level.seen, not_cached)
    }

    /// Returns the world for a question whose answer is recorded next.
    fn ask(&mut self) -> &'a W {
        self.give_up_question();
        self.asks = true;
        self.world
    }

    /// Marks the result as incomplete after a question without an answer: its dependency is unknown.
    fn give_up_question(&mut self) {
        if mem::take(&mut self.asks) {
            self.spoil(NotCached::Within);
        }
    }

    /// Returns the present state of `observed`.
    fn observe(&mut self, observed: Observed) -> Seen {
        let seen = see(self.ask(), observed);
        self.asks = false;
        if let Some(level) = self.levels.last_mut() {
            level.see(observed, seen);
        }
        seen
    }

    fn spoil(&mut self, flaw: NotCached) {
        if let Some(level) = self.levels.last_mut() {
            level.flaw.get_or_insert(flaw);
        }
    }
}

impl<S> Level<S> {
    fn new(spec: Option<S>, seen: Observations) -> Self {
        Self { spec, seen, flaw: None, constant: false }
    }

    fn see(&mut self, observed: Observed, now: Seen) {
        let first = *self.seen.entry(observed).or_insert(now);
        if is_exhausted(observed, now) {
            self.flaw.get_or_insert(NotCached::GenerationExhausted);
        }
        if first != now {
            self.flaw.get_or_insert(NotCached::ConcurrentWrite);
        }
    }

    fn see_all(&mut self, seen: &Observations) {
        seen.iter().for_each(|(&observed, &seen)| self.see(observed, seen));
    }
}
