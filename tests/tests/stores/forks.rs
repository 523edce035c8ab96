//! Processes that fork while other threads are in the middle of a call: no child hangs, and none gets anything wrong.

use std::{
    convert::Infallible,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use warmstart::{
    Cache, Key, Limits, Store,
    cache::ManyOptions,
    memo::{Evaluate, FieldId, LaunchError, Recorder, Reduction, SharedMemo, Tracked, World},
    pack::{Pack, PackOptions},
    store::{FileStore, MemoryStore, SqliteStore, StoreOptions, TieredStore},
};
use warmstart_tests::{
    children_of, own_process,
    own_process::Children,
    packed::Weight,
    proof::{artifact, numbered_key, payload, verify},
    whole::Whole,
};

/// The number of children that each test forks.
const FORKS: u64 = 200;

/// The timeout of a child.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The number of threads in calls while the process forks.
const THREADS: u64 = 2;

/// Names the folder of a test to the process that builds in it.
const FOLDER: &str = "WARMSTART_FORK_FOLDER";

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(child: i32, status: *mut i32, options: i32) -> i32;
    fn kill(process: i32, signal: i32) -> i32;
    fn _exit(status: i32) -> !;
}

/// Forks; the child runs `work` and ends. Returns the child.
fn forked(work: impl FnOnce()) -> i32 {
    // SAFETY: that this may be done while other threads run is what is tested. The child ends below, and unwinds no further.
    let child = unsafe { fork() };
    if child == 0 {
        let ended = catch_unwind(AssertUnwindSafe(work));
        // SAFETY: it ends the child.
        unsafe { _exit(i32::from(ended.is_err())) };
    }
    assert!(child > 0);
    child
}

/// Waits until a child ends; returns its status, or nothing if it was killed because it took too long.
fn status_of(child: i32) -> Option<i32> {
    let started = Instant::now();
    let mut status = 0;
    loop {
        // SAFETY: it is a child of this process that nothing else waits for.
        if unsafe { waitpid(child, &raw mut status, 1) } != 0 {
            return Some(status);
        }
        if started.elapsed() > TIMEOUT {
            // SAFETY: as above.
            unsafe { kill(child, 9) };
            // SAFETY: as above.
            unsafe { waitpid(child, &raw mut status, 0) };
            return None;
        }
        thread::sleep(Duration::from_micros(200));
    }
}

/// Forks while threads run `busy`, which is called with ever new numbers; each child runs `child`.
fn fork_under(busy: impl Fn(u64) + Sync, child: impl Fn(u64)) {
    let (is_done, next) = (AtomicBool::new(false), AtomicU64::new(0));
    let (hung, failed) = thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    busy(next.fetch_add(1, Ordering::Relaxed));
                }
            });
        }
        let (mut hung, mut failed) = (0, 0);
        for number in 0..FORKS {
            match status_of(forked(|| child(number))) {
                Some(0) => {}
                Some(_) => failed += 1,
                None => hung += 1,
            }
            // A defect shows early: not all forks are needed.
            if hung + failed > 20 {
                break;
            }
        }
        is_done.store(true, Ordering::Relaxed);
        (hung, failed)
    });
    assert_eq!((hung, failed), (0, 0), "children that hung, and children that failed");
}

/// Puts and gets entries, as the threads of a parent do.
fn put_and_get(store: &impl Store, number: u64) {
    let key = numbered_key(number % 64);
    let _ = store.put(&key, &artifact(&key, number, 3000));
    if let Ok(found) = store.get(&numbered_key(number % 7)) {
        let _ = verify(&numbered_key(number % 7), &found);
    }
}

/// Uses the store of the parent, or a store of its own, in a child: artifacts are right, and calls end.
fn use_in_child(store: &impl Store, number: u64) {
    let key = numbered_key(1000 + number);
    if store.put(&key, &artifact(&key, number, 500)).is_ok()
        && let Some(found) = store.get(&key).ok()
    {
        assert_eq!(verify(&key, &found), number);
    }
    if let Ok(found) = store.get(&numbered_key(number % 7)) {
        let _ = verify(&numbered_key(number % 7), &found);
    }
}

