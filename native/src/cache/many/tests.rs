use std::{
    collections::HashSet,
    convert::Infallible,
    mem,
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use super::*;
use crate::{
    Limits,
    store::{Claims, FileStore, MemoryStore, StoreOptions, TieredStore},
};

fn memory() -> Cache<MemoryStore> {
    Cache::new(MemoryStore::new(Limits::NONE))
}

fn keys(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|index| index.to_le_bytes().to_vec()).collect()
}

fn payloads<E: fmt::Debug>(fetched: &[Result<Fetched, E>]) -> Vec<usize> {
    let payload =
        |fetched: &Result<Fetched, E>| fetched.as_ref().unwrap().artifact().payload().try_into().unwrap();
    fetched.iter().map(|fetched| usize::from_le_bytes(payload(fetched))).collect()
}

fn built(index: usize) -> Result<Vec<u8>, Infallible> {
    Ok(index.to_le_bytes().to_vec())
}

#[test]
fn no_requests_have_no_results() {
    let build = |_| -> Result<Vec<u8>, Infallible> { unreachable!() };
    assert!(memory().get_or_build_many([""; 0], ManyOptions::default(), build).is_empty());
}

#[test]
fn results_are_in_the_order_of_the_requests() {
    let cache = memory();
    cache.put(7_usize.to_le_bytes(), &7_usize.to_le_bytes().to_vec().into()).unwrap();
    let fetched = cache.get_or_build_many(keys(100), ManyOptions::default().with_workers(8), built);
    assert_eq!(payloads(&fetched), (0..100).collect::<Vec<_>>());
    let how = |index: usize| fetched[index].as_ref().unwrap().origin();
    assert_eq!(how(7), Origin::Hit);
    assert!(matches!(how(8), Origin::Built { miss: MissReason::Absent, stored: Ok(_) }));
    let statistics = cache.statistics();
    assert_eq!((statistics.hits, statistics.misses.total(), statistics.builds), (1, 99, 99));
}

#[test]
fn equal_keys_are_built_once() {
    let cache = memory();
    let builds = AtomicUsize::new(0);
    let build = |index: usize| {
        builds.fetch_add(1, SeqCst);
        built(index)
    };
    let fetched = cache.get_or_build_many(["a", "b", "a", "a"], ManyOptions::default(), build);
    let values = payloads(&fetched);
    assert_eq!((values[0], values[2], values[3]), (values[0], values[0], values[0]));
    assert_eq!((builds.load(SeqCst), cache.statistics().shared), (2, 2));
}

#[test]
fn a_failed_build_fails_one_request() {
    let cache = memory();
    // Of three requests for one key, the first one's builder fails and the second one's does not.
    let build = |index: usize| if index == 0 { Err(index) } else { Ok(index.to_le_bytes().to_vec()) };
    let fetched = cache.get_or_build_many(["a", "b", "a", "a"], ManyOptions::default(), build);
    assert_eq!(fetched[0].as_ref().unwrap_err(), &0);
    assert_eq!(payloads(&fetched[1..]), [1, 2, 2]);
    let fetched = cache.get_or_build_many(["x", "x"], ManyOptions::default(), Err::<Vec<u8>, usize>);
    assert_eq!(fetched.into_iter().map(Result::unwrap_err).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_panic_goes_on_after_the_rest_is_built() {
    let cache = memory();
    let build = |index: usize| {
        assert!(index != 3, "on purpose");
        built(index)
    };
    for workers in [1, 4] {
        let options = ManyOptions::default().with_workers(workers);
        let call = || cache.get_or_build_many(keys(10), options, build);
        let panic = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"on purpose"));
        assert_eq!(cache.statistics().builds, 9, "all others are stored");
    }
}

#[test]
fn the_callback_hears_of_each_artifact_once() {
    let cache = memory();
    let told = Mutex::new(Vec::new());
    let on_ready =
        |index: usize, fetched: &Fetched| lock(&told).push((index, fetched.artifact().payload().len()));
    let options = ManyOptions::default().with_workers(3).with_on_ready(&on_ready);
    let build = |index: usize| if index == 5 { Err(()) } else { Ok(vec![0; index]) };
    for _ in 0..2 {
        let _ = cache.get_or_build_many(keys(20), options, build);
        let mut told = mem::take(&mut *lock(&told));
        told.sort_unstable();
        assert_eq!(told, (0..20).filter(|index| *index != 5).map(|index| (index, index)).collect::<Vec<_>>());
    }
    let on_ready = |_: usize, _: &Fetched| panic!("on purpose");
    let options = ManyOptions::default().with_on_ready(&on_ready);
    let call = || cache.get_or_build_many(keys(30), options, build);
    assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
    assert_eq!(cache.contains(29_usize.to_le_bytes()), Ok(true));
}

