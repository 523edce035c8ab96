//! Stores, and passes over them in processes of their own.

use std::{
    error::Error,
    io,
    num::NonZero,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
};

use clap::ValueEnum;
use warmstart::{
    Cache, Limits, Store,
    store::{FileStore, MemoryStore, SqliteStore, StoreOptions},
};
use warmstart_tests::kernels::cpu::CASES;

use crate::{
    pass::{self, Pass},
    report::{Changed, Outcome},
};

/// Parses the number of a kernel.
pub(crate) fn parse_number(text: &str) -> Result<usize, String> {
    let last = CASES.len();
    let number = text.parse().ok().filter(|number| (1..=last).contains(number));
    number.ok_or_else(|| format!("the kernels are numbered from 1 to {last}"))
}

/// The store of the compiled kernels.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreKind {
    Files,
    Sqlite,
    Memory,
}

impl StoreKind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Sqlite => "sqlite",
            Self::Memory => "memory",
        }
    }

    /// Returns the path below `directory`, if the store outlives its process.
    fn path(self, directory: &Path) -> Option<PathBuf> {
        match self {
            Self::Files => Some(directory.join("files")),
            Self::Sqlite => Some(directory.join("kernels.sqlite")),
            Self::Memory => None,
        }
    }

    /// Opens the store below `directory`, with the entries of earlier passes.
    pub(crate) fn open(self, directory: &Path) -> Result<Box<dyn Store>, Box<dyn Error>> {
        let path = self.path(directory).unwrap_or_default();
        Ok(match self {
            Self::Files => Box::new(FileStore::open(path, StoreOptions::default())?),
            Self::Sqlite => Box::new(SqliteStore::open(path, StoreOptions::default())?),
            Self::Memory => Box::new(MemoryStore::new(Limits::NONE)),
        })
    }
}

/// The cache that a pass starts with.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Temperature {
    /// An empty one.
    Cold,
    /// An empty one that another process fills at the same time.
    Shared,
    /// The one that the last pass filled.
    Warm,
}

impl Temperature {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Shared => "shared",
            Self::Warm => "warm",
        }
    }
}

/// Returns the number of threads that compile by default.
pub(crate) fn cores() -> NonZero<usize> {
    thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN)
}

/// Runs a cold and a warm pass over a store.
pub(crate) fn run_both(kind: StoreKind, directory: &Path, workers: usize) -> Result<Outcome, Box<dyn Error>> {
    let (cold, warm) = if kind == StoreKind::Memory {
        // Memory does not outlive its process.
        let store = kind.open(directory)?;
        let pass = |temperature| run_pass(kind, temperature, &store, workers, None);
        (pass(Temperature::Cold)?, pass(Temperature::Warm)?)
    } else {
        let pass = |temperature| spawn_pass(kind, temperature, directory, workers, None);
        (pass(Temperature::Cold)?, pass(Temperature::Warm)?)
    };
    let two = (kind == StoreKind::Files).then(|| spawn_two_cold(directory, workers));
    Ok(Outcome {
        store: kind.name(),
        processes: if kind == StoreKind::Memory { 1 } else { 2 },
        cold,
        warm,
        two_processes_cold_ms: two.transpose()?,
    })
}

/// Runs a warm pass over every kept store, with a changed flag of one kernel.
pub(crate) fn run_changed(
    kinds: &[StoreKind],
    directory: &Path,
    workers: usize,
    number: usize,
) -> Result<Vec<Changed>, Box<dyn Error>> {
    let mut outcomes = Vec::new();
    for (kind, path) in kinds.iter().filter_map(|kind| Some((*kind, kind.path(directory)?))) {
        if !path.exists() {
            return Err(format!(
                "{} is not there: run once with --keep alone, which leaves the caches there",
                path.display()
            )
            .into());
        }
        let warm = spawn_pass(kind, Temperature::Warm, directory, workers, Some(number))?;
        outcomes.push(Changed { store: kind.name(), path, warm });
    }
    if outcomes.is_empty() {
        return Err("memory keeps nothing from one run to the next; leave --store out".into());
    }
    Ok(outcomes)
}

/// Runs one pass in a process of its own.
fn spawn_pass(
    kind: StoreKind,
    temperature: Temperature,
    directory: &Path,
    workers: usize,
    changed: Option<usize>,
) -> Result<Pass, Box<dyn Error>> {
    wait(start_pass(kind, temperature, directory, workers, changed)?)
}

/// Runs two cold passes at the same time over one directory of files, and returns the longer time in milliseconds.
fn spawn_two_cold(directory: &Path, workers: usize) -> Result<f64, Box<dyn Error>> {
    let (kind, directory) = (StoreKind::Files, directory.join("two"));
    kind.open(&directory)?.clear()?;
    let start = || start_pass(kind, Temperature::Shared, &directory, workers, None);
    let (first, second) = (start()?, start()?);
    Ok(wait(first)?.millis.max(wait(second)?.millis))
}

fn start_pass(
    kind: StoreKind,
    temperature: Temperature,
    directory: &Path,
    workers: usize,
    changed: Option<usize>,
) -> io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(["--store", kind.name(), "--pass", temperature.name(), "--keep"])
        .arg(directory)
        .arg(format!("--workers={workers}"))
        .args(changed.map(|number| format!("--change-flag={number}")))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
}

fn wait(child: Child) -> Result<Pass, Box<dyn Error>> {
    let output = child.wait_with_output()?;
    if !output.status.success() {
        return Err(format!("a pass, in a process of its own, failed: {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Runs the pass of a process that [`spawn_pass`] started.
pub(crate) fn run_child(
    keep: Option<&Path>,
    stores: &[StoreKind],
    temperature: Temperature,
    workers: usize,
    changed: Option<usize>,
) -> Result<(), Box<dyn Error>> {
    let (Some(directory), [kind]) = (keep, stores) else {
        return Err("--pass needs --keep and one --store".into());
    };
    let store = kind.open(directory)?;
    let pass = run_pass(*kind, temperature, &store, workers, changed)?;
    store.close()?;
    println!("{}", serde_json::to_string(&pass)?);
    Ok(())
}

/// Runs one pass in this process.
fn run_pass(
    kind: StoreKind,
    temperature: Temperature,
    store: &dyn Store,
    workers: usize,
    changed: Option<usize>,
) -> Result<Pass, Box<dyn Error>> {
    if temperature == Temperature::Cold {
        store.clear().map_err(|reason| {
            format!("the {} store cannot be emptied: {reason}; --keep names another directory", kind.name())
        })?;
    }
    let title =
        (temperature != Temperature::Shared).then(|| format!("{} {}", kind.name(), temperature.name()));
    pass::run(&Cache::new(store), title, workers, changed)
}
