//! Single flight: when several workers want the same key at once, one builds it and the others wait.
//!
//! This module only decides; the native crate does the waiting. A worker that waits while it is building can close a circle (A
//! builds x and needs y, B builds y and needs x). Such a circle is detected before it closes: the worker that would close it
//! builds the artifact itself.

use alloc::{collections::BTreeMap, vec::Vec};

/// The number of a thread, or of anything else that runs one builder to completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Worker(pub u64);

/// The role of a worker that wants a key: it builds the key, or waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role<F> {
    /// Build the key, then call [`Flights::complete`]. The flight is new.
    Build(F),
    /// Wait for the worker that builds the key and has this flight, then call [`Flights::stop_waiting`].
    Wait(F),
    /// Build the key without registering the build, because waiting would never end.
    BuildAlone,
}

/// The builds in progress and the workers that wait for them.
///
/// Each build has a *flight* of type `F`: a value of the caller's that all workers of the build share, such as the means to wake
/// those that wait.
///
/// ```
/// use warmstart_core::flight::{Flights, Role, Worker};
///
/// let (a, b) = (Worker(1), Worker(2));
/// let mut flights = Flights::<()>::new();
/// assert_eq!(flights.join(b"x", a), Role::Build(()));
/// assert_eq!(flights.join(b"y", b), Role::Build(()));
/// assert_eq!(flights.join(b"y", a), Role::Wait(()));
/// assert_eq!(flights.join(b"x", b), Role::BuildAlone, "a waits for b already");
/// ```
#[derive(Debug, Default)]
pub struct Flights<F> {
    builders: BTreeMap<Vec<u8>, (Worker, F)>,
    /// The key that each waiting worker waits for. A worker waits for one key at a time.
    waiting: BTreeMap<Worker, Vec<u8>>,
}

impl<F: Clone + Default> Flights<F> {
    /// Creates a table without builds.
    #[must_use]
    pub const fn new() -> Self {
        Self { builders: BTreeMap::new(), waiting: BTreeMap::new() }
    }

    /// Decides whether `worker` builds `key` or waits for it, and registers the build or the wait.
    pub fn join(&mut self, key: &[u8], worker: Worker) -> Role<F> {
        let Some((builder, flight)) = self.builders.get(key) else {
            let flight = F::default();
            self.builders.insert(key.to_vec(), (worker, flight.clone()));
            return Role::Build(flight);
        };
        if self.ends_at(*builder, worker) {
            return Role::BuildAlone;
        }
        let flight = flight.clone();
        self.waiting.insert(worker, key.to_vec());
        Role::Wait(flight)
    }

    /// Removes the build of `key`, which has succeeded or failed.
    pub fn complete(&mut self, key: &[u8]) {
        self.builders.remove(key);
    }

    /// Records that `worker` no longer waits, because the build ended or because of a timeout.
    pub fn stop_waiting(&mut self, worker: Worker) {
        self.waiting.remove(&worker);
    }

    /// Returns the flight of `key`, if a registered worker builds it.
    #[must_use]
    pub fn flight(&self, key: &[u8]) -> Option<&F> {
        self.builders.get(key).map(|(_, flight)| flight)
    }

    /// Returns whether following each worker to the worker that it waits for leads from `start` to `end`. Takes at most as many
    /// steps as there are waiting workers, because no circle is ever admitted.
    fn ends_at(&self, start: Worker, end: Worker) -> bool {
        let mut at = start;
        for _ in 0..=self.waiting.len() {
            if at == end {
                return true;
            }
            let Some((next, _)) = self.waiting.get(&at).and_then(|key| self.builders.get(key)) else {
                return false;
            };
            at = *next;
        }
        // A circle that does not pass through `end`. This cannot happen, but not waiting is always safe.
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_worker_builds_and_others_wait() {
        let mut flights = Flights::<()>::new();
        assert_eq!(flights.join(b"x", Worker(1)), Role::Build(()));
        assert_eq!(flights.join(b"x", Worker(2)), Role::Wait(()));
        assert_eq!(flights.join(b"x", Worker(3)), Role::Wait(()));
        flights.complete(b"x");
        flights.stop_waiting(Worker(2));
        assert_eq!(flights.join(b"x", Worker(2)), Role::Build(()), "the first builder may have failed");
    }

    #[test]
    fn a_builder_that_needs_itself_builds_alone() {
        let mut flights = Flights::<()>::new();
        assert_eq!(flights.join(b"x", Worker(1)), Role::Build(()));
        assert_eq!(flights.join(b"x", Worker(1)), Role::BuildAlone);
    }

    #[test]
    fn circle_of_any_length_is_found_by_the_worker_that_closes_it() {
        const LENGTH: u64 = 50;
        let mut flights = Flights::<()>::new();
        let key = |n: u64| n.to_le_bytes();
        for n in 0..LENGTH {
            assert_eq!(flights.join(&key(n), Worker(n)), Role::Build(()));
        }
        for n in 0..LENGTH - 1 {
            assert_eq!(flights.join(&key(n + 1), Worker(n)), Role::Wait(()));
        }
        assert_eq!(flights.join(&key(0), Worker(LENGTH - 1)), Role::BuildAlone);
        assert_eq!(
            flights.join(&key(0), Worker(LENGTH)),
            Role::Wait(()),
            "someone outside the circle may wait"
        );
    }
}
