//! Single flight between processes, over every store that processes share, and between the caches of one process.

use std::{
    convert::Infallible,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Barrier, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use warmstart::{
    Cache, Key, Limits,
    cache::{DEFAULT_TIMEOUT, ManyOptions, Origin},
    store::{FileStore, MemoryStore, SqliteStore, StoreOptions, TieredStore},
};
use warmstart_tests::{
    own_process,
    proof::{numbered_key, payload, verify},
};

/// Less than this was not ended by the timeout, however slow the machine is.
const LESS_THAN_TIMEOUT: Duration = Duration::from_secs(DEFAULT_TIMEOUT.as_secs() / 2);

/// A store by the name that the worker knows, and where its locks are.
struct Shared {
    kind: &'static str,
    path: PathBuf,
    locks: PathBuf,
}

/// Returns the keys that were built, in their order.
fn built(log: &Path) -> Vec<u64> {
    let log = fs::read_to_string(log).unwrap_or_default();
    // The last line may be half written.
    let mut built: Vec<u64> = log.lines().filter_map(|line| line.parse().ok()).collect();
    built.sort_unstable();
    built
}

fn each_store(test: impl Fn(&Shared, &Path)) {
    for kind in ["files", "sqlite", "tiered"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cache");
        let locks = match kind {
            "sqlite" => directory.path().join("cache.locks"),
            _ => path.join("locks"),
        };
        test(&Shared { kind, path, locks }, &directory.path().join("log"));
    }
}

impl Shared {
    fn worker(&self, work: &[&str]) -> Child {
        Command::new(env!("CARGO_BIN_EXE_worker"))
            .args(["--store", self.kind, "--path"])
            .arg(&self.path)
            .args(work)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn cache(&self) -> Cache {
        let path = &self.path;
        let files = || FileStore::open(path, StoreOptions::default()).unwrap();
        Cache::new(match self.kind {
            "files" => Box::new(files()),
            "sqlite" => Box::new(SqliteStore::open(path, StoreOptions::default()).unwrap()),
            _ => Box::new(TieredStore::new(Limits::NONE, files())),
        })
    }

    fn builder(&self, log: &Path, keys: &str, build_ms: &str) -> Child {
        self.worker(&["build", "--log", log.to_str().unwrap(), "--keys", keys, "--build-ms", build_ms])
    }

    fn builder_together(&self, log: &Path, keys: &str, build_ms: &str) -> Child {
        let log = log.to_str().unwrap();
        self.worker(&["build", "--together", "--log", log, "--keys", keys, "--build-ms", build_ms])
    }

    fn locks_left(&self) -> usize {
        fs::read_dir(&self.locks).unwrap().count()
    }
}

#[test]
fn a_stampede_of_processes_builds_each_artifact_once() {
    each_store(|store, log| {
        let children: Vec<Child> = (0..8).map(|_| store.builder(log, "12", "20")).collect();
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
        assert_eq!(built(log), (0..12).collect::<Vec<_>>(), "{}", store.kind);
        assert_eq!(store.locks_left(), 0);
    });
}

#[test]
fn a_killed_builder_does_not_hold_up_the_others() {
    each_store(|store, log| {
        let mut stuck = store.builder(log, "1", "600000");
        let lock = store.locks.join(Key::digest(&numbered_key(0)).to_string());
        // It is there for a moment before it is locked.
        while !File::open(&lock).is_ok_and(|lock| lock.try_lock().is_err()) {
            thread::sleep(Duration::from_millis(5));
        }
        let mut waiting = store.builder(log, "1", "1");
        thread::sleep(Duration::from_millis(200));
        assert!(waiting.try_wait().unwrap().is_none(), "it waits for the one that builds");
        let started = Instant::now();
        stuck.kill().unwrap();
        assert!(waiting.wait().unwrap().success());
        assert!(started.elapsed() < LESS_THAN_TIMEOUT);
        stuck.wait().unwrap();
        assert_eq!(store.locks_left(), 0);
    });
}

#[test]
fn processes_that_ask_together_share_the_builds() {
    each_store(|store, log| {
        let started = Instant::now();
        let children: Vec<Child> = (0..4).map(|_| store.builder_together(log, "40", "50")).collect();
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
        // One after the other, they take 2 s.
        let took = started.elapsed();
        assert!(took < Duration::from_millis(1500), "{}: the builds were not shared: {took:?}", store.kind);
        assert_eq!(built(log), (0..40).collect::<Vec<_>>(), "{}", store.kind);
        assert_eq!(store.locks_left(), 0);
    });
}

#[test]
fn a_process_killed_among_others_costs_one_build() {
    each_store(|store, log| {
        let mut children: Vec<Child> = (0..4).map(|_| store.builder_together(log, "40", "50")).collect();
        while built(log).len() < 8 {
            thread::sleep(Duration::from_millis(5));
        }
        let mut killed = children.remove(0);
        killed.kill().unwrap();
        killed.wait().unwrap();
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
        let built = built(log);
        let mut distinct = built.clone();
        distinct.dedup();
        assert_eq!(distinct, (0..40).collect::<Vec<_>>(), "{}", store.kind);
        // It may have been killed after the log was written and before the artifact was stored.
        assert!(built.len() <= 41, "{}: {} builds", store.kind, built.len());
        // The next process sweeps what the killed one left.
        assert!(store.builder_together(log, "40", "50").wait().unwrap().success());
        assert_eq!(store.locks_left(), 0);
    });
}

/// Each artifact of a tree needs two others, and processes and threads ask for all of them in different orders.
#[test]
fn builders_that_ask_for_more_share_the_builds() {
    each_store(|store, log| {
        let seeds = ["1", "2", "3", "4"];
        let tree = |seed: &str| {
            store.worker(&["tree", "--log", log.to_str().unwrap(), "--seed", seed, "--keys", "60"])
        };
        let started = Instant::now();
        for mut child in seeds.map(tree) {
            assert!(child.wait().unwrap().success());
        }
        assert!(started.elapsed() < LESS_THAN_TIMEOUT, "{}: only the timeout ended it", store.kind);
        assert_eq!(built(log), (0..60).collect::<Vec<_>>(), "{}", store.kind);
        assert_eq!(store.locks_left(), 0);
    });
}

#[test]
fn a_process_killed_among_nested_builds_holds_up_none() {
    each_store(|store, log| {
        let tree = |seed: &str| {
            store.worker(&["tree", "--log", log.to_str().unwrap(), "--seed", seed, "--keys", "60"])
        };
        let started = Instant::now();
        let mut children = ["1", "2", "3"].map(tree);
        while built(log).len() < 10 {
            thread::sleep(Duration::from_millis(2));
        }
        children[0].kill().unwrap();
        for (n, child) in children.iter_mut().enumerate() {
            assert!(n == 0 || child.wait().unwrap().success());
        }
        children[0].wait().unwrap();
        assert!(started.elapsed() < LESS_THAN_TIMEOUT, "{}: only the timeout ended it", store.kind);
        let mut built = built(log);
        let builds = built.len();
        built.dedup();
        assert_eq!(built, (0..60).collect::<Vec<_>>(), "{}", store.kind);
        // Three threads and those of their builders may have been between the log and the store.
        assert!(builds <= 60 + 6, "{}: {builds} builds", store.kind);
        assert!(tree("4").wait().unwrap().success());
        assert_eq!(store.locks_left(), 0);
    });
}

/// Another process builds one of the artifacts, and takes longer than the timeout: this one builds the others at once, and
/// that one after the timeout.
#[test]
fn an_artifact_that_takes_too_long_is_built_after_the_timeout() {
    const TIMEOUT: Duration = Duration::from_millis(500);
    each_store(|store, log| {
        let mut stuck = store.builder(log, "1", "600000");
        let lock = store.locks.join(Key::digest(&numbered_key(0)).to_string());
        while !File::open(&lock).is_ok_and(|lock| lock.try_lock().is_err()) {
            thread::sleep(Duration::from_millis(5));
        }
        let cache = store.cache().with_timeout(TIMEOUT);
        let started = Instant::now();
        let when_built = Mutex::new(Vec::new());
        let build = |index: usize| {
            when_built.lock().unwrap().push((index, started.elapsed()));
            Ok::<_, Infallible>(vec![index as u8])
        };
        let fetched = cache.get_or_build_many((0..20).map(numbered_key), ManyOptions::default(), build);
        for (index, Ok(fetched)) in fetched.into_iter().enumerate() {
            assert_eq!(fetched.artifact().payload(), [index as u8]);
        }
        let when_built = when_built.into_inner().unwrap();
        assert_eq!(when_built.len(), 20);
        let (last, when) = when_built[19];
        assert_eq!(last, 0, "{}: it was not left for the end", store.kind);
        assert!(when >= TIMEOUT && when < LESS_THAN_TIMEOUT, "{}: built after {when:?}", store.kind);
        stuck.kill().unwrap();
        stuck.wait().unwrap();
    });
}

/// While one call builds very many artifacts, this process has few descriptors and the store few lock files.
#[test]
#[cfg(target_os = "linux")]
fn very_many_requests_need_few_descriptors() {
    own_process!(|| {
        const WORKERS: usize = 4;
        each_store(|store, _| {
            let count = if store.kind == "files" { 10_000 } else { 1_000 };
            let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
            let cache = store.cache();
            let Ok(_) = cache.get_or_build("first", || Ok::<_, Infallible>(vec![1]));
            let (before, most, most_locks) = (descriptors(), AtomicUsize::new(0), AtomicUsize::new(0));
            let build = |index: usize| {
                if index.is_multiple_of(100) {
                    most.fetch_max(descriptors(), Ordering::Relaxed);
                    most_locks.fetch_max(store.locks_left(), Ordering::Relaxed);
                }
                Ok::<_, Infallible>(payload(&numbered_key(index as u64), 1, 10))
            };
            let options = ManyOptions::default().with_workers(WORKERS);
            let keys = || (0..count as u64).map(numbered_key);
            let _ = cache.get_or_build_many(keys(), options, build);
            for (key, Ok(fetched)) in keys().zip(cache.get_or_build_many(keys(), options, build)) {
                assert_eq!((verify(&key, fetched.artifact()), fetched.origin()), (1, Origin::Hit));
            }
            let (most, most_locks) = (most.into_inner(), most_locks.into_inner());
            // Each worker has a lock, a temp file and what it reads.
            assert!(most <= before + 4 * WORKERS + 4, "{}: {most} descriptors after {before}", store.kind);
            assert!(most_locks <= WORKERS, "{}: {most_locks} lock files", store.kind);
            assert!(descriptors() <= before + 2, "{}: descriptors are left", store.kind);
            assert_eq!(store.locks_left(), 0);
        });
    });
}

#[test]
fn processes_that_need_each_others_builds_finish_after_timeout() {
    each_store(|store, log| {
        fs::create_dir(log).unwrap();
        let barrier = log.to_str().unwrap();
        let children = [["a", "b"], ["b", "a"]]
            .map(|[outer, inner]| store.worker(&["nest", outer, inner, "--barrier", barrier]));
        for child in children {
            let output = child.wait_with_output().unwrap();
            let took =
                Duration::from_millis(String::from_utf8(output.stdout).unwrap().trim().parse().unwrap());
            assert!(took < LESS_THAN_TIMEOUT, "it took {took:?}, and its timeout is a second");
        }
    });
}

/// One thread builds `x` through one cache and needs `y` through another, while the other thread builds that and needs
/// `x`.
fn both_finish_what_the_other_needs([one, two]: [Cache; 2]) {
    let (started, both) = (Instant::now(), Barrier::new(2));
    thread::scope(|scope| {
        for (mine, outer, others, inner) in [(&one, "x", &two, "y"), (&two, "y", &one, "x")] {
            let both = &both;
            scope.spawn(move || {
                let Ok(_) = mine.get_or_build(outer, || {
                    both.wait();
                    let Ok(_) = others.get_or_build(inner, || Ok::<_, Infallible>(vec![1]));
                    Ok::<_, Infallible>(vec![2])
                });
            });
        }
    });
    assert!(started.elapsed() < LESS_THAN_TIMEOUT, "only the timeout ended it");
}

fn files(path: &Path) -> Cache {
    Cache::new(Box::new(FileStore::open(path, StoreOptions::default()).unwrap()))
}

#[test]
fn two_caches_that_need_each_others_builds_both_finish() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name| directory.path().join(name);
    both_finish_what_the_other_needs([files(&path("one")), files(&path("two"))]);
    both_finish_what_the_other_needs([files(&path("same")), files(&path("same"))]);
    let memory = || Cache::new(Box::new(MemoryStore::new(Limits::NONE)) as Box<_>);
    both_finish_what_the_other_needs([memory(), memory()]);
    both_finish_what_the_other_needs([memory(), files(&path("beside memory"))]);
}

#[test]
fn of_two_caches_of_one_directory_one_builds() {
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(directory.path(), directory.path().join("link")).unwrap();
    let caches = ["cache", "link/cache"].map(|path| files(&directory.path().join(path)));
    let (builds, start) = (AtomicU64::new(0), Barrier::new(8));
    thread::scope(|scope| {
        for n in 0..8 {
            let (cache, builds, start) = (&caches[n % 2], &builds, &start);
            scope.spawn(move || {
                start.wait();
                let Ok(fetched) = cache.get_or_build("k", || {
                    builds.fetch_add(1, Ordering::Relaxed);
                    Ok::<_, Infallible>(vec![7])
                });
                assert_eq!(fetched.artifact().payload(), [7]);
            });
        }
    });
    assert_eq!(builds.into_inner(), 1);
}

#[test]
fn caches_of_two_directories_each_build_and_store() {
    let directory = tempfile::tempdir().unwrap();
    let caches = ["one", "two"].map(|name| files(&directory.path().join(name)));
    let (started, both_build) = (Instant::now(), Barrier::new(2));
    thread::scope(|scope| {
        for cache in &caches {
            scope.spawn(|| {
                let Ok(fetched) = cache.get_or_build("k", || {
                    both_build.wait();
                    Ok::<_, Infallible>(vec![7])
                });
                assert_eq!(fetched.artifact().payload(), [7]);
            });
        }
    });
    assert!(started.elapsed() < LESS_THAN_TIMEOUT, "one waited for the other");
    assert!(caches.iter().all(|cache| cache.contains("k") == Ok(true)));
}

/// A thread that once waited for `x` builds `y`. A later builder of `x` that needs `y` waits for that thread.
#[test]
fn a_wait_that_is_over_is_part_of_no_circle() {
    let cache = Cache::new(MemoryStore::new(Limits::NONE));
    let (y_builds, steps) = (AtomicU64::new(0), Barrier::new(2));
    let soon = Duration::from_millis(200);
    thread::scope(|scope| {
        scope.spawn(|| {
            steps.wait();
            let Ok(x) = cache.get_or_build("x", || Ok::<_, Infallible>(vec![0]));
            assert!(matches!(x.origin(), Origin::Coalesced { .. }));
            let Ok(_) = cache.get_or_build("y", || {
                steps.wait();
                y_builds.fetch_add(1, Ordering::Relaxed);
                thread::sleep(2 * soon);
                Ok::<_, Infallible>(vec![2])
            });
        });
        let Ok(_) = cache.get_or_build("x", || {
            steps.wait();
            // The other thread comes to wait meanwhile.
            thread::sleep(soon);
            Ok::<_, Infallible>(vec![1])
        });
        steps.wait();
        assert_eq!(cache.remove("x"), Ok(true));
        let Ok(_) = cache.get_or_build("x", || {
            let Ok(_) = cache.get_or_build("y", || {
                y_builds.fetch_add(1, Ordering::Relaxed);
                Ok::<_, Infallible>(vec![2])
            });
            Ok::<_, Infallible>(vec![1])
        });
    });
    assert_eq!(y_builds.into_inner(), 1);
}

/// A store that takes nothing spares those that wait nothing: they are handed what was built.
#[test]
fn those_who_wait_are_handed_what_no_store_takes() {
    const THREADS: u64 = 8;
    let cache = Cache::new(MemoryStore::new(Limits { max_bytes: Some(10), ..Limits::NONE }));
    let (builds, arrived) = (AtomicU64::new(0), AtomicU64::new(0));
    let build = || {
        builds.fetch_add(1, Ordering::Relaxed);
        while arrived.load(Ordering::Relaxed) < THREADS {
            thread::yield_now();
        }
        // The last of them comes to wait meanwhile.
        thread::sleep(Duration::from_millis(500));
        Ok::<_, Infallible>(vec![7; 1000])
    };
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                arrived.fetch_add(1, Ordering::Relaxed);
                let Ok(fetched) = cache.get_or_build(b"key", build);
                assert_eq!(fetched.artifact().payload(), [7; 1000]);
            });
        }
    });
    assert_eq!(builds.into_inner(), 1);
}
