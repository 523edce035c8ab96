//! The cost of opening a pack.

use std::{fs, hint::black_box, path::Path};

use warmstart::pack::{Pack, PackOptions};
use warmstart_tests::{measure::Plan, medium::Medium, weights};
use xxhash_rust::xxh3::xxh3_64;

use super::{Sizes, failed, index_of, map, small};
use crate::{
    Rows,
    row::{Compared, Row},
};

/// The rows of opening. The floor opens the file, maps it, checksums the index, and unmaps it. `large` is a pack of as many
/// entries as the first, with payloads as large as packed weights are.
pub(super) fn rows(plan: &Plan, disk: &Medium, large: &Path, sizes: Sizes) -> Rows {
    let mut rows = Vec::new();
    for (label, count) in [("1184", sizes.layers), ("100000", sizes.many)] {
        let path = small(disk, count)?;
        rows.extend(against_floor(plan, &format!("open/{label}"), &path, 2.0)?);
        fs::remove_file(path)?;
    }
    let few = disk.path("one-kibibyte.xpwc");
    weights::save_zeros(&few, sizes.layers, 1024)?;
    let compared = plan.compare(|_| open(large), |_| open(&few));
    rows.push(Row::note("open/1184/514KiB_payloads", (compared.ratio(), "ratio"), "1 KiB payloads"));
    fs::remove_file(few)?;
    rows.extend(against_floor(plan, "open/1184/593MB", large, 2.0)?);
    Ok(rows)
}

fn against_floor(plan: &Plan, name: &str, path: &Path, bound: f64) -> Rows {
    let index = index_of(path)?;
    if open(path).is_empty() {
        return Err(failed(name, "the pack holds nothing").into());
    }
    let compared = plan.compare(
        |_| open(path),
        |_| {
            let map = map(path).expect("the file is there");
            black_box(xxh3_64(&map[index.clone()]));
            map
        },
    );
    Ok(compared.rows(name, "floor", bound).to_vec())
}

fn open(path: &Path) -> Pack {
    Pack::open(path, PackOptions::default()).expect("the file is a pack")
}
