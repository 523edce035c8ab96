//! The cost of a model's digest at a warm start.

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use warmstart::pack::{Pack, PackOptions};
use warmstart_tests::{measure::Plan, medium::Medium, weights::wanted};

use super::{Sizes, failed, names};
use crate::{
    Rows,
    row::{Compared, Row},
};

/// The length of the model's file in bytes: of one that is remembered, no byte is read.
const MODEL_LEN: u64 = 64 << 20;

/// Longer than a file of this length must be left alone for its digest to be remembered.
const SETTLING: Duration = Duration::from_secs(20);

/// The rows of a warm start, which opens a pack and looks all weights up: with the digest of a model's file, against the same
/// without.
pub(super) fn rows(plan: &Plan, disk: &Medium, packed: &Path, sizes: Sizes) -> Rows {
    let model = disk.path("model.safetensors");
    fs::write(&model, vec![7; MODEL_LEN as usize])?;
    thread::sleep(SETTLING);
    let pack = Pack::open(packed, PackOptions::default())?;
    let started = Instant::now();
    let digest = pack.model_of_file(&model)?;
    let first = started.elapsed().as_secs_f64() * 1e3;
    drop(pack);

    let names = names(sizes.layers);
    let wanted: Vec<_> = names.iter().map(wanted).collect();
    let start = |with_digest: bool| {
        let pack = Pack::open(packed, PackOptions::default()).expect("it is a pack");
        if with_digest {
            assert_eq!(pack.model_of_file(&model).expect("the model is there"), digest);
        }
        let found = wanted.iter().filter(|wanted| pack.look_up(wanted).is_ok()).count();
        assert_eq!(found, wanted.len());
        pack
    };
    let compared = plan.compare(|_| start(true), |_| start(false));
    let mut rows = compared.rows("digest/warm_start", "without", 1.2).to_vec();
    rows.push(Row::note("digest/first/64MiB", (first, "ms"), "none"));
    let remembered =
        packed.with_file_name(format!("{}.models", packed.file_name().unwrap_or_default().display()));
    fs::remove_file(remembered).map_err(|error| failed("digest", error))?;
    fs::remove_file(model)?;
    Ok(rows)
}
