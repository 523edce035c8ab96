//! Ids: a hash of kernel and task that is the same in every process and on every host.

use core::{fmt, iter, num::NonZeroU32};

use thiserror::Error;

/// The number of ids that a pair may get: its home, and those that follow it.
///
/// Because they are few, an id is evidence of a name. A pair has no id left only after this many collisions.
pub const PROBES: u32 = 256;

/// A number that stands for a kernel and a task. It is never 0, which means "not registered".
///
/// ```
/// use warmstart_core::registry::RegistryId;
///
/// let id = RegistryId::home("compute_grad", 3);
/// assert_eq!(id.to_string(), "0xd5619350");
/// assert_eq!(RegistryId::new(id.as_u32()), Some(id));
/// assert_eq!(RegistryId::new(0), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegistryId(NonZeroU32);

impl RegistryId {
    /// Creates an id from this number; `None` if it is 0.
    #[must_use]
    pub const fn new(id: u32) -> Option<Self> {
        match NonZeroU32::new(id) {
            Some(id) => Some(Self(id)),
            None => None,
        }
    }

    /// Returns the number.
    #[must_use]
    pub const fn as_u32(self) -> u32 {
        self.0.get()
    }

    /// Computes the id that a pair gets if no other pair has it: the 64-bit FNV-1a hash of the name, a colon and the task as
    /// eight bytes, folded to 32 bits. 0 becomes 1.
    #[must_use]
    pub const fn home(kernel: &str, task: i32) -> Self {
        let mut hash = 0xcbf2_9ce4_8422_2325;
        let name = kernel.as_bytes();
        let mut at = 0;
        while at < name.len() {
            hash = fnv(hash, name[at]);
            at += 1;
        }
        hash = fnv(hash, b':');
        let task = task.to_le_bytes();
        at = 0;
        while at < 8 {
            hash = fnv(hash, if at < task.len() { task[at] } else { 0 });
            at += 1;
        }
        match Self::new((hash ^ (hash >> 32)) as u32) {
            Some(id) => id,
            None => Self(NonZeroU32::MIN),
        }
    }

    /// Checks that a registry can give this id to this pair.
    ///
    /// # Errors
    /// [`RegistryError::EmptyKernel`]; [`RegistryError::IdOfAnotherName`] if no registry gives this id to this pair.
    pub fn check(self, kernel: &str, task: i32) -> Result<(), RegistryError> {
        if kernel.is_empty() {
            return Err(RegistryError::EmptyKernel);
        }
        let home = Self::home(kernel, task);
        if home.probes_reach(self) { Ok(()) } else { Err(RegistryError::IdOfAnotherName { id: self, home }) }
    }

    /// Iterates over the ids that a pair with this home may get, in the order in which they are tried.
    pub(crate) fn probes(self) -> impl Iterator<Item = Self> {
        iter::successors(Some(self), |id| Some(id.next())).take(PROBES as usize)
    }

    /// Returns whether `id` is one of [`probes`](Self::probes).
    pub(crate) const fn probes_reach(self, id: Self) -> bool {
        let (from, to) = (self.as_u32(), id.as_u32());
        // 0 is skipped, because it is not an id.
        let steps = if to >= from { to - from } else { u32::MAX - from + to };
        steps < PROBES
    }

    /// Returns a hash for tables. Ids of different homes already differ in all bits, but ids that follow each other only in the
    /// low ones.
    pub(crate) const fn mixed(self) -> u64 {
        mix(self.0.get() as u64)
    }

    const fn next(self) -> Self {
        match self.0.checked_add(1) {
            Some(next) => Self(next),
            None => Self(NonZeroU32::MIN),
        }
    }
}

impl fmt::Display for RegistryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

impl fmt::Debug for RegistryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RegistryId({self})")
    }
}

/// Mixes the low bits into the high ones, by which hashbrown distinguishes the entries of a group.
pub(super) const fn mix(bits: u64) -> u64 {
    bits.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

const fn fnv(hash: u64, byte: u8) -> u64 {
    (hash ^ byte as u64).wrapping_mul(0x100_0000_01b3)
}

/// The reason why a kernel and a task were not registered. The registry is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The kernel's name is empty.
    #[error("the kernel has no name; give it one, so that a message can say it")]
    EmptyKernel,
    /// No registry gives this id to this kernel and task.
    #[error(
        "{id} is not the id of this kernel and task, which have {home} or one of the {} after it; the artifact \
         is damaged or was renamed: compile it again",
        PROBES - 1
    )]
    IdOfAnotherName {
        /// The id claimed.
        id: RegistryId,
        /// The first id that the kernel and task may have.
        home: RegistryId,
    },
    /// All ids that the kernel and task may have are claimed by others, or there are 2^32 - 1 rows.
    #[error(
        "no id is left for this kernel and task: {home} and the {} after it are taken; remove what is no longer \
         loaded, or rename the kernel",
        PROBES - 1
    )]
    Full {
        /// The first of these ids.
        home: RegistryId,
    },
}
