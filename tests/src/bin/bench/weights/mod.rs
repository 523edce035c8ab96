//! `weights`: what packed weights cost, in time and in memory.
//!
//! All files are on a disk, and in the page cache unless a row says otherwise.

mod cold_cache;
mod digest;
mod look_up;
mod memory;
mod open;
mod save;
mod touch;

use std::{
    fs::{self, File},
    io,
    ops::Range,
    path::{Path, PathBuf},
};

use memmap2::{Mmap, MmapOptions};
use warmstart_core::trailer::{Commits, HEADER_LEN};
use warmstart_tests::{
    measure::Plan,
    medium::Medium,
    weights::{self, Layers, process},
};

use crate::{Child, Rows, row::Row};

/// The extent of the measurements.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    /// Layers that are packed.
    layers: usize,
    /// Entries of a pack of many.
    many: usize,
    /// Batches of each side, where each takes tens of milliseconds.
    rounds: usize,
    /// The same, where each takes seconds.
    slow_rounds: usize,
}

impl Sizes {
    const FULL: Self = Self { layers: weights::COUNT, many: 100_000, rounds: 61, slow_rounds: 7 };

    const QUICK: Self = Self { layers: weights::COUNT / 8, many: 10_000, rounds: 9, slow_rounds: 3 };
}

/// All rows of the benchmark.
pub(crate) fn run(plan: &Plan) -> Rows {
    let sizes = if plan.is_quick() {
        eprintln!("fewer and smaller packs are measured than the names of the rows say");
        Sizes::QUICK
    } else {
        Sizes::FULL
    };
    let disk = Medium::disk()?;
    let packed = disk.path("weights.xpwc");
    let mut rows = memory::cold(&packed, sizes)?;
    rows.extend(open::rows(plan, &disk, &packed, sizes)?);
    rows.extend(look_up::rows(plan, &disk, sizes)?);
    rows.extend(digest::rows(plan, &disk, &packed, sizes)?);
    rows.extend(touch::rows(plan, &packed, sizes)?);
    rows.extend(memory::warm(&packed, sizes)?);
    rows.extend(cold_cache::rows(&packed, sizes)?);
    fs::remove_file(&packed)?;
    rows.extend(memory::xnnpack(&packed, sizes)?);
    let _ = fs::remove_file(&packed);
    rows.extend(save::rows(plan, &disk, sizes)?);
    Ok(rows.into_iter().map(|row: Row| row.on(disk.name)).collect())
}

/// Runs the role in which this program started itself.
pub(crate) fn child(child: &Child) -> io::Result<()> {
    let mut layers = Layers::new(child.layers);
    #[cfg(feature = "xnnpack")]
    if child.xnnpack {
        use warmstart_tests::{weights::xnnpack::Operators, xnnpack};

        let library = xnnpack::library();
        let noise = Operators::noise(&layers);
        return process::run(child.role, &mut Operators::new(library, &layers, &noise), &child.path);
    }
    process::run(child.role, &mut layers, &child.path)
}

/// Whether the real XNNPACK can be measured.
fn has_xnnpack() -> bool {
    #[cfg(feature = "xnnpack")]
    return warmstart_tests::runtimes::xnnpack().is_some();
    #[cfg(not(feature = "xnnpack"))]
    false
}

/// The names of so many weights.
fn names(count: usize) -> Vec<(String, String)> {
    (0..count).map(weights::names).collect()
}

/// A pack of so many weights with small payloads.
fn small(disk: &Medium, count: usize) -> io::Result<PathBuf> {
    let path = disk.path(&format!("small-{count}.xpwc"));
    weights::save_zeros(&path, count, 64)?;
    Ok(path)
}

/// Returns the location of the active index in a pack.
fn index_of(path: &Path) -> io::Result<Range<usize>> {
    let mut page = vec![0; HEADER_LEN];
    io::Read::read_exact(&mut File::open(path)?, &mut page)?;
    let commits = Commits::read(&page).map_err(|refusal| io::Error::other(refusal.to_string()))?;
    let (_, slot) = commits.iter().next().ok_or(io::ErrorKind::NotFound)?;
    let place = |at: u64| usize::try_from(at).map_err(io::Error::other);
    Ok(place(slot.index_start)?..place(slot.end())?)
}

/// The least that maps a file: open, fstat, mmap, shared and without advice.
fn map(path: &Path) -> io::Result<Mmap> {
    let file = File::open(path)?;
    // SAFETY: the file is the benchmark's own, and no process writes to it or truncates it while it is mapped.
    unsafe { MmapOptions::new().map(&file) }
}

/// An error that says what failed.
fn failed(what: &str, error: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("{what}: {error}"))
}
