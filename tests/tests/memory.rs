//! The memory store passes the conformance suite.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::sync::Arc;

use warmstart::{Clock, Limits, Store, store::MemoryStore};
use warmstart_tests::conformance::Harness;

struct Memory;

impl Harness for Memory {
    fn new() -> Self {
        Self
    }

    fn open(&self, limits: Limits, _: Arc<dyn Clock>) -> Box<dyn Store> {
        Box::new(MemoryStore::new(limits))
    }

    fn is_persistent(&self) -> bool {
        false
    }
}

warmstart_tests::conformance!(Memory);
