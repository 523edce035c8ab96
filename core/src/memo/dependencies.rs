//! What was observed while a result was computed, and whether it is still so.

use alloc::{boxed::Box, vec::Vec};
use core::fmt;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::world::{AllocationId, ArgumentId, Binding, FieldId, Generation, World, WorldId};

/// The generation of what does not exist. [`Generation::new`] never makes it.
const ABSENT: u64 = u64::MAX - 1;

/// The extent of an axis that does not exist, and of no array that does.
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
enum Observed {
    Field(FieldId),
    Argument(ArgumentId),
    Extent(ArgumentId, u32),
}

/// How it was: generation and allocation, or the extent. Equal exactly if nothing moved.
type Seen = (u64, u64);

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
            && self.extents.iter().all(|&(argument, axis, seen)| see_extent(world, argument, axis) == seen)
    }

    /// The first dependency that is not as it was, and how it is now. Nothing if all [hold](Self::hold), or if it is another world.
    pub fn moved<W: World + ?Sized>(&self, world: &W) -> Option<(Dependency, Dependency)> {
        self.observations().find_map(|(observed, seen)| {
            let now = see(world, observed);
            (now != seen).then(|| (unpack(observed, seen), unpack(observed, now)))
        })
    }

    fn observations(&self) -> impl Iterator<Item = (Observed, Seen)> {
        let fields = self.fields.iter().map(|&(field, seen)| (Observed::Field(field), (seen, 0)));
        let arguments = self.arguments.iter().map(|&(argument, generation, allocation)| {
            (Observed::Argument(argument), (generation, allocation.0))
        });
        let extents =
            self.extents.iter().map(|&(argument, axis, seen)| (Observed::Extent(argument, axis), (seen, 0)));
        fields.chain(arguments).chain(extents)
    }
}

/// Why a recording is not a complete account of what a result was computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// The same thing was observed twice, and was not the same.
    Torn,
    /// Something was observed whose next change could not be told.
    Worn,
    /// Something was taken from an evaluation of which one knows no more than this.
    Within,
}

/// What has been observed so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Recording {
    list: Vec<(Observed, Seen)>,
    /// Where in the list something is, once the list is too long to be searched.
    places: HashMap<Observed, usize, FixedState>,
    flaw: Option<Flaw>,
}

impl Recording {
    /// Up to so many are found faster by looking through them.
    const SEARCHED: usize = 12;

    /// `field` is about to be read.
    pub(super) fn field<W: World + ?Sized>(&mut self, world: &W, field: FieldId) {
        self.observe(Observed::Field(field), (see_field(world, field), 0));
    }

    /// The array of `argument` is about to be read.
    pub(super) fn argument<W: World + ?Sized>(&mut self, world: &W, argument: ArgumentId) {
        self.observe(Observed::Argument(argument), see_argument(world, argument));
    }

    /// `axis` of `argument` is this long.
    pub(super) fn extent(&mut self, argument: ArgumentId, axis: u32, extent: Option<u64>) {
        if extent == Some(NO_AXIS) {
            self.spoil(Flaw::Worn);
        }
        self.observe(Observed::Extent(argument, axis), (extent.unwrap_or(NO_AXIS), 0));
    }

    /// What this depends on, that depends on too.
    pub(super) fn absorb(&mut self, other: &Dependencies) {
        for (observed, seen) in other.observations() {
            self.observe(observed, seen);
        }
    }

    /// As [`absorb`](Self::absorb), with what is not finished.
    pub(super) fn absorb_recording(&mut self, other: &Self) {
        for &(observed, seen) in &other.list {
            self.observe(observed, seen);
        }
        if let Some(flaw) = other.flaw {
            self.spoil(flaw);
        }
    }

    /// The account is not complete. The first reason is kept.
    pub(super) fn spoil(&mut self, flaw: Flaw) {
        self.flaw.get_or_insert(flaw);
    }

    pub(super) const fn flaw(&self) -> Option<Flaw> {
        self.flaw
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn into_dependencies(mut self, world: WorldId) -> Dependencies {
        self.list.sort_unstable_by_key(|&(observed, _)| observed);
        // Sorted by kind first. With the room that they need they are not moved once more.
        let fields = self.list.partition_point(|(observed, _)| matches!(observed, Observed::Field(_)));
        let extents = self.list.partition_point(|(observed, _)| !matches!(observed, Observed::Extent(..)));
        let (mut fields, mut arguments, mut extents) = (
            Vec::with_capacity(fields),
            Vec::with_capacity(extents - fields),
            Vec::with_capacity(self.list.len() - extents),
        );
        for (observed, (seen, allocation)) in self.list {
            match observed {
                Observed::Field(field) => fields.push((field, seen)),
                Observed::Argument(argument) => arguments.push((argument, seen, AllocationId(allocation))),
                Observed::Extent(argument, axis) => extents.push((argument, axis, seen)),
            }
        }
        Dependencies { world, fields: fields.into(), arguments: arguments.into(), extents: extents.into() }
    }

    fn observe(&mut self, observed: Observed, seen: Seen) {
        if !matches!(observed, Observed::Extent(..)) && seen.0 == Generation::WORN.as_u64() {
            self.spoil(Flaw::Worn);
        }
        match self.find(observed) {
            Some(before) if before == seen => {}
            Some(_) => self.spoil(Flaw::Torn),
            None => self.push(observed, seen),
        }
    }

    fn find(&self, observed: Observed) -> Option<Seen> {
        if self.list.len() <= Self::SEARCHED {
            return self.list.iter().find(|(other, _)| *other == observed).map(|&(_, seen)| seen);
        }
        self.places.get(&observed).map(|&place| self.list[place].1)
    }

    fn push(&mut self, observed: Observed, seen: Seen) {
        self.list.push((observed, seen));
        if self.list.len() == Self::SEARCHED + 1 {
            self.places =
                self.list.iter().enumerate().map(|(place, &(observed, _))| (observed, place)).collect();
        } else if self.list.len() > Self::SEARCHED {
            self.places.insert(observed, self.list.len() - 1);
        }
    }
}

#[inline]
fn see_field<W: World + ?Sized>(world: &W, field: FieldId) -> u64 {
    world.field_generation(field).map_or(ABSENT, Generation::as_u64)
}

#[inline]
fn see_argument<W: World + ?Sized>(world: &W, argument: ArgumentId) -> Seen {
    world.binding(argument).map_or((ABSENT, 0), |binding| (binding.generation.as_u64(), binding.allocation.0))
}

#[inline]
fn see_extent<W: World + ?Sized>(world: &W, argument: ArgumentId, axis: u32) -> u64 {
    world.extent(argument, axis).unwrap_or(NO_AXIS)
}

fn see<W: World + ?Sized>(world: &W, observed: Observed) -> Seen {
    match observed {
        Observed::Field(field) => (see_field(world, field), 0),
        Observed::Argument(argument) => see_argument(world, argument),
        Observed::Extent(argument, axis) => (see_extent(world, argument, axis), 0),
    }
}

fn unpack(observed: Observed, (seen, allocation): Seen) -> Dependency {
    let generation = (seen != ABSENT).then(|| Generation::new(seen));
    match observed {
        Observed::Field(field) => Dependency::Field(field, generation),
        Observed::Argument(argument) => {
            let bind = |generation| Binding { allocation: AllocationId(allocation), generation };
            Dependency::Argument(argument, generation.map(bind))
        }
        Observed::Extent(argument, axis) => {
            Dependency::Extent(argument, axis, (seen != NO_AXIS).then_some(seen))
        }
    }
}
