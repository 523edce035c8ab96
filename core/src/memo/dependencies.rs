//! What was observed while a result was computed, and whether it is still so.

use alloc::{boxed::Box, vec::Vec};
use core::fmt;

use super::{
    reduction::Unkept,
    world::{AllocationId, ArgumentId, Binding, FieldId, Generation, World, WorldId},
};

/// The generation of what does not exist. [`Generation::new`] never makes it.
const ABSENT: u64 = u64::MAX - 1;

/// The extent of an axis that does not exist. One that is as long is told from it as it is seen, and never kept.
const NO_AXIS: u64 = u64::MAX;

/// Something that was observed, and how it was then.
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
            Self::Field(field, None) => write!(f, "field {}, which there was not", field.0),
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

/// A [`Dependency`] without how it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Observed {
    Field(FieldId),
    Argument(ArgumentId),
    Extent(ArgumentId, u32),
}

/// How it was: generation and allocation, or the extent and whether there was one. Equal exactly if nothing moved.
pub(super) type Seen = (u64, u64);

/// What was observed, and how it was.
pub(super) type Observations = Vec<(Observed, Seen)>;

/// Everything that a result was computed from, each thing once.
///
/// Sorted by id, kind by kind: replaying walks the tables of the world from one end to the other, without asking of each
/// dependency what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependencies {
    world: WorldId,
    fields: Box<[(FieldId, u64)]>,
    arguments: Box<[(ArgumentId, u64, AllocationId)]>,
    extents: Box<[(ArgumentId, u32, u64)]>,
}

impl Dependencies {
    pub(super) fn new(world: WorldId, mut list: Observations) -> Self {
        list.sort_unstable_by_key(|&(observed, _)| observed);
        Self::in_order(world, list)
    }

    /// These, as they are in `world` now. For results that are computed where no [`Recorder`](super::Recorder) can
    /// be, while nothing was written; how they were is not looked at. They are looked at in this order, so name each
    /// once, and in the order of their ids.
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
    /// [`Unkept::NoDependency`] if there are none, [`Unkept::Worn`] if the next change of one could not be told.
    pub fn now<W: World + ?Sized>(
        world: &W,
        observed: impl IntoIterator<Item = Dependency>,
    ) -> Result<Self, Unkept> {
        let mut list = Vec::new();
        for observed in observed {
            let observed = pack(observed);
            let seen = see(world, observed);
            if is_worn(observed, seen) {
                return Err(Unkept::Worn);
            }
            list.push((observed, seen));
        }
        if list.is_empty() { Err(Unkept::NoDependency) } else { Ok(Self::in_order(world.identity(), list)) }
    }

    fn in_order(world: WorldId, list: Observations) -> Self {
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

    /// How many distinct things were observed.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.fields.len() + self.arguments.len() + self.extents.len()
    }

    /// Whether nothing was observed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The world that was observed.
    #[must_use]
    pub const fn world(&self) -> WorldId {
        self.world
    }

    /// What was observed: fields, arrays, extents, each by its id.
    pub fn iter(&self) -> impl Iterator<Item = Dependency> {
        self.observations().map(|(observed, seen)| unpack(observed, seen))
    }

    /// Whether all is as it was when the result was computed.
    #[inline]
    pub fn hold<W: World + ?Sized>(&self, world: &W) -> bool {
        self.world == world.identity()
            && self.fields.iter().all(|&(field, seen)| see_field(world, field) == seen)
            && self.arguments.iter().all(|&(argument, generation, allocation)| {
                see_argument(world, argument) == (generation, allocation.0)
            })
            && self.extents.iter().all(|&(argument, axis, extent)| {
                see_extent(world, argument, axis) == (extent, u64::from(extent != NO_AXIS))
            })
    }

    /// The first dependency that is not as it was, and how it is now. Nothing if all [hold](Self::hold), or if it is
    /// another world.
    pub fn moved<W: World + ?Sized>(&self, world: &W) -> Option<(Dependency, Dependency)> {
        if self.world != world.identity() {
            return None;
        }
        self.observations().find_map(|(observed, seen)| {
            let now = see(world, observed);
            (now != seen).then(|| (unpack(observed, seen), unpack(observed, now)))
        })
    }

    pub(super) fn observations(&self) -> impl Iterator<Item = (Observed, Seen)> {
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

#[inline]
pub(super) fn see_field<W: World + ?Sized>(world: &W, field: FieldId) -> u64 {
    world.field_generation(field).map_or(ABSENT, Generation::as_u64)
}

#[inline]
pub(super) fn see_argument<W: World + ?Sized>(world: &W, argument: ArgumentId) -> Seen {
    world.binding(argument).map_or((ABSENT, 0), |binding| (binding.generation.as_u64(), binding.allocation.0))
}

#[inline]
fn see_extent<W: World + ?Sized>(world: &W, argument: ArgumentId, axis: u32) -> Seen {
    seen_extent(world.extent(argument, axis))
}

#[inline]
pub(super) fn seen_extent(extent: Option<u64>) -> Seen {
    extent.map_or((NO_AXIS, 0), |extent| (extent, 1))
}

pub(super) fn see<W: World + ?Sized>(world: &W, observed: Observed) -> Seen {
    match observed {
        Observed::Field(field) => (see_field(world, field), 0),
        Observed::Argument(argument) => see_argument(world, argument),
        Observed::Extent(argument, axis) => see_extent(world, argument, axis),
    }
}

/// Whether what was seen says that there was nothing.
pub(super) const fn is_absent(observed: Observed, (seen, other): Seen) -> bool {
    match observed {
        Observed::Field(_) | Observed::Argument(_) => seen == ABSENT,
        Observed::Extent(..) => other == 0,
    }
}

/// Whether the next change could not be told from what was seen.
pub(super) const fn is_worn(observed: Observed, (seen, other): Seen) -> bool {
    match observed {
        Observed::Field(_) | Observed::Argument(_) => seen == Generation::WORN.as_u64(),
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
