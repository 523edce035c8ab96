//! A fleet of machines that start together, simulated: the core's own decisions, with thousands of machines and any fault.
//!
//! Each machine takes the steps of a real start, with the core's [`Batch`], [`Lease`], [`Watch`], [`Backoff`] and [`Breaker`]. The
//! engine, the network, the builds and the clocks are simulated; bandwidth is not. Time and randomness come from a seed, so a run repeats
//! byte for byte.
//!
//! [`Batch`]: warmstart_core::batch::Batch
//! [`Lease`]: warmstart_core::lease::Lease
//! [`Watch`]: warmstart_core::lease::Watch
//! [`Backoff`]: warmstart_core::lease::Backoff
//! [`Breaker`]: warmstart_core::breaker::Breaker

pub mod engine;
pub mod fleet;
mod leases;
mod link;
mod machine;
mod numbers;
pub mod scenario;

pub use fleet::{Outcome, run};
pub use scenario::Scenario;

/// Microseconds in a second.
pub const SECOND: u64 = 1_000_000;
