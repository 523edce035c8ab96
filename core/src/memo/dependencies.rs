//! The dependencies of a result: everything observed while it was computed, and the check that it is unchanged.

use alloc::{boxed::Box, vec::Vec};
use core::fmt;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use thiserror::Error;

use super::world::{AllocationId, ArgumentId, Binding, FieldId, Generation, World, WorldId};

/// The generation that stands for a missing field or array. [`Generation::new`] never returns it.
const ABSENT: u64 = u64::MAX - 1;

/// The extent that stands for a missing axis. An axis of this length is told apart when it is observed, and its result is never kept.
const NO_AXIS: u64 = u64::MAX;

/// An observed field, array or extent, with its state at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependency {
    /// A field was read at this generation; nothing if there was no such field.
    Field(FieldId, Option<Generation>),
    /// The array bound to an argument was read; nothing if none was bound.
    Argument(ArgumentId, Option<Binding>),
    /// Only the length of an axis was asked for, in elements; nothing if there was no such axis.
    Extent(ArgumentId, u32, Option<u64>),
}

impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Field(field, Some(generation)) => write!(f, "field {} at generation {generation}", field.0),
            Self::Field(field, None) => write!(f, "field {}, which did not exist", field.0),
            Self::Argument(argument, Some(Binding { allocation, generation })) => {
                write!(f, "argument {}: allocation {} at generation {generation}", argument.0, allocation.0)
            }
            Self::Argument(argument, None) => write!(f, "argument {}, which was not bound", argument.0),
            Self::Extent(argument, axis, Some(extent)) => {
                write!(f, "argument {}: axis {axis} of {extent}", argument.0)
            }
            Self::Extent(argument, axis, None) => write!(f, "argument {}: no axis {axis}", argument.0),
        }
    }
}

/// The subject of a [`Dependency`], without its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Observed {
    Field(FieldId),
    Argument(ArgumentId),
    Extent(ArgumentId, u32),
}

/// The state of a dependency: generation and allocation, or the extent and whether the axis exists. Equal exactly if nothing changed.
pub(super) type Seen = (u64, u64);

/// An observed subject and its state.
pub(super) type Observation = (Observed, Seen);

/// Observations of distinct subjects.
pub(super) type Observations = HashMap<Observed, Seen, FixedState>;

/// The dependencies of a result, each listed once.
///
/// Sorted by kind, then by id, so that a check walks the tables of the world from one end to the other without a branch on the
/// kind of each dependency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependencies {
    world: WorldId,
    fields: Box<[(FieldId, u64)]>,
    arguments: Box<[(ArgumentId, u64, AllocationId)]>,
    extents: Box<[(ArgumentId, u32, u64)]>,
}

impl Dependencies {
    pub(super) fn new(world: WorldId, mut list: Vec<Observation>) -> Self {
        list.sort_unstable_by_key(|&(observed, _)| observed);
        let (mut fields, mut arguments, mut extents) = (Vec::new(), Vec::new(), Vec::new());
        for (observed, (seen, allocation)) in list {
            match observed {
                Observed::Field(field) => fields.push((field, seen)),
                Observed::Argument(argument) => arguments.push((argument, seen, AllocationId(allocation))),
                Observed::Extent(argument, axis) => extents.push((argument, axis, seen)),
            }
        }
        Self { world, fields: fields.into(), arguments: arguments.into(), extents: extents.into() }
    }

    /// Creates dependencies with their state in `world` now; the states in `list` are ignored. For results computed without a
    /// [`Recorder`](super::Recorder), while nothing was written. List each dependency once.
    ///
    /// ```
    /// use warmstart_core::memo::{Dependencies, Dependency, Tracked};
    ///
    /// let mut world = Tracked::<u32, ()>::new();
    /// let field = world.add_field(1024);
    /// let dependencies = Dependencies::now(&world.with_arguments(&[]), [Dependency::Field(field, None)]).unwrap();
    /// assert!(dependencies.hold(&world.with_arguments(&[])));
    /// *world.field_mut(field).unwrap() = 2048;
    /// assert!(!dependencies.hold(&world.with_arguments(&[])));
    /// ```
    ///
    /// # Errors
    /// [`NotCached::NoDependency`] if `list` is empty, [`NotCached::GenerationExhausted`] if the next change of one would go unnoticed.
    pub fn now<W: World + ?Sized>(
        world: &W,
        observed: impl IntoIterator<Item = Dependency>,
    ) -> Result<Self, NotCached> {
        let mut list = Vec::new();
        for observed in observed {
            let observed = pack(observed);
            let seen = see(world, observed);
            if is_exhausted(observed, seen) {
                return Err(NotCached::GenerationExhausted);
            }
            list.push((observed, seen));
        }
        if list.is_empty() { Err(NotCached::NoDependency) } else { Ok(Self::new(world.identity(), list)) }
    }

