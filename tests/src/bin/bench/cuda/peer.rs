//! cuda-core's one-line call, through Python, where `cargo xtask runtimes --peers` installed it.

use std::{
    io,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use serde::Serialize;
use warmstart_tests::runtimes;

use crate::servant::Servant;

/// The name of the peer in rows.
pub(super) const NAME: &str = "cuda-core";

/// The text of a row where it is not installed.
pub(super) const MISSING: &str = "cuda-core: cargo xtask runtimes --peers";

/// The task of the process.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Task<'a> {
    /// The source, and the text of its header in it: cuda-core does not look at headers, and refuses to be told of one.
    pub(super) code: &'a str,
    pub(super) arch: &'a str,
    /// The directory of its cache of files; else it caches in memory.
    pub(super) path: Option<&'a Path>,
    pub(super) job: Job,
}

/// The operation that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Job {
    /// The one-line call, with a program that is described at each call.
    Described,
    /// The one-line call, with a program that was described once.
    Kept,
    /// Deriving the key, with options that were described once.
    Key,
}

/// A process that calls it.
#[derive(Debug)]
pub(super) struct Peer(Servant);

impl Peer {
    /// Starts one, with the compilers in this folder, and has it compile. Nothing if it is not installed.
    pub(super) fn start(compilers: &Path, task: &Task<'_>) -> io::Result<Option<Self>> {
        let python = runtimes::folder().join("peers/bin/python");
        let mut import = Command::new(&python);
        import.args(["-c", "import cuda.core.utils"]).stdout(Stdio::null()).stderr(Stdio::null());
        if !import.status().is_ok_and(|status| status.success()) {
            return Ok(None);
        }
        let script = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/bin/bench/cuda/peer.py"));
        let mut servant = Servant::start(Command::new(python).arg(script).env("LD_LIBRARY_PATH", compilers))?;
        servant.tell(&serde_json::to_string(task)?)?;
        servant.hear()?;
        Ok(Some(Self(servant)))
    }

    /// Returns the time of one of so many calls, all of them hits.
    pub(super) fn call(&mut self, calls: u32) -> io::Result<Duration> {
        self.0.tell(&calls.to_string())?;
        let nanos = self.0.hear()?.parse().map_err(io::Error::other)?;
        Ok(Duration::from_nanos(nanos) / calls)
    }
}
