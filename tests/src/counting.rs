//! Counts the allocations of a thread.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

/// The system's allocator, which counts for each thread what it is asked for. A program that wants to know makes it its global one.
#[derive(Debug)]
pub struct Counting;

thread_local! {
    // Without a destructor and without an initialiser, so that counting does not itself allocate.
    static REQUESTS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<i64> = const { Cell::new(0) };
}

/// Returns the number of allocations of this thread while `work` runs.
pub fn requests_of(work: impl FnOnce()) -> u64 {
    let before = REQUESTS.get();
    work();
    REQUESTS.get() - before
}

/// The bytes that this thread has allocated and not freed. It is less than nothing if it gives back what others asked for, so
/// only differences tell anything.
#[must_use]
pub fn bytes_held() -> i64 {
    BYTES.get()
}

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        request(layout.size(), 0);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        request(layout.size(), 0);
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        request(new_size, layout.size());
        // SAFETY: the caller keeps the contract of `realloc`; `block` came from the system's allocator.
        unsafe { System.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        hold(0, layout.size());
        // SAFETY: the caller keeps the contract of `dealloc`; `block` came from the system's allocator.
        unsafe { System.dealloc(block, layout) }
    }
}

fn request(taken: usize, given_back: usize) {
    // A thread that ends may free and allocate after its counters are gone.
    let _ = REQUESTS.try_with(|requests| requests.set(requests.get() + 1));
    hold(taken, given_back);
}

fn hold(taken: usize, given_back: usize) {
    let _ = BYTES.try_with(|bytes| bytes.set(bytes.get() + taken as i64 - given_back as i64));
}
