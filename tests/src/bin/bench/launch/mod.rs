//! `launch`: what a hit of the launch memo and a look into the registry cost.
//!
//! | module | measures |
//! |---|---|
//! | `hit` | a hit, by the number of distinct dependencies: time, allocations, copies |
//! | `registry` | a look-up, and the memory of a row |
//!
//! Which locks a hit takes cannot be seen from outside. The core has none to take; that the memo which threads share takes none is
//! a test beside it.

mod floor;
mod hit;
mod registry;
mod scene;

use warmstart_core::memo::LaunchMemo;

use crate::{Rows, measure::Plan};

/// All rows of the benchmark.
pub(crate) fn run(plan: &Plan) -> Rows {
    let plan = plan.in_short_batches();
    let mut rows = hit::rows::<LaunchMemo<_>>(&plan)?;
    rows.extend(registry::rows(&plan)?);
    Ok(rows)
}
