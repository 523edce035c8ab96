//! Runs arbitrary programs of operations, damage and faults, and compares the store with the models.
#![no_main]

use libfuzzer_sys::fuzz_target;
use warmstart_fuzz::AnyProgram;
use warmstart_tests::model::{Kind, run};

fuzz_target!(|program: AnyProgram| run(Kind::Sqlite, &program.0));
