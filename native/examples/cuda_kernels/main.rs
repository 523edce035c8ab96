//! Kernels for GPUs, compiled once: what a warm start of a CUDA runtime is worth, and what makes it miss. No
//! GPU is needed.
//!
//! ```text
//! cargo xtask runtimes --cuda                           # fetches the compiler, once
//! cargo run --release --example cuda_kernels            # tables and bars
//! cargo run --release --example cuda_kernels -- --json  # and one line for programs, the last
//! ```
//!
//! Twelve kernels, for two architectures, with an empty cache; again, with what the first time left there;
//! again, with a header edited that four of them include; and for a third architecture. Each phase is a
//! process of its own: this program, started again with `--phase`. Where there is a GPU, every cached kernel
//! is launched there and compared with the CPU.

mod checks;
#[path = "../warm_start/compare.rs"]
#[allow(dead_code, reason = "the other example uses the rest")]
mod compare;
mod device;
#[cfg(all(test, target_os = "linux"))]
mod emulator;
#[path = "../warm_start/figures.rs"]
mod figures;
mod gpu;
mod kernels;
mod launches;
mod phase;
#[path = "../warm_start/reference.rs"]
#[allow(dead_code, reason = "the other example uses the rest")]
mod reference;
mod report;

use std::{
    env,
    error::Error,
    fs::{self, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use clap::{Parser, ValueEnum};
use serde::de::DeserializeOwned;
use warmstart::{
    Cache, Store as _,
    store::{FileOptions, FileStore},
    target::cuda::{CudaError, Toolkit},
};

use crate::{
    kernels::{HEADER, sources},
    phase::Compare,
    report::Outcome,
};

/// Compiles twelve real CUDA kernels cold, warm, with a header edited, and for another architecture. Needs no
/// GPU; where there is one, launches what is cached and checks it.
#[derive(Parser)]
#[command(name = "cuda_kernels")]
struct Arguments {
    /// Print the result as one line of JSON, the last one; the report goes to standard error.
    #[arg(long)]
    json: bool,

    /// Keep the cache in this directory instead of a temporary one. The cold phase empties it first.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,

    /// The folder that has NVRTC, instead of the one that `cargo xtask runtimes --cuda` fills, WARMSTART_CUDA
    /// names, or a CUDA toolkit is installed in.
    #[arg(long, value_name = "DIR")]
    libraries: Option<PathBuf>,

    /// One phase, in this process; prints what it found as JSON. This is how the program starts itself.
    #[arg(long, hide = true, requires = "keep")]
    phase: Option<Kind>,

    /// Where the kernels' sources are.
    #[arg(long, hide = true, requires = "phase")]
    sources: Option<PathBuf>,
}

/// The architectures of every phase, and the one that comes new in the last.
const ARCHITECTURES: &[&str] = &["sm_80", "sm_90"];
const ANOTHER: &str = "sm_100";

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Begins with an empty cache.
    Cold,
    /// Compares what it finds with what the compiler makes without a cache.
    Warm,
    /// With a header that is not what it was.
    Edited,
    /// For an architecture that is new.
    Architecture,
    /// Launches what is cached.
    Launches,
}

impl Kind {
    fn name(self) -> String {
        self.to_possible_value().expect("no phase is skipped").get_name().to_owned()
    }
}

/// Success only if what had to miss missed, nothing else did, and every binary is right.
fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.phase {
        Some(kind) => run_child(&arguments, kind).map(|()| true),
        None => run_all(&arguments),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cuda_kernels: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Every phase in a process of its own, then the report. Says whether all was as it should be.
fn run_all(arguments: &Arguments) -> Result<bool, Box<dyn Error>> {
    // Said once, and not by the first phase.
    toolkit(arguments).map_err(|error| {
        format!("{error}; here, `cargo xtask runtimes --cuda` fetches all that this example needs")
    })?;
    let temporary = tempfile::Builder::new()
        .prefix("cuda_kernels-")
        .tempdir()
        .map_err(|error| format!("{error}; set TMPDIR to a directory that can be written"))?;
    let cache = match &arguments.keep {
        Some(directory) => {
            fs::create_dir_all(directory).map_err(|error| {
                format!("cannot make {}: {error}; name a directory that can be written", directory.display())
            })?;
            directory.join("files")
        }
        None => temporary.path().join("files"),
    };
    let edited = temporary.path().join("edited");
    copy_edited(&edited)?;

    let outcome = Outcome {
        architectures: ARCHITECTURES,
        another: ANOTHER,
        cold: spawn(arguments, Kind::Cold, &cache, sources())?,
        warm: spawn(arguments, Kind::Warm, &cache, sources())?,
        edited: spawn(arguments, Kind::Edited, &cache, &edited)?,
        changed: spawn(arguments, Kind::Architecture, &cache, sources())?,
        launches: spawn(arguments, Kind::Launches, &cache, sources())?,
    };
    report::print(&outcome, arguments.json)?;
    Ok(outcome.is_good())
}

/// What is fetched for this repository, unless something else is asked for.
fn toolkit(arguments: &Arguments) -> Result<Toolkit, CudaError> {
    if let Some(folder) = &arguments.libraries {
        return Toolkit::at(folder);
    }
    let fetched = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/runtimes/python/nvidia/cu13"));
    if env::var_os("WARMSTART_CUDA").is_none() && fetched.is_dir() {
        return Toolkit::at(fetched);
    }
    Toolkit::find()
}

/// Copies the sources to `directory`, and edits the header there. What is committed stays as it is.
fn copy_edited(directory: &Path) -> Result<(), Box<dyn Error>> {
    for folder in ["cuda", "include"] {
        let to = directory.join(folder);
        fs::create_dir_all(&to)?;
        for file in fs::read_dir(sources().join(folder))? {
            let file = file?;
            fs::copy(file.path(), to.join(file.file_name()))?;
        }
    }
    let mut header = OpenOptions::new().append(true).open(directory.join(HEADER))?;
    writeln!(header, "\n__device__ inline float twice(float value) {{ return value + value; }}")?;
    Ok(())
}

/// One phase in a process of its own.
fn spawn<T: DeserializeOwned>(
    arguments: &Arguments,
    kind: Kind,
    cache: &Path,
    sources: &Path,
) -> Result<T, Box<dyn Error>> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["--phase", &kind.name(), "--keep"]).arg(cache).arg("--sources").arg(sources);
    if let Some(folder) = &arguments.libraries {
        command.arg("--libraries").arg(folder);
    }
    let child = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    if !child.status.success() {
        return Err(format!("the phase `{}`: {}", kind.name(), child.status).into());
    }
    Ok(serde_json::from_slice(&child.stdout)?)
}

