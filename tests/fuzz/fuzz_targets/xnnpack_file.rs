//! Runs arbitrary programs of XNNPACK's calls over a pack in a file, and compares the provider with a model.
#![no_main]

use libfuzzer_sys::fuzz_target;
use warmstart_tests::calls::{Call, Medium, run};

fuzz_target!(|bytes: &[u8]| run(Medium::File, Call::from_bytes(bytes)));