fn build_in_child(store: impl Store, number: u64) {
    let (cache, key) = (Cache::new(store), numbered_key(2000 + number));
    let Ok(built) = cache.get_or_build(&key[..], || Ok::<_, Infallible>(payload(&key, 1, 100)));
    assert_eq!(verify(&key, built.artifact()), 1);
}

fn fork_over<S: Store + Sync>(open: impl Fn() -> S + Sync) {
    let store = open();
    fork_under(
        |number| put_and_get(&store, number),
        |number| {
            use_in_child(&store, number);
            let own = open();
            use_in_child(&own, number);
            build_in_child(own, number);
        },
    );
    assert!(store.whole_and_damaged().is_ok_and(|(_, damaged)| damaged == 0));
}

#[test]
fn fork_under_puts_into_memory_hangs_no_child() {
    own_process!(|| {
        fork_over(|| MemoryStore::new(Limits::bytes(100_000)));
    });
}

/// Of 300 threads, some share the place where a fork looks whether they are in a call.
#[test]
fn fork_under_puts_of_300_threads_hangs_no_child() {
    own_process!(|| {
        let (store, end) = (MemoryStore::new(Limits::NONE), RwLock::new(()));
        thread::scope(|scope| {
            // Released by a panic too, which then ends the test.
            let _all_live = end.write();
            for number in 0..300 {
                let (store, end) = (&store, &end);
                scope.spawn(move || {
                    put_and_get(store, number);
                    drop(end.read());
                });
            }
            fork_over(|| MemoryStore::new(Limits::bytes(100_000)));
        });
    });
}

#[test]
fn fork_under_puts_into_files_hangs_no_child() {
    own_process!(|| {
        let directory = tempfile::tempdir().unwrap();
        fork_over(|| FileStore::open(directory.path(), StoreOptions::default()).unwrap());
    });
}

#[test]
fn fork_under_puts_into_capped_files_hangs_no_child() {
    own_process!(|| {
        let directory = tempfile::tempdir().unwrap();
        fork_over(|| {
            FileStore::open(directory.path(), StoreOptions::default().with_max_bytes(100_000)).unwrap()
        });
    });
}

#[test]
fn fork_under_puts_into_sqlite_hangs_no_child() {
    own_process!(|| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cache.db");
        fork_over(|| SqliteStore::open(&path, StoreOptions::default().with_max_bytes(1 << 20)).unwrap());
    });
}

#[test]
fn fork_under_puts_into_tiers_hangs_no_child() {
    own_process!(|| {
        let directory = tempfile::tempdir().unwrap();
        fork_over(|| {
            let files =
                FileStore::open(directory.path(), StoreOptions::default().with_max_bytes(100_000)).unwrap();
            TieredStore::new(Limits::bytes(50_000), files)
        });
    });
}

#[test]
fn fork_under_builds_hangs_no_child() {
    own_process!(|| {
        let directory = tempfile::tempdir().unwrap();
        let open = || FileStore::open(directory.path(), StoreOptions::default()).unwrap();
        let cache = Cache::new(open());
        let build = |number: u64| {
            let key = numbered_key(number);
            let Ok(built) = cache.get_or_build(&key[..], || Ok::<_, Infallible>(payload(&key, 1, 2000)));
            assert_eq!(verify(&key, built.artifact()), 1);
        };
        fork_under(build, |number| {
            // Keys that the parent's threads are about to build, have built, and never build.
            for key in [number * 4, number, 1_000_000 + number] {
                build(key);
            }
            build_in_child(open(), number);
        });
    });
}

#[test]
fn fork_under_builds_of_many_hangs_no_child() {
    own_process!(|| {
        let directory = tempfile::tempdir().unwrap();
        let open = || FileStore::open(directory.path(), StoreOptions::default()).unwrap();
        let cache = Cache::new(open());
        let build = |first: u64, workers: usize| {
            let keys: Vec<_> = (first..first + 6).map(numbered_key).collect();
            let fetched =
                cache.get_or_build_many(&keys, ManyOptions::default().with_workers(workers), |index| {
                    Ok::<_, Infallible>(payload(&keys[index], 1, 2000))
                });
            for (key, Ok(fetched)) in keys.iter().zip(fetched) {
                assert_eq!(verify(key, fetched.artifact()), 1);
            }
        };
        fork_under(
            |number| build(number * 3, 2),
            |number| {
                // Keys that the parent's threads are about to build, have built, and never build.
                for first in [number * 12, number, 1_000_000 + number] {
                    build(first, 2);
                }
                build_in_child(open(), number);
            },
        );
    });
}

