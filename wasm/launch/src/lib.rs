//! The registry and the launch memo of the core, for JavaScript.
//!
//! This is a WebAssembly module of its own, so that a page that only uses the cache need not download it. It
//! holds ids, dependencies and generations; registered values and results stay in JavaScript.

#![cfg(target_arch = "wasm32")]
#![no_std]

extern crate alloc;

mod memo;
mod registry;

use rlsf::SmallGlobalTlsf;

pub use memo::Memo;
pub use registry::Registry;

/// Takes constant time per operation, and a third of the code size of the standard library's allocator.
#[global_allocator]
static ALLOCATOR: SmallGlobalTlsf = SmallGlobalTlsf::new();

/// Traps without a message: a page cannot show it, and the code for messages would be a fifth of the module.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}
