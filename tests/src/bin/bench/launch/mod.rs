//! `launch`: what a hit of the launch memo and a look into the registry cost.
//!
//! | module | measures |
//! |---|---|
//! | `hit` | a hit, by the number of distinct dependencies: time, allocations, copies |
//!
//! Which locks a hit takes cannot be seen from outside. The core has none to take; that the memo which threads share takes none is
//! a test beside it.

mod floor;
mod hit;
mod scene;

use warmstart_core::memo::LaunchMemo;

use crate::{Rows, measure::Plan};

/// All rows of the benchmark.
pub(crate) fn run(plan: &Plan) -> Rows {
    let plan = plan.in_short_batches();
    hit::rows::<LaunchMemo<_>>(&plan)
}
