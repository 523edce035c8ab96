//! warmstart in the browser: the core's decisions, for JavaScript.
//!
//! The npm package `warmstart` contains this crate, and pages use the package. The crate derives keys, encodes
//! and verifies entries, and compares recipes. It does no I/O: the package's TypeScript calls IndexedDB, and
//! keeps the accounts. Payloads of large values stay in JavaScript and pass through the window of a `HeadWriter`
//! or a `Check` piece by piece.
//!
//! docs/format-browser.md has the layout of the database.

#![cfg(target_arch = "wasm32")]
#![no_std]

extern crate alloc;

mod entry;
mod fields;
mod metadata;
mod reason;
mod stream;

use rlsf::SmallGlobalTlsf;

pub use entry::{Envelope, head_sum, verify_head};
pub use fields::Fields;
pub use metadata::{MetadataWriter, attributes_of, changes, distance, recipe_of};
pub use reason::reason;
pub use stream::{Check, HeadWriter, window_len};

/// Takes constant time per operation, and a third of the code size of the standard library's allocator.
#[global_allocator]
static ALLOCATOR: SmallGlobalTlsf = SmallGlobalTlsf::new();

/// Traps without a message: a page cannot show it, and the code for messages would be a fifth of the module.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}
