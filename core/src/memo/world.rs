//! The world: the fields, arrays and axes that a launch can observe.

use core::{fmt, sync::atomic::AtomicUsize};

use super::handle;

/// The id of a field of the runtime, which is storage that lives as long as the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldId(pub u32);

/// The position of an argument in a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArgumentId(pub u32);

/// The id of an allocation, which is never reused.
///
/// Count allocations instead of using addresses: an address is reused, and a result computed from an earlier array at that
/// address would be taken for a result of the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AllocationId(pub u64);

/// The id of one of several worlds whose launches share a memo. Field 3 of one world is not field 3 of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorldId(pub u64);

impl WorldId {
    /// Returns an id that no other world of this process has, provided that worlds that choose their own ids stay below 2^63.
    ///
    /// # Panics
    /// If all values of a `usize` have been handed out.
    #[must_use]
    pub fn unused() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Self(1 << 63 | handle::take(&NEXT) as u64)
    }
}

/// The number of writes to a field or an array.
///
/// ```
/// use warmstart_core::memo::Generation;
///
/// let generation = Generation::FIRST.next();
/// assert_eq!(generation.as_u64(), 1);
/// assert!(Generation::new(u64::MAX).next().is_exhausted(), "it does not begin again");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(u64);

impl Generation {
    /// The generation of a field or an array that was not written since it was created.
    pub const FIRST: Self = Self(0);

    /// The generation of a field or an array that was written so often that the counter is exhausted. Results computed from it
    /// are not cached, because the next write could not be distinguished from this one.
    pub const EXHAUSTED: Self = Self(u64::MAX);

    /// The highest generation that is counted. The next one stands for missing fields and arrays, and
    /// [`EXHAUSTED`](Self::EXHAUSTED) follows.
    const LAST: u64 = u64::MAX - 2;

    /// Returns the generation after `writes` writes.
    ///
    /// A counter of fewer bits must not wrap around, because that would bring back old generations and their results. Let it
    /// stop at `u64::MAX` instead.
    #[must_use]
    pub const fn new(writes: u64) -> Self {
        if writes > Self::LAST { Self::EXHAUSTED } else { Self(writes) }
    }

    /// Returns the generation after one more write; [`EXHAUSTED`](Self::EXHAUSTED) stays the same.
    #[must_use]
    pub const fn next(self) -> Self {
        Self::new(self.0.saturating_add(1))
    }

    /// Returns whether the counter is exhausted.
    #[must_use]
    pub const fn is_exhausted(self) -> bool {
        self.0 == Self::EXHAUSTED.0
    }

    /// Returns the number of writes; `u64::MAX` if the counter is exhausted.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_exhausted() { f.write_str("exhausted") } else { self.0.fmt(f) }
    }
}

/// The array bound to an argument: an allocation and its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Binding {
    /// The identity of the array. Two arrays of equal generation are still distinct.
    pub allocation: AllocationId,
    /// The number of writes to that array.
    pub generation: Generation,
}

/// The state from which launches compute their results: fields of the runtime and arguments of one launch.
///
/// Implement this for what a launch of your runtime sees, or use [`Tracked`](super::Tracked), which counts by itself. An
/// evaluation reads values from here, and only through a [`Recorder`](super::Recorder). The memo relies on these rules:
///
/// - Nothing that can be read from a field or an array, including its shape, changes unless its generation does.
/// - If it may change while another thread launches: **write first, then count**. A recorder reads the generation before the
///   value.
/// - An [`AllocationId`] is never reused.
///
/// An implementation is the view of one launch: a view of the runtime and of the arguments of this launch, created for it. A
/// field behind a lock cannot be lent; let [`Field`](Self::Field) be the lock, or an atomic.
///
/// A hit calls [`identity`](Self::identity), [`field_generation`](Self::field_generation), [`binding`](Self::binding) and
/// [`extent`](Self::extent) for each distinct dependency, so they should be table look-ups.
pub trait World {
    /// The type of a field.
    type Field: ?Sized;
    /// The type of an array.
    type Array: ?Sized;

    /// Returns the identity of this world among those whose launches share a memo. It is the same for every launch in this
    /// world. If there is only one world, it may be any constant below 2^63; if there are several, [`WorldId::unused`] gives
    /// each its own.
    fn identity(&self) -> WorldId;

    /// Returns the generation of a field, or `None` if there is no such field.
    fn field_generation(&self, field: FieldId) -> Option<Generation>;

    /// Returns a field.
    fn field(&self, field: FieldId) -> Option<&Self::Field>;

    /// Returns the binding of an argument, or `None` if it is not bound to an array.
    fn binding(&self, argument: ArgumentId) -> Option<Binding>;

    /// Returns the array that is bound to an argument.
    fn array(&self, argument: ArgumentId) -> Option<&Self::Array>;

    /// Returns the length along an axis, in elements, of the array bound to an argument, or `None` if there is no such axis.
    fn extent(&self, argument: ArgumentId, axis: u32) -> Option<u64>;
}
