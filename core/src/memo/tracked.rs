//! A world that counts by itself what is written.

use alloc::{boxed::Box, vec::Vec};
use core::sync::atomic::{AtomicU32, Ordering};

use serde::Serialize;

use super::{
    portable::Contents,
    world::{AllocationId, ArgumentId, Binding, FieldId, Generation, World, WorldId},
};
use crate::key::Key;

/// Fields and arrays whose every write is counted, because there is no way to a value that does not count.
///
/// A launch sees it [with its arguments](Self::with_arguments). Values that can change behind a shared reference (`Cell`, atomics) would
/// change uncounted: do not put them in here.
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
    fields: Vec<(Generation, F)>,
    places: Vec<Place<A>>,
    /// Places whose arrays were freed.
    free: Vec<u32>,
}

/// Where arrays are, one after the other.
#[derive(Debug)]
struct Place<A> {
    /// How many were here before: with the place, what tells an allocation from every other.
    turn: u32,
    array: Option<Array<A>>,
}

#[derive(Debug)]
struct Array<A> {
    generation: Generation,
    shape: Box<[u64]>,
    value: A,
}

impl<F, A> Tracked<F, A> {
    /// A world without fields and arrays, which is no other world of this process.
    #[must_use]
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let identity = WorldId(u64::from(NEXT.fetch_add(1, Ordering::Relaxed)));
        Self { identity, fields: Vec::new(), places: Vec::new(), free: Vec::new() }
    }

    /// Adds a field.
    ///
    /// # Panics
    /// If there are 2^32 fields.
    pub fn add_field(&mut self, value: F) -> FieldId {
        let field = u32::try_from(self.fields.len()).expect("fewer than 2^32 fields");
        self.fields.push((Generation::FIRST, value));
        FieldId(field)
    }

    /// The value of a field.
    #[must_use]
    pub fn field(&self, field: FieldId) -> Option<&F> {
        self.fields.get(field.0 as usize).map(|(_, value)| value)
    }

    /// The value of a field, to be written. Counts as a write, whatever is done with it.
    pub fn field_mut(&mut self, field: FieldId) -> Option<&mut F> {
        let (generation, value) = self.fields.get_mut(field.0 as usize)?;
        *generation = generation.next();
        Some(value)
    }

    /// Adds an array of `shape`, in elements along each axis.
    ///
    /// # Panics
    /// If there are 2^32 arrays at a time.
    pub fn allocate(&mut self, shape: &[u64], value: A) -> AllocationId {
        let array = Some(Array { generation: Generation::FIRST, shape: shape.into(), value });
        if let Some(index) = self.free.pop() {
            let place = &mut self.places[index as usize];
            place.turn += 1;
            place.array = array;
            return allocation(index, place.turn);
        }
        let index = u32::try_from(self.places.len()).expect("fewer than 2^32 arrays at a time");
        self.places.push(Place { turn: 0, array });
        allocation(index, 0)
    }

    /// Takes an array away. Its id stands for nothing from now on.
    pub fn free(&mut self, array: AllocationId) -> Option<A> {
        let (index, turn) = place(array);
        let place = self.places.get_mut(index as usize).filter(|place| place.turn == turn)?;
        let freed = place.array.take()?;
        if turn < u32::MAX {
            self.free.push(index);
        }
        Some(freed.value)
    }

    /// The value of an array.
    #[must_use]
    pub fn array(&self, array: AllocationId) -> Option<&A> {
        self.find(array).map(|array| &array.value)
    }

    /// The value of an array, to be written. Counts as a write, whatever is done with it.
    pub fn array_mut(&mut self, array: AllocationId) -> Option<&mut A> {
        self.find_mut(array).map(|array| &mut array.value)
    }

    /// The shape of an array, in elements along each axis.
    #[must_use]
    pub fn shape(&self, array: AllocationId) -> Option<&[u64]> {
        self.find(array).map(|array| &*array.shape)
    }

    /// Gives an array another shape, and its value to be fitted to it. Counts as a write.
    pub fn reshape(&mut self, array: AllocationId, shape: &[u64]) -> Option<&mut A> {
        let array = self.find_mut(array)?;
        array.shape = shape.into();
        Some(&mut array.value)
    }

    /// What a launch with these arguments sees.
    #[must_use]
    pub const fn with_arguments<'w>(&'w self, arguments: &'w [AllocationId]) -> Arguments<'w, F, A> {
        Arguments { world: self, arguments }
    }

    fn find(&self, array: AllocationId) -> Option<&Array<A>> {
        let (index, turn) = place(array);
        self.places.get(index as usize).filter(|place| place.turn == turn)?.array.as_ref()
    }

    fn find_mut(&mut self, array: AllocationId) -> Option<&mut Array<A>> {
        let (index, turn) = place(array);
        let array = self.places.get_mut(index as usize).filter(|place| place.turn == turn)?.array.as_mut()?;
        array.generation = array.generation.next();
        Some(array)
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
    fn bound(&self, argument: ArgumentId) -> Option<(AllocationId, &Array<A>)> {
        let allocation = *self.arguments.get(argument.0 as usize)?;
        Some((allocation, self.world.find(allocation)?))
    }
}

impl<F, A> World for Arguments<'_, F, A> {
    type Field = F;
    type Array = A;

    fn identity(&self) -> WorldId {
        self.world.identity
    }

    fn field_generation(&self, field: FieldId) -> Option<Generation> {
        self.world.fields.get(field.0 as usize).map(|&(generation, _)| generation)
    }

    fn field(&self, field: FieldId) -> Option<&F> {
        self.world.field(field)
    }

    fn binding(&self, argument: ArgumentId) -> Option<Binding> {
        self.bound(argument).map(|(allocation, array)| Binding { allocation, generation: array.generation })
    }

    fn array(&self, argument: ArgumentId) -> Option<&A> {
        self.bound(argument).map(|(_, array)| &array.value)
    }

    fn extent(&self, argument: ArgumentId, axis: u32) -> Option<u64> {
        self.bound(argument)?.1.shape.get(axis as usize).copied()
    }
}

/// The digest of what postcard writes: of a field its value, of an array its shape and its value.
impl<F: Serialize, A: Serialize> Contents for Arguments<'_, F, A> {
    fn field_digest(&self, field: FieldId) -> Option<Key> {
        let bytes = postcard::to_allocvec(self.world.field(field)?).ok()?;
        Some(Key::digest(&bytes))
    }

    fn array_digest(&self, argument: ArgumentId) -> Option<Key> {
        let (_, array) = self.bound(argument)?;
        let bytes = postcard::to_allocvec(&(&array.shape, &array.value)).ok()?;
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
