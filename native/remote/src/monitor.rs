//! State that threads wait for.
//!
//! It is behind a mutex of the standard library: those of [`os::fork`](warmstart::os::fork) have no condition variable, and a forked
//! child does not use this state, because it has none of the threads.
//!
//! A thread that has this mutex may lock one of `os::fork`, and never the other way round: a fork waits for those that are locked, and
//! new ones wait for the fork.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// A mutex and the condition that what it guards has changed. The state must be consistent whenever the mutex is free.
#[derive(Debug, Default)]
pub(crate) struct Monitor<T> {
    state: Mutex<T>,
    changed: Condvar,
}

impl<T> Monitor<T> {
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all that wait.
    pub(crate) fn notify(&self) {
        self.changed.notify_all();
    }

    /// Waits for a change. Returns whether the time was up first, too.
    pub(crate) fn wait<'m>(&self, state: MutexGuard<'m, T>, time: Duration) -> (MutexGuard<'m, T>, bool) {
        let woken = self.changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner);
        (woken.0, woken.1.timed_out())
    }
}
