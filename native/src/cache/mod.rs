//! The cache: looks an artifact up, else builds, stores and returns it.

mod explain;
mod many;
mod threads;

pub use explain::Explanation;
#[cfg(any(feature = "cpu", feature = "cuda"))]
pub(crate) use many::Item;
pub use many::ManyOptions;
pub use warmstart_core::{
    artifact::{Fetched, Origin},
    key::Request,
};

use std::{
    process,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use warmstart_core::{
    artifact::{Artifact, Metadata, Provenance},
    key::{Key, KeyFields},
    miss::Miss,
    reason::MissReason,
    recipe::Recipe,
    statistics::{ReasonCounts, Statistics},
};

use crate::{
    clock::{Clock, SystemClock},
    os::fork::Mutex,
    store::{Buffer, Store},
};
use threads::{Elsewhere, Waiting};

/// The time that a caller waits for another caller's build before it builds for itself.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// The least time between two reports, unless one is asked for.
const PAUSE: Duration = Duration::from_millis(100);

/// A store with single flight and statistics in front of it.
///
/// Share one cache between the threads of a process: statistics are those of the cache, and so is single flight, unless
/// the store's directory is shared. Then, of all threads and processes that use the directory, one builds.
///
/// A builder may ask any cache for what it needs. Where threads of a process wait for each other's builds in a circle, one of them
/// builds for itself. A circle through several processes, or through the workers of
/// [`get_or_build_many`](Self::get_or_build_many), is not found: the [timeout](Self::with_timeout) ends it.
///
/// The counters are kept with the store: reported at most ten times a second, after something was built or stored, and
/// when the cache is [flushed](Self::flush), [closed](Self::close) or dropped. A hit reports nothing. A process that is
/// killed loses what it counted since the last report.
///
/// See the [crate documentation](crate) for an example of the one call, [`get_or_build`](Self::get_or_build).
#[derive(Debug)]
pub struct Cache<S: Store = Box<dyn Store>> {
    store: S,
    /// The number of the cache within the process.
    number: u64,
    counters: Counters,
    clock: Arc<dyn Clock>,
    timeout: Duration,
}

/// The counters. Each is exact; a snapshot taken while others count is of no single instant.
#[derive(Debug, Default)]
struct Counters {
    hits: AtomicU64,
    bytes_read: AtomicU64,
    saved_nanos: AtomicU64,
    shared: AtomicU64,
    wait_nanos: AtomicU64,
    builds: AtomicU64,
    build_nanos: AtomicU64,
    bytes_written: AtomicU64,
    evictions: AtomicU64,
    misses: [AtomicU64; MissReason::COUNT],
    refusals: [AtomicU64; MissReason::COUNT],
    /// The counts reported to the store. Locked during a report.
    reported: Mutex<Statistics>,
    /// Consistent between any two calls, so that a panic leaves it usable.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The time at which a report was last due.
    due: Option<Instant>,
    /// The last miss, until it is reported to the store.
    last_miss: Option<Miss>,
    /// The last look-up that missed, until something is stored under its key.
    looked_up: Option<(Key, MissReason)>,
}

impl<S: Store> Cache<S> {
    /// Creates a cache over `store`.
    pub fn new(store: S) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            store,
            number: NEXT.fetch_add(1, Relaxed),
            counters: Counters::default(),
            clock: Arc::new(SystemClock),
            timeout: DEFAULT_TIMEOUT,
        }
    }

    /// Sets how long a caller waits for another caller's build before it builds for itself.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the clock.
    #[doc(hidden)]
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Returns the store underneath. Calls on it are not counted.
    #[must_use]
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// Looks a key up and counts the hit or miss.
    ///
    /// ```
    /// use warmstart::{Cache, KeyFields, Limits, MissReason, store::MemoryStore};
    ///
    /// let cache = Cache::new(MemoryStore::new(Limits::NONE));
    /// cache.put("k", &vec![1, 2].into())?;
    /// assert_eq!(cache.get(b"k")?.payload(), [1, 2]);
    /// let fields = KeyFields::new("example", 1).text("name", "softmax");
    /// assert_eq!(cache.get(&fields).unwrap_err(), MissReason::Absent);
    /// assert_eq!((cache.statistics().hits, cache.statistics().misses.total()), (1, 1));
    /// # Ok::<(), MissReason>(())
    /// ```
    pub fn get<'a>(&self, request: impl Into<Request<'a>>) -> Result<Artifact, MissReason> {
        let request = request.into();
        let found = self.store.get(request.key());
        self.count(&found);
        self.note(&request, found)
    }

    /// Looks a key up and reads the payload into a caller's buffer, as [`Store::get_into`] does. Returns its length in bytes. Counts as
    /// [`get`](Self::get) does, but no saved time.
    ///
    /// ```
    /// use warmstart::{Cache, Limits, store::MemoryStore};
    ///
    /// let cache = Cache::new(MemoryStore::new(Limits::NONE));
    /// cache.put("k", &vec![1, 2].into())?;
    /// let mut buffer = Vec::new();
    /// assert_eq!((cache.get_into("k", &mut buffer)?, cache.statistics().bytes_read), (2, 2));
    /// # Ok::<(), warmstart::MissReason>(())
    /// ```
    ///
    /// # Errors
    /// The reason why there is no payload; [`MissReason::TooLong`] if the buffer has no room for it.
    pub fn get_into<'a>(
        &self,
        request: impl Into<Request<'a>>,
        buffer: &mut dyn Buffer,
    ) -> Result<usize, MissReason> {
        let request = request.into();
        let read = self.store.get_into(request.key(), buffer);
        match read {
            Ok(len) => self.counters.hits(Hits { number: 1, bytes: len as u64, saved_nanos: 0 }),
            Err(reason) => self.counters.missed(reason),
        }
        self.note(&request, read)
    }

    /// Notes a miss of known fields, and returns the result of the look-up.
    fn note<T>(&self, request: &Request<'_>, found: Result<T, MissReason>) -> Result<T, MissReason> {
        if let (Err(reason), Some(key)) = (&found, key_of_fields(request)) {
            self.counters.looked_up(key, *reason);
        }
        found
    }

    /// Stores `artifact` under a key, and counts. If the key is given as [`KeyFields`], the artifact is stored with its recipe, as
    /// by [`get_or_build`](Self::get_or_build).
    ///
    /// # Errors
    /// The reason why it was not kept.
    pub fn put<'a>(&self, request: impl Into<Request<'a>>, artifact: &Artifact) -> Result<u64, MissReason> {
        let request = request.into();
        let artifact = described(&request, artifact.clone());
        let stored = self.store.put(request.key(), &artifact);
        self.counters.stored(&artifact, stored);
        let missed = key_of_fields(&request).and_then(|key| self.counters.missed_before(key));
        if let Some(reason) = missed {
            self.counters.keep_miss(request.key(), reason, &artifact, stored, self.clock.unix_ms());
        }
        self.report_if_due();
        stored
    }

    /// Returns whether an entry whose header and length are right is stored under a key. Not counted, and no access of the entry.
    ///
    /// # Errors
    /// The reason why the store cannot tell.
    pub fn contains<'a>(&self, request: impl Into<Request<'a>>) -> Result<bool, MissReason> {
        self.store.contains(request.into().key())
    }

    /// Removes the entry of a key. Returns whether there was one. Not counted.
    ///
    /// # Errors
    /// The reason why it could not be removed.
    pub fn remove<'a>(&self, request: impl Into<Request<'a>>) -> Result<bool, MissReason> {
        self.store.remove(request.into().key())
    }

    /// Removes every entry. Statistics stay as they are.
    ///
    /// # Errors
    /// The reason why entries may be left.
    pub fn clear(&self) -> Result<(), MissReason> {
        self.store.clear()
    }

    /// Writes the counters and the order of use to the store. Call it before a program ends without dropping its cache, because
    /// the cache is in a static or because of [`std::process::exit`].
    ///
    /// # Errors
    /// The reason why something could not be written.
    pub fn flush(&self) -> Result<(), MissReason> {
        let reported = self.counters.report(&self.store);
        self.store.flush().and(reported)
    }

    /// [Flushes](Self::flush) and closes the store, as [`Store::close`] does. From then on every call builds.
    ///
    /// # Errors
    /// The reason why something could not be written.
    pub fn close(&self) -> Result<(), MissReason> {
        let reported = self.counters.report(&self.store);
        self.store.close().and(reported)
    }

    /// Looks the request's key up, else builds the artifact, stores it and returns it.
    ///
    /// Of all threads of the process, and of all processes that share the store's directory, one builds and the others
    /// wait, at most for the cache's [timeout](Self::with_timeout). If the builder fails, one of the waiting callers
    /// builds. If the store fails, the artifact is returned all the same, together with the reason.
    ///
    /// A builder may request other artifacts of the cache, even in a circle of threads. A builder that waits for a thread of its
    /// own which requests the same artifact waits for the timeout.
    ///
    /// # Errors
    /// Only those of `build`.
    ///
    /// # Panics
    /// If `build` panics; nothing is stored then, and the waiting callers go on.
    pub fn get_or_build<'a, A, E>(
        &self,
        request: impl Into<Request<'a>>,
        build: impl FnOnce() -> Result<A, E>,
    ) -> Result<Fetched, E>
    where
        A: Into<Artifact>,
    {
        let request = request.into();
        self.get_or_build_with(
            request.key(),
            |store| store.get_to_build(request.key()),
            || build().map(|artifact| (described(&request, artifact.into()), ())),
            |store, artifact, ()| store.put(request.key(), artifact),
        )
    }

    /// Looks up or builds an artifact whose key is not known before it is built, such as a compiled source whose headers
    /// only the compiler finds. `find` looks the artifact up, `build` builds it, `keep` stores it with the value that the
    /// build returned. `flight_key` stands for all artifacts that one build would satisfy: of the callers that ask for it at
    /// once, one builds.
    ///
    /// [`get_or_build`](Self::get_or_build) is this call with one `get`, and one `put` of the same key.
    ///
    /// # Errors
    /// Only those of `build`.
    ///
    /// # Panics
    /// If one of the functions panics.
    pub fn get_or_build_with<T, E>(
        &self,
        flight_key: &[u8],
        mut find: impl FnMut(&S) -> Result<Artifact, MissReason>,
        build: impl FnOnce() -> Result<(Artifact, T), E>,
        keep: impl FnOnce(&S, &Artifact, T) -> Result<u64, MissReason>,
    ) -> Result<Fetched, E> {
        let found = find(&self.store);
        self.count(&found);
        let miss = match found {
            Ok(artifact) => return Ok(Fetched::new(artifact, Origin::Hit)),
            Err(reason) => reason,
        };

        let waiting = Waiting::Until(Instant::now().checked_add(self.timeout));
        self.build_or_wait(flight_key, miss, waiting, find, build, keep).expect("it waits for others")
    }

    /// Builds what a look-up missed, or waits for its builder. Returns nothing if another one builds and this one does not wait.
    fn build_or_wait<T, E>(
        &self,
        flight_key: &[u8],
        miss: MissReason,
        waiting: Waiting,
        mut find: impl FnMut(&S) -> Result<Artifact, MissReason>,
        build: impl FnOnce() -> Result<(Artifact, T), E>,
        keep: impl FnOnce(&S, &Artifact, T) -> Result<u64, MissReason>,
    ) -> Option<Result<Fetched, E>> {
        let began = Instant::now();
        let coalesced = |artifact| {
            self.counters.shared(began.elapsed());
            Some(Ok(Fetched::new(artifact, Origin::Coalesced { miss })))
        };
        let digest = Key::digest(flight_key);
        let guard = match threads::join(&digest, self.number, self.store.claims(), waiting) {
            Ok(guard) => guard,
            Err(Elsewhere::Built(artifact)) => return coalesced(artifact),
            Err(Elsewhere::Building) => return None,
        };
        // Another process may have stored it between the look-up and the lock.
        if guard.is_for_all()
            && let Ok(artifact) = find(&self.store)
        {
            guard.complete(&artifact);
            return coalesced(artifact);
        }

        let started = Instant::now();
        let (artifact, rest) = match build() {
            Ok(built) => built,
            Err(error) => return Some(Err(error)),
        };
        let build_nanos = nanos(started.elapsed());
        let artifact =
            artifact.with_provenance(Provenance { created_unix_ms: self.clock.unix_ms(), build_nanos });
        self.counters.built(build_nanos);
        let stored = keep(&self.store, &artifact, rest);
        self.counters.stored(&artifact, stored);
        guard.complete(&artifact);
        // After the guard is completed: waiting threads and processes need not wait for the statistics.
        let created_unix_ms = artifact.provenance().created_unix_ms;
        self.counters.keep_miss(flight_key, miss, &artifact, stored, created_unix_ms);
        self.report_if_due();
        Some(Ok(Fetched::new(artifact, Origin::Built { miss, stored })))
    }

    /// Returns the counters since the cache was created. Each call of [`get`](Self::get), [`get_or_build`](Self::get_or_build) and
    /// [`get_or_build_with`](Self::get_or_build_with) counts one look-up, and
    /// [`get_or_build_many`](Self::get_or_build_many) counts one for each request. A look-up is either a hit or a miss.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.counters.snapshot()
    }

    /// Explains why nothing is stored for a recipe: returns the entry of the same domain that differs least, and the fields that
    /// differ. Returns nothing if no other entry of the domain has a recipe.
    ///
    /// Scans the recipes of the domain, and costs nothing until it is called. For all other reasons of a miss, see
    /// [`Fetched::miss`](Fetched::miss). A target that finds the fields of its keys by building keeps
    /// the recipe with what it built: see [`Metadata::recipe`](crate::Metadata::recipe).
    ///
    /// ```
    /// use warmstart::{Cache, KeyFields, Limits, store::MemoryStore};
    ///
    /// let cache = Cache::new(MemoryStore::new(Limits::NONE));
    /// let fields = |flags| KeyFields::new("example", 1).text("name", "softmax").text("flags", flags);
    /// cache.put(&fields("-O2"), &vec![1].into())?;
    ///
    /// let wanted = fields("-O3");
    /// assert!(cache.get(&wanted).is_err());
    /// let explanation = cache.explain(&wanted.recipe())?.unwrap();
    /// assert_eq!(explanation.changes[0].label, "flags");
    /// assert!(explanation.to_string().ends_with("differs in: flags (\"-O2\", now \"-O3\")"));
    /// # Ok::<(), warmstart::MissReason>(())
    /// ```
    ///
    /// # Errors
    /// The reason why the store cannot be asked: [`MissReason::Unavailable`] from one that cannot be [looked into](Store::inspect).
    pub fn explain(&self, recipe: &Recipe) -> Result<Option<Explanation>, MissReason> {
        let nearest = self.store.inspect().ok_or(MissReason::Unavailable)?.nearest(recipe)?;
        Ok(nearest.and_then(|nearest| Explanation::new(nearest, recipe)))
    }

    fn report_if_due(&self) {
        if self.counters.is_report_due() {
            let _ = self.counters.report(&self.store);
        }
    }

    fn count(&self, found: &Result<Artifact, MissReason>) {
        match found {
            Ok(artifact) => self.counters.hits(Hits::default().and(artifact)),
            Err(reason) => self.counters.missed(*reason),
        }
    }
}

