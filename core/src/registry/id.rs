//! Ids, and where they come from: a hash that is the same in every process and on every host.

use core::{fmt, iter, num::NonZeroU32};

/// The number of ids that a pair may get: its home, and those that follow it.
///
/// That they are few is what makes an id say something about a name. That all are taken takes as many collisions.
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
    /// The id of this number; `None` if it is 0.
    #[must_use]
    pub const fn new(id: u32) -> Option<Self> {
        match NonZeroU32::new(id) {
            Some(id) => Some(Self(id)),
            None => None,
        }
    }

    /// The number.
    #[must_use]
    pub const fn as_u32(self) -> u32 {
        self.0.get()
    }

    /// The id that a pair gets where no other pair has it: the 64-bit FNV-1a hash of the name, a colon and the task as eight bytes,
    /// folded to 32 bits. 0 becomes 1.
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

    /// Whether a registry can give this id to this pair.
    ///
    /// # Errors
    /// [`RegistryError::EmptyKernel`]; [`RegistryError::IdOfAnotherName`] if no registry gives it to this pair.
    pub fn check(self, kernel: &str, task: i32) -> Result<(), RegistryError> {
        if kernel.is_empty() {
            return Err(RegistryError::EmptyKernel);
        }
        let home = Self::home(kernel, task);
        if home.probes_reach(self) { Ok(()) } else { Err(RegistryError::IdOfAnotherName { id: self, home }) }
    }

    /// The ids that the pair at home here may get, in the order in which they are tried.
    pub(crate) fn probes(self) -> impl Iterator<Item = Self> {
        iter::successors(Some(self), |id| Some(id.next())).take(PROBES as usize)
    }

    /// Whether `id` is one of [`probes`](Self::probes).
    pub(crate) const fn probes_reach(self, id: Self) -> bool {
        let (from, to) = (self.as_u32(), id.as_u32());
        // 0 is no step.
        let steps = if to >= from { to - from } else { u32::MAX - from + to };
        steps < PROBES
    }

    /// A hash for tables: ids of different homes differ in all their bits already, those that follow each other only in the low ones.
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

/// Brings low bits to the high ones, by which hashbrown tells those in one group apart.
pub(super) const fn mix(bits: u64) -> u64 {
    bits.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

const fn fnv(hash: u64, byte: u8) -> u64 {
    (hash ^ byte as u64).wrapping_mul(0x100_0000_01b3)
}

/// Why a kernel and a task were not registered. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RegistryError {
    /// The kernel has no name.
    EmptyKernel,
    /// This id is given to no kernel and task of these names.
    IdOfAnotherName {
        /// The id that it claims.
        id: RegistryId,
        /// The first of those that it may have.
        home: RegistryId,
    },
    /// All ids that the kernel and the task may have are claimed by others, or there are 2^32 - 1 rows.
    Full {
        /// The first of them.
        home: RegistryId,
    },
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyKernel => {
                f.write_str("the kernel has no name; give it one, so that a message can say it")
            }
            Self::IdOfAnotherName { id, home } => write!(
                f,
                "{id} is not the id of this kernel and task, which have {home} or one of the {} after it; the artifact \
                 is damaged or was renamed: compile it anew",
                PROBES - 1
            ),
            Self::Full { home } => write!(
                f,
                "no id is left for this kernel and task: {home} and the {} after it are taken; remove what is no longer \
                 loaded, or rename the kernel",
                PROBES - 1
            ),
        }
    }
}

impl core::error::Error for RegistryError {}
