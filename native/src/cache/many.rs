//! Many artifacts in one call, their builds shared with the threads and processes that ask for the same ones.

use std::{
    any::Any,
    collections::HashMap,
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use warmstart_core::{
    artifact::Artifact,
    batch::{Batch, Next, Surveyed},
    key::Key,
    lease::Backoff,
    reason::MissReason,
};

use super::{Cache, Fetched, Hits, Origin, Request, Waiting, described, nanos, unshared_flight_key};
use crate::{
    os::parallel,
    store::{Store, get_each},
};

/// Options of [`Cache::get_or_build_many`].
///
/// ```
/// use warmstart::cache::ManyOptions;
///
/// let tell = |index: usize, fetched: &warmstart::cache::Fetched| println!("{index}: {:?}", fetched.origin());
/// let options = ManyOptions::default().with_workers(4).with_on_ready(&tell);
/// ```
#[derive(Clone, Copy, Default)]
pub struct ManyOptions<'a> {
    /// 0 stands for the cores that the process may use.
    workers: usize,
    on_ready: Option<&'a OnReady<'a>>,
}

type OnReady<'a> = dyn Fn(usize, &Fetched) + Sync + 'a;

impl<'a> ManyOptions<'a> {
    /// Sets the number of threads that build, including the calling one. 0, the default, stands for the number of cores that the
    /// process may use.
    #[must_use]
    pub const fn with_workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Sets a callback, such as that of a progress bar: it is called with the index of each request as soon as its artifact is
    /// there, by the thread that has it, in no particular order. It is not called for a build that failed.
    #[must_use]
    pub const fn with_on_ready(mut self, on_ready: &'a OnReady<'a>) -> Self {
        self.on_ready = Some(on_ready);
        self
    }

    /// Calls the callback with an artifact that is ready.
    pub(crate) fn report(&self, index: usize, fetched: &Fetched) {
        if let Some(on_ready) = self.on_ready {
            on_ready(index, fetched);
        }
    }

    /// Calls the callback, and returns its panic.
    fn try_report(&self, index: usize, fetched: &Fetched) -> Option<Panic> {
        catch_unwind(AssertUnwindSafe(|| self.report(index, fetched))).err()
    }
}

impl fmt::Debug for ManyOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManyOptions").field("workers", &self.workers).finish_non_exhaustive()
    }
}

/// The number of requests that are looked up at once: enough for several threads, and few enough to stay in the processor's cache.
const LOOKED_UP_AT_ONCE: usize = 256;

/// The pauses between two surveys, in nanoseconds.
const PAUSES: Backoff = Backoff::new(250_000_000, 4_000_000_000);

/// The number of look-ups of a target, which read headers and more, that are worth starting a thread for.
#[cfg(any(feature = "cpu", feature = "cuda"))]
const LOOKED_UP_BY_A_THREAD: usize = 8;

/// One artifact of a batch: how it is looked up, built and stored.
pub(crate) trait Item: Sync {
    /// The value that a build returns for storing its artifact.
    type Built;
    type Error: Send;

    /// Returns the flight key, which stands for all artifacts that one build would satisfy. Items of equal keys are built once.
    fn flight_key(&self) -> &[u8];
    fn find<S: Store>(&self, store: &S) -> Result<Artifact, MissReason>;
    fn build(&self) -> Result<(Artifact, Self::Built), Self::Error>;
    fn keep<S: Store>(&self, store: &S, artifact: &Artifact, built: Self::Built) -> Result<u64, MissReason>;

    /// Returns whether an artifact may be used for this item. Another item, thread or process may have built it from other inputs,
    /// such as the headers of another directory.
    fn accepts(&self, fetched: &Fetched) -> bool {
        let _ = fetched;
        true
    }
}

