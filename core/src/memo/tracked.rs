//! A world that counts writes by itself.

use alloc::{boxed::Box, vec::Vec};

use serde::Serialize;

use super::{
    portable::Contents,
    world::{AllocationId, ArgumentId, Binding, FieldId, Generation, World, WorldId},
};
use crate::key::Key;

/// Fields and arrays whose every write is counted, because values can be reached for writing only by methods that count.
///
/// A launch sees it [with its arguments](Self::with_arguments). Do not store values that can change behind a shared reference
/// (`Cell`, atomics): their changes are not counted.
///
/// ```
/// use warmstart_core::memo::{ArgumentId, Tracked, World};
///
/// let mut world = Tracked::<f32, Vec<u8>>::new();
/// let array = world.allocate(&[2, 3], vec![0; 6]);
///
/// let arguments = [array];
/// let launch = world.with_arguments(&arguments);
/// let before = launch.binding(ArgumentId(0)).unwrap();
/// assert_eq!(launch.extent(ArgumentId(0), 1), Some(3));
///
/// world.array_mut(array).unwrap()[0] = 1;
/// let after = world.with_arguments(&arguments).binding(ArgumentId(0)).unwrap();
/// assert_eq!(after.generation, before.generation.next());
/// ```
#[derive(Debug)]
pub struct Tracked<F, A> {
    identity: WorldId,
    /// The number of writes to each field. Data that hits read are kept apart from other data, to stay in the nearest cache.
    generations: Vec<Generation>,
    fields: Vec<F>,
    places: Vec<Place>,
    /// The shape and the value of the array at each place, while the place is [taken](Place::taken).
    shapes: Vec<Shape>,
    arrays: Vec<Option<A>>,
    /// Places whose arrays were freed.
    free: Vec<u32>,
}

/// A place that holds arrays, one after the other.
#[derive(Debug)]
struct Place {
    /// The number of earlier arrays in this place. Together with the place, it identifies an allocation.
    turn: u32,
    taken: bool,
    generation: Generation,
}

/// The length of each axis. For arrays with few axes it is stored in the table itself, because a hit reads it.
#[derive(Debug)]
struct Shape {
    rank: usize,
    few: [u64; Self::FEW],
    /// All lengths, if there are more.
    many: Box<[u64]>,
}

impl Shape {
    const FEW: usize = 4;

    fn new(axes: &[u64]) -> Self {
        let mut few = [0; Self::FEW];
        let mut many = Box::default();
        match few.get_mut(..axes.len()) {
            Some(few) => few.copy_from_slice(axes),
            None => many = axes.into(),
        }
        Self { rank: axes.len(), few, many }
    }

    #[inline]
    fn axes(&self) -> &[u64] {
        self.few.get(..self.rank).unwrap_or(&self.many)
    }
}

