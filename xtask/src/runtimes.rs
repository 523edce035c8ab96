//! Installs the libraries that tests and benchmarks use: by pip, pinned by hashes, under `target/`.

use std::process::ExitCode;

use lexopt::prelude::*;
use xshell::{Shell, cmd};

use crate::Result;

/// The groups: each is a file of requirements in `xtask/requirements`.
const GROUPS: [&str; 7] = ["xnnpack", "models", "cuda", "node", "words", "peers", "engines"];

/// The groups that the tests need.
pub(crate) const TESTED: [&str; 3] = ["xnnpack", "models", "cuda"];

/// Selects wheels of this Python whichever one runs pip: only their files are used.
const WHEELS: &str = "--no-deps --only-binary=:all: --implementation=cp --python-version=3.11 \
                      --platform=manylinux_2_28_x86_64 --platform=manylinux_2_12_x86_64 --upgrade \
                      --target=target/runtimes/python --quiet --disable-pip-version-check --require-hashes";

/// The groups whose Python modules are imported, so that each needs a virtual environment.
const IMPORTED: [&str; 2] = ["peers", "engines"];

/// Downloads servers of Debian, which need no root. Where that fails, the tests that need them are ignored.
const SERVERS: &str = "cd target/runtimes/engines && \
                       apt-get download redis-server redis-tools liblzf1 libjemalloc2 libatomic1 nginx libpcre2-8-0 && \
                       for package in *.deb; do dpkg -x $package debian; done";

/// Runs `cargo xtask runtimes`: installs the given groups, or all.
pub(crate) fn run(sh: &Shell, mut parser: lexopt::Parser) -> Result<ExitCode> {
    let (mut asked, mut list) = (Vec::new(), false);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("list") => list = true,
            Long(name) if GROUPS.contains(&name) => asked.push(name.to_owned()),
            other => return Err(other.unexpected().into()),
        }
    }
    let is_asked = |group: &&str| asked.is_empty() || asked.iter().any(|name| name == group);
    for group in GROUPS.into_iter().filter(is_asked) {
        if list { print!("{group}: {}", sh.read_file(requirements(group))?) } else { ensure(sh, group)? }
    }
    Ok(ExitCode::SUCCESS)
}

/// Installs a group unless it is installed.
pub(crate) fn ensure(sh: &Shell, group: &str) -> Result {
    if is_installed(sh, group) {
        return Ok(());
    }
    let requirements = requirements(group);
    if IMPORTED.contains(&group) {
        cmd!(sh, "python3 -m venv --clear target/runtimes/{group}").run()?;
        let python = if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" };
        let python = sh.current_dir().join("target/runtimes").join(group).join(python);
        cmd!(sh, "{python} -m pip install --quiet --require-hashes --requirement {requirements}").run()?;
    } else {
        let install = cmd!(sh, "python3 -m pip install --requirement {requirements}");
        install.args(WHEELS.split_whitespace()).env("PIP_ROOT_USER_ACTION", "ignore").run()?;
    }
    if group == "engines" && cmd!(sh, "sh -c {SERVERS}").run().is_err() {
        // Tried again next time.
        return Ok(());
    }
    Ok(sh.write_file(stamp(group), sh.read_file(requirements)?)?)
}

/// Returns whether the group's requirements are completely installed.
pub(crate) fn is_installed(sh: &Shell, group: &str) -> bool {
    let required = sh.read_file(requirements(group));
    sh.read_file(stamp(group)).is_ok_and(|installed| required.is_ok_and(|required| required == installed))
}

/// Returns the file that records the last installed requirements.
fn stamp(group: &str) -> String {
    format!("target/runtimes/{group}.installed")
}

fn requirements(group: &str) -> String {
    format!("xtask/requirements/{group}.txt")
}
