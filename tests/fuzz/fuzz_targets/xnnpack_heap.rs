//! Runs arbitrary programs of XNNPACK's calls over a pack in the heap, and compares the provider with a model.
#![no_main]

use libfuzzer_sys::fuzz_target;
use warmstart_tests::calls::{Call, Medium, run};

fuzz_target!(|bytes: &[u8]| run(Medium::Heap, Call::from_bytes(bytes)));
