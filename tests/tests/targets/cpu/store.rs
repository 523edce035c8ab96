//! The CPU target: stores that refuse, are damaged, or hold something else.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use warmstart::{
    Artifact, Cache, Limits, MissReason, Store,
    cache::Origin,
    store::{FileStore, MemoryStore, StoreOptions},
    target::cpu::{CpuFeatures, Kernel},
};
use warmstart_tests::cpu::{memory, restarted, run, target};
use warmstart_tests::whole::Whole;

#[test]
fn a_rejected_source_is_an_error_with_the_log_and_is_not_stored() {
    let (target, cache) = (target(), memory());
    let _ = target.compile(&cache, &Kernel::new("f", "int f(void) { return 1; }")).unwrap();
    let before = cache.store().whole().unwrap();
    let error = target.compile(&cache, &Kernel::new("broken", "int f(void) { return one; }")).unwrap_err();
    assert!(error.is_rejected_source());
    assert!(error.log().unwrap().contains("broken:1:"), "{error}");
    assert!(error.to_string().contains("broken"), "{error}");
    assert_eq!(cache.store().whole(), Ok(before));
}

/// Refuses everything, or fails to find anything, as a store on a full or failing disk does.
#[derive(Debug)]
struct Broken(MissReason);

impl Store for Broken {
    fn get(&self, _: &[u8]) -> Result<Artifact, MissReason> {
        Err(self.0)
    }
    fn put(&self, _: &[u8], _: &Artifact) -> Result<u64, MissReason> {
        Err(self.0)
    }
    fn remove(&self, _: &[u8]) -> Result<bool, MissReason> {
        Err(self.0)
    }
    fn contains(&self, _: &[u8]) -> Result<bool, MissReason> {
        Err(self.0)
    }
    fn clear(&self) -> Result<(), MissReason> {
        Err(self.0)
    }
    fn flush(&self) -> Result<(), MissReason> {
        Err(self.0)
    }
}

#[test]
fn a_store_that_refuses_everything_never_loses_the_object() {
    let target = target();
    for reason in [MissReason::NoSpace, MissReason::Unavailable, MissReason::Busy] {
        let (value, fetched) =
            run(&target, &Cache::new(Broken(reason)), &Kernel::new("f", "int f(void) { return 3; }"));
        assert_eq!((value, fetched.miss(), fetched.refusal()), (3, Some(reason), Some(reason)));
    }
}

/// All files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn damage_anywhere_in_the_store_is_a_miss_and_mends_itself() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::new(FileStore::open(directory.path().join("cache"), StoreOptions::default()).unwrap());
    let kernel = Kernel::new("f", "#include <math.h>\nint f(void) { return 4; }");
    let _ = run(&target(), &cache, &kernel);
    let entries = files(&directory.path().join("cache/entries"));
    assert_eq!(entries.len(), 3, "the compiler, the manifest and the object");
    for entry in &entries {
        let whole = fs::read(entry).unwrap();
        for damaged in [&whole[..whole.len() / 2], &[&whole[..whole.len() - 9], b"something"].concat(), b""] {
            // Removed first: the old file may be mapped.
            fs::remove_file(entry).unwrap();
            fs::write(entry, damaged).unwrap();
            assert_eq!(run(&target(), &cache, &kernel).0, 4);
            assert!(run(&target(), &cache, &kernel).1.is_hit());
        }
    }
}