impl<S: Store> Cache<S> {
    /// Looks many requests up, builds what is missing, stores it, and returns all in the order of the requests.
    ///
    /// `build` is called with the index of a request, by several threads at once. An artifact that another thread or process is
    /// building is left to it: this call builds the others meanwhile, in an order of its own, and waits at the end for what is still
    /// being built elsewhere. So processes that start together share the builds, and each of them takes the sum of all builds
    /// divided by the processes. Waiting for one artifact takes at most the cache's [timeout](Self::with_timeout); the
    /// artifact of a process that died is built here.
    ///
    /// Equal keys are built once. A builder may call this too; one that needs an artifact that the same call is building waits for it,
    /// and a circle through the workers of a call, or through several processes, ends with the timeout.
    ///
    /// Use [`get_or_build`](Self::get_or_build) where a program learns of its artifacts one at a time, and this where it knows them
    /// in advance.
    ///
    /// ```
    /// use warmstart::{Cache, Limits, cache::ManyOptions, store::MemoryStore};
    ///
    /// let cache = Cache::new(MemoryStore::new(Limits::NONE));
    /// let sources = ["relu", "gelu", "relu"];
    /// let compile = |index: usize| Ok::<_, std::io::Error>(sources[index].as_bytes().to_vec());
    /// let fetched = cache.get_or_build_many(sources, ManyOptions::default(), compile);
    /// let fetched = fetched.into_iter().collect::<Result<Vec<_>, _>>()?;
    /// assert_eq!(fetched[1].artifact().payload(), b"gelu");
    /// assert_eq!(cache.statistics().builds, 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// A builder's error is the result of its request, and of no other one.
    ///
    /// # Panics
    /// If a builder or the [callback](ManyOptions::with_on_ready) panics, after everything else is built.
    pub fn get_or_build_many<'a, A, E: Send>(
        &self,
        requests: impl IntoIterator<Item: Into<Request<'a>>>,
        options: ManyOptions<'_>,
        build: impl Fn(usize) -> Result<A, E> + Sync,
    ) -> Vec<Result<Fetched, E>>
    where
        A: Into<Artifact>,
    {
        let requests = requests.into_iter().map(Into::into).enumerate();
        let items: Vec<_> =
            requests.map(|(index, request)| ByKey { request, index, build: &build }).collect();
        let mut run = Run::new(self, items.iter().map(|_| None).collect(), options);
        let mut keys = Vec::with_capacity(items.len().min(LOOKED_UP_AT_ONCE));
        for items in items.chunks(LOOKED_UP_AT_ONCE) {
            keys.clear();
            keys.extend(items.iter().map(Item::flight_key));
            let found = get_each(&self.store, &keys);
            items.iter().zip(found).for_each(|(item, found)| run.add(item.index, item, found));
        }
        run.complete()
    }

    /// Implements [`get_or_build_many`](Self::get_or_build_many) for the items of a target. The result of an item that could not be
    /// prepared is its error.
    #[cfg(any(feature = "cpu", feature = "cuda"))]
    pub(crate) fn get_or_build_items<I: Item>(
        &self,
        items: impl Iterator<Item = Result<I, I::Error>>,
        options: ManyOptions<'_>,
    ) -> Vec<Result<Fetched, I::Error>> {
        let (mut prepared, mut results) = (Vec::new(), Vec::new());
        for (index, item) in items.enumerate() {
            match item {
                Ok(item) => {
                    prepared.push((index, item));
                    results.push(None);
                }
                Err(error) => results.push(Some(Err(error))),
            }
        }
        let mut run = Run::new(self, results, options);
        let found =
            parallel::map(prepared.len(), LOOKED_UP_BY_A_THREAD, |at| prepared[at].1.find(&self.store));
        prepared.iter().zip(found).for_each(|((index, item), found)| run.add(*index, item, found));
        run.complete()
    }
}

/// A request whose key is known before it is built.
struct ByKey<'r, B> {
    request: Request<'r>,
    index: usize,
    build: &'r B,
}

impl<A: Into<Artifact>, E: Send, B: Fn(usize) -> Result<A, E> + Sync> Item for ByKey<'_, B> {
    type Built = ();
    type Error = E;

    fn flight_key(&self) -> &[u8] {
        self.request.key()
    }

    fn find<S: Store>(&self, store: &S) -> Result<Artifact, MissReason> {
        store.get_to_build(self.request.key())
    }

    fn build(&self) -> Result<(Artifact, ()), E> {
        Ok((described(&self.request, (self.build)(self.index)?.into()), ()))
    }

    fn keep<S: Store>(&self, store: &S, artifact: &Artifact, (): ()) -> Result<u64, MissReason> {
        store.put(self.request.key(), artifact)
    }
}

/// One call: the results of the first look-ups, and then the builds of what is missing.
struct Run<'r, S: Store, I: Item> {
    cache: &'r Cache<S>,
    options: ManyOptions<'r>,
    hits: Hits,
    /// The misses of each flight key.
    groups: Vec<Vec<Miss<'r, I>>>,
    group_of: HashMap<&'r [u8], usize>,
    progress: Mutex<Progress<I::Error>>,
    /// Held by the thread that surveys.
    asking: Mutex<()>,
    started: Instant,
}