impl<F, A> Tracked<F, A> {
    /// Creates a world without fields and arrays, whose identity no other world of this process has.
    ///
    /// # Panics
    /// If all values of a `usize` have been handed out.
    #[must_use]
    pub fn new() -> Self {
        Self {
            identity: WorldId::unused(),
            generations: Vec::new(),
            fields: Vec::new(),
            places: Vec::new(),
            shapes: Vec::new(),
            arrays: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Adds a field.
    ///
    /// # Panics
    /// If there are already 2^32 fields.
    pub fn add_field(&mut self, value: F) -> FieldId {
        let field = u32::try_from(self.fields.len()).expect("fewer than 2^32 fields");
        self.generations.push(Generation::FIRST);
        self.fields.push(value);
        FieldId(field)
    }

    /// Returns the value of a field.
    #[must_use]
    pub fn field(&self, field: FieldId) -> Option<&F> {
        self.fields.get(field.0 as usize)
    }

    /// Returns the value of a field for writing. Counts as a write, even if the value is not changed.
    pub fn field_mut(&mut self, field: FieldId) -> Option<&mut F> {
        let generation = self.generations.get_mut(field.0 as usize)?;
        *generation = generation.next();
        self.fields.get_mut(field.0 as usize)
    }

    /// Adds an array of `shape`, in elements along each axis.
    ///
    /// # Panics
    /// If there are already 2^32 arrays.
    pub fn allocate(&mut self, shape: &[u64], value: A) -> AllocationId {
        if let Some(index) = self.free.pop() {
            let at = index as usize;
            let turn = self.places[at].turn + 1;
            self.places[at] = Place { turn, taken: true, generation: Generation::FIRST };
            self.shapes[at] = Shape::new(shape);
            self.arrays[at] = Some(value);
            return allocation(index, turn);
        }
        let index = u32::try_from(self.places.len()).expect("fewer than 2^32 arrays at a time");
        self.places.push(Place { turn: 0, taken: true, generation: Generation::FIRST });
        self.shapes.push(Shape::new(shape));
        self.arrays.push(Some(value));
        allocation(index, 0)
    }

    /// Removes an array and returns its value. Its id is invalid from now on.
    pub fn free(&mut self, array: AllocationId) -> Option<A> {
        self.find(array)?;
        let (index, turn) = place(array);
        self.places.get_mut(index as usize)?.taken = false;
        if turn < u32::MAX {
            self.free.push(index);
        }
        self.arrays.get_mut(index as usize)?.take()
    }

    /// Returns the value of an array.
    #[must_use]
    pub fn array(&self, array: AllocationId) -> Option<&A> {
        self.find(array)?;
        self.arrays.get(index(array))?.as_ref()
    }

    /// Returns the value of an array for writing. Counts as a write, even if the value is not changed.
    pub fn array_mut(&mut self, array: AllocationId) -> Option<&mut A> {
        self.write(array)?;
        self.arrays.get_mut(index(array))?.as_mut()
    }

    /// Returns the shape of an array, in elements along each axis.
    #[must_use]
    pub fn shape(&self, array: AllocationId) -> Option<&[u64]> {
        self.find(array)?;
        self.shapes.get(index(array)).map(Shape::axes)
    }

    /// Changes the shape of an array, and returns its value to be adapted. Counts as a write.
    pub fn reshape(&mut self, array: AllocationId, shape: &[u64]) -> Option<&mut A> {
        self.write(array)?;
        *self.shapes.get_mut(index(array))? = Shape::new(shape);
        self.arrays.get_mut(index(array))?.as_mut()
    }

    /// Returns the world of a launch with these arguments.
    #[must_use]
    pub const fn with_arguments<'w>(&'w self, arguments: &'w [AllocationId]) -> Arguments<'w, F, A> {
        Arguments { world: self, arguments }
    }

    /// Returns the generation of an array, or `None` if there is no such array.
    #[inline]
    fn find(&self, array: AllocationId) -> Option<Generation> {
        let (index, turn) = place(array);
        let place = self.places.get(index as usize)?;
        (place.turn == turn && place.taken).then_some(place.generation)
    }

    /// Counts a write to an array that is about to be written.
    fn write(&mut self, array: AllocationId) -> Option<()> {
        let generation = self.find(array)?.next();
        self.places.get_mut(index(array))?.generation = generation;
        Some(())
    }
}

impl<F, A> Default for Tracked<F, A> {
    fn default() -> Self {
        Self::new()
    }
}

/// A [`Tracked`] world as one launch sees it: argument 0 is bound to the first of its arrays, and so on.
#[derive(Debug)]
pub struct Arguments<'w, F, A> {
    world: &'w Tracked<F, A>,
    arguments: &'w [AllocationId],
}

impl<F, A> Arguments<'_, F, A> {
    #[inline]
    fn bound(&self, argument: ArgumentId) -> Option<AllocationId> {
        self.arguments.get(argument.0 as usize).copied()
    }
}

impl<F, A> World for Arguments<'_, F, A> {
    type Field = F;
    type Array = A;

    #[inline]
    fn identity(&self) -> WorldId {
        self.world.identity
    }

    #[inline]
    fn field_generation(&self, field: FieldId) -> Option<Generation> {
        self.world.generations.get(field.0 as usize).copied()
    }

    fn field(&self, field: FieldId) -> Option<&F> {
        self.world.field(field)
    }

    #[inline]
    fn binding(&self, argument: ArgumentId) -> Option<Binding> {
        let allocation = self.bound(argument)?;
        self.world.find(allocation).map(|generation| Binding { allocation, generation })
    }

    fn array(&self, argument: ArgumentId) -> Option<&A> {
        self.world.array(self.bound(argument)?)
    }

    #[inline]
    fn extent(&self, argument: ArgumentId, axis: u32) -> Option<u64> {
        self.world.shape(self.bound(argument)?)?.get(axis as usize).copied()
    }
}

