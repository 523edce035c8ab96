//! A hit in memory allocates nothing: proved by counting what the allocator is asked for.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use warmstart::{Artifact, Cache, Key, Limits, Metadata, Store, store::MemoryStore};

/// The system's allocator, which counts for each thread how often it is asked for memory.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    // Without a destructor and without an initialiser, so that counting does not itself allocate.
    static REQUESTS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `realloc`; `block` came from the system's allocator.
        unsafe { System.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`; `block` came from the system's allocator.
        unsafe { System.dealloc(block, layout) }
    }
}

fn count() {
    // A thread that ends may free and allocate after its counter is gone.
    let _ = REQUESTS.try_with(|requests| requests.set(requests.get() + 1));
}

/// How often this thread asked for memory while `work` ran.
fn requests_of(work: impl FnOnce()) -> u64 {
    let before = REQUESTS.get();
    work();
    REQUESTS.get() - before
}

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
fn a_hit_of_the_memory_store_allocates_nothing() {
    let keys = keys();
    let store = filled(&keys);
    let requests = requests_of(|| {
        for key in &keys {
            assert_eq!(store.get(key.as_bytes()).hit().unwrap().payload().len(), 1024);
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
            assert_eq!(cache.get(key).hit().unwrap().payload().len(), 1024);
        }
    });
    assert_eq!(requests, 0);
    assert_eq!(cache.statistics().hits, ENTRIES);
}
