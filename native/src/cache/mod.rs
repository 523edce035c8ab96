//! The one call: look up, else build, store and return.

mod counters;
mod explain;
mod fetched;
mod reports;
mod request;
mod threads;

pub use explain::Explanation;
pub use fetched::{Fetched, How};
pub use request::Request;

use std::{
    io,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use warmstart_core::{
    artifact::{Artifact, Provenance},
    key::Key,
    reason::Reason,
    statistics::Statistics,
};

use crate::{
    clock::{Clock, SystemClock},
    os::process_lock::ProcessLock,
    store::{Lookup, Store, Stored},
};
use counters::Counters;
use reports::Reports;
use threads::{CacheNumber, Scope, Seat};

/// How long a caller waits for somebody else's build before it builds for itself.
pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(60);

/// A store with single flight and statistics in front of it.
///
/// Share one cache between the threads of a process: statistics are those of the cache, and so is single flight, unless
/// the store's directory is shared. Then one builds of all who use the directory, through whichever cache.
///
/// A builder may ask any cache for what it needs. A circle of builds that wait for each other is found among the threads of a
/// process, and one of them builds for itself; between processes, [patience](Self::with_patience) ends it.
///
/// What it counted is kept with the store: reported at most ten times a second, after something was built or stored, and
/// when the cache is [flushed](Self::flush), [closed](Self::close) or dropped. A hit reports nothing. A process that is
/// killed loses what it counted since the last report.
///
/// See the [crate documentation](crate) for an example of the one call, [`get_or_build`](Self::get_or_build).
#[derive(Debug)]
pub struct Cache<S: Store = Box<dyn Store>> {
    store: S,
    number: CacheNumber,
    counters: Counters,
    reports: Reports,
    clock: Arc<dyn Clock>,
    patience: Duration,
}

impl<S: Store> Cache<S> {
    /// A cache over `store`.
    pub fn new(store: S) -> Self {
        Self {
            store,
            number: CacheNumber::next(),
            counters: Counters::default(),
            reports: Reports::default(),
            clock: Arc::new(SystemClock),
            patience: DEFAULT_PATIENCE,
        }
    }

    /// Waits at most this long for somebody else's build, then builds for itself.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Takes the time from `clock`.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The store underneath. What is done to it directly is not counted.
    #[must_use]
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// Looks a key up, and counts.
    ///
    /// ```
    /// use warmstart::{Cache, KeyFields, Limits, Reason, store::MemoryStore};
    ///
    /// let cache = Cache::new(MemoryStore::new(Limits::NONE));
    /// cache.put("k", &vec![1, 2].into())?;
    /// assert_eq!(cache.get(b"k").hit().unwrap().payload(), [1, 2]);
    /// let fields = KeyFields::new("example", 1).text("name", "softmax");
    /// assert_eq!(cache.get(&fields).miss(), Some(Reason::Absent));
    /// assert_eq!((cache.statistics().hits, cache.statistics().misses.total()), (1, 1));
    /// # Ok::<(), Reason>(())
    /// ```
    pub fn get<'a>(&self, request: impl Into<Request<'a>>) -> Lookup {
        let request = request.into();
        let found = self.store.get(request.key());
        self.count(&found);
        if let (Lookup::Miss(reason), Some(key)) = (&found, request.key_of_fields()) {
            self.reports.looked_up(key, *reason);
        }
        found
    }

    /// Stores `artifact` under a key, and counts. If the key is given as [`KeyFields`](crate::KeyFields), the artifact
    /// is stored with its recipe, as by [`get_or_build`](Self::get_or_build).
    ///
    /// # Errors
    /// The reason why it was not kept.
    pub fn put<'a>(&self, request: impl Into<Request<'a>>, artifact: &Artifact) -> Result<Stored, Reason> {
        let request = request.into();
        let artifact = request.describe(artifact.clone());
        let stored = self.store.put(request.key(), &artifact);
        self.counters.stored(&artifact, stored);
        if let Some(key) = request.key_of_fields() {
            self.reports.stored(key, &artifact, stored, self.clock.unix_ms());
        }
        self.report_if_due();
        stored
    }

    /// Reads the file at `path` and stores its contents under a key; the path itself is never kept.
    ///
    /// # Errors
    /// The file cannot be read. That the store refused its contents is no error; the artifact is returned, and the
    /// reason is counted.
    pub fn put_file<'a>(
        &self,
        request: impl Into<Request<'a>>,
        path: impl AsRef<Path>,
    ) -> io::Result<Artifact> {
        let artifact = Artifact::new(std::fs::read(path)?);
        let _ = self.put(request, &artifact);
        Ok(artifact)
    }

    /// Whether something whole, by header and length, is stored under a key. Not counted, and no use of it.
    ///
    /// # Errors
    /// The reason why that is not known.
    pub fn contains<'a>(&self, request: impl Into<Request<'a>>) -> Result<bool, Reason> {
        self.store.contains(request.into().key())
    }

    /// Removes what is stored under a key; says whether there was anything. Not counted.
    ///
    /// # Errors
    /// The reason why it could not be removed.
    pub fn remove<'a>(&self, request: impl Into<Request<'a>>) -> Result<bool, Reason> {
        self.store.remove(request.into().key())
    }

    /// The number of entries, as [`Store::len`] has it.
    ///
    /// # Errors
    /// The reason why that is not known.
    pub fn len(&self) -> Result<u64, Reason> {
        self.store.len()
    }

    /// Whether there is no entry.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    pub fn is_empty(&self) -> Result<bool, Reason> {
        self.store.is_empty()
    }

    /// Removes every entry. Statistics stay as they are.
    ///
    /// # Errors
    /// The reason why some may be left.
    pub fn clear(&self) -> Result<(), Reason> {
        self.store.clear()
    }

    /// Writes down what is still to be written: what was counted, and the order of use. A program that ends without
    /// dropping its cache, because the cache is in a static or because of [`std::process::exit`], calls this before.
    ///
    /// # Errors
    /// The reason why something could not be written down.
    pub fn flush(&self) -> Result<(), Reason> {
        let reported = self.report();
        self.store.flush().and(reported)
    }

    /// [Flushes](Self::flush) and closes the store, as [`Store::close`] does. From then on the one call builds every time.
    ///
    /// # Errors
    /// The reason why something could not be written down.
    pub fn close(&self) -> Result<(), Reason> {
        let reported = self.report();
        self.store.close().and(reported)
    }

    /// Looks the request's key up, else builds the artifact, stores it and returns it.
    ///
    /// Of all threads of the process, and of all processes that share the store's directory, one builds and the others
    /// wait, at most for the cache's [patience](Self::with_patience). If the builder fails, one of those who waited
    /// builds. If the store fails, the artifact is returned all the same, and the reason is in what is returned.
    ///
    /// A builder may need other artifacts of the cache, even in a circle of threads. One that starts a thread which needs the very
    /// artifact that it builds, and waits for that thread, waits for the patience.
    ///
    /// # Errors
    /// Those of `build`, and no other.
    ///
    /// # Panics
    /// If `build` does; nothing is stored then, and those who waited go on.
    pub fn get_or_build<'a, A, E>(
        &self,
        request: impl Into<Request<'a>>,
        build: impl FnOnce() -> Result<A, E>,
    ) -> Result<Fetched, E>
    where
        A: Into<Artifact>,
    {
        let request = request.into();
        self.recall(
            request.key(),
            |store| store.get(request.key()),
            || build().map(|artifact| (request.describe(artifact.into()), ())),
            |store, artifact, ()| store.put(request.key(), artifact),
        )
    }

    /// The one call for artifacts whose key is not known before they are built, such as a compiled source whose headers
    /// only the compiler finds. `find` looks the artifact up, `build` builds it, `keep` stores it with what the build
    /// found out. `flight_key` stands for all artifacts that one build would satisfy: of those who recall it at once,
    /// one builds.
    ///
    /// [`get_or_build`](Self::get_or_build) is this call with one `get`, and one `put` of the same key.
    ///
    /// # Errors
    /// Those of `build`, and no other.
    ///
    /// # Panics
    /// If one of the functions does.
    pub fn recall<T, E>(
        &self,
        flight_key: &[u8],
        mut find: impl FnMut(&S) -> Lookup,
        build: impl FnOnce() -> Result<(Artifact, T), E>,
        keep: impl FnOnce(&S, &Artifact, T) -> Result<Stored, Reason>,
    ) -> Result<Fetched, E> {
        let found = find(&self.store);
        self.count(&found);
        let miss = match found {
            Lookup::Hit(artifact) => return Ok(Fetched::new(artifact, How::Hit)),
            Lookup::Miss(reason) => reason,
        };

        let name = Key::digest(flight_key);
        let deadline = Instant::now().checked_add(self.patience);
        let scope = Scope::new(self.store.lock_directory(), self.number);
        let seat = match threads::take_seat(&scope, &name, deadline) {
            Seat::Builder(seat) => Some(seat),
            Seat::Shared(artifact) => {
                self.counters.shared();
                return Ok(Fetched::new(artifact, How::Shared { miss }));
            }
            Seat::Alone => None,
        };
        // Only the one who builds for all threads asks the other processes; who builds alone does so not to wait.
        let lock = seat
            .as_ref()
            .and_then(|_| scope.locks())
            .and_then(|directory| ProcessLock::acquire(directory, &name, deadline));
        if seat.is_some() {
            // Somebody may have stored it between the look-up and the lock.
            if let Lookup::Hit(artifact) = find(&self.store) {
                self.counters.shared();
                if let Some(seat) = &seat {
                    seat.land(&artifact);
                }
                return Ok(Fetched::new(artifact, How::Shared { miss }));
            }
        }

        let started = Instant::now();
        let (artifact, rest) = build()?;
        let build_nanos = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let artifact =
            artifact.with_provenance(Provenance { created_unix_ms: self.clock.unix_ms(), build_nanos });
        self.counters.built(build_nanos);
        let stored = keep(&self.store, &artifact, rest);
        self.counters.stored(&artifact, stored);
        drop(lock);
        // Dropped, it wakes the threads that wait.
        if let Some(seat) = seat {
            seat.land(&artifact);
        }
        // After that and the lock: neither threads nor processes that wait need wait for this.
        self.reports.built(flight_key, miss, &artifact, stored);
        self.report_if_due();
        Ok(Fetched::new(artifact, How::Built { miss, stored }))
    }

    /// What the cache did since it was made. [`get`](Self::get), [`get_or_build`](Self::get_or_build) and
    /// [`recall`](Self::recall) are one look-up each, which is either a hit or a miss.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.counters.snapshot()
    }

    /// Hands what was counted since the last time to the store.
    fn report(&self) -> Result<(), Reason> {
        self.reports.hand_over(&self.store, &self.counters)
    }

    fn report_if_due(&self) {
        if self.reports.is_due() {
            let _ = self.report();
        }
    }

    fn count(&self, found: &Lookup) {
        match found {
            Lookup::Hit(artifact) => self.counters.hit(artifact),
            Lookup::Miss(reason) => self.counters.missed(*reason),
        }
    }
}

