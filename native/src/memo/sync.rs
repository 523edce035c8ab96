//! The two things that threads meet at, and what loom watches instead of them.

#[cfg(not(all(test, loom)))]
pub(super) use crate::os::fork::Mutex;
#[cfg(not(all(test, loom)))]
pub(super) use arc_swap::ArcSwapOption as Shared;
#[cfg(all(test, loom))]
pub(super) use watched::{Mutex, Shared};

#[cfg(all(test, loom))]
mod watched {
    use std::sync::{Arc, PoisonError};

    use loom::sync::{
        self, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    };

    /// What is promised of an atomic pointer and no more: a load may see any value that it was not told to be replaced.
    pub(in crate::memo) struct Shared<T> {
        now: AtomicUsize,
        /// All that were ever stored. Not watched: it is never waited for, and orders nothing.
        stored: std::sync::Mutex<Vec<Option<Arc<T>>>>,
    }

    impl<T> Shared<T> {
        pub(in crate::memo) fn empty() -> Self {
            Self { now: AtomicUsize::new(0), stored: std::sync::Mutex::new(vec![None]) }
        }

        pub(in crate::memo) fn load_full(&self) -> Option<Arc<T>> {
            let now = self.now.load(Ordering::Acquire);
            self.stored.lock().unwrap_or_else(PoisonError::into_inner)[now].clone()
        }

        pub(in crate::memo) fn swap(&self, value: Option<Arc<T>>) -> Option<Arc<T>> {
            let next = {
                let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
                stored.push(value);
                stored.len() - 1
            };
            let before = self.now.swap(next, Ordering::AcqRel);
            self.stored.lock().unwrap_or_else(PoisonError::into_inner)[before].clone()
        }
    }

    pub(in crate::memo) struct Mutex<T>(sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(in crate::memo) fn new(value: T) -> Self {
            Self(sync::Mutex::new(value))
        }

        pub(in crate::memo) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }
}
