//! Single flight between processes, over every store that processes share, and between the caches of one process.

use std::{
    convert::Infallible,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Barrier,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use warmstart::{
    Cache, Key, Limits,
    cache::DEFAULT_PATIENCE,
    store::{FileOptions, FileStore, MemoryStore},
};
use warmstart_tests::proof::numbered_key;

/// Less than this was not ended by patience, however slow the machine is.
const LESS_THAN_PATIENCE: Duration = Duration::from_secs(DEFAULT_PATIENCE.as_secs() / 2);

/// A store by the name that the worker knows, and where its locks are.
struct Shared {
    kind: &'static str,
    path: PathBuf,
    locks: PathBuf,
}

fn each_store(test: impl Fn(&Shared, &Path)) {
    for kind in ["files", "sqlite"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cache");
        let locks = match kind {
            "files" => path.join("locks"),
            _ => directory.path().join("cache.locks"),
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

    fn builder(&self, log: &Path, keys: &str, build_ms: &str) -> Child {
        self.worker(&["build", "--log", log.to_str().unwrap(), "--keys", keys, "--build-ms", build_ms])
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
        let mut built: Vec<u64> =
            fs::read_to_string(log).unwrap().lines().map(|line| line.parse().unwrap()).collect();
        built.sort_unstable();
        assert_eq!(built, (0..12).collect::<Vec<_>>(), "{}", store.kind);
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
        assert!(started.elapsed() < LESS_THAN_PATIENCE);
        stuck.wait().unwrap();
        assert_eq!(store.locks_left(), 0);
    });
}

#[test]
fn processes_that_need_each_others_builds_finish_after_patience() {
    each_store(|store, log| {
        fs::create_dir(log).unwrap();
        let barrier = log.to_str().unwrap();
        let children = [["a", "b"], ["b", "a"]]
            .map(|[outer, inner]| store.worker(&["nest", outer, inner, "--barrier", barrier]));
        for child in children {
            let output = child.wait_with_output().unwrap();
            let took =
                Duration::from_millis(String::from_utf8(output.stdout).unwrap().trim().parse().unwrap());
            assert!(took < LESS_THAN_PATIENCE, "it took {took:?}, and its patience is a second");
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
    assert!(started.elapsed() < LESS_THAN_PATIENCE, "only patience ended it");
}

fn files(path: &Path) -> Cache {
    Cache::new(Box::new(FileStore::open(path, FileOptions::default()).unwrap()))
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