/// An item that the first look-up did not find.
struct Miss<'r, I> {
    index: usize,
    item: &'r I,
    reason: MissReason,
}

struct Progress<E> {
    results: Vec<Option<Result<Fetched, E>>>,
    /// The first panic.
    panic: Option<Panic>,
    /// The items whose builder panicked: it is not called again.
    panicked: Vec<usize>,
}

type Panic = Box<dyn Any + Send>;

/// Another caller builds the artifact, and this one does not wait.
struct Postponed;

impl<E> Progress<E> {
    fn has_ended(&self, index: usize) -> bool {
        self.results[index].is_some() || self.panicked.contains(&index)
    }

    /// Sets the result of an item, and keeps the panic of its callback.
    fn finish(&mut self, index: usize, fetched: Fetched, panic: Option<Panic>) {
        self.results[index] = Some(Ok(fetched));
        if let Some(panic) = panic {
            self.panic.get_or_insert(panic);
        }
    }
}

impl<'r, S: Store, I: Item> Run<'r, S, I> {
    /// Starts with the results that are known already.
    fn new(
        cache: &'r Cache<S>,
        results: Vec<Option<Result<Fetched, I::Error>>>,
        options: ManyOptions<'r>,
    ) -> Self {
        Self {
            cache,
            options,
            hits: Hits::default(),
            groups: Vec::new(),
            group_of: HashMap::new(),
            progress: Mutex::new(Progress { results, panic: None, panicked: Vec::new() }),
            asking: Mutex::default(),
            started: Instant::now(),
        }
    }

    /// Adds the first look-up of an item.
    fn add(&mut self, index: usize, item: &'r I, found: Result<Artifact, MissReason>) {
        match found {
            Ok(artifact) => {
                self.hits = self.hits.and(&artifact);
                let fetched = Fetched::new(artifact, Origin::Hit);
                let panic = self.options.try_report(index, &fetched);
                let progress = self.progress.get_mut().unwrap_or_else(PoisonError::into_inner);
                progress.finish(index, fetched, panic);
            }
            Err(reason) => {
                self.cache.counters.missed(reason);
                let group = *self.group_of.entry(item.flight_key()).or_insert(self.groups.len());
                if group == self.groups.len() {
                    self.groups.push(Vec::new());
                }
                self.groups[group].push(Miss { index, item, reason });
            }
        }
    }

    /// Builds what is missing, and returns all results.
    fn complete(self) -> Vec<Result<Fetched, I::Error>> {
        self.cache.counters.hits(self.hits);
        if !self.groups.is_empty() {
            self.build_missing();
        }
        let progress = self.progress.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(panic) = progress.panic {
            resume_unwind(panic);
        }
        progress.results.into_iter().map(|result| result.expect("the batch resolves each index")).collect()
    }

    /// Runs until every group is resolved. The calling thread alone waits for others, so that a circle of builds through it is
    /// found.
    fn build_missing(&self) {
        // Each process, and each call, has an order of its own.
        let seed = RandomState::new().build_hasher().finish();
        let mut batch = Batch::new((0..self.groups.len()).collect(), seed, nanos(self.cache.timeout));
        if self.survey(&[]).is_some() {
            batch = batch.with_surveys(PAUSES);
        }
        let batch = Mutex::new(batch);
        let workers = match self.options.workers {
            0 => parallel::cores(),
            workers => workers,
        };
        loop {
            let helpers = workers.min(lock(&batch).left()).saturating_sub(1);
            thread::scope(|scope| {
                for _ in 0..helpers {
                    // Where no thread can be started, this one does the work.
                    let _ = thread::Builder::new().spawn_scoped(scope, || self.try_all(&batch));
                }
                self.try_all(&batch);
            });
            let random = RandomState::new().build_hasher().finish();
            let next = lock(&batch).wait_next(nanos(self.started.elapsed()), random);
            match next {
                Next::WaitFor(group, until) => {
                    let until = self.started.checked_add(Duration::from_nanos(until));
                    self.attempt(&batch, group, Waiting::Until(until));
                }
                Next::Pause(nanos) => thread::sleep(Duration::from_nanos(nanos)),
                Next::End => return,
            }
        }
    }

    fn try_all(&self, batch: &Mutex<Batch>) {
        while let Some(group) = self.try_next(batch) {
            // The lock must not be held during the attempt.
            self.attempt(batch, group, Waiting::Not);
        }
    }