#[test]
fn threads_that_ask_for_the_same_share_the_builds() {
    const THREADS: usize = 4;
    let directory = tempfile::tempdir().unwrap();
    let open = || Cache::new(FileStore::open(directory.path(), StoreOptions::default()).unwrap());
    let (one, two) = (open(), open());
    let builds = AtomicUsize::new(0);
    let start = Barrier::new(THREADS);
    thread::scope(|scope| {
        for cache in [&one, &two, &one, &two] {
            let (builds, start) = (&builds, &start);
            scope.spawn(move || {
                start.wait();
                let build = |index: usize| {
                    builds.fetch_add(1, SeqCst);
                    thread::sleep(Duration::from_millis(5));
                    built(index)
                };
                let fetched =
                    cache.get_or_build_many(keys(40), ManyOptions::default().with_workers(2), build);
                assert_eq!(payloads(&fetched), (0..40).collect::<Vec<_>>());
            });
        }
    });
    assert_eq!(builds.load(SeqCst), 40, "each is built once");
    assert_eq!(std::fs::read_dir(directory.path().join("locks")).map_or(0, Iterator::count), 0);
}

#[test]
fn builders_that_need_each_other_in_two_orders_end() {
    let cache = memory().with_timeout(Duration::from_millis(100));
    thread::scope(|scope| {
        for is_reversed in [false, true] {
            let cache = &cache;
            scope.spawn(move || {
                let order = |keys: &mut Vec<Vec<u8>>| {
                    if is_reversed {
                        keys.reverse();
                    }
                };
                let mut outer = keys(6);
                order(&mut outer);
                let build = |_| {
                    let mut inner = keys(6);
                    order(&mut inner);
                    let fetched =
                        cache.get_or_build_many(inner, ManyOptions::default().with_workers(1), built);
                    fetched.into_iter().collect::<Result<Vec<_>, _>>().map(|_| vec![0_u8; 8])
                };
                let fetched = cache.get_or_build_many(outer, ManyOptions::default().with_workers(2), build);
                assert_eq!(fetched.len(), 6);
            });
        }
    });
}

#[test]
fn many_requests_need_few_threads_and_lock_files() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::new(FileStore::open(directory.path(), StoreOptions::default()).unwrap());
    let locks = directory.path().join("locks");
    let most = AtomicUsize::new(0);
    let build = |index: usize| {
        if index.is_multiple_of(50) {
            most.fetch_max(std::fs::read_dir(&locks).map_or(0, Iterator::count), SeqCst);
        }
        built(index)
    };
    let fetched = cache.get_or_build_many(keys(2_000), ManyOptions::default().with_workers(3), build);
    assert_eq!(payloads(&fetched), (0..2_000).collect::<Vec<_>>());
    assert!((1..=3).contains(&most.load(SeqCst)), "a lock file a build: {most:?}");
    let fetched = memory().get_or_build_many(keys(100_000), ManyOptions::default(), built);
    assert_eq!(payloads(&fetched), (0..100_000).collect::<Vec<_>>());
}

#[test]
fn a_closed_store_builds_equal_keys_once_too() {
    let cache = memory();
    cache.close().unwrap();
    let fetched = cache.get_or_build_many(["a", "b", "a"], ManyOptions::default(), built);
    let values = payloads(&fetched);
    assert_eq!((values[0] == values[2], cache.statistics().builds), (true, 2));
}

/// A store of one's own that answers `get_many` for some of the keys only.
#[derive(Debug)]
struct Short(MemoryStore);

impl Store for Short {
    fn get(&self, key: &[u8]) -> Result<Artifact, MissReason> {
        self.0.get(key)
    }
    fn get_many(&self, keys: &[&[u8]]) -> Vec<Result<Artifact, MissReason>> {
        keys.iter().skip(1).map(|key| self.get(key)).collect()
    }
    fn put(&self, key: &[u8], artifact: &Artifact) -> Result<u64, MissReason> {
        self.0.put(key, artifact)
    }
    fn remove(&self, key: &[u8]) -> Result<bool, MissReason> {
        self.0.remove(key)
    }
    fn contains(&self, key: &[u8]) -> Result<bool, MissReason> {
        self.0.contains(key)
    }
    fn clear(&self) -> Result<(), MissReason> {
        self.0.clear()
    }
    fn flush(&self) -> Result<(), MissReason> {
        self.0.flush()
    }
}