impl<S: Store> Drop for Cache<S> {
    fn drop(&mut self) {
        let _ = self.counters.report(&self.store);
    }
}

/// Hits to be counted together.
#[derive(Clone, Copy, Debug, Default)]
struct Hits {
    number: u64,
    bytes: u64,
    saved_nanos: u64,
}

impl Hits {
    /// Adds a hit.
    fn and(self, artifact: &Artifact) -> Self {
        Self {
            number: self.number + 1,
            bytes: self.bytes + artifact.payload().len() as u64,
            saved_nanos: self.saved_nanos.saturating_add(artifact.provenance().build_nanos),
        }
    }
}

impl Counters {
    fn hits(&self, hits: Hits) {
        self.hits.fetch_add(hits.number, Relaxed);
        self.bytes_read.fetch_add(hits.bytes, Relaxed);
        add(&self.saved_nanos, hits.saved_nanos);
    }

    fn missed(&self, reason: MissReason) {
        self.misses[reason.index()].fetch_add(1, Relaxed);
    }

    /// Counts a miss whose artifact another caller built, after a wait of this long.
    fn shared(&self, waited: Duration) {
        self.shared.fetch_add(1, Relaxed);
        add(&self.wait_nanos, nanos(waited));
    }

    fn built(&self, nanos: u64) {
        self.builds.fetch_add(1, Relaxed);
        add(&self.build_nanos, nanos);
    }

