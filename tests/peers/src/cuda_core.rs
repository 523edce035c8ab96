//! The caches of cuda-core, through Python, where `cargo xtask runtimes --peers` installed it.

use std::{
    error::Error,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    Bench, Duels,
    crash::Bout,
    crew::{Crew, Task, Verb},
    duel::{Duel, Outcome},
    eight::PROCESSES,
    persistent::{SHAPES, Shape},
};

const FILES: &str = "cuda-core files";
const MEMORY: &str = "cuda-core memory";
const FILES_LEAVES_OUT: &str = "a checksum at the hit, a cap that holds for all processes";
const FILES_REMARK: &str = "through Python; calls fsync for the file, not for its folder";
const MEMORY_REMARK: &str = "through Python";
const NOT_INSTALLED: &str = "not installed: cargo xtask runtimes --peers";

/// The benchmark, and the Python that has cuda-core, if there is one.
struct Place<'a> {
    bench: &'a Bench,
    python: Option<PathBuf>,
}

/// A row: the job that both sides do.
#[derive(Clone, Copy)]
struct Job<'a> {
    name: &'a str,
    verb: Verb,
    shape: Shape,
    processes: usize,
    /// Entries that both can hold, where they are to be full.
    cap: Option<u64>,
    memory: bool,
}

pub(crate) fn rows(bench: &Bench) -> Duels {
    let place = Place { bench, python: python() };
    let mut duels = Vec::new();
    let job = |name, verb, shape| Job { name, verb, shape, processes: 1, cap: None, memory: false };
    for shape in SHAPES.into_iter().filter(|shape| shape.entries == 100 || !bench.quick) {
        for (name, verb) in [("hit", Verb::Hit), ("miss", Verb::Miss), ("put", Verb::Put)] {
            duels.extend(place.row(job(name, verb, shape))?);
        }
    }
    let (few, many) = if bench.quick {
        (
            Shape { label: "1KiB/1000", size: 1 << 10, entries: 1000 },
            Shape { label: "1KiB/2000", size: 1 << 10, entries: 2000 },
        )
    } else {
        (
            Shape { label: "1KiB/10000", size: 1 << 10, entries: 10_000 },
            Shape { label: "1KiB/50000", size: 1 << 10, entries: 50_000 },
        )
    };
    duels.extend(place.row(job("open and hit", Verb::Open, many))?);
    duels.extend(place.row(Job { cap: Some(many.entries), ..job("put at the cap", Verb::Put, many) })?);
    for (name, verb) in [("hit by 8 processes", Verb::Hit), ("put by 8 processes", Verb::Put)] {
        duels.extend(place.row(Job { processes: PROCESSES, ..job(name, verb, few) })?);
    }
    let memory = |name, verb, shape| Job { memory: true, ..job(name, verb, shape) };
    duels.extend(place.row(memory("hit", Verb::Hit, many))?);
    duels.extend(place.row(memory("put", Verb::Put, many))?);
    duels.extend(place.row(Job { cap: Some(many.entries), ..memory("put at the cap", Verb::Put, many) })?);
    Ok(duels)
}

impl Place<'_> {
    fn row(&self, job: Job<'_>) -> Duels {
        let name = format!("{}/{}", job.name, job.shape.label);
        let (both, leaves_out, remark, medium) = if job.memory {
            (("memory", MEMORY), "", MEMORY_REMARK, "")
        } else {
            (("files", FILES), FILES_LEAVES_OUT, FILES_REMARK, self.bench.quiet.name)
        };
        let Some(python) = &self.python else {
            return Ok(vec![Duel::with(&name, medium, both, "", Outcome::Missing(NOT_INSTALLED.to_owned()))]);
        };
        let bout = Bout {
            jobs: &[name],
            medium,
            ours: both.0,
            peer: both.1,
            leaves_out,
            roots: ["ours", "peer"].map(|name| self.bench.quiet.path(name)),
        };
        let rows = bout.rows(|roots, outcomes| {
            outcomes.push(self.measure(python, job, roots)?);
            Ok(())
        })?;
        Ok(rows.into_iter().map(|row| row.remarking(remark)).collect())
    }

    fn measure(
        &self,
        python: &Path,
        job: Job<'_>,
        [our_root, peer_root]: &[PathBuf; 2],
    ) -> Result<Outcome, Box<dyn Error>> {
        // The size that counts against a cap: ours includes the key and the header.
        let (our_entry, peer_entry) = if job.memory { (32, 0) } else { (128 + 32, 0) };
        let task = |kind: &str, path: &Path, more: usize| Task {
            kind: kind.to_owned(),
            path: path.to_owned(),
            size: job.shape.size,
            durable: false,
            shared: job.processes > 1,
            max_bytes: job.cap.map(|entries| entries * (job.shape.size + more) as u64),
        };
        let kind = if job.memory { "memory" } else { "files" };
        let (our_task, peer_task) = (task(kind, our_root, our_entry), task(kind, peer_root, peer_entry));
        let script = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/cuda_core.py"));
        let mut our = Crew::of_ours(job.processes, &our_task)?;
        let mut their = Crew::of_python(job.processes, &peer_task, python, script)?;
        // Of several, one fills the directory, and all of a memory of their own.
        our.work(Verb::Fill, 0, job.shape.entries);
        their.work(Verb::Fill, 0, job.shape.entries);

        // A put of theirs that evicts reads the whole directory.
        let evicts = job.cap.is_some() && !job.memory;
        let count: u64 = match (job.verb, job.shape.size) {
            (Verb::Open, _) => 1,
            _ if evicts => 4,
            (_, 0..=65_536) => 100,
            _ => (4 << 20) / job.shape.size as u64,
        };
        let rounds = if self.bench.quick || evicts { 5 } else { 41 };
        let plan = self.bench.plan.with_rounds(rounds);
        let around = match job.verb {
            Verb::Put => job.shape.put_keys() / job.processes as u64,
            _ => job.shape.entries,
        };
        let start = |call: u64| call * count % (around - count + 1);
        let ours = |call| our.work(job.verb, start(call), count);
        let theirs = |call| their.work(job.verb, start(call), count);
        let found = if job.processes == 1 {
            plan.compare_timed(ours, theirs)
        } else {
            // Of several each may take its turn on a core, so what counts is when all have done.
            plan.compare(ours, theirs)
        };
        Ok(Outcome::of_many(found, count * job.processes as u64))
    }
}

/// The interpreter that has cuda-core.
fn python() -> Option<PathBuf> {
    let python = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/runtimes/peers/bin/python"));
    let mut import = Command::new(python);
    import.args(["-c", "import cuda.core.utils"]).stdout(Stdio::null()).stderr(Stdio::null());
    import.status().is_ok_and(|status| status.success()).then(|| python.to_owned())
}
