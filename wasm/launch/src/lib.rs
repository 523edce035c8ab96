//! What a launch asks, for JavaScript: the registry and the launch memo of the core.
//!
//! A WebAssembly module of its own, because a page that only keeps things should not have to download it. It
//! knows ids, dependencies and generations; what is registered and what was computed stays in JavaScript.

#![cfg(target_arch = "wasm32")]
#![no_std]

extern crate alloc;

mod memo;
mod registry;

use rlsf::SmallGlobalTlsf;

pub use memo::Memo;
pub use registry::Registry;

/// Its operations take constant time, and a third of the bytes of the standard library's.
#[global_allocator]
static ALLOCATOR: SmallGlobalTlsf = SmallGlobalTlsf::new();

/// Says nothing: nobody could read it, and what writes messages would be a fifth of the whole.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}
