//! A hit in memory, or of a launch memo, and a look into a registry allocate nothing: proved by counting what the allocator is
//! asked for.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::{convert::Infallible, thread};

use warmstart::{
    Artifact, Cache, Key, Limits, Metadata, Store,
    memo::{
        AllocationId, ArgumentId, Evaluate, FieldId, LaunchError, Recorder, Reduction, SharedMemo, Tracked,
        World,
    },
    registry::{Registry, SharedRegistry},
    store::MemoryStore,
};
use warmstart_tests::counting::{Counting, bytes_held, requests_of};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ENTRIES: u64 = 1000;

fn keys() -> Vec<Key> {
    (0..ENTRIES).map(|n| Key::digest(&n.to_le_bytes())).collect()
}

fn filled(keys: &[Key]) -> MemoryStore {
    let store = MemoryStore::new(Limits::bytes(1 << 24));
    for key in keys {
        let artifact =
            Artifact::new(vec![7; 1024]).with_metadata(&Metadata::new().with_attribute("name", b"f"));
        store.put(key.as_bytes(), &artifact).expect("there is room");
    }
    store
}

#[test]
fn the_count_sees_what_is_allocated() {
    assert_eq!(requests_of(|| ()), 0);
    assert_eq!(requests_of(|| drop(std::hint::black_box(Box::new(1)))), 1);
    assert_eq!(requests_of(|| drop(std::hint::black_box(vec![0u8; 100]))), 1);
}

#[test]
fn what_is_held_is_what_was_not_given_back() {
    let before = bytes_held();
    let mut bytes = std::hint::black_box(Vec::<u8>::with_capacity(100));
    assert_eq!(bytes_held() - before, 100);
    bytes.reserve_exact(300);
    assert_eq!(bytes_held() - before, 300);
    drop(bytes);
    assert_eq!(bytes_held() - before, 0);
}

#[test]
fn a_hit_of_the_memory_store_allocates_nothing() {
    let keys = keys();
    let store = filled(&keys);
    let requests = requests_of(|| {
        for key in &keys {
            assert_eq!(store.get(key.as_bytes()).unwrap().payload().len(), 1024);
        }
    });
    assert_eq!(requests, 0);
}

#[test]
fn a_hit_of_the_cache_allocates_nothing() {
    let keys = keys();
    let cache = Cache::new(filled(&keys));
    let requests = requests_of(|| {
        for key in &keys {
            assert_eq!(cache.get(key).unwrap().payload().len(), 1024);
        }
    });
    assert_eq!(requests, 0);
    assert_eq!(cache.statistics().hits, ENTRIES);
}

/// Depends on 600 fields, an array and the length of another.
struct Kernel(Vec<FieldId>);

impl Reduction for Kernel {
    type Spec = FieldId;
    type Value = u64;
    type Output = Vec<u64>;
    type Error = Infallible;
}

impl<W: World<Field = u64>> Evaluate<W> for Kernel {
    fn launch(&self, recorder: &mut Recorder<'_, Self, W>) -> Result<Vec<u64>, LaunchError<Infallible>> {
        let _ = recorder.array(ArgumentId(0));
        let extent = recorder.extent(ArgumentId(1), 0);
        let values = self.0.iter().map(|&field| recorder.spec(field));
        values.chain([Ok(extent.unwrap_or(0))]).collect()
    }

    fn spec(
        &self,
        field: &FieldId,
        recorder: &mut Recorder<'_, Self, W>,
    ) -> Result<u64, LaunchError<Infallible>> {
        Ok(recorder.field(*field).copied().unwrap_or(0))
    }
}

/// A world, its arrays as arguments, and what launches in it.
fn scene() -> (Tracked<u64, ()>, [AllocationId; 2], Kernel) {
    let mut world = Tracked::new();
    let fields = (0..600).map(|value| world.add_field(value)).collect();
    let arguments = [world.allocate(&[4], ()), world.allocate(&[7], ())];
    (world, arguments, Kernel(fields))
}

#[test]
fn a_hit_of_the_shared_launch_memo_allocates_nothing() {
    let (world, arguments, kernel) = scene();
    let memo = SharedMemo::new();
    let handle = memo.register(kernel);
    let launch = || memo.launch(handle, &world.with_arguments(&arguments)).unwrap();
    assert_ne!(requests_of(|| assert_eq!(launch().dependencies().len(), 602)), 0);
    assert_eq!(requests_of(|| (0..1000).for_each(|_| assert!(launch().is_hit()))), 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            assert!(launch().is_hit());
            assert_eq!(requests_of(|| assert!(launch().is_hit())), 0, "from the thread's second launch on");
        });
    });
}

/// The calls of a launch on a registry in its steady state.
#[test]
fn registry_adopts_and_looks_up_known_ids_without_allocating() {
    let (mut registry, shared) = (Registry::new(), SharedRegistry::new());
    let names: Vec<String> = (0..1000).map(|n| format!("kernel_{n}")).collect();
    let ids: Vec<_> = names.iter().map(|name| registry.register(name, 3, ()).unwrap()).collect();
    for (name, id) in names.iter().zip(&ids) {
        assert_eq!(shared.adopt(*id, name, 3, || ()), Ok(()));
    }
    let requests = requests_of(|| {
        for (name, &id) in names.iter().zip(&ids) {
            assert_eq!(registry.adopt(id, name, 3, ()), Ok(()));
            assert!(registry.verify(id, name, 3).is_some() && registry.resolve(id).one().is_some());
            assert_eq!(registry.register(name, 3, ()), Ok(id));
            assert_eq!(shared.adopt(id, name, 3, || ()), Ok(()));
            assert!(shared.verify(id, name, 3).is_some());
        }
    });
    assert_eq!(requests, 0);
}