/// What [`spawn`] started.
fn run_child(arguments: &Arguments, kind: Kind) -> Result<(), Box<dyn Error>> {
    let (Some(directory), Some(sources)) = (&arguments.keep, &arguments.sources) else {
        return Err("--phase needs --keep and --sources".into());
    };
    let cache = Cache::new(FileStore::open(directory, FileOptions::default())?);
    let toolkit = || toolkit(arguments);
    let phase = |architectures, compare, title| {
        phase::run(&cache, &toolkit, sources, architectures, compare, title)
            .and_then(|phase| Ok(serde_json::to_string(&phase)?))
    };
    let found = match kind {
        Kind::Cold => {
            cache.store().clear().map_err(|reason| {
                format!("the cache cannot be emptied: {reason}; --keep names another directory")
            })?;
            phase(ARCHITECTURES, Compare::No, "cold")
        }
        Kind::Warm => phase(ARCHITECTURES, Compare::WithFresh, "warm"),
        Kind::Edited => phase(ARCHITECTURES, Compare::No, "header edited"),
        Kind::Architecture => phase(&[ANOTHER], Compare::No, ANOTHER),
        Kind::Launches => Ok(serde_json::to_string(&launches::run(&cache, toolkit()?)?)?),
    }?;
    cache.close()?;
    println!("{found}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::CASES;

    #[test]
    fn only_the_header_is_edited() {
        let directory = tempfile::tempdir().unwrap();
        copy_edited(directory.path()).unwrap();
        for case in CASES {
            let [there, here] = [directory.path(), sources()].map(|root| fs::read(case.path(root)).unwrap());
            assert_eq!(there, here);
        }
        let [there, here] =
            [directory.path(), sources()].map(|root| fs::read_to_string(root.join(HEADER)).unwrap());
        assert_eq!(there.strip_prefix(&here).map(|added| added.contains("twice")), Some(true));
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory as _;
        Arguments::command().debug_assert();
    }
}
