//! The cost of touching all weights that are in the page cache.

use std::{
    hint::black_box,
    ops::Range,
    path::Path,
    time::{Duration, Instant},
};

use warmstart::pack::{Pack, PackOptions};
use warmstart_tests::{
    measure::{Plan, median},
    weights::{touch, wanted},
};

use super::{Sizes, failed, map, names};
use crate::{
    Rows,
    row::{Compared, Row},
};

/// The rows of opening a pack, looking all weights up, and touching every line of the cache in them. The floor maps the
/// file, shared and without advice, and touches the same lines. Neither counts the time to unmap.
pub(super) fn rows(plan: &Plan, path: &Path, sizes: Sizes) -> Rows {
    let names = names(sizes.layers);
    let places = places(path, &names)?;
    let mapped_and_touched = || {
        let start = Instant::now();
        let map = map(path).expect("the file is there");
        for place in &places {
            black_box(touch(&map[place.clone()]));
        }
        start.elapsed()
    };
    let options = PackOptions::default;
    let plan = plan.with_rounds(sizes.rounds);
    let compared = plan.compare_timed(|_| load_and_touch(path, &names, options()), |_| mapped_and_touched());
    let mut rows = compared.rows("load_and_touch/593MB", "plain mapping", 1.05).to_vec();
    // The noise of the ratio: the floor against itself.
    let noise = plan.compare_timed(|_| mapped_and_touched(), |_| mapped_and_touched());
    rows.push(Row::note(
        "load_and_touch/593MB/floor_against_itself",
        (noise.ratio(), "ratio"),
        "plain mapping",
    ));
    let ahead = options().with_prefetch(true);
    let compared =
        plan.compare_timed(|_| load_and_touch(path, &names, ahead.clone()), |_| mapped_and_touched());
    rows.push(Row::note("load_and_touch/593MB/with_prefetch", (compared.ratio(), "ratio"), "plain mapping"));
    rows.push(Row::note(
        "load_and_touch/593MB/without_touch",
        (load(path, &names, sizes.rounds), "ms"),
        "none",
    ));
    Ok(rows)
}

/// Opens a pack, looks all weights up and touches them; how long that took.
pub(super) fn load_and_touch(path: &Path, names: &[(String, String)], options: PackOptions) -> Duration {
    let start = Instant::now();
    let pack = Pack::open(path, options).expect("the file is a pack");
    for names in names {
        let weights = pack.look_up(&wanted(names)).expect("every weight was saved");
        black_box(touch(&weights));
    }
    start.elapsed()
}

/// The same without touching, in milliseconds.
fn load(path: &Path, names: &[(String, String)], rounds: usize) -> f64 {
    let load = || {
        let start = Instant::now();
        let pack = Pack::open(path, PackOptions::default()).expect("the file is a pack");
        for names in names {
            black_box(pack.look_up(&wanted(names)).expect("every weight was saved"));
        }
        start.elapsed().as_secs_f64() * 1e3
    };
    median((0..rounds).map(|_| load()).collect())
}

/// Returns the locations of the weights in the file.
fn places(path: &Path, names: &[(String, String)]) -> Result<Vec<Range<usize>>, std::io::Error> {
    let pack = Pack::open(path, PackOptions::default()).map_err(std::io::Error::other)?;
    let place = |names: &(String, String)| {
        let weights = pack.look_up(&wanted(names)).map_err(|reason| failed("load_and_touch", reason))?;
        // A pack that was opened is one mapping, from the start of the file on.
        let at = weights.handle().get();
        Ok(at..at + weights.len())
    };
    names.iter().map(place).collect()
}
