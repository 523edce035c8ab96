//! Handles: stable names of registered reductions.

use core::{
    fmt,
    num::NonZeroU32,
    sync::atomic::{AtomicUsize, Ordering},
};

use thiserror::Error;

/// Identifies a memo within this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoId(usize);

impl MemoId {
    /// Returns an id that no other memo has.
    ///
    /// # Panics
    /// If all values of a `usize` were given out.
    #[must_use]
    pub fn unused() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Self(take(&NEXT))
    }
}

/// Returns a number that was not returned before. It never wraps: two owners of one number would get each other's results.
///
/// # Panics
/// If no number is left.
pub(super) fn take(next: &AtomicUsize) -> usize {
    let taken = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| next.checked_add(1));
    taken.expect("a process does not live so long that it counts to the end of a usize")
}

/// Names a registered reduction until it is removed, and never another one.
///
/// An address is reused after its object is freed. The slot of a handle is reused too, but with the next generation; a slot
/// whose generations have run out is retired. A handle of one memo is unknown to every other memo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle {
    memo: MemoId,
    index: u32,
    generation: NonZeroU32,
}

impl Handle {
    /// Creates the handle of slot `index` of `memo` at this generation.
    #[must_use]
    pub const fn new(memo: MemoId, index: u32, generation: NonZeroU32) -> Self {
        Self { memo, index, generation }
    }

    /// Returns the next handle of the same slot, or nothing after 2^32 - 1 handles.
    #[must_use]
    pub const fn next(self) -> Option<Self> {
        match self.generation.checked_add(1) {
            Some(generation) => Some(Self { generation, ..self }),
            None => None,
        }
    }

    /// Returns the memo that issued the handle.
    #[must_use]
    pub const fn memo(self) -> MemoId {
        self.memo
    }

    /// Returns the index of its slot in that memo.
    #[must_use]
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} of memo {}", self.index, self.generation, self.memo.0)
    }
}

/// The reason why a handle is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HandleError {
    /// This memo never issued the handle.
    #[error("handle {0} was given by another memo: launch it there, or register its kernel here")]
    Unknown(Handle),
    /// The reduction was removed.
    #[error("the kernel of handle {0} was removed: register it again")]
    Stale(Handle),
}