impl<S: Store> Drop for Cache<S> {
    fn drop(&mut self) {
        let _ = self.report();
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, sync::Barrier, thread};

    use super::*;
    use crate::{KeyFields, Limits, store::MemoryStore};

    fn cache() -> Cache<MemoryStore> {
        Cache::new(MemoryStore::new(Limits::NONE))
    }

    #[test]
    fn every_call_takes_the_fields_of_a_key() {
        let cache = cache();
        let fields = KeyFields::new("example", 1).text("name", "softmax");
        cache.put(&fields, &Artifact::new(vec![1])).unwrap();
        let found = cache.get(&fields).hit().unwrap();
        assert_eq!(found.metadata().unwrap().recipe(), Some(&fields.recipe()));
        assert_eq!((cache.contains(&fields), cache.len(), cache.is_empty()), (Ok(true), Ok(1), Ok(false)));
        assert_eq!((cache.remove(&fields), cache.remove(&fields)), (Ok(true), Ok(false)));
        let file = tempfile::NamedTempFile::new().unwrap();
        cache.put_file(&fields, file.path()).unwrap();
        assert_eq!(cache.get(fields.key()).hit().unwrap().payload(), [0u8; 0]);
        cache.clear().unwrap();
        assert_eq!(cache.is_empty(), Ok(true));
        cache.close().unwrap();
        assert_eq!(cache.len(), Err(Reason::Closed));
        let statistics = cache.statistics();
        assert_eq!((statistics.hits, statistics.misses.total()), (2, 0), "only look-ups are counted");
    }

