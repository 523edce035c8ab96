//! What a launch can observe.

use core::{fmt, sync::atomic::AtomicUsize};

use super::handle;

/// A field of the runtime: storage that lives as long as the program and keeps its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldId(pub u32);

/// An argument of the launch, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArgumentId(pub u32);

/// An allocation, and never another one.
///
/// Count allocations: an address comes back, and what was computed from the array that had it before would be taken for a
/// result of the array that has it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AllocationId(pub u64);

/// One of several worlds whose launches go through the same memo. Field 3 of one is not field 3 of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorldId(pub u64);

impl WorldId {
    /// One that no other world of this process has, if those that number themselves stay below 2^63.
    ///
    /// # Panics
    /// If there were as many as a `usize` counts.
    #[must_use]
    pub fn unused() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Self(1 << 63 | handle::take(&NEXT) as u64)
    }
}

/// How often something was written.
///
/// ```
/// use warmstart_core::memo::Generation;
///
/// let generation = Generation::FIRST.next();
/// assert_eq!(generation.as_u64(), 1);
/// assert!(Generation::new(u64::MAX).next().is_worn(), "it does not begin again");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(u64);

impl Generation {
    /// Never written since it was made.
    pub const FIRST: Self = Self(0);

    /// Written so often that the count has ended. A result that was computed from such a thing is not kept: the next write
    /// could not be told from this one.
    pub const WORN: Self = Self(u64::MAX);

    /// The highest that is counted. The one above it stands for what does not exist, and [`WORN`](Self::WORN) is next.
    const LAST: u64 = u64::MAX - 2;

    /// The generation after `writes` writes.
    ///
    /// A counter of fewer bits that wraps brings old generations back, and with them old results; let it stop at
    /// `u64::MAX` instead.
    #[must_use]
    pub const fn new(writes: u64) -> Self {
        if writes > Self::LAST { Self::WORN } else { Self(writes) }
    }

    /// The generation after one more write; [`WORN`](Self::WORN) stays what it is.
    #[must_use]
    pub const fn next(self) -> Self {
        Self::new(self.0.saturating_add(1))
    }

    /// Whether the count has ended.
    #[must_use]
    pub const fn is_worn(self) -> bool {
        self.0 == Self::WORN.0
    }

    /// How many writes there were; `u64::MAX` if the count has ended.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_worn() { f.write_str("worn out") } else { self.0.fmt(f) }
    }
}

/// What an argument is bound to: an allocation, at a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Binding {
    /// Which array it is. Two arrays of equal generation are still two arrays.
    pub allocation: AllocationId,
    /// How often that array was written.
    pub generation: Generation,
}

/// The state from which launches compute their results: fields of the runtime and arguments of this launch.
///
/// Implement it for what a launch of your runtime sees, or use [`Tracked`](super::Tracked), which counts by itself. An evaluation gets its
/// values from here, and only through a [`Recorder`](super::Recorder). What the memo relies on:
///
/// - Whatever can be read from a field or an array, its shape included, does not change unless its generation does.
/// - If it may change while another thread launches: **write first, count then**. A recorder asks for the generation before
///   it asks for the value.
/// - An [`AllocationId`] is never given twice.
///
/// It is what one launch sees: a view of the runtime and of the arguments of this launch, made for it. A field behind a lock cannot be lent; let
/// [`Field`](Self::Field) be the lock, or an atomic.
///
/// The questions after a hit are [`identity`](Self::identity), [`field_generation`](Self::field_generation), [`binding`](Self::binding) and
/// [`extent`](Self::extent). They are asked for each distinct dependency, so let them be a look into a table.
pub trait World {
    /// What a field is to an evaluation.
    type Field: ?Sized;
    /// What an array is to an evaluation.
    type Array: ?Sized;

    /// Which world this is, among those whose launches go through the same memo. It is the same for every launch in that world. Where
    /// there is only one it may be any constant below 2^63; where there are several, [`WorldId::unused`] gives each its own.
    fn identity(&self) -> WorldId;

    /// How often the field was written, or nothing if there is no such field.
    fn field_generation(&self, field: FieldId) -> Option<Generation>;

    /// The field itself.
    fn field(&self, field: FieldId) -> Option<&Self::Field>;

    /// What the argument is bound to, or nothing if it is not bound to an array.
    fn binding(&self, argument: ArgumentId) -> Option<Binding>;

    /// The array that the argument is bound to.
    fn array(&self, argument: ArgumentId) -> Option<&Self::Array>;

    /// The length along an axis, in elements, of the array that the argument is bound to; nothing if there is no such
    /// axis.
    fn extent(&self, argument: ArgumentId, axis: u32) -> Option<u64>;
}