#[test]
fn a_store_that_answers_too_few_look_ups_is_asked_for_each() {
    let short = || Short(MemoryStore::new(Limits::NONE));
    // Memory in front of it that has no room.
    let behind = TieredStore::new(Limits::bytes(1), short());
    let stores: [Box<dyn Store>; 2] = [Box::new(short()), Box::new(behind)];
    for cache in stores.map(Cache::new) {
        for _ in 0..2 {
            let fetched = cache.get_or_build_many(keys(600), ManyOptions::default(), built);
            assert_eq!(payloads(&fetched), (0..600).collect::<Vec<_>>());
        }
    }
}

/// A builder that asks for what the same call builds, and for its own key, by either call.
#[test]
fn a_builder_may_ask_for_its_own_key() {
    for workers in [1, 3] {
        let cache = memory().with_timeout(Duration::from_secs(600));
        let build = |index: usize| {
            let key = index.to_le_bytes();
            let inner = match index % 2 {
                0 => cache.get_or_build(key, || built(index)),
                _ => {
                    let inner =
                        cache.get_or_build_many([key], ManyOptions::default().with_workers(1), |_| {
                            built(index)
                        });
                    inner.into_iter().next().expect("one was asked for")
                }
            };
            inner.map(|inner| inner.artifact().payload().to_vec())
        };
        let fetched = cache.get_or_build_many(keys(10), ManyOptions::default().with_workers(workers), build);
        assert_eq!(payloads(&fetched), (0..10).collect::<Vec<_>>());
    }
}

#[test]
fn a_panic_of_a_builder_lets_those_who_wait_build() {
    let cache = memory().with_timeout(Duration::from_secs(600));
    let both = Barrier::new(2);
    thread::scope(|scope| {
        let panics = scope.spawn(|| {
            let build = |_| -> Result<Vec<u8>, Infallible> {
                both.wait();
                thread::sleep(Duration::from_millis(100));
                panic!("on purpose");
            };
            let call = || cache.get_or_build_many(["a"], ManyOptions::default(), build);
            catch_unwind(AssertUnwindSafe(call)).is_err()
        });
        both.wait();
        let fetched = cache.get_or_build_many(["b", "a"], ManyOptions::default(), built);
        assert_eq!(payloads(&fetched), [0, 1]);
        assert!(panics.join().unwrap());
    });
}

/// Items of a target: two that one build would satisfy may still need artifacts of their own.
#[cfg(any(feature = "cpu", feature = "cuda"))]
mod items {
    use super::*;

    /// Says which item failed, and how.
    #[derive(Debug, PartialEq, Eq)]
    enum Failed {
        Prepare(usize),
        Build(usize),
    }

    struct Needed {
        index: usize,
        flight: [u8; 1],
        /// The key, and the payload of the only right artifact.
        own: [u8; 2],
        fails: bool,
    }

    impl Item for Needed {
        type Built = ();
        type Error = Failed;

        fn flight_key(&self) -> &[u8] {
            &self.flight
        }

        fn find<S: Store>(&self, store: &S) -> Result<Artifact, MissReason> {
            store.get(&self.own)
        }

        fn build(&self) -> Result<(Artifact, ()), Failed> {
            if self.fails { Err(Failed::Build(self.index)) } else { Ok((Artifact::new(self.own.into()), ())) }
        }

        fn keep<S: Store>(&self, store: &S, artifact: &Artifact, (): ()) -> Result<u64, MissReason> {
            store.put(&self.own, artifact)
        }

        fn accepts(&self, fetched: &Fetched) -> bool {
            fetched.artifact().payload() == self.own
        }
    }

    #[test]
    fn each_item_gets_its_own_artifact_or_error() {
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for round in 0..100 {
            let cache = memory();
            let mut items = Vec::new();
            let mut expected = Vec::new();
            for index in 0..40 {
                let own = [random(8) as u8, random(3) as u8];
                let item = Needed { index, flight: [own[0]], own, fails: random(4) == 0 };
                if random(6) == 0 {
                    cache.put(own, &Artifact::new(own.into())).unwrap();
                }
                let is_prepared = random(8) > 0;
                expected.push((own, item.fails, is_prepared));
                items.push(if is_prepared { Ok(item) } else { Err(Failed::Prepare(index)) });
            }
            let reports: Vec<_> = (0..items.len()).map(|_| AtomicUsize::new(0)).collect();
            let on_ready = |index: usize, fetched: &Fetched| {
                assert_eq!(fetched.artifact().payload(), expected[index].0);
                reports[index].fetch_add(1, SeqCst);
            };
            let options = ManyOptions::default().with_workers(1 + round % 4).with_on_ready(&on_ready);
            let results = cache.get_or_build_items(items.into_iter(), options);
            assert_eq!(results.len(), expected.len());
            for (index, (result, (own, fails, is_prepared))) in results.into_iter().zip(&expected).enumerate()
            {
                let reported = reports[index].load(SeqCst);
                match result {
                    Ok(fetched) => {
                        assert!(*is_prepared);
                        assert_eq!((fetched.artifact().payload(), reported), (&own[..], 1), "{index}");
                    }
                    Err(error) => {
                        let of = if *is_prepared { Failed::Build } else { Failed::Prepare };
                        assert_eq!((error, reported), (of(index), 0));
                        assert!(*fails || !*is_prepared, "{index}");
                    }
                }
            }
        }
    }
}

