//! Shows what packed weights save: 1184 layers are packed once and saved, and later processes map them.
//!
//! ```text
//! cargo run --release --example packed_weights            # a table and bars
//! cargo run --release --example packed_weights -- --json  # and one line for programs, the last
//! ```
//!
//! XNNPACK packs the weights where `cargo xtask runtimes --xnnpack` has fetched it, and finds them again through
//! `warmstart::target::xnnpack`. Elsewhere a plain packer does. Every step is a process of its own: this program, started
//! again with `--child`. The file takes 623 MB of the disk while it runs, and is removed at the end.
//!
//! | field of the JSON line | says |
//! |---|---|
//! | `packer` | `xnnpack` or `plain` |
//! | `entries` | how many weights |
//! | `cold_ms`, `warm_ms` | how long it took to open, pack, finalise and save; to open, look up and use |
//! | `warm_packs` | how many weights any warm process packed: 0 |
//! | `anon_bytes` | by how much the own memory of a warm process grew, apart from XNNPACK's operators |
//! | `pss_sum_ratio` | what four warm processes have of the file in memory, shared pages divided among them, over its size: 1 |
//! | `growth_bytes` | by how much the file grew while it was loaded and unloaded ten times: 0 |
//! | `verified` | whether all checksums held, and all was computed warm as it was cold |
//!
//! Figures that the system does not report are null. The exit code is 0 only if all was as promised.

mod report;
mod steps;

use std::{
    error::Error,
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Parser, ValueEnum};
use warmstart_tests::{
    medium::Medium,
    weights::{
        COUNT, Layers,
        process::{self, Role},
    },
};

/// Packs 623 MB of weights once, and maps them in other processes.
#[derive(Debug, Parser)]
#[command(name = "packed_weights")]
struct Arguments {
    /// Print the result as one line of JSON, the last one; the report goes to standard error.
    #[arg(long)]
    json: bool,

    /// Put the file into this directory for a while, instead of the one that holds the build.
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,

    /// The packer; by default XNNPACK if it is installed.
    #[arg(long)]
    packer: Option<Packer>,

    /// The role in which this program starts itself.
    #[arg(long, hide = true, requires_all = ["path", "packer"])]
    child: Option<Role>,

    /// The path of the pack, for the processes that this program starts.
    #[arg(long, hide = true)]
    path: Option<PathBuf>,
}

/// The packer of the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Packer {
    Xnnpack,
    Plain,
}

impl Packer {
    const fn name(self) -> &'static str {
        match self {
            Self::Xnnpack => "xnnpack",
            Self::Plain => "plain",
        }
    }

    fn default_here() -> Self {
        #[cfg(feature = "xnnpack")]
        if warmstart_tests::runtimes::xnnpack().is_some() {
            return Self::Xnnpack;
        }
        Self::Plain
    }
}

/// The file has so many bytes at most, and the chunk that is packed into.
const NEEDED: u64 = 700 << 20;

/// Success only if the warm processes packed nothing, and all weights were right.
fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("packed_weights: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<bool, Box<dyn Error>> {
    let packer = arguments.packer.unwrap_or_else(Packer::default_here);
    if let (Some(role), Some(path)) = (arguments.child, &arguments.path) {
        run_child(role, packer, path)?;
        return Ok(true);
    }
    let medium = match &arguments.directory {
        Some(directory) => {
            fs::create_dir_all(directory).map_err(|error| {
                format!("cannot make {}: {error}; name a directory that can be written", directory.display())
            })?;
            Medium::below(directory)?
        }
        None => Medium::disk()?,
    };
    if let Some(free) = medium.free().filter(|free| *free < NEEDED) {
        let (free, needed) = (free >> 20, NEEDED >> 20);
        let problem = format!("{free} MB are free and {needed} MB are needed");
        return Err((problem + "; name another directory with --directory").into());
    }
    let outcome = steps::run(packer, &medium.path("weights.xpwc"))?;
    report::print(&outcome, arguments.json)?;
    Ok(outcome.is_good())
}

/// Runs a process that [`steps`] started.
fn run_child(role: Role, packer: Packer, path: &Path) -> io::Result<()> {
    let mut layers = Layers::new(COUNT);
    match packer {
        Packer::Plain => process::run(role, &mut layers, path),
        #[cfg(feature = "xnnpack")]
        Packer::Xnnpack => {
            use warmstart_tests::{weights::xnnpack::Operators, xnnpack};

            let library = xnnpack::library();
            let noise = Operators::noise(&layers);
            process::run(role, &mut Operators::new(library, &layers, &noise), path)
        }
        #[cfg(not(feature = "xnnpack"))]
        Packer::Xnnpack => Err(io::ErrorKind::Unsupported.into()),
    }
}
