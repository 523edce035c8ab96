//! Look up, else build: single flight, failing builders, nested builds.

use std::{
    convert::Infallible,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Barrier,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use warmstart::{Cache, cache::Fetched};

use super::{Harness, store};
use crate::proof::{artifact, verify};

const THREADS: usize = 8;

/// Long enough that threads that arrive meanwhile wait.
const SLOW: Duration = Duration::from_millis(50);

/// Far below the timeout of a cache: a deadlock that only the timeout ends is a failure.
const SOON: Duration = Duration::from_secs(20);

fn build(cache: &Cache, key: &[u8], version: u64) -> Fetched {
    cache.get_or_build(key, || Ok::<_, Infallible>(artifact(key, version, 1000))).unwrap()
}

/// Exactly one build, whose artifact everybody has.
pub fn of_many_threads_one_builds(harness: &dyn Harness) {
    let cache = Cache::new(store(harness));
    let (builds, start) = (AtomicU64::new(0), Barrier::new(THREADS));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                start.wait();
                let fetched = cache.get_or_build(b"k", || {
                    thread::sleep(SLOW);
                    Ok::<_, Infallible>(artifact(b"k", builds.fetch_add(1, Ordering::Relaxed), 1000))
                });
                assert_eq!(verify(b"k", fetched.unwrap().artifact()), 0);
            });
        }
    });
    let statistics = cache.statistics();
    assert_eq!((builds.into_inner(), statistics.builds), (1, 1));
    assert_eq!(statistics.hits + statistics.shared + 1, THREADS as u64);
}

/// The builder's error is the caller's, and of those who waited one builds.
pub fn an_error_stores_nothing_and_the_next_builds(harness: &dyn Harness) {
    let cache = Cache::new(store(harness));
    let (builds, start) = (AtomicU64::new(0), Barrier::new(THREADS));
    let started = Instant::now();
    let outcomes: Vec<Result<u64, &str>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    let fetched = cache.get_or_build(b"k", || {
                        thread::sleep(SLOW);
                        match builds.fetch_add(1, Ordering::Relaxed) {
                            0 => Err("the first build fails"),
                            version => Ok(artifact(b"k", version, 1000)),
                        }
                    })?;
                    Ok(verify(b"k", fetched.artifact()))
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_err()).count(), 1);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Ok(1)).count(), THREADS - 1);
    assert_eq!(builds.into_inner(), 2);
    assert!(started.elapsed() < SOON, "the waiters were not woken");
}

/// A panic is the panicking caller's alone.
pub fn a_panic_stores_nothing_and_those_who_wait_go_on(harness: &dyn Harness) {
    let cache = Cache::new(store(harness));
    let (builds, start) = (AtomicU64::new(0), Barrier::new(THREADS));
    let panicked = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    catch_unwind(AssertUnwindSafe(|| {
                        let fetched = cache.get_or_build(b"k", || {
                            thread::sleep(SLOW);
                            let version = builds.fetch_add(1, Ordering::Relaxed);
                            assert!(version > 0, "the first build panics, on purpose");
                            Ok::<_, Infallible>(artifact(b"k", version, 1000))
                        });
                        assert_eq!(verify(b"k", fetched.unwrap().artifact()), 1);
                    }))
                    .is_err()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).filter(|panicked| *panicked).count()
    });
    assert_eq!((panicked, builds.into_inner()), (1, 2));
    assert!(build(&cache, b"k", 9).is_hit());
}

/// A needs B while B needs A, and one that needs itself.
pub fn nested_builds_never_deadlock(harness: &dyn Harness) {
    let cache = Cache::new(store(harness));
    let (started, both) = (Instant::now(), Barrier::new(2));
    thread::scope(|scope| {
        for (mine, others) in [(b"A", b"B"), (b"B", b"A")] {
            let (cache, both) = (&cache, &both);
            scope.spawn(move || {
                let fetched = cache.get_or_build(mine, || {
                    both.wait();
                    let inner = build(cache, others, 7);
                    let _ = verify(others, inner.artifact());
                    Ok::<_, Infallible>(artifact(mine, 7, 1000))
                });
                assert_eq!(verify(mine, fetched.unwrap().artifact()), 7);
            });
        }
    });
    let fetched = cache.get_or_build(b"self", || {
        let inner = build(&cache, b"self", 1);
        Ok::<_, Infallible>(artifact(b"self", verify(b"self", inner.artifact()) + 1, 1000))
    });
    assert_eq!(verify(b"self", fetched.unwrap().artifact()), 2);
    assert!(started.elapsed() < SOON, "only the timeout ended it");
}