/// A store on another machine, as far as its claims say: each costs a request.
#[derive(Debug)]
struct Remote {
    entries: MemoryStore,
    held: Arc<Mutex<HashSet<Key>>>,
    claims: AtomicUsize,
    surveys: AtomicUsize,
    is_silent: bool,
}

struct Held(Key, Arc<Mutex<HashSet<Key>>>);

impl Drop for Held {
    fn drop(&mut self) {
        lock(&self.1).remove(&self.0);
    }
}

impl Claims for Remote {
    fn scope(&self) -> Vec<u8> {
        format!("{self:p}").into_bytes()
    }
    fn claim(&self, digest: &Key, deadline: Option<Instant>) -> Result<Option<Box<dyn Send>>, MissReason> {
        self.claims.fetch_add(1, SeqCst);
        while !lock(&self.held).insert(*digest) {
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok(None);
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(Some(Box::new(Held(*digest, Arc::clone(&self.held)))))
    }
    fn survey(&self, digests: &[Key]) -> Option<Vec<Surveyed>> {
        if self.is_silent && self.surveys.fetch_add(1, SeqCst) > 0 {
            return None;
        }
        let found = |digest: &Key| match lock(&self.held).contains(digest) {
            true => Surveyed::Claimed,
            false => Surveyed::Free,
        };
        Some(digests.iter().map(found).collect())
    }
}

impl Store for Remote {
    fn get(&self, key: &[u8]) -> Result<Artifact, MissReason> {
        self.entries.get(key)
    }
    fn put(&self, key: &[u8], artifact: &Artifact) -> Result<u64, MissReason> {
        self.entries.put(key, artifact)
    }
    fn remove(&self, key: &[u8]) -> Result<bool, MissReason> {
        self.entries.remove(key)
    }
    fn contains(&self, key: &[u8]) -> Result<bool, MissReason> {
        self.entries.contains(key)
    }
    fn clear(&self) -> Result<(), MissReason> {
        self.entries.clear()
    }
    fn flush(&self) -> Result<(), MissReason> {
        self.entries.flush()
    }
    fn claims(&self) -> Option<&dyn Claims> {
        Some(self)
    }
}

#[test]
fn a_survey_spares_the_claims_of_what_others_build() {
    for is_silent in [false, true] {
        let store = Remote {
            entries: MemoryStore::new(Limits::NONE),
            held: Arc::default(),
            claims: AtomicUsize::new(0),
            surveys: AtomicUsize::new(0),
            is_silent,
        };
        // Another machine builds all but the first ten, and its builds end one after the other.
        let digests = keys(40).into_iter().map(|key| Key::digest(&key));
        *lock(&store.held) = digests.skip(10).collect();
        let cache = Cache::new(&store).with_timeout(Duration::from_secs(60));
        let fetched = thread::scope(|scope| {
            let call = || cache.get_or_build_many(keys(40), ManyOptions::default().with_workers(2), built);
            let call = scope.spawn(call);
            for (index, key) in keys(40).into_iter().enumerate().skip(10) {
                thread::sleep(Duration::from_millis(5));
                store.put(&key, &built(index).unwrap().into()).unwrap();
                lock(&store.held).remove(&Key::digest(&key));
            }
            call.join().unwrap()
        });
        assert_eq!(payloads(&fetched), (0..40).collect::<Vec<_>>());
        assert_eq!(cache.statistics().builds, 10);
        let claims = store.claims.load(SeqCst);
        assert!(is_silent || claims < 30, "{claims} claims");
    }
}

#[test]
fn a_build_that_hangs_elsewhere_is_done_here_after_the_timeout() {
    let store = Remote {
        entries: MemoryStore::new(Limits::NONE),
        held: Arc::new(Mutex::new(keys(3).iter().map(|key| Key::digest(key)).collect())),
        claims: AtomicUsize::new(0),
        surveys: AtomicUsize::new(0),
        is_silent: false,
    };
    let cache = Cache::new(&store).with_timeout(Duration::from_millis(400));
    let started = Instant::now();
    let fetched = cache.get_or_build_many(keys(3), ManyOptions::default(), built);
    assert_eq!((payloads(&fetched), cache.statistics().builds), (vec![0, 1, 2], 3));
    assert!(started.elapsed() >= Duration::from_millis(400));
}
