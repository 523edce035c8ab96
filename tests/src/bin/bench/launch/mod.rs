//! `launch`: what a hit of the launch memo and a look into the registry cost.
//!
//! | module | measures |
//! |---|---|
//! | `hit` | a hit, by the number of distinct dependencies: time, allocations, copies; and while others evaluate the same |
//! | `registry` | a look-up, and the memory of a row |
//! | `training_loop` | all launches of the example, against the design that copies |
//! | `two_threads` | what two threads reach that hit at once |
//!
//! Timing cannot show that a hit takes no lock, because a free lock costs little. A test shows it: it hits while the lock of the
//! slot is held.

mod floor;
mod hit;
mod registry;
mod scene;
mod training_loop;
mod two_threads;

use crate::{Rows, measure::Plan};

/// All rows of the benchmark.
pub(crate) fn run(plan: &Plan) -> Rows {
    let short = plan.in_short_batches();
    let mut rows = hit::rows(&short)?;
    rows.extend(hit::while_evaluated(&short)?);
    rows.extend(two_threads::rows(plan)?);
    rows.extend(registry::rows(&short)?);
    rows.extend(training_loop::rows()?);
    Ok(rows)
}