#[test]
fn entries_that_are_sound_and_hold_something_else_are_misses() {
    #[derive(Debug)]
    struct Scrambled(MemoryStore);
    impl Store for Scrambled {
        fn get(&self, key: &[u8]) -> Result<Artifact, MissReason> {
            match self.0.get(key) {
                // Manifests and probes have no recipe.
                Ok(artifact) if artifact.metadata().is_ok_and(|known| known.recipe().is_none()) => {
                    Ok(Artifact::new(artifact.payload().iter().map(|byte| byte ^ 0x55).collect()))
                }
                found => found,
            }
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
    let cache = Cache::new(Scrambled(MemoryStore::new(Limits::NONE)));
    let kernel = Kernel::new("f", "#include <math.h>\nint f(void) { return 4; }");
    assert_eq!(run(&target(), &cache, &kernel).1.miss(), Some(MissReason::Absent));
    let (value, fetched) = run(&target(), &cache, &kernel);
    assert_eq!(value, 4);
    assert!(matches!(fetched.origin(), Origin::Built { stored: Ok(_), .. }), "{:?}", fetched.origin());
}

/// Keeps another object in the place of the first ones that it is given.
#[derive(Debug)]
struct Exchanging {
    inner: MemoryStore,
    left: AtomicU32,
}

impl Exchanging {
    fn cache(times: u32) -> Cache<Self> {
        Cache::new(Self { inner: MemoryStore::new(Limits::NONE), left: AtomicU32::new(times) })
    }
}

impl Store for Exchanging {
    fn get(&self, key: &[u8]) -> Result<Artifact, MissReason> {
        self.inner.get(key)
    }
    fn put(&self, key: &[u8], artifact: &Artifact) -> Result<u64, MissReason> {
        let metadata = artifact.metadata().unwrap();
        let is_object = metadata.attribute("cpu.machine").is_some();
        let take = |left: u32| left.checked_sub(1);
        if is_object && self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
            return self.inner.put(key, &Artifact::new(b"no object".to_vec()).with_metadata(&metadata));
        }
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
        self.inner.flush()
    }
}

#[test]
fn an_object_that_the_loader_refuses_is_compiled_once_more() {
    let (target, cache) = (target(), Exchanging::cache(1));
    let kernel = Kernel::new("f", "#include <math.h>\nint f(void) { return 4; }");
    assert_eq!(run(&target, &cache, &kernel).0, 4);
    let (value, fetched) = run(&target, &cache, &kernel);
    assert_eq!((value, fetched.miss()), (4, Some(MissReason::Absent)));
    let statistics = cache.statistics();
    assert_eq!((statistics.hits, statistics.misses.total(), statistics.builds), (1, 2, 2));
    assert!(run(&target, &cache, &kernel).1.is_hit());
}

#[test]
fn an_object_that_the_loader_always_refuses_is_an_error() {
    let (target, cache) = (target(), Exchanging::cache(0));
    let kernel = Kernel::new("f", "int missing(void); int f(void) { return missing(); }");
    for builds in 1..=3 {
        let error = target.load(&cache, &kernel).unwrap_err();
        assert!(error.to_string().contains("cannot be loaded"), "{error}");
        assert_eq!(cache.statistics().builds, builds);
    }
}

#[test]
fn features_of_the_target_are_kept_with_the_object() {
    let (target, cache) = (target().with_features(CpuFeatures::none()), memory());
    let kernel = Kernel::new("f", "int f(void) { return 4; }");
    for features in [CpuFeatures::none(), CpuFeatures::host()] {
        let target = restarted(&target).with_features(features.clone());
        let fetched = target.compile(&cache, &kernel).unwrap();
        let metadata = fetched.artifact().metadata().unwrap();
        assert_eq!(metadata.attribute("cpu.features"), Some(features.to_string().as_bytes()));
    }
}

#[test]
#[cfg_attr(not(has_avx512fp16), ignore = "needs a compiler that knows the CPU feature avx512fp16")]
fn an_object_for_another_cpu_is_kept() {
    let (target, cache) = (target(), memory());
    let kernel = Kernel::new("f", "int f(void) { return 4; }");
    // No CPU has both.
    let host = CpuFeatures::host();
    let missing = if host.names().any(|name| name == "sse4a") { "avx512fp16" } else { "sse4a" };
    let target = target.with_features(CpuFeatures::none().with(missing));
    let _ = target.compile(&cache, &kernel).unwrap();
    let before = cache.store().whole();
    for _ in 0..2 {
        assert!(target.load(&cache, &kernel).unwrap_err().is_missing_feature());
    }
    assert_eq!((cache.statistics().builds, cache.store().whole()), (1, before));
}
