//! Single flight: of all who want the same thing at once, one builds it and the others wait.
//!
//! This is the decision only; the native crate adds the waiting. A worker that waits while it is itself building can
//! close a circle (A builds x and needs y, B builds y and needs x). The circle is found before it closes: whoever would
//! close it builds for itself instead.

use alloc::{collections::BTreeMap, vec::Vec};

/// A thread, or whatever else runs a builder to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Worker(pub u64);

/// What a worker that wants a key is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Build it, then call [`Flights::land`].
    Build,
    /// Wait for the one who builds it, then call [`Flights::stop_waiting`].
    Wait,
    /// Build it without telling anybody: waiting would never end.
    BuildAlone,
}

/// Who builds what, and who waits for it.
///
/// ```
/// use warmstart_core::flight::{Flights, Role, Worker};
///
/// let (a, b) = (Worker(1), Worker(2));
/// let mut flights = Flights::default();
/// assert_eq!(flights.join(b"x", a), Role::Build);
/// assert_eq!(flights.join(b"y", b), Role::Build);
/// assert_eq!(flights.join(b"y", a), Role::Wait);
/// assert_eq!(flights.join(b"x", b), Role::BuildAlone, "a waits for b already");
/// ```
#[derive(Debug, Default)]
pub struct Flights {
    builders: BTreeMap<Vec<u8>, Worker>,
    /// What each waiting worker waits for. A worker waits for one thing at a time.
    waiting: BTreeMap<Worker, Vec<u8>>,
}

impl Flights {
    /// No flights.
    #[must_use]
    pub const fn new() -> Self {
        Self { builders: BTreeMap::new(), waiting: BTreeMap::new() }
    }

    /// `worker` wants `key`.
    pub fn join(&mut self, key: &[u8], worker: Worker) -> Role {
        let Some(&builder) = self.builders.get(key) else {
            self.builders.insert(key.to_vec(), worker);
            return Role::Build;
        };
        if self.ends_at(builder, worker) {
            return Role::BuildAlone;
        }
        self.waiting.insert(worker, key.to_vec());
        Role::Wait
    }

    /// The builder of `key` is done, one way or the other.
    pub fn land(&mut self, key: &[u8]) {
        self.builders.remove(key);
    }

    /// `worker` no longer waits, because what it waited for landed or because it lost patience.
    pub fn stop_waiting(&mut self, worker: Worker) {
        self.waiting.remove(&worker);
    }

    /// Whether somebody builds `key`.
    #[must_use]
    pub fn is_building(&self, key: &[u8]) -> bool {
        self.builders.contains_key(key)
    }

    /// Whether following who waits for whom from `start` leads to `end`. It takes at most as many steps as there are
    /// waiting workers, because no circle was ever let in.
    fn ends_at(&self, start: Worker, end: Worker) -> bool {
        let mut at = start;
        for _ in 0..=self.waiting.len() {
            if at == end {
                return true;
            }
            let Some(next) = self.waiting.get(&at).and_then(|key| self.builders.get(key)) else {
                return false;
            };
            at = *next;
        }
        // A circle that does not pass through `end`: it cannot be, but not waiting is always safe.
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_builds_and_the_others_wait() {
        let mut flights = Flights::new();
        assert_eq!(flights.join(b"x", Worker(1)), Role::Build);
        assert_eq!(flights.join(b"x", Worker(2)), Role::Wait);
        assert_eq!(flights.join(b"x", Worker(3)), Role::Wait);
        flights.land(b"x");
        flights.stop_waiting(Worker(2));
        assert_eq!(flights.join(b"x", Worker(2)), Role::Build, "the first builder may have failed");
    }

    #[test]
    fn a_builder_that_needs_itself_builds_alone() {
        let mut flights = Flights::new();
        assert_eq!(flights.join(b"x", Worker(1)), Role::Build);
        assert_eq!(flights.join(b"x", Worker(1)), Role::BuildAlone);
    }

    #[test]
    fn a_circle_of_any_length_is_found_by_the_one_who_would_close_it() {
        const LENGTH: u64 = 50;
        let mut flights = Flights::new();
        let key = |n: u64| n.to_le_bytes();
        for n in 0..LENGTH {
            assert_eq!(flights.join(&key(n), Worker(n)), Role::Build);
        }
        for n in 0..LENGTH - 1 {
            assert_eq!(flights.join(&key(n + 1), Worker(n)), Role::Wait);
        }
        assert_eq!(flights.join(&key(0), Worker(LENGTH - 1)), Role::BuildAlone);
        assert_eq!(flights.join(&key(0), Worker(LENGTH)), Role::Wait, "someone outside the circle may wait");
    }
}
