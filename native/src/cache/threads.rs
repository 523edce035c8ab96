//! Single flight between the threads of a process: the waiting, around the core's decision.
//!
//! All caches of the process share one table of who waits for whom. So a circle is found whichever caches it passes
//! through.

use std::{
    collections::BTreeMap,
    mem,
    path::{Path, PathBuf},
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

use crate::os::fork::{self, Mutex, MutexGuard};

static TABLE: Mutex<Table> = Mutex::new(Table::new(0));

#[derive(Debug)]
struct Table {
    /// The [generation](fork::generation) of what is under way: a forked child has none of the threads that build.
    generation: u64,
    flights: Flights,
    /// Exactly what `flights` says is being built.
    under_way: BTreeMap<Key, Arc<Flight>>,
}

#[derive(Debug, Default)]
struct Flight {
    /// What it ended with: an artifact, or nothing if the builder failed.
    outcome: OnceLock<Option<Artifact>>,
    /// The threads that wait for it. They are parked, and not blocked at a condition: a fork in the middle of a wait would
    /// leave its lock held in the child.
    waiting: Mutex<Vec<Thread>>,
}

/// Whose builds count as the same.
#[derive(Debug)]
pub(super) enum Scope {
    /// All caches whose locks are in this directory.
    Directory(PathBuf),
    /// One cache, which shares no directory with others.
    Cache(CacheNumber),
}

/// Tells the caches of a process apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheNumber(u64);

/// What a caller that missed is to do.
#[derive(Debug)]
pub(super) enum Seat {
    /// Build, then [land](BuilderSeat::land). Dropping the seat says that nothing was built.
    Builder(BuilderSeat),
    /// Somebody else built it meanwhile.
    Shared(Artifact),
    /// Build without telling anybody: waiting would never end, or took too long.
    Alone,
}

/// The place of the one who builds.
#[derive(Debug)]
pub(super) struct BuilderSeat {
    id: Key,
    flight: Arc<Flight>,
}

/// Becomes the builder of `name`, or waits for whoever is until `deadline` (for ever if there is none).
pub(super) fn take_seat(scope: &Scope, name: &Key, deadline: Option<Instant>) -> Seat {
    let me = current_worker();
    let id = scope.flight_id(name);
    loop {
        let mut table = table();
        let flight = match table.flights.join(id.as_bytes(), me) {
            Role::Build => {
                let flight = Arc::<Flight>::default();
                table.under_way.insert(id, Arc::clone(&flight));
                return Seat::Builder(BuilderSeat { id, flight });
            }
            Role::BuildAlone => return Seat::Alone,
            Role::Wait => table.under_way.get(&id).cloned().unwrap_or_default(),
        };
        drop(table);
        let outcome = flight.wait(deadline);
        self::table().flights.stop_waiting(me);
        match outcome {
            Some(Some(artifact)) => return Seat::Shared(artifact),
            // The builder failed: whoever comes first is the next.
            Some(None) => {}
            None => return Seat::Alone,
        }
    }
}

impl Flight {
    /// What it ended with. Nothing once `deadline` has passed.
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

impl BuilderSeat {
    /// Hands the artifact to those who wait, once the seat is dropped.
    pub(super) fn land(&self, artifact: &Artifact) {
        let _ = self.flight.outcome.set(Some(artifact.clone()));
    }
}

impl Drop for BuilderSeat {
    fn drop(&mut self) {
        // Set once: the drop of a seat that has landed changes nothing.
        let _ = self.flight.outcome.set(None);
        let mut table = table();
        table.under_way.remove(&self.id);
        table.flights.land(self.id.as_bytes());
        drop(table);
        let waiting = mem::take(&mut *self.flight.waiting.lock());
        waiting.iter().for_each(Thread::unpark);
    }
}

impl Scope {
    /// The scope of the cache `number`, whose store's locks are in `locks`.
    pub(super) fn new(locks: Option<&Path>, number: CacheNumber) -> Self {
        match locks {
            // Two paths may lead to one directory.
            Some(locks) => Self::Directory(resolved(locks)),
            None => Self::Cache(number),
        }
    }

    /// The directory of the locks between processes.
    pub(super) fn locks(&self) -> Option<&Path> {
        match self {
            Self::Directory(path) => Some(path),
            Self::Cache(_) => None,
        }
    }

    fn flight_id(&self, name: &Key) -> Key {
        let mut bytes = name.as_bytes().to_vec();
        match self {
            Self::Directory(path) => {
                bytes.push(0);
                bytes.extend_from_slice(path.as_os_str().as_encoded_bytes());
            }
            Self::Cache(CacheNumber(number)) => {
                bytes.push(1);
                bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
        Key::digest(&bytes)
    }
}

impl CacheNumber {
    /// A number that no other cache has.
    pub(super) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Table {
    const fn new(generation: u64) -> Self {
        Self { generation, flights: Flights::new(), under_way: BTreeMap::new() }
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

/// The time until `deadline`; nothing once it has passed. Without a deadline it is as long as one wait can be.
fn remaining(deadline: Option<Instant>) -> Option<Duration> {
    match deadline {
        None => Some(Duration::from_secs(3600)),
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

/// One path for a directory, however its parents are spelt. It may itself have become a link, which is not followed.
fn resolved(directory: &Path) -> PathBuf {
    let parent = directory.parent().and_then(|parent| parent.canonicalize().ok());
    let resolved = parent.zip(directory.file_name()).map(|(parent, name)| parent.join(name));
    resolved.unwrap_or_else(|| directory.to_path_buf())
}