    fn stored(&self, artifact: &Artifact, stored: Result<u64, MissReason>) {
        match stored {
            Ok(evicted) => {
                self.bytes_written.fetch_add(artifact.payload().len() as u64, Relaxed);
                self.evictions.fetch_add(evicted, Relaxed);
            }
            Err(reason) => _ = self.refusals[reason.index()].fetch_add(1, Relaxed),
        }
    }

    fn snapshot(&self) -> Statistics {
        let mut statistics = Statistics::default();
        statistics.hits = self.hits.load(Relaxed);
        statistics.misses = reasons(&self.misses);
        statistics.refusals = reasons(&self.refusals);
        statistics.wait_nanos = self.wait_nanos.load(Relaxed);
        statistics.builds = self.builds.load(Relaxed);
        statistics.shared = self.shared.load(Relaxed);
        statistics.bytes_read = self.bytes_read.load(Relaxed);
        statistics.bytes_written = self.bytes_written.load(Relaxed);
        statistics.evictions = self.evictions.load(Relaxed);
        statistics.build_nanos = self.build_nanos.load(Relaxed);
        statistics.saved_nanos = self.saved_nanos.load(Relaxed);
        statistics
    }

    /// Notes that a look-up of a key with known fields missed. The miss is kept if its artifact is stored next.
    fn looked_up(&self, key: Key, reason: MissReason) {
        self.state.lock().looked_up = Some((key, reason));
    }