/// Digests the postcard encoding: of a field, its value; of an array, its shape and its value.
impl<F: Serialize, A: Serialize> Contents for Arguments<'_, F, A> {
    fn field_digest(&self, field: FieldId) -> Option<Key> {
        let bytes = postcard::to_allocvec(self.world.field(field)?).ok()?;
        Some(Key::digest(&bytes))
    }

    fn array_digest(&self, argument: ArgumentId) -> Option<Key> {
        let array = self.bound(argument)?;
        let bytes = postcard::to_allocvec(&(self.world.shape(array)?, self.world.array(array)?)).ok()?;
        Some(Key::digest(&bytes))
    }
}

fn allocation(index: u32, turn: u32) -> AllocationId {
    AllocationId(u64::from(turn) << 32 | u64::from(index))
}

#[expect(clippy::cast_possible_truncation, reason = "the two halves")]
const fn place(allocation: AllocationId) -> (u32, u32) {
    (allocation.0 as u32, (allocation.0 >> 32) as u32)
}

const fn index(allocation: AllocationId) -> usize {
    place(allocation).0 as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    type Pair = Tracked<i64, i64>;

    fn generation(world: &Pair, array: AllocationId) -> Option<u64> {
        let arguments = [array];
        world.with_arguments(&arguments).binding(ArgumentId(0)).map(|binding| binding.generation.as_u64())
    }

    #[test]
    fn every_way_to_write_counts_and_no_way_to_read_does() {
        let mut world = Pair::new();
        world.add_field(3);
        let array = world.allocate(&[2], 5);
        world.field_mut(FieldId(0)).unwrap();
        world.array_mut(array).unwrap();
        world.reshape(array, &[2]).unwrap();
        assert_eq!((world.field(FieldId(0)), world.array(array)), (Some(&3), Some(&5)));
        assert_eq!(world.shape(array), Some(&[2][..]));
        assert_eq!(generation(&world, array), Some(2));
        let seen = world.with_arguments(&[]).field_generation(FieldId(0));
        assert_eq!(seen, Some(Generation::FIRST.next()));
    }

    #[test]
    fn id_of_a_freed_array_stays_unknown_when_its_slot_is_reused() {
        let mut world = Pair::new();
        let old = world.allocate(&[2], 5);
        assert_eq!((world.free(old), world.free(old)), (Some(5), None));
        let new = world.allocate(&[3], 6);
        assert_ne!(old, new);
        assert_eq!(world.places.len(), 1, "its place is used again");
        assert!(
            world.array(old).is_none()
                && world.array_mut(old).is_none()
                && world.reshape(old, &[1]).is_none()
        );
        assert!(world.shape(old).is_none() && world.free(old).is_none() && generation(&world, old).is_none());
        assert_eq!((world.array(new), generation(&world, new)), (Some(&6), Some(0)));
    }

    #[test]
    fn a_place_that_had_the_most_arrays_is_not_used_again() {
        let mut world = Pair::new();
        let first = world.allocate(&[], 0);
        world.free(first);
        world.places[0].turn = u32::MAX - 1;
        let last = world.allocate(&[], 1);
        assert_eq!(last, AllocationId(u64::from(u32::MAX) << 32));
        assert_eq!(world.free(last), Some(1));
        let after = world.allocate(&[], 2);
        assert_eq!((after, world.array(last)), (AllocationId(1), None));
    }

    #[test]
    fn missing_fields_and_arrays_are_none() {
        let mut world = Pair::new();
        assert!(world.field(FieldId(0)).is_none() && world.field_mut(FieldId(0)).is_none());
        let never = AllocationId(3 << 32 | 7);
        assert!(world.array(never).is_none() && world.free(never).is_none());
        let arguments = [never];
        let launch = world.with_arguments(&arguments);
        for argument in [ArgumentId(0), ArgumentId(1)] {
            assert_eq!((launch.binding(argument), launch.extent(argument, 0)), (None, None));
        }
    }

    #[test]
    fn shape_of_any_rank_is_stored_exactly() {
        let mut world = Pair::new();
        let array = world.allocate(&[], 0);
        for rank in [0, 1, 4, 5, 9, 2] {
            let axes: Vec<u64> = (10..).take(rank).collect();
            world.reshape(array, &axes).unwrap();
            assert_eq!(world.shape(array), Some(&*axes));
            let arguments = [array];
            let last = world.with_arguments(&arguments).extent(ArgumentId(0), rank as u32);
            assert_eq!(last, None, "{rank} axes");
        }
    }

    #[test]
    fn two_worlds_are_two_worlds() {
        let (one, other) = (Pair::new(), Pair::new());
        assert_ne!(one.with_arguments(&[]).identity(), other.with_arguments(&[]).identity());
    }
}
