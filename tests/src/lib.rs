//! What the tests and benchmarks of warmstart share.
