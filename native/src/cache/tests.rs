use std::{
    convert::Infallible,
    ops::ControlFlow,
    sync::{Barrier, atomic::AtomicBool},
    thread,
};

use super::*;
use crate::{
    KeyFields, Limits,
    store::{Entry, Inspect, MemoryStore, Proof, Totals},
};
use warmstart_core::statistics::PersistedStats;

fn cache() -> Cache<MemoryStore> {
    Cache::new(MemoryStore::new(Limits::NONE))
}

#[test]
fn every_call_takes_the_fields_of_a_key() {
    let cache = cache();
    let fields = KeyFields::new("example", 1).text("name", "softmax");
    cache.put(&fields, &Artifact::new(vec![1])).unwrap();
    let found = cache.get(&fields).unwrap();
    assert_eq!(found.metadata().unwrap().recipe(), Some(&fields.recipe()));
    assert_eq!(cache.contains(&fields), Ok(true));
    assert_eq!((cache.remove(&fields), cache.remove(&fields)), (Ok(true), Ok(false)));
    cache.put(&fields, &Artifact::new(Vec::new())).unwrap();
    assert_eq!(cache.get(fields.key()).unwrap().payload(), [0u8; 0]);
    cache.clear().unwrap();
    assert_eq!(cache.contains(&fields), Ok(false));
    cache.close().unwrap();
    assert_eq!(cache.contains(&fields), Err(MissReason::Closed));
    let statistics = cache.statistics();
    assert_eq!((statistics.hits, statistics.misses.total()), (2, 0), "only look-ups are counted");
}

/// Threads that build, wait, share, fail, hit and miss.
#[test]
fn every_look_up_is_a_hit_or_miss_and_every_miss_ends_one_way() {
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
    assert!(cache.get("absent").is_err());
    let statistics = cache.statistics();
    assert_eq!(statistics.hits + statistics.misses.total(), THREADS * ROUNDS + 1);
    assert_eq!(statistics.misses.total() - 1, statistics.builds + statistics.shared + failures);
    assert_eq!(statistics.bytes_read, 10 * statistics.hits, "what is shared was not read");
}

/// Another handle stores the artifact between the look-up and the build: no caller waited, and no caller built.
#[test]
fn artifact_stored_meanwhile_is_shared_and_counts_one_miss() {
    let cache = cache();
    let mut looked = 0;
    let Ok(fetched) = cache.get_or_build_with(
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
    assert_eq!(fetched.origin(), Origin::Coalesced { miss: MissReason::Absent });
    let statistics = cache.statistics();
    assert_eq!((statistics.hits, statistics.misses.total(), statistics.shared), (0, 1, 1));
    assert_eq!((statistics.bytes_read, statistics.builds), (0, 0));
}

/// A store that keeps reports only when it wants to.
#[derive(Debug)]
struct Moody {
    inner: MemoryStore,
    refuses: AtomicBool,
}

impl Store for Moody {
    fn get(&self, key: &[u8]) -> Result<Artifact, MissReason> {
        self.inner.get(key)
    }
    fn put(&self, key: &[u8], artifact: &Artifact) -> Result<u64, MissReason> {
        self.inner.put(key, artifact)
    }
    fn remove(&self, key: &[u8]) -> Result<bool, MissReason> {
        self.inner.remove(key)
    }
    fn contains(&self, key: &[u8]) -> Result<bool, MissReason> {
        self.inner.contains(key)
    }
    fn clear(&self) -> Result<(), MissReason> {
        self.inner.clear()
    }
    fn flush(&self) -> Result<(), MissReason> {
        Ok(())
    }
    fn inspect(&self) -> Option<&dyn Inspect> {
        Some(self)
    }
}

impl Inspect for Moody {
    fn entries(&self, visit: &mut dyn FnMut(Entry) -> ControlFlow<()>) -> Result<(), MissReason> {
        self.inner.entries(visit)
    }
    fn totals(&self) -> Result<Totals, MissReason> {
        self.inner.totals()
    }
    fn verify(&self, visit: &mut dyn FnMut(&Proof)) -> Result<u64, MissReason> {
        self.inner.verify(visit)
    }
    fn prune(&self, limits: Limits) -> Result<Totals, MissReason> {
        self.inner.prune(limits)
    }
    fn report(&self, counted: &Statistics, last_miss: Option<&Miss>) -> Result<(), MissReason> {
        if self.refuses.load(Relaxed) {
            Err(MissReason::NoSpace)
        } else {
            self.inner.report(counted, last_miss)
        }
    }
    fn stats(&self) -> Result<PersistedStats, MissReason> {
        self.inner.stats()
    }
}

fn moody() -> Moody {
    Moody { inner: MemoryStore::new(Limits::NONE), refuses: AtomicBool::new(false) }
}

fn fields(flags: &'static str) -> KeyFields<'static> {
    KeyFields::new("example", 1).text("name", "softmax").text("flags", flags)
}

#[test]
fn counts_that_a_store_refused_are_reported_later_and_once() {
    let store = moody();
    let cache = Cache::new(&store);
    store.refuses.store(true, Relaxed);
    let Ok(_) = cache.get_or_build(&fields("-O2"), || Ok::<_, Infallible>(vec![1; 10]));
    assert_eq!(cache.flush(), Err(MissReason::NoSpace));
    assert_eq!(store.stats(), Ok(PersistedStats::default()));
    store.refuses.store(false, Relaxed);
    for _ in 0..3 {
        cache.flush().unwrap();
    }
    assert!(cache.get(&fields("-O2")).is_ok());
    let counted = cache.statistics();
    drop(cache);
    let stats = store.stats().unwrap();
    assert_eq!(stats.counted, counted);
    assert_eq!((counted.hits, counted.builds, counted.bytes_written), (1, 1, 10));
    assert_eq!(stats.last_miss.unwrap().recipe, Some(fields("-O2").recipe()));
}

#[test]
fn reports_are_as_far_apart_as_they_may_be() {
    let counters = Counters::default();
    assert!(counters.is_report_due());
    assert!(!counters.is_report_due());
    let due = Instant::now().checked_sub(PAUSE);
    counters.state.lock().due = due;
    assert!(counters.is_report_due());
}

#[test]
fn miss_is_kept_once_its_artifact_is_stored() {
    let store = moody();
    let cache = Cache::new(&store);
    let last = || {
        cache.flush().unwrap();
        store.stats().unwrap().last_miss
    };
    let artifact = Artifact::new(vec![1]);
    cache.put(&fields("-O1"), &artifact).unwrap();
    assert_eq!(last(), None, "it had not been looked up");
    assert!(cache.get(&fields("-O1")).is_ok());
    assert!(cache.get(&fields("-O2")).is_err());
    assert_eq!(last(), None, "nothing was built");
    cache.put(&fields("-O2"), &artifact).unwrap();
    let miss = last().unwrap();
    assert_eq!((miss.reason, miss.recipe), (MissReason::Absent, Some(fields("-O2").recipe())));
    cache.put(&fields("-O3"), &artifact).unwrap();
    assert_eq!(last().unwrap().recipe, Some(fields("-O2").recipe()), "it was not looked up");
}
