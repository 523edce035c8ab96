//! Phases in processes of their own, and the sources that one of them compiles.

use std::{
    env,
    error::Error,
    fs::{self, OpenOptions},
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use clap::ValueEnum;
use serde::de::DeserializeOwned;
use warmstart::{
    Cache, Store as _,
    store::{FileStore, StoreOptions},
    target::cuda::{CudaError, Toolkit},
};
use warmstart_tests::kernels::cuda::{HEADER, sources};

use crate::{
    launches,
    phase::{self, Compare},
};

/// The architectures of every phase, and the one that only the last phase has.
pub(crate) const ARCHITECTURES: &[&str] = &["sm_80", "sm_90"];
pub(crate) const ANOTHER: &str = "sm_100";

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Starts with an empty cache.
    Cold,
    /// Compares its binaries with those of a compiler without a cache.
    Warm,
    /// Compiles with an edited header.
    Edited,
    /// Compiles for another architecture.
    Architecture,
    /// Launches the cached kernels.
    Launches,
}

impl Kind {
    fn name(self) -> String {
        self.to_possible_value().expect("no phase is skipped").get_name().to_owned()
    }
}

/// Copies the sources to `directory`, and edits the header there. The committed files stay unchanged.
pub(crate) fn copy_edited(directory: &Path) -> Result<(), Box<dyn Error>> {
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

/// Runs one phase in a process of its own.
pub(crate) fn spawn<T: DeserializeOwned>(
    libraries: Option<&Path>,
    kind: Kind,
    cache: &Path,
    sources: &Path,
) -> Result<T, Box<dyn Error>> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["--phase", &kind.name(), "--keep"]).arg(cache).arg("--sources").arg(sources);
    if let Some(folder) = libraries {
        command.arg("--libraries").arg(folder);
    }
    let child = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    if !child.status.success() {
        return Err(format!("the phase `{}`: {}", kind.name(), child.status).into());
    }
    Ok(serde_json::from_slice(&child.stdout)?)
}

/// Runs the phase of a process that [`spawn`] started.
pub(crate) fn run_child(
    kind: Kind,
    directory: Option<&Path>,
    sources: Option<&Path>,
    toolkit: &dyn Fn() -> Result<Toolkit, CudaError>,
) -> Result<(), Box<dyn Error>> {
    let (Some(directory), Some(sources)) = (directory, sources) else {
        return Err("--phase needs --keep and --sources".into());
    };
    let cache = Cache::new(FileStore::open(directory, StoreOptions::default())?);
    let phase = |architectures, compare, title| {
        phase::run(&cache, toolkit, sources, architectures, compare, title)
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
    use warmstart_tests::kernels::cuda::CASES;

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
        crate::Arguments::command().debug_assert();
    }
}