    /// Threads that build, wait, share, fail, hit and miss.
    #[test]
    fn hits_and_misses_are_look_ups_and_every_miss_of_the_one_call_ends_one_way() {
        const THREADS: u64 = 4;
        const ROUNDS: u64 = 50;
        let cache = cache();
        let start = Barrier::new(THREADS as usize);
        let failures: u64 = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (cache, start) = (&cache, &start);
                    scope.spawn(move || {
                        let mut failures = 0;
                        for round in 0..ROUNDS {
                            start.wait();
                            let fetched = cache.get_or_build(round.to_le_bytes(), || {
                                thread::yield_now();
                                if (thread + round).is_multiple_of(3) {
                                    Err("on purpose")
                                } else {
                                    Ok(vec![0; 10])
                                }
                            });
                            failures += u64::from(fetched.is_err());
                        }
                        failures
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert!(cache.get("absent").miss().is_some());
        let statistics = cache.statistics();
        assert_eq!(statistics.hits + statistics.misses.total(), THREADS * ROUNDS + 1);
        assert_eq!(statistics.misses.total() - 1, statistics.builds + statistics.shared + failures);
        assert_eq!(statistics.bytes_read, 10 * statistics.hits, "what is shared was not read");
    }

    /// Another handle stores it between the look-up and the build: nobody waited, and nobody built.
    #[test]
    fn what_was_stored_meanwhile_is_shared_and_the_look_up_is_one_miss() {
        let cache = cache();
        let mut looked = 0;
        let Ok(fetched) = cache.recall(
            b"k",
            |store| {
                let found = store.get(b"k");
                if looked == 0 {
                    store.put(b"k", &Artifact::new(vec![1])).unwrap();
                }
                looked += 1;
                found
            },
            || -> Result<(Artifact, ()), Infallible> { panic!("it is stored") },
            |_, _, ()| panic!("it is stored"),
        );
        assert_eq!(fetched.how(), How::Shared { miss: Reason::Absent });
        let statistics = cache.statistics();
        assert_eq!((statistics.hits, statistics.misses.total(), statistics.shared), (0, 1, 1));
        assert_eq!((statistics.bytes_read, statistics.builds), (0, 0));
    }
}
