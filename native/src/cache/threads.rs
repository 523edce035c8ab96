//! Single flight: adds waiting to the core's decision, here between the threads of a process, and by claims between processes.
//!
//! All caches of the process share one table of waiting threads, so that a circle is found whichever caches it passes
//! through.

use std::{
    mem,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};

use warmstart_core::{
    artifact::Artifact,
    flight::{Flights, Role, Worker},
    key::Key,
};

use crate::{
    os::fork::{self, Mutex, MutexGuard},
    store::Claims,
};

static TABLE: Mutex<Table> = Mutex::new(Table::new(0));

#[derive(Debug)]
struct Table {
    /// The [generation](fork::generation) of the builds: a forked child has none of the threads that build.
    generation: u64,
    flights: Flights<Arc<Flight>>,
}

#[derive(Debug, Default)]
struct Flight {
    /// The outcome: an artifact, or nothing if the builder failed.
    outcome: OnceLock<Option<Artifact>>,
    /// The waiting threads. They park instead of waiting on a condition variable, whose lock a fork during a wait would leave held in
    /// the child.
    waiting: Mutex<Vec<Thread>>,
}

/// The right to build, until it is dropped. Nothing was built unless it was [completed](Self::complete).
pub(super) struct BuildGuard {
    /// The flight that threads of this process wait for. `None` if the caller builds without registering the build: waiting would
    /// never end, or took too long.
    flight: Option<(Key, Arc<Flight>)>,
    /// The claim that other processes wait for.
    claim: Option<Box<dyn Send>>,
}

/// Whether a caller waits for another caller's build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// Does not wait.
    Not,
    /// Waits until this time, or for ever if there is none.
    Until(Option<Instant>),
}

/// The reason why the caller does not build.
#[derive(Debug)]
pub(super) enum Elsewhere {
    /// Another caller has built the artifact.
    Built(Artifact),
    /// Another caller is building the artifact, and this one does not wait.
    Building,
}

/// Becomes the builder of the build `digest`, or waits for its builder.
///
/// Caches of this process that share claims share their builds; without claims, a build belongs to the `cache` of this number
/// alone.
pub(super) fn join(
    digest: &Key,
    cache: u64,
    claims: Option<&dyn Claims>,
    waiting: Waiting,
) -> Result<BuildGuard, Elsewhere> {
    let (kind, scope) = match claims {
        Some(claims) => (0, claims.scope()),
        None => (1, cache.to_le_bytes().to_vec()),
    };
    let id = Key::digest(&[&digest.as_bytes()[..], &[kind], &scope].concat());
    let flight = take_off(id, waiting)?.map(|flight| (id, flight));
    let mut guard = BuildGuard { flight, claim: None };
    // Only the thread that builds for all threads claims the build; a thread that builds alone must not wait.
    if guard.is_for_all()
        && let Some(claims) = claims
    {
        guard.claim = match (claims.claim(digest, waiting.deadline()), waiting) {
            (Ok(None), Waiting::Not) => return Err(Elsewhere::Building),
            (claim, _) => claim.unwrap_or_default(),
        };
    }
    Ok(guard)
}

/// Begins the flight `id`, or waits for its end. Returns nothing if the caller is to build alone.
fn take_off(id: Key, waiting: Waiting) -> Result<Option<Arc<Flight>>, Elsewhere> {
    let me = current_worker();
    loop {
        let mut table = table();
        let flight = match table.flights.join(id.as_bytes(), me) {
            Role::Build(flight) => return Ok(Some(flight)),
            Role::BuildAlone => return Ok(None),
            Role::Wait(flight) => flight,
        };
        let Waiting::Until(deadline) = waiting else {
            table.flights.stop_waiting(me);
            return Err(Elsewhere::Building);
        };
        drop(table);
        let outcome = flight.wait(deadline);
        self::table().flights.stop_waiting(me);
        match outcome {
            Some(Some(artifact)) => return Err(Elsewhere::Built(artifact)),
            // The builder failed: whichever thread comes first is the next.
            Some(None) => {}
            None => return Ok(None),
        }
    }
}

impl Waiting {
    fn deadline(self) -> Option<Instant> {
        match self {
            Self::Not => Some(Instant::now()),
            Self::Until(deadline) => deadline,
        }
    }
}

impl Flight {
    /// Waits for the outcome. Returns nothing once `deadline` has passed.
    fn wait(&self, deadline: Option<Instant>) -> Option<Option<Artifact>> {
        loop {
            // Before a look at the outcome: it is set first, and then all who wait are woken.
            self.waiting.lock().push(thread::current());
            if let Some(outcome) = self.outcome.get() {
                return Some(outcome.clone());
            }
            thread::park_timeout(remaining(deadline)?);
            let me = thread::current().id();
            self.waiting.lock().retain(|waiting| waiting.id() != me);
        }
    }
}

impl BuildGuard {
    /// Returns whether the build is shared, so that the store is looked up once more before it begins.
    pub(super) const fn is_for_all(&self) -> bool {
        self.flight.is_some()
    }

    /// Releases the claim and hands the artifact to the waiting threads.
    pub(super) fn complete(self, artifact: &Artifact) {
        if let Some((_, flight)) = &self.flight {
            let _ = flight.outcome.set(Some(artifact.clone()));
        }
    }
}

impl Drop for BuildGuard {
    fn drop(&mut self) {
        self.claim = None;
        let Some((id, flight)) = &self.flight else { return };
        // Set once: after `complete` this changes nothing.
        let _ = flight.outcome.set(None);
        let mut table = table();
        // A forked child has a table of its own, where this may be another thread's build.
        if table.flights.flight(id.as_bytes()).is_some_and(|known| Arc::ptr_eq(known, flight)) {
            table.flights.complete(id.as_bytes());
        }
        drop(table);
        let waiting = mem::take(&mut *flight.waiting.lock());
        waiting.iter().for_each(Thread::unpark);
    }
}

impl Table {
    const fn new(generation: u64) -> Self {
        Self { generation, flights: Flights::new() }
    }
}

/// Locks the table. Nothing that can panic runs under this lock.
fn table() -> MutexGuard<'static, Table> {
    let mut table = TABLE.lock();
    if table.generation != fork::generation() {
        *table = Table::new(fork::generation());
    }
    table
}

/// Returns the time until `deadline`, or nothing once it has passed. Without a deadline it is the longest time that one wait takes.
fn remaining(deadline: Option<Instant>) -> Option<Duration> {
    match deadline {
        None => Some(Duration::from_secs(3600)),
        Some(deadline) => deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()),
    }
}

/// Returns this thread's number, which no other thread ever has, even after this one has ended.
fn current_worker() -> Worker {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static MINE: Worker = Worker(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    MINE.with(|mine| *mine)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker tried `x`, which another one builds, and builds `y` now. The builder of `x` may wait for `y`, for no builder waits for `x`.
    #[test]
    fn a_worker_that_only_tried_is_part_of_no_circle() {
        let [x, y] = [b"x", b"y"].map(|digest| Key::digest(digest));
        // Of no cache.
        let try_to = |digest| join(digest, u64::MAX, None, Waiting::Not);
        let x_guard = try_to(&x).ok();
        assert!(x_guard.is_some());
        let y_guard = thread::scope(|scope| {
            let other = scope.spawn(|| {
                assert!(matches!(try_to(&x), Err(Elsewhere::Building)));
                try_to(&y).ok()
            });
            other.join().unwrap()
        });
        assert!(y_guard.is_some());
        assert!(matches!(try_to(&y), Err(Elsewhere::Building)), "it builds `y` too");
    }
}
