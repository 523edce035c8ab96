//! `together`: cold starts of many artifacts, by one process and by several that start together.

pub(crate) mod kernels;
mod process;
mod timeline;
mod warm;

use std::{error::Error, fs, path::Path};

use warmstart_tests::{
    measure::{Plan, median},
    medium::Medium,
};

pub(crate) use process::{Process, child};

use crate::{
    Rows,
    row::{Row, Sense},
};
use process::{Report, StoreKind, Task, Team};

/// The number of artifacts that a start needs.
const BUILDS: usize = 80;

/// The duration of a build in milliseconds. It sleeps, so that the number of cores does not limit.
const BUILD_MS: u64 = 100;

/// The sum of all builds, in milliseconds.
const SUM_MS: f64 = BUILDS as f64 * BUILD_MS as f64;

/// Runs the benchmark; with `doc`, draws the picture of the documents.
pub(crate) fn run(plan: &Plan, doc: bool) -> Rows {
    let disk = Medium::disk()?;
    let mut rows = Vec::new();
    let mut picture = None;
    for store in [StoreKind::Files, StoreKind::Sqlite] {
        for processes in [1, 2, 4, 8] {
            let name = format!("{}/{processes}", store.name());
            let path = disk.path(&format!("many-{}-{processes}", store.name()));
            let reports = Team::start(processes, store, &path, Task::Many, 1)?.play()?;
            let bound = 1.25 * SUM_MS / processes as f64;
            rows.push(Row::bounded(&name, (wall(&reports), "ms"), "builds", Sense::AtMost, bound));
            rows.push(all_built(&name, &reports)?);
            // The loop takes the sum of all builds, however many processes there are.
            if !plan.is_quick() || processes == 8 {
                let path = disk.path(&format!("single-{}-{processes}", store.name()));
                let single = Team::start(processes, store, &path, Task::Single, 1)?.play()?;
                rows.push(Row::note(format!("{name}/single_calls"), (wall(&single), "ms"), "none"));
                if store == StoreKind::Files && processes == 8 {
                    picture = Some(timeline::draw(&single, &reports));
                }
            }
        }
    }
    let reports = Team::start(1, StoreKind::Files, &disk.path("workers"), Task::Many, 8)?.play()?;
    let bound = 1.1 * SUM_MS / 8.0;
    rows.push(Row::bounded("workers/8", (wall(&reports), "ms"), "builds", Sense::AtMost, bound));
    rows.push(all_built("workers/8", &reports)?);
    rows.extend(killed(&disk.path("killed"))?);
    rows = rows.into_iter().map(|row| row.on(disk.name)).collect();
    rows.extend(kernels::rows(plan, &disk)?);
    rows.extend(warm::rows(plan, &disk)?);
    if let Some(picture) = picture.filter(|_| doc) {
        fs::write("docs/together.svg", picture)?;
    }
    Ok(rows)
}

/// The time of the process that was last, in milliseconds.
fn wall(reports: &[Report]) -> f64 {
    reports.iter().map(|report| report.millis).fold(0.0, f64::max)
}

fn all_built(name: &str, reports: &[Report]) -> Result<Row, Box<dyn Error>> {
    if !reports.iter().all(|report| report.right == BUILDS) {
        return Err(format!("{name}: a process lacks artifacts, or has wrong ones").into());
    }
    let builds = reports.iter().map(|report| report.builds.len()).sum::<usize>() as f64;
    let name = format!("{name}/builds");
    Ok(Row::bounded(name, (builds, "builds"), "artifacts", Sense::AtMost, BUILDS as f64))
}

/// Returns the rows in which one of eight processes is killed in the middle of its builds.
fn killed(path: &Path) -> Rows {
    let mut team = Team::start(8, StoreKind::Files, path, Task::Many, 1)?;
    let (reports, lost) = team.play_and_kill_one()?;
    if !reports.iter().all(|report| report.right == BUILDS) {
        return Err("killed: a process lacks artifacts, or has wrong ones".into());
    }
    let builds = reports.iter().map(|report| report.builds.len()).sum::<usize>() + lost;
    // It had one worker, and so at most one build in hand.
    let bound = BUILDS as f64 + 1.0;
    Ok(vec![
        Row::bounded("killed/builds", (builds as f64, "builds"), "artifacts", Sense::AtMost, bound),
        Row::note("killed/wall", (wall(&reports), "ms"), "none"),
    ])
}

/// The ratio of two ways that run in turns, each `runs` times: the median of the ratios of neighbours, and both medians.
fn in_turns(
    runs: usize,
    mut subject: impl FnMut(usize) -> Result<f64, Box<dyn Error>>,
    mut floor: impl FnMut(usize) -> Result<f64, Box<dyn Error>>,
) -> Result<[f64; 3], Box<dyn Error>> {
    let (mut ratios, mut subjects, mut floors) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..runs {
        let (ours, theirs) = if run % 2 == 0 {
            let ours = subject(run)?;
            (ours, floor(run)?)
        } else {
            let theirs = floor(run)?;
            (subject(run)?, theirs)
        };
        ratios.push(ours / theirs);
        subjects.push(ours);
        floors.push(theirs);
    }
    Ok([median(ratios), median(subjects), median(floors)])
}
