//! Counts the allocations of this program.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

/// The system's allocator with a count of the allocations of each thread.
pub(crate) struct Counting;

thread_local! {
    // Without a destructor and without an initialiser, so that counting does not itself allocate.
    static REQUESTS: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of allocations of this thread.
pub(crate) fn requests() -> u64 {
    REQUESTS.get()
}

fn count() {
    // A thread that ends may free and allocate after its counter is gone.
    let _ = REQUESTS.try_with(|requests| requests.set(requests.get() + 1));
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
