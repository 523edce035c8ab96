//! A world that counts by itself what is written.

use alloc::{boxed::Box, vec::Vec};
use core::sync::atomic::{AtomicU32, Ordering};

use super::world::{AllocationId, ArgumentId, Binding, FieldId, Generation, World, WorldId};

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
    /// How often each field was written. What hits look at lies apart from what they do not, so that it stays in the nearest cache.
    generations: Vec<Generation>,
    fields: Vec<F>,
    places: Vec<Place>,
    /// The shape and the value of the array at each place, as long as it is [taken](Place::taken).
    shapes: Vec<Box<[u64]>>,
    arrays: Vec<Option<A>>,
    /// Places whose arrays were freed.
    free: Vec<u32>,
}

/// Where arrays are, one after the other.
#[derive(Debug)]
struct Place {
    /// How many were here before: with the place, what tells an allocation from every other.
    turn: u32,
    taken: bool,
    generation: Generation,
}

impl<F, A> Tracked<F, A> {
    /// A world without fields and arrays, which is no other world of this process.
    #[must_use]
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let identity = WorldId(u64::from(NEXT.fetch_add(1, Ordering::Relaxed)));
        Self {
            identity,
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
    /// If there are 2^32 fields.
    pub fn add_field(&mut self, value: F) -> FieldId {
        let field = u32::try_from(self.fields.len()).expect("fewer than 2^32 fields");
        self.generations.push(Generation::FIRST);
        self.fields.push(value);
        FieldId(field)
    }

    /// The value of a field.
    #[must_use]
    pub fn field(&self, field: FieldId) -> Option<&F> {
        self.fields.get(field.0 as usize)
    }

    /// The value of a field, to be written. Counts as a write, whatever is done with it.
    pub fn field_mut(&mut self, field: FieldId) -> Option<&mut F> {
        let generation = self.generations.get_mut(field.0 as usize)?;
        *generation = generation.next();
        self.fields.get_mut(field.0 as usize)
    }

    /// Adds an array of `shape`, in elements along each axis.
    ///
    /// # Panics
    /// If there are 2^32 arrays at a time.
    pub fn allocate(&mut self, shape: &[u64], value: A) -> AllocationId {
        if let Some(index) = self.free.pop() {
            let at = index as usize;
            let turn = self.places[at].turn + 1;
            self.places[at] = Place { turn, taken: true, generation: Generation::FIRST };
            self.shapes[at] = shape.into();
            self.arrays[at] = Some(value);
            return allocation(index, turn);
        }
        let index = u32::try_from(self.places.len()).expect("fewer than 2^32 arrays at a time");
        self.places.push(Place { turn: 0, taken: true, generation: Generation::FIRST });
        self.shapes.push(shape.into());
        self.arrays.push(Some(value));
        allocation(index, 0)
    }

    /// Takes an array away. Its id stands for nothing from now on.
    pub fn free(&mut self, array: AllocationId) -> Option<A> {
        self.find(array)?;
        let (index, turn) = place(array);
        self.places.get_mut(index as usize)?.taken = false;
        if turn < u32::MAX {
            self.free.push(index);
        }
        self.arrays.get_mut(index as usize)?.take()
    }

    /// The value of an array.
    #[must_use]
    pub fn array(&self, array: AllocationId) -> Option<&A> {
        self.find(array)?;
        self.arrays.get(index(array))?.as_ref()
    }

    /// The value of an array, to be written. Counts as a write, whatever is done with it.
    pub fn array_mut(&mut self, array: AllocationId) -> Option<&mut A> {
        self.write(array)?;
        self.arrays.get_mut(index(array))?.as_mut()
    }

    /// The shape of an array, in elements along each axis.
    #[must_use]
    pub fn shape(&self, array: AllocationId) -> Option<&[u64]> {
        self.find(array)?;
        self.shapes.get(index(array)).map(|shape| &**shape)
    }

    /// Gives an array another shape, and its value to be fitted to it. Counts as a write.
    pub fn reshape(&mut self, array: AllocationId, shape: &[u64]) -> Option<&mut A> {
        self.write(array)?;
        *self.shapes.get_mut(index(array))? = shape.into();
        self.arrays.get_mut(index(array))?.as_mut()
    }

    /// What a launch with these arguments sees.
    #[must_use]
    pub const fn with_arguments<'w>(&'w self, arguments: &'w [AllocationId]) -> Arguments<'w, F, A> {
        Arguments { world: self, arguments }
    }

    /// How often an array was written, if it is there.
    #[inline]
    fn find(&self, array: AllocationId) -> Option<Generation> {
        let (index, turn) = place(array);
        let place = self.places.get(index as usize)?;
        (place.turn == turn && place.taken).then_some(place.generation)
    }

    /// An array is about to be written.
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
