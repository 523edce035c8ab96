//! `stores`: what looking up and storing cost.

mod explain;
mod files;
mod key;
mod main_job;
mod memory;
mod sealed;
mod sqlite;

use warmstart_tests::{measure::Comparison, medium};

use crate::{
    Rows,
    measure::Plan,
    row::{Compared, Row},
};

/// The sizes of payload that are measured, by the names of their rows.
const SIZES: [(&str, usize); 4] =
    [("1KiB", 1 << 10), ("16KiB", 16 << 10), ("256KiB", 256 << 10), ("4MiB", 4 << 20)];

/// The rows of reading into a buffer. Of a large payload, the reading and the checksum are all that takes time.
fn get_into(compared: &Comparison, label: &str, store: &str) -> Vec<Row> {
    let name = format!("get_into/{label}/{store}");
    match label {
        "4MiB" => compared.rows(&name, "floor", 1.1).to_vec(),
        _ => vec![Row::note(name, (compared.ratio(), "ratio"), "floor")],
    }
}

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
