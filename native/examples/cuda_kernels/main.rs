//! Compiles kernels for GPUs once: shows what a warm start of a CUDA runtime saves, and what makes it miss. No
//! GPU is needed.
//!
//! ```text
//! cargo xtask runtimes --cuda                           # fetches the compiler, once
//! cargo run --release --example cuda_kernels            # tables and bars
//! cargo run --release --example cuda_kernels -- --json  # and one line for programs, the last
//! ```
//!
//! Compiles twelve kernels for two architectures with an empty cache; again with the cache of the first phase;
//! again with an edited header that four of them include; and for a third architecture. Each phase is a
//! process of its own: this program, started again with `--phase`. If there is a GPU, every cached kernel
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

/// Compiles twelve real CUDA kernels cold, warm, with an edited header, and for another architecture. Needs no
/// GPU; if there is one, launches the cached kernels and checks them.
#[derive(Parser)]
#[command(name = "cuda_kernels")]
struct Arguments {
    /// Prints the result as the last line, in JSON; the report goes to standard error.
    #[arg(long)]
    json: bool,

    /// Keeps the cache in this directory instead of a temporary one. The cold phase empties it first.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,

    /// The folder of NVRTC, instead of that of `cargo xtask runtimes --cuda`, that in WARMSTART_CUDA, or that of an
    /// installed CUDA toolkit.
    #[arg(long, value_name = "DIR")]
    libraries: Option<PathBuf>,

    /// Runs one phase in this process and prints its result as JSON. The program starts itself so.
    #[arg(long, hide = true, requires = "keep")]
    phase: Option<Kind>,

    /// The folder of the kernels' sources.
    #[arg(long, hide = true, requires = "phase")]
    sources: Option<PathBuf>,
}

/// Succeeds only if exactly the expected look-ups missed, and every binary is right.
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

/// Runs every phase in a process of its own and prints the report. Returns whether all was as expected.
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

/// Returns the folder of the compilers that xtask has installed, unless another one is named.
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
