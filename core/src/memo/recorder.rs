//! The only door through which an evaluation sees the world.

use alloc::vec::Vec;
use core::{error, fmt, hash::Hash};

use super::{
    dependencies::{Dependencies, Flaw, Recording},
    handle::HandleError,
    launched::Unkept,
    specs::SpecTable,
    world::{ArgumentId, FieldId, World},
};

/// Something whose result is computed at a launch and kept: what the result is made of.
///
/// A launch computes one [`Output`](Self::Output). Parts of it, the *specs*, are kept one by one: when something has
/// moved, only the specs that depend on it are evaluated again. See [`Evaluate`] for an example.
pub trait Reduction {
    /// Names one part among all parts of this reduction, completely: two specs that are equal have the same value. If
    /// there are no parts, [`Infallible`](core::convert::Infallible).
    type Spec: Clone + Eq + Hash;
    /// What a part evaluates to.
    type Value: Clone;
    /// What a launch gets. It is shared by reference and never changed.
    type Output;
    /// Why an evaluation fails.
    type Error;
}

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
}

/// An evaluation that has not ended.
#[derive(Debug)]
struct Level<S> {
    /// Nothing for the launch.
    spec: Option<S>,
    recording: Recording,
    constant: bool,
}

impl<'a, K: Evaluate<W>, W: World + ?Sized> Recorder<'a, K, W> {
    pub(super) fn new(kernel: &'a K, world: &'a W, specs: &'a mut SpecTable<K>) -> Self {
        let launch = Level { spec: None, recording: Recording::default(), constant: false };
        Self { kernel, world, specs, levels: Vec::from([launch]) }
    }

    /// The field, if there is such a field.
    pub fn field(&mut self, field: FieldId) -> Option<&'a W::Field> {
        let world = self.world;
        self.recording().field(world, field);
        world.field(field)
    }

    /// The array that is bound to `argument`, if one is. Depends on which array it is, and on all that can be read of
    /// it.
    pub fn array(&mut self, argument: ArgumentId) -> Option<&'a W::Array> {
        let world = self.world;
        self.recording().argument(world, argument);
        let array = world.array(argument);
        // Another thread may have bound another array between the two questions.
        self.recording().argument(world, argument);
        array
    }

    /// The length along `axis`, in elements, of the array that is bound to `argument`; nothing if there is no such axis.
    /// Depends on this length alone, whichever array has it.
    pub fn extent(&mut self, argument: ArgumentId, axis: u32) -> Option<u64> {
        let extent = self.world.extent(argument, axis);
        self.recording().extent(argument, axis, extent);
        extent
    }

    /// What `spec` evaluates to: as it is kept, if nothing that it was computed from has moved.
    ///
    /// # Errors
    /// As [`Evaluate::spec`]; [`LaunchError::Circle`] if this spec is being evaluated.
    pub fn spec(&mut self, spec: K::Spec) -> Result<K::Value, LaunchError<K::Error>> {
        if let Some((value, dependencies)) = self.specs.current(&spec, self.world) {
            if let Some(level) = self.levels.last_mut() {
                level.recording.absorb(dependencies);
            }
            return Ok(value.clone());
        }
        if self.levels.iter().any(|level| level.spec.as_ref() == Some(&spec)) {
            self.recording().spoil(Flaw::Within);
            return Err(LaunchError::Circle);
        }
        let depth = self.levels.len();
        self.levels.push(Level {
            spec: Some(spec.clone()),
            recording: Recording::default(),
            constant: false,
        });
        let kernel = self.kernel;
        let value = kernel.spec(&spec, self);
        // A panic that somebody caught leaves levels above: what they observed belongs to this one.
        let mut above = self.levels.drain(depth..);
        let (mut inner, constant) =
            above.next().map_or_else(Default::default, |level| (level.recording, level.constant));
        for level in above {
            inner.absorb_recording(&level.recording);
        }
        let unkept = Unkept::of(&inner, constant);
        // Whether it failed or not: what comes of it depends on what it read.
        self.recording().absorb_recording(&inner);
        if unkept.is_some() {
            self.recording().spoil(Flaw::Within);
        }
        let value = value?;
        if unkept.is_none() {
            self.specs.keep(spec, value.clone(), inner.into_dependencies(self.world.identity()));
        }
        Ok(value)
    }

    /// Declares that what is being evaluated, the launch or the spec, depends on nothing: it is kept although nothing was observed.
    pub fn constant(&mut self) {
        if let Some(level) = self.levels.last_mut() {
            level.constant = true;
        }
    }

    pub(super) fn finish(mut self) -> (Dependencies, Option<Unkept>) {
        let torn = self.levels.len() != 1;
        let launch = self.levels.swap_remove(0);
        let mut recording = launch.recording;
        if torn {
            recording.spoil(Flaw::Within);
        }
        let unkept = Unkept::of(&recording, launch.constant);
        (recording.into_dependencies(self.world.identity()), unkept)
    }

    fn recording(&mut self) -> &mut Recording {
        let last = self.levels.len() - 1;
        &mut self.levels[last].recording
    }
}
