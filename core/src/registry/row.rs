//! What is registered, and what an id resolves to.

use alloc::{boxed::Box, vec::Vec};
use core::fmt;

use super::{RegistryError, RegistryId};

/// A row of a registry: the claim of a kernel and a task to an id, and a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered<T = ()> {
    pub(super) kernel: Box<str>,
    pub(super) value: T,
    pub(super) id: RegistryId,
    pub(super) task: i32,
}

/// Whom an id stands for. Shown, it is a part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution<'a, T = ()> {
    /// For none that is known here.
    Unknown,
    /// For this one, as far as is known here.
    One(&'a Registered<T>),
    /// For one of these. There are at least two, in the order of their names and tasks.
    Several(Vec<&'a Registered<T>>),
}

impl Registered {
    /// What an artifact says about an id in its code.
    ///
    /// # Errors
    /// If the kernel has no name, or if the id cannot be that of this kernel and task.
    pub fn new(id: RegistryId, kernel: &str, task: i32) -> Result<Self, RegistryError> {
        id.check(kernel, task)?;
        Ok(Self { kernel: kernel.into(), value: (), id, task })
    }
}

impl<T> Registered<T> {
    /// The id that is in the code.
    #[must_use]
    pub const fn id(&self) -> RegistryId {
        self.id
    }

    /// The name of the kernel.
    #[must_use]
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// The task of the kernel.
    #[must_use]
    pub const fn task(&self) -> i32 {
        self.task
    }

    /// What was registered with it.
    #[must_use]
    pub const fn value(&self) -> &T {
        &self.value
    }

    pub(super) fn is(&self, id: RegistryId, kernel: &str, task: i32) -> bool {
        self.id == id && self.task == task && *self.kernel == *kernel
    }
}

impl<'a, T> Resolution<'a, T> {
    /// The row, if there is exactly one.
    #[must_use]
    pub const fn one(&self) -> Option<&'a Registered<T>> {
        match self {
            Self::One(row) => Some(*row),
            Self::Unknown | Self::Several(_) => None,
        }
    }
}

impl<T> fmt::Display for Registered<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel `{}`, task {}", self.kernel.escape_debug(), self.task)
    }
}

impl<T> fmt::Display for Resolution<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("a kernel that is not registered"),
            Self::One(row) => row.fmt(f),
            Self::Several(rows) => rows.iter().enumerate().try_for_each(|(at, row)| {
                f.write_str(if at > 0 { " or " } else { "" })?;
                row.fmt(f)
            }),
        }
    }
}