    /// Returns the number of dependencies.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.fields.len() + self.arguments.len() + self.extents.len()
    }

    /// Returns whether there are no dependencies.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the observed world.
    #[must_use]
    pub const fn world(&self) -> WorldId {
        self.world
    }

    /// Lists the dependencies: fields, arrays, then extents, each ordered by id.
    pub fn iter(&self) -> impl Iterator<Item = Dependency> {
        self.observations().map(|(observed, seen)| unpack(observed, seen))
    }

    /// Returns whether all dependencies are unchanged in `world`.
    #[inline]
    pub fn hold<W: World + ?Sized>(&self, world: &W) -> bool {
        self.world == world.identity()
            && self.fields.iter().all(|&(field, seen)| see(world, Observed::Field(field)).0 == seen)
            && self.arguments.iter().all(|&(argument, generation, allocation)| {
                see(world, Observed::Argument(argument)) == (generation, allocation.0)
            })
            && self.extents.iter().all(|&(argument, axis, extent)| {
                see(world, Observed::Extent(argument, axis)) == (extent, u64::from(extent != NO_AXIS))
            })
    }

    /// Returns the first dependency that changed, with its state then and now. Returns nothing if all [hold](Self::hold), or if
    /// `world` is another world.
    pub fn moved<W: World + ?Sized>(&self, world: &W) -> Option<(Dependency, Dependency)> {
        if self.world != world.identity() {
            return None;
        }
        self.observations().find_map(|(observed, seen)| {
            let now = see(world, observed);
            (now != seen).then(|| (unpack(observed, seen), unpack(observed, now)))
        })
    }

    pub(super) fn observations(&self) -> impl Iterator<Item = Observation> {
        let fields = self.fields.iter().map(|&(field, seen)| (Observed::Field(field), (seen, 0)));
        let arguments = self.arguments.iter().map(|&(argument, generation, allocation)| {
            (Observed::Argument(argument), (generation, allocation.0))
        });
        let extents = self.extents.iter().map(|&(argument, axis, extent)| {
            (Observed::Extent(argument, axis), (extent, u64::from(extent != NO_AXIS)))
        });
        fields.chain(arguments).chain(extents)
    }
}

/// The reason why a result was not kept. The result was correct when it was returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotCached {
    /// The evaluation observed nothing and was not declared [constant](super::Recorder::constant): its result would match for ever.
    #[error("its evaluation observed nothing: read through the recorder, or declare the result constant")]
    NoDependency,
    /// A dependency changed between two observations.
    #[error("what it observed changed while it was evaluated")]
    ConcurrentWrite,
    /// The [generations](super::Generation::EXHAUSTED) of a dependency have run out.
    #[error(
        "the write counter of something that it observed is exhausted, so later writes could not be detected"
    )]
    GenerationExhausted,
    /// A spec of the result observed nothing without being declared constant, or was not evaluated to its end.
    #[error(
        "a spec of it observed nothing, or was given up: let it read through the recorder, or declare it constant"
    )]
    Within,
    /// The handle was invalidated or removed during the evaluation.
    #[error("it was invalidated while it was evaluated")]
    Invalidated,
}

#[inline]
pub(super) fn see<W: World + ?Sized>(world: &W, observed: Observed) -> Seen {
    match observed {
        Observed::Field(field) => (world.field_generation(field).map_or(ABSENT, Generation::as_u64), 0),
        Observed::Argument(argument) => world
            .binding(argument)
            .map_or((ABSENT, 0), |binding| (binding.generation.as_u64(), binding.allocation.0)),
        Observed::Extent(argument, axis) => {
            world.extent(argument, axis).map_or((NO_AXIS, 0), |extent| (extent, 1))
        }
    }
}

/// Returns whether the state stands for a missing field, array or axis.
pub(super) const fn is_absent(observed: Observed, (seen, other): Seen) -> bool {
    match observed {
        Observed::Field(_) | Observed::Argument(_) => seen == ABSENT,
        Observed::Extent(..) => other == 0,
    }
}

/// Returns whether the next change could not be distinguished from this state.
pub(super) const fn is_exhausted(observed: Observed, (seen, other): Seen) -> bool {
    match observed {
        Observed::Field(_) | Observed::Argument(_) => seen == Generation::EXHAUSTED.as_u64(),
        // It would look like an axis that does not exist.
        Observed::Extent(..) => seen == NO_AXIS && other != 0,
    }
}

const fn pack(dependency: Dependency) -> Observed {
    match dependency {
        Dependency::Field(field, _) => Observed::Field(field),
        Dependency::Argument(argument, _) => Observed::Argument(argument),
        Dependency::Extent(argument, axis, _) => Observed::Extent(argument, axis),
    }
}

fn unpack(observed: Observed, (seen, other): Seen) -> Dependency {
    let generation = (seen != ABSENT).then(|| Generation::new(seen));
    match observed {
        Observed::Field(field) => Dependency::Field(field, generation),
        Observed::Argument(argument) => {
            let bind = |generation| Binding { allocation: AllocationId(other), generation };
            Dependency::Argument(argument, generation.map(bind))
        }
        Observed::Extent(argument, axis) => Dependency::Extent(argument, axis, (other != 0).then_some(seen)),
    }
}
