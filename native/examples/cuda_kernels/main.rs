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

#[path = "../warm_start/figures.rs"]
mod figures;
mod gpu;
mod launches;
mod phase;
mod processes;
mod report;

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Parser;
use warmstart::target::cuda::{CudaError, Toolkit};

use warmstart_tests::kernels::cuda::sources;

use crate::{
    processes::{ANOTHER, ARCHITECTURES, Kind, copy_edited, run_child, spawn},
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

/// Success only if what had to miss missed, nothing else did, and every binary is right.
fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.phase {
        Some(kind) => {
            let (directory, sources) = (arguments.keep.as_deref(), arguments.sources.as_deref());
            run_child(kind, directory, sources, &|| toolkit(&arguments)).map(|()| true)
        }
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

    let libraries = arguments.libraries.as_deref();
    let outcome = Outcome {
        architectures: ARCHITECTURES,
        another: ANOTHER,
        cold: spawn(libraries, Kind::Cold, &cache, sources())?,
        warm: spawn(libraries, Kind::Warm, &cache, sources())?,
        edited: spawn(libraries, Kind::Edited, &cache, &edited)?,
        changed: spawn(libraries, Kind::Architecture, &cache, sources())?,
        launches: spawn(libraries, Kind::Launches, &cache, sources())?,
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