/// A builder forks, and fails in the child: the lock of the build, and its file, stay the parent's.
#[test]
fn fork_in_a_failing_builder_leaves_the_lock_of_the_parent() {
    own_process!(|| {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::new(FileStore::open(directory.path(), StoreOptions::default()).unwrap());
        let lock = directory.path().join("locks").join(Key::digest(b"k").to_string());
        let is_held = || fs::File::open(&lock).is_ok_and(|file| file.try_lock().is_err());
        let mut child = 0;
        let failed = cache.get_or_build("k", || {
            // SAFETY: the child leaves its builder and ends.
            child = unsafe { fork() };
            if child != 0 {
                assert_eq!(status_of(child), Some(0), "the child hung");
                assert!(is_held(), "the child released the lock of its parent, or removed its file");
            }
            Err::<Vec<u8>, ()>(())
        });
        if child == 0 {
            // SAFETY: it ends the child.
            unsafe { _exit(i32::from(failed.is_ok())) };
        }
        assert!(!lock.exists());
    });
}

/// A builder forks, and fails in the child while another thread of the child builds the same key. The child's next
/// caller waits for that thread, and the failed builder takes nothing from it.
#[test]
fn fork_in_a_failing_builder_leaves_the_builds_of_the_child() {
    own_process!(|| {
        let cache = Arc::new(Cache::new(MemoryStore::new(Limits::NONE)));
        let (builds, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let start = || {
            let (cache, builds, is_over) = (Arc::clone(&cache), Arc::clone(&builds), Arc::clone(&is_over));
            thread::spawn(move || {
                let Ok(fetched) = cache.get_or_build("k", || {
                    builds.fetch_add(1, Ordering::SeqCst);
                    while !is_over.load(Ordering::SeqCst) {
                        thread::sleep(Duration::from_millis(1));
                    }
                    Ok::<_, Infallible>(vec![7])
                });
                assert_eq!(fetched.artifact().payload(), [7]);
            })
        };
        let (mut child, mut one) = (0, None);
        let failed = cache.get_or_build("k", || {
            // SAFETY: the child starts threads, uses the cache and ends.
            child = unsafe { fork() };
            if child == 0 {
                one = Some(start());
                while builds.load(Ordering::SeqCst) == 0 {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            Err::<Vec<u8>, ()>(())
        });
        assert!(failed.is_err());
        if child == 0 {
            let two = start();
            // It would begin to build by then.
            thread::sleep(Duration::from_millis(300));
            is_over.store(true, Ordering::SeqCst);
            let ended = one.is_some_and(|one| one.join().is_ok()) && two.join().is_ok();
            // SAFETY: it ends the child.
            unsafe { _exit(i32::from(!ended || builds.load(Ordering::SeqCst) != 1)) };
        }
        assert_eq!(status_of(child), Some(0), "the child built the key twice, or hung");
    });
}

#[test]
fn fork_under_packing_hangs_no_child() {
    own_process!(|| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("weights");
        let pack = Pack::open(&path, PackOptions::default()).unwrap();
        let packs = |number: u64| {
            let weight = Weight::number(u32::try_from(number % 500).unwrap());
            let _ = weight.pack(&pack);
            if number.is_multiple_of(50) {
                let _ = pack.save();
            }
        };
        fork_under(packs, |number| {
            let weight = Weight::number(u32::try_from(number).unwrap());
            let _ = weight.pack(&pack);
            let _ = weight.find(&pack);
            let other =
                Pack::open(directory.path().join(format!("own {number}")), PackOptions::default()).unwrap();
            weight.pack(&other).unwrap();
            other.save().unwrap();
            weight.find(&other).unwrap();
        });
        pack.save().unwrap();
    });
}

/// Doubles a field.
struct Double(FieldId);

impl Reduction for Double {
    type Spec = Infallible;
    type Value = Infallible;
    type Output = u64;
    type Error = Infallible;
}

impl<W: World<Field = u64>> Evaluate<W> for Double {
    fn launch(&self, recorder: &mut Recorder<'_, Self, W>) -> Result<u64, LaunchError<Infallible>> {
        Ok(recorder.field(self.0).map_or(0, |value| value * 2))
    }

    fn spec(
        &self,
        spec: &Infallible,
        _: &mut Recorder<'_, Self, W>,
    ) -> Result<Infallible, LaunchError<Infallible>> {
        match *spec {}
    }
}

#[test]
fn fork_under_launches_hangs_no_child() {
    own_process!(|| {
        let memo = SharedMemo::new();
        let launch = |number: u64| {
            let mut world = Tracked::<u64, ()>::new();
            let field = world.add_field(number);
            let kernel = memo.register(Double(field));
            assert_eq!(*memo.launch(kernel, &world.with_arguments(&[])).unwrap(), number * 2);
            let _ = memo.remove(kernel);
        };
        fork_under(launch, launch);
    });
}

/// The folder that a variable names.
fn folder() -> PathBuf {
    std::env::var_os(FOLDER).unwrap().into()
}

/// Has a child that lives on, says so by a file in the folder, and waits to be killed.
fn live_on_in_a_child(folder: &Path) {
    forked(|| thread::sleep(Duration::from_secs(30)));
    fs::write(folder.join("forked"), b"").unwrap();
    thread::sleep(Duration::from_secs(60));
}

/// Runs a child of a test up to its [fork](live_on_in_a_child), and kills it: what it forked lives.
fn kill_parent(children: &Children, folder: &Path) {
    let mut command = children.command();
    // Its child lives longer than this test, and would keep what it inherits open.
    command.env(FOLDER, folder).stdout(Stdio::null()).stderr(Stdio::null());
    let mut parent = command.spawn().unwrap();
    let started = Instant::now();
    while !folder.join("forked").exists() {
        assert!(started.elapsed() < Duration::from_secs(20), "the parent does not fork");
        thread::sleep(Duration::from_millis(5));
    }
    parent.kill().unwrap();
    parent.wait().unwrap();
}

fn build_with_a_living_child() {
    let folder = folder();
    let cache = Cache::new(FileStore::open(folder.join("cache"), StoreOptions::default()).unwrap());
    let _ = cache.get_or_build(b"key", || {
        live_on_in_a_child(&folder);
        Ok::<_, Infallible>(vec![1])
    });
}

/// The lock of a build is released by the death of the process that took it, although a child of it lives.
#[test]
fn fork_lock_of_a_dead_parent_with_a_living_child_is_free() {
    let Some(children) = children_of!(build_with_a_living_child) else { return };
    let folder = tempfile::tempdir().unwrap();
    kill_parent(&children, folder.path());
    let cache = Cache::new(FileStore::open(folder.path().join("cache"), StoreOptions::default()).unwrap());
    let started = Instant::now();
    let Ok(fetched) = cache.get_or_build(b"key", || Ok::<_, Infallible>(vec![2]));
    assert_eq!(fetched.artifact().payload(), [2]);
    assert!(started.elapsed() < Duration::from_secs(1), "it waited for {:?}", started.elapsed());
}

fn pack_with_a_living_child() {
    let folder = folder();
    let pack = Pack::open(folder.join("weights"), PackOptions::default()).unwrap();
    Weight::number(1).pack(&pack).unwrap();
    pack.save().unwrap();
    Weight::number(2).pack(&pack).unwrap();
    live_on_in_a_child(&folder);
}

/// The same of the lock of a pack, although the child has the file mapped.
#[test]
fn fork_lock_of_a_dead_packing_parent_of_a_living_child_is_free() {
    let Some(children) = children_of!(pack_with_a_living_child) else { return };
    let folder = tempfile::tempdir().unwrap();
    kill_parent(&children, folder.path());
    // A child that has not run yet still holds the lock: it lets go once it runs.
    let options = PackOptions::default().with_timeout(Duration::from_millis(500));
    let pack = Pack::open(folder.path().join("weights"), options).unwrap();
    Weight::number(1).find(&pack).unwrap();
    Weight::number(3).pack(&pack).unwrap();
    assert_eq!(pack.save().unwrap().entries, 1);
}