    /// Takes the reason why the last look-up missed, if it was of this key.
    fn missed_before(&self, key: Key) -> Option<MissReason> {
        self.state.lock().looked_up.take_if(|(missed, _)| *missed == key).map(|(_, reason)| reason)
    }

    /// Keeps a miss whose artifact was then stored or refused.
    fn keep_miss(
        &self,
        key: &[u8],
        reason: MissReason,
        artifact: &Artifact,
        stored: Result<u64, MissReason>,
        unix_ms: u64,
    ) {
        let recipe = artifact.metadata().ok().and_then(|metadata| metadata.recipe().cloned());
        let miss = Miss { key: key.to_vec(), reason, refusal: stored.err(), recipe, unix_ms };
        self.state.lock().last_miss = Some(miss);
    }

    /// Returns whether a report is due, and if so sets the next due time, so that of several threads one reports.
    fn is_report_due(&self) -> bool {
        let mut state = self.state.lock();
        let is_due = state.due.is_none_or(|due| due.elapsed() >= PAUSE);
        if is_due {
            state.due = Some(Instant::now());
        }
        is_due
    }

    /// Reports the counts that the store does not have yet. If the store fails, the next report includes them.
    fn report<S: Store>(&self, store: &S) -> Result<(), MissReason> {
        let mut reported = self.reported.lock();
        let now = self.snapshot();
        let (counted, last_miss) = (now.since(&reported), self.state.lock().last_miss.take());
        let is_news = last_miss.is_some() || counted != Statistics::default();
        let Some(inspect) = store.inspect().filter(|_| is_news) else { return Ok(()) };
        match inspect.report(&counted, last_miss.as_ref()) {
            // A read-only store keeps no statistics.
            Ok(()) | Err(MissReason::ReadOnly) => *reported = now,
            Err(reason) => {
                let mut state = self.state.lock();
                state.last_miss = state.last_miss.take().or(last_miss);
                return Err(reason);
            }
        }
        Ok(())
    }
}

