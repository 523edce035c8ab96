//! Stores, and passes over them in processes of their own.

use std::{
    error::Error,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use clap::ValueEnum;
use warmstart::{
    Cache, Limits, Store,
    store::{FileOptions, FileStore, MemoryStore, SqliteOptions, SqliteStore},
};
use warmstart_tests::kernels::cpu::CASES;

use crate::{
    pass::{self, Pass},
    report::Changed,
};

/// Parses the number of a kernel.
pub(crate) fn parse_number(text: &str) -> Result<usize, String> {
    let last = CASES.len();
    let number = text.parse().ok().filter(|number| (1..=last).contains(number));
    number.ok_or_else(|| format!("the kernels are numbered from 1 to {last}"))
}

/// Where the compiled kernels are kept.
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

    /// Where it is below `directory`, if it outlives its process.
    fn path(self, directory: &Path) -> Option<PathBuf> {
        match self {
            Self::Files => Some(directory.join("files")),
            Self::Sqlite => Some(directory.join("kernels.sqlite")),
            Self::Memory => None,
        }
    }

    /// What is kept below `directory` by earlier passes, or nothing.
    pub(crate) fn open(self, directory: &Path) -> Result<Box<dyn Store>, Box<dyn Error>> {
        let path = self.path(directory).unwrap_or_default();
        Ok(match self {
            Self::Files => Box::new(FileStore::open(path, FileOptions::default())?),
            Self::Sqlite => Box::new(SqliteStore::open(path, SqliteOptions::default())?),
            Self::Memory => Box::new(MemoryStore::new(Limits::NONE)),
        })
    }
}

/// Whether a pass begins with an empty cache or with what the last pass left.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Temperature {
    Cold,
    Warm,
}

impl Temperature {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
        }
    }
}

/// A warm pass over every kept store, with a flag of one kernel changed.
pub(crate) fn run_changed(
    kinds: &[StoreKind],
    directory: &Path,
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
        let warm = spawn_pass(kind, Temperature::Warm, directory, Some(number))?;
        outcomes.push(Changed { store: kind.name(), path, warm });
    }
    if outcomes.is_empty() {
        return Err("memory keeps nothing from one run to the next; leave --store out".into());
    }
    Ok(outcomes)
}

/// One pass in a process of its own.
pub(crate) fn spawn_pass(
    kind: StoreKind,
    temperature: Temperature,
    directory: &Path,
    changed: Option<usize>,
) -> Result<Pass, Box<dyn Error>> {
    let child = Command::new(std::env::current_exe()?)
        .args(["--store", kind.name(), "--pass", temperature.name(), "--keep"])
        .arg(directory)
        .args(changed.map(|number| format!("--change-flag={number}")))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    if !child.status.success() {
        return Err(format!("the {} pass over {}: {}", temperature.name(), kind.name(), child.status).into());
    }
    Ok(serde_json::from_slice(&child.stdout)?)
}

/// What [`spawn_pass`] started.
pub(crate) fn run_child(
    keep: Option<&Path>,
    stores: &[StoreKind],
    temperature: Temperature,
    changed: Option<usize>,
) -> Result<(), Box<dyn Error>> {
    let (Some(directory), [kind]) = (keep, stores) else {
        return Err("--pass needs --keep and one --store".into());
    };
    let store = kind.open(directory)?;
    let pass = run_pass(*kind, temperature, &store, changed)?;
    store.close()?;
    println!("{}", serde_json::to_string(&pass)?);
    Ok(())
}

/// One pass in this process.
pub(crate) fn run_pass(
    kind: StoreKind,
    temperature: Temperature,
    store: &dyn Store,
    changed: Option<usize>,
) -> Result<Pass, Box<dyn Error>> {
    if temperature == Temperature::Cold {
        store.clear().map_err(|reason| {
            format!("the {} store cannot be emptied: {reason}; --keep names another directory", kind.name())
        })?;
    }
    pass::run(&Cache::new(store), &format!("{} {}", kind.name(), temperature.name()), changed)
}
