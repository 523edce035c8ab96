//! warmstart in the browser: what the core decides, for JavaScript.
//!
//! This crate is built into the npm package `warmstart`, which is what a page uses. It derives keys, encodes
//! and proves entries, accounts for what is stored and says what goes. It does no I/O: the package's
//! TypeScript talks to IndexedDB and asks here what to do. Payloads of large values stay in JavaScript and
//! pass through the window of a `HeadWriter` or a `Check` piece by piece.
//!
//! docs/format.md has the layout of the database. The registry and the launch memo are in
//! `warmstart-wasm-launch`.

#![cfg(target_arch = "wasm32")]
#![no_std]

extern crate alloc;

mod entry;
mod fields;
mod ledger;
mod names;
mod nearest;
mod reason;
mod stream;

use rlsf::SmallGlobalTlsf;

pub use entry::{Reader, encode_small, head_sum, small_limit};
pub use fields::{derive_key, digest_of};
pub use ledger::Ledger;
pub use nearest::{changes, remoteness};
pub use reason::reason;
pub use stream::{Check, HeadWriter, window_len};

/// Its operations take constant time, and a third of the bytes of the standard library's.
#[global_allocator]
static ALLOCATOR: SmallGlobalTlsf = SmallGlobalTlsf::new();

/// Says nothing: nobody could read it, and what writes messages would be a fifth of the whole.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}
