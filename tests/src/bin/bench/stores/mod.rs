//! `stores`: what looking up and storing cost.

mod explain;
mod files;
mod key;
mod main_job;
mod memory;
mod sealed;
mod sqlite;

use warmstart_tests::medium;

use crate::{Rows, measure::Plan};

/// The sizes of payload that are measured, by the names of their rows.
const SIZES: [(&str, usize); 4] =
    [("1KiB", 1 << 10), ("16KiB", 16 << 10), ("256KiB", 256 << 10), ("4MiB", 4 << 20)];

/// All rows of the benchmark.
pub(crate) fn run(plan: &Plan) -> Rows {
    let mut rows = memory::rows(plan)?;
    rows.extend(files::rows(plan)?);
    rows.extend(sqlite::rows(plan)?);
    rows.extend(explain::rows()?);
    rows.extend(sealed::rows(plan)?);
    rows.extend(key::rows(plan)?);
    rows.extend(main_job::rows()?);
    Ok(rows)
}