/// Returns a flight key that no other caller has, for an artifact whose build is not shared.
pub(crate) fn unshared_flight_key() -> Key {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    KeyFields::new("warmstart.cache.unshared", 1)
        .number("process", process::id().into())
        .number("number", NUMBER.fetch_add(1, Relaxed))
        .key()
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn reasons(counts: &[AtomicU64; MissReason::COUNT]) -> ReasonCounts {
    let mut snapshot = ReasonCounts::default();
    for (reason, count) in MissReason::ALL.iter().zip(counts) {
        snapshot.add(*reason, count.load(Relaxed));
    }
    snapshot
}

/// Adds a number that an entry claims, which can be any; saturates instead of wrapping.
fn add(counter: &AtomicU64, n: u64) {
    if counter.fetch_add(n, Relaxed).checked_add(n).is_none() {
        counter.store(u64::MAX, Relaxed);
    }
}

/// Returns the key of a request that was made of known fields.
fn key_of_fields(request: &Request<'_>) -> Option<Key> {
    let key = request.key().try_into().ok()?;
    request.fields().map(|_| Key::from_bytes(key))
}

/// Adds the recipe of a request to an artifact, unless it has one. A hit never gets here.
fn described(request: &Request<'_>, artifact: Artifact) -> Artifact {
    let Some(fields) = request.fields() else { return artifact };
    let metadata = artifact.metadata().unwrap_or_else(|_| Metadata::new());
    if metadata.recipe().is_some() {
        return artifact;
    }
    artifact.with_metadata(&metadata.with_recipe(fields.recipe()))
}

#[cfg(test)]
mod tests;
