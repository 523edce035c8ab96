//! Why something could not be registered.

use core::fmt;

use super::{PROBES, RegistryId};

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
