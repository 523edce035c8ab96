//! The stable name of what is launched.

use core::{
    error, fmt,
    num::NonZeroU32,
    sync::atomic::{AtomicUsize, Ordering},
};

/// A memo, among all of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoId(usize);

impl MemoId {
    /// One that no other memo has.
    ///
    /// # Panics
    /// If there were as many as a `usize` counts.
    #[must_use]
    pub fn unused() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Self(take(&NEXT))
    }
}

/// A number that nobody took before. It does not begin again: two that have the same would have each other's results.
///
/// # Panics
/// If there is none.
pub(super) fn take(next: &AtomicUsize) -> usize {
    let taken = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| next.checked_add(1));
    taken.expect("a process does not live so long that it counts to the end of a usize")
}

/// What is launched, as long as it is registered, and never anything else.
///
/// An address would come back when what lay there is gone. The place that a handle names comes back too, but at the next
/// generation; a place whose generations have run out is not used again. A handle of one memo is unknown to every other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle {
    memo: MemoId,
    index: u32,
    generation: NonZeroU32,
}

impl Handle {
    /// The first handle of the place `index` of `memo`.
    #[must_use]
    pub const fn first(memo: MemoId, index: u32) -> Self {
        Self { memo, index, generation: NonZeroU32::MIN }
    }

    /// The handle that the same place has next, or nothing if there have been 2^32 - 1.
    #[must_use]
    pub const fn next(self) -> Option<Self> {
        match self.generation.checked_add(1) {
            Some(generation) => Some(Self { generation, ..self }),
            None => None,
        }
    }

    /// The memo that gave it.
    #[must_use]
    pub const fn memo(self) -> MemoId {
        self.memo
    }

    /// Its place in that memo.
    #[must_use]
    pub const fn index(self) -> usize {
        self.index as usize
    }

    #[cfg(test)]
    pub(super) const fn last(self) -> Self {
        Self { generation: NonZeroU32::MAX, ..self }
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} of memo {}", self.index, self.generation, self.memo.0)
    }
}

/// Why a handle leads to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandleError {
    /// This memo never gave it.
    Unknown(Handle),
    /// What it named was removed.
    Stale(Handle),
}

impl fmt::Display for HandleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(handle) => {
                write!(
                    f,
                    "handle {handle} was given by another memo: launch it there, or register its kernel here"
                )
            }
            Self::Stale(handle) => {
                write!(f, "what handle {handle} named was removed: register the kernel again")
            }
        }
    }
}

impl error::Error for HandleError {}