    /// Returns what the batch tries next, after a survey if the batch wants one.
    fn try_next(&self, batch: &Mutex<Batch>) -> Option<usize> {
        let next = lock(batch).try_next();
        if next.is_some() {
            return next;
        }
        // One thread asks. The others wait, and take from what it found.
        let _asking = lock(&self.asking);
        let next = lock(batch).try_next();
        let groups = lock(batch).to_survey();
        if next.is_some() || groups.is_empty() {
            return next;
        }
        let surveyed = self.survey(&groups);
        let mut batch = lock(batch);
        match surveyed {
            Some(surveyed) => {
                batch.begin_pass(groups.into_iter().zip(surveyed), nanos(self.started.elapsed()));
            }
            None => batch.end_surveys(),
        }
        batch.try_next()
    }

    /// Asks the store about the builds of these groups, if a request for each of them would be too many.
    fn survey(&self, groups: &[usize]) -> Option<Vec<Surveyed>> {
        let digest = |group: &usize| Key::digest(self.groups[*group][0].item.flight_key());
        let digests: Vec<Key> = groups.iter().map(digest).collect();
        self.cache.store.claims()?.survey(&digests)
    }

    /// Looks up or builds the artifact of a group. If a builder fails, that of the next item of the group runs.
    fn attempt(&self, batch: &Mutex<Batch>, group: usize, waiting: Waiting) {
        let mut misses = &self.groups[group][..];
        while let [miss, rest @ ..] = misses {
            misses = rest;
            if lock(&self.progress).has_ended(miss.index) {
                continue;
            }
            match self.find_or_build(miss, miss.item.flight_key(), waiting) {
                Err(Postponed) => {
                    let now = nanos(self.started.elapsed());
                    lock(batch).postpone(group, now);
                    return;
                }
                Ok(None) => {}
                Ok(Some(fetched)) => {
                    for miss in rest {
                        let artifact = fetched.artifact().clone();
                        let shared = Fetched::new(artifact, Origin::Coalesced { miss: miss.reason });
                        if miss.item.accepts(&shared) {
                            self.cache.counters.shared(Duration::ZERO);
                            self.finish(miss.index, shared);
                        } else {
                            self.build_unshared(miss);
                        }
                    }
                    if miss.item.accepts(&fetched) {
                        self.finish(miss.index, fetched);
                    } else {
                        self.build_unshared(miss);
                    }
                    break;
                }
            }
        }
        lock(batch).resolve();
    }

    /// Looks up or builds the artifact of an item for which the build of another one will not do.
    fn build_unshared(&self, miss: &Miss<'_, I>) {
        // No other caller has this key, so it waits for none.
        let key = unshared_flight_key();
        if let Ok(Some(fetched)) = self.find_or_build(miss, key.as_bytes(), Waiting::Until(None)) {
            self.finish(miss.index, fetched);
        }
    }

    /// Looks up or builds the artifact of an item. Keeps the error or panic of a builder, and returns nothing then.
    fn find_or_build(
        &self,
        miss: &Miss<'_, I>,
        flight_key: &[u8],
        waiting: Waiting,
    ) -> Result<Option<Fetched>, Postponed> {
        let Miss { index, item, reason } = *miss;
        let find_or_build = || {
            // Most postponed artifacts are in the store by now.
            if let Ok(artifact) = item.find(&self.cache.store) {
                self.cache.counters.shared(Duration::ZERO);
                return Some(Ok(Fetched::new(artifact, Origin::Coalesced { miss: reason })));
            }
            self.cache.build_or_wait(
                flight_key,
                reason,
                waiting,
                |store| item.find(store),
                || item.build(),
                |store, artifact, built| item.keep(store, artifact, built),
            )
        };
        match catch_unwind(AssertUnwindSafe(find_or_build)) {
            Ok(None) => return Err(Postponed),
            Ok(Some(Ok(fetched))) => return Ok(Some(fetched)),
            Ok(Some(Err(error))) => lock(&self.progress).results[index] = Some(Err(error)),
            Err(panic) => {
                let mut progress = lock(&self.progress);
                progress.panic.get_or_insert(panic);
                progress.panicked.push(index);
            }
        }
        Ok(None)
    }

    fn finish(&self, index: usize, fetched: Fetched) {
        let panic = self.options.try_report(index, &fetched);
        lock(&self.progress).finish(index, fetched, panic);
    }
}

/// Locks a mutex under which no host code runs, so that a panic leaves its value consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
