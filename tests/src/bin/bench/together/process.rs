//! The processes of a cold start.

use std::{
    convert::Infallible,
    env,
    error::Error,
    io::{self, Write},
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use warmstart::{
    Cache, Store,
    cache::{Fetched, ManyOptions},
    store::{FileStore, SqliteStore, StoreOptions},
};
use warmstart_tests::proof::{numbered_key, payload};

use super::{BUILD_MS, BUILDS, kernels};
use crate::servant::Servant;

/// One of several processes that need the same artifacts.
#[derive(Clone, Debug, clap::Args)]
#[group(requires_all = ["task", "store", "directory", "workers"])]
pub(crate) struct Process {
    #[arg(long, hide = true, required = false)]
    task: Task,
    #[arg(long, hide = true, required = false)]
    store: StoreKind,
    #[arg(long, hide = true, required = false)]
    directory: PathBuf,
    #[arg(long, hide = true, required = false)]
    workers: usize,
}

/// The task of a process: the artifacts and the calls that fetch them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Task {
    /// All artifacts in one call.
    Many,
    /// Single calls, one artifact after the other.
    Single,
    /// All kernels of the examples, in one call.
    ManyKernels,
    /// The same kernels, one after the other.
    SingleKernels,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum StoreKind {
    Files,
    Sqlite,
}

impl StoreKind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Sqlite => "sqlite",
        }
    }

    pub(super) fn open(self, path: &Path) -> Result<Box<dyn Store>, Box<dyn Error>> {
        Ok(match self {
            Self::Files => Box::new(FileStore::open(path, StoreOptions::default())?),
            Self::Sqlite => Box::new(SqliteStore::open(path, StoreOptions::default())?),
        })
    }
}

/// The report of a process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Report {
    /// Milliseconds from the start signal to the last artifact.
    pub(super) millis: f64,
    /// When each build began and ended, in milliseconds from the start signal.
    pub(super) builds: Vec<(f64, f64)>,
    /// The number of artifacts with the right payload.
    pub(super) right: usize,
}

/// Processes that start together.
pub(super) struct Team(Vec<Servant>);

impl Team {
    /// Starts processes on a store that is not there yet. They wait for the start signal.
    pub(super) fn start(
        processes: usize,
        store: StoreKind,
        path: &Path,
        task: Task,
        workers: usize,
    ) -> Result<Self, Box<dyn Error>> {
        let task = task.to_possible_value().ok_or("the task has no name")?;
        let start = || -> io::Result<Servant> {
            let mut command = Command::new(env::current_exe()?);
            command.args(["together", "--task", task.get_name(), "--store", store.name(), "--directory"]);
            Servant::start(command.arg(path).args(["--workers", &workers.to_string()]))
        };
        let mut team = (0..processes).map(|_| start()).collect::<io::Result<Vec<_>>>()?;
        team.iter_mut().try_for_each(|process| process.hear().map(drop))?;
        Ok(Self(team))
    }

    /// Lets all of them go, and waits for the last.
    pub(super) fn play(mut self) -> Result<Vec<Report>, Box<dyn Error>> {
        self.go()?;
        self.0.iter_mut().map(report).collect()
    }

    /// Kills the first process once it has built a few artifacts. Returns the others' reports, and how many builds the first one
    /// began.
    pub(super) fn play_and_kill_one(&mut self) -> Result<(Vec<Report>, usize), Box<dyn Error>> {
        self.go()?;
        let mut first = self.0.remove(0);
        let mut begun = 0;
        while begun < 4 {
            begun += usize::from(first.hear()? == BUILDING);
        }
        thread::sleep(Duration::from_millis(BUILD_MS / 2));
        first.kill()?;
        // The lines printed before it was killed.
        while let Ok(line) = first.hear() {
            begun += usize::from(line == BUILDING);
        }
        Ok((self.0.iter_mut().map(report).collect::<Result<_, _>>()?, begun))
    }

    fn go(&mut self) -> io::Result<()> {
        self.0.iter_mut().try_for_each(|process| process.tell("go"))
    }
}

/// The bytes of an artifact.
const PAYLOAD: usize = 4096;

/// Printed when a build begins.
const BUILDING: &str = "building";

fn report(process: &mut Servant) -> Result<Report, Box<dyn Error>> {
    loop {
        let line = process.hear()?;
        if line != BUILDING {
            return Ok(serde_json::from_str(&line)?);
        }
    }
}

/// Runs one of the processes.
pub(crate) fn child(process: &Process) -> Result<(), Box<dyn Error>> {
    println!("ready");
    io::stdin().read_line(&mut String::new())?;
    let start = Instant::now();
    let cache = Cache::new(process.store.open(&process.directory)?);
    let builds = Mutex::new(Vec::new());
    let build = |index: usize| {
        let since = |start: Instant| start.elapsed().as_secs_f64() * 1e3;
        let began = since(start);
        let mut out = io::stdout().lock();
        let _ = writeln!(out, "{BUILDING}").and_then(|()| out.flush());
        drop(out);
        thread::sleep(Duration::from_millis(BUILD_MS));
        if let Ok(mut builds) = builds.lock() {
            builds.push((began, since(start)));
        }
        Ok::<_, Infallible>(payload(&key(index), 0, PAYLOAD))
    };
    let options = ManyOptions::default().with_workers(process.workers);
    let right = |fetched: Vec<Result<Fetched, Infallible>>| {
        let is_right = |(index, fetched): (usize, &Fetched)| {
            fetched.artifact().payload() == payload(&key(index), 0, PAYLOAD)
        };
        fetched.iter().flatten().enumerate().filter(|found| is_right(*found)).count()
    };
    let mut millis = None;
    let mut done = || millis = Some(start.elapsed().as_secs_f64() * 1e3);
    let right = match process.task {
        Task::Many => {
            let fetched = cache.get_or_build_many((0..BUILDS).map(key), options, build);
            done();
            right(fetched)
        }
        Task::Single => {
            let single = |index| cache.get_or_build(key(index), || build(index));
            let fetched = (0..BUILDS).map(single).collect();
            done();
            right(fetched)
        }
        Task::ManyKernels => {
            let loaded = kernels::load_many(&cache, options)?;
            done();
            kernels::right(&loaded)
        }
        Task::SingleKernels => {
            let loaded = kernels::load_each(&cache)?;
            done();
            kernels::right(&loaded)
        }
    };
    let report = Report { millis: millis.unwrap_or(f64::NAN), builds: builds.into_inner()?, right };
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

fn key(index: usize) -> Vec<u8> {
    numbered_key(index as u64)
}
