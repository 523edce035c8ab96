//! Single flight between the threads of a process: the waiting, around the core's decision.

use std::{
    collections::HashMap,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use warmstart_core::{
    artifact::Artifact,
    flight::{Flights, Role, Worker},
    key::Key,
};

use crate::os::process_lock;

/// The flights of one cache.
#[derive(Debug, Default)]
pub(super) struct Threads {
    state: Mutex<State>,
    landed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    flights: Flights,
    /// What each flight ends with: an artifact, or nothing if its builder failed.
    results: HashMap<Key, Arc<OnceLock<Option<Artifact>>>>,
}

/// What a caller that missed is to do.
#[derive(Debug)]
pub(super) enum Seat<'a> {
    /// Build, then [land](BuilderSeat::land). Dropping the seat says that nothing was built.
    Builder(BuilderSeat<'a>),
    /// Somebody else built it meanwhile.
    Shared(Artifact),
    /// Build without telling anybody: waiting would never end, or took too long.
    Alone,
}

/// The place of the one who builds.
#[derive(Debug)]
pub(super) struct BuilderSeat<'a> {
    threads: &'a Threads,
    name: Key,
}

impl Threads {
    /// Becomes the builder of `name`, or waits for whoever is until `deadline` (for ever if there is none).
    pub(super) fn take_seat(&self, name: &Key, deadline: Option<Instant>) -> Seat<'_> {
        let me = current_worker();
        let mut state = self.lock();
        loop {
            match state.flights.join(name.as_bytes(), me) {
                Role::Build => {
                    state.results.insert(*name, Arc::default());
                    return Seat::Builder(BuilderSeat { threads: self, name: *name });
                }
                Role::BuildAlone => return Seat::Alone,
                Role::Wait => {}
            }
            let result = state.results.get(name).cloned().unwrap_or_default();
            let _announced = process_lock::announce_wait(name);
            let outcome = loop {
                if let Some(outcome) = result.get() {
                    break Some(outcome.clone());
                }
                let Some(left) = remaining(deadline) else { break None };
                state = self.landed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            };
            state.flights.stop_waiting(me);
            match outcome {
                Some(Some(artifact)) => return Seat::Shared(artifact),
                // The builder failed: whoever comes first is the next.
                Some(None) => {}
                None => return Seat::Alone,
            }
        }
    }

    /// Nothing that can panic runs under this lock, so what it guards is whole even if it was poisoned.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BuilderSeat<'_> {
    /// Hands the artifact to those who wait.
    pub(super) fn land(&mut self, artifact: &Artifact) {
        self.end(Some(artifact.clone()));
    }

    fn end(&mut self, outcome: Option<Artifact>) {
        let state = self.threads.lock();
        if let Some(result) = state.results.get(&self.name) {
            // Set once: the drop of a seat that has landed changes nothing.
            let _ = result.set(outcome);
        }
    }
}

impl Drop for BuilderSeat<'_> {
    fn drop(&mut self) {
        self.end(None);
        let mut state = self.threads.lock();
        state.results.remove(&self.name);
        state.flights.land(self.name.as_bytes());
        drop(state);
        self.threads.landed.notify_all();
    }
}

/// The time until `deadline`; nothing once it has passed. Without a deadline it is as long as one wait can be.
fn remaining(deadline: Option<Instant>) -> Option<std::time::Duration> {
    match deadline {
        None => Some(std::time::Duration::from_secs(3600)),
        Some(deadline) => deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()),
    }
}

/// This thread's number. Threads are never numbered alike, even after one has ended.
fn current_worker() -> Worker {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static MINE: Worker = Worker(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    MINE.with(|mine| *mine)
}
