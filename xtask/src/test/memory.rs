//! Temporary files of the quick run, in memory: they come and go by the ten thousand, and a disk would take most of the time.

use std::{env, process};

use xshell::{Shell, cmd};

/// Where Linux has a file system in memory.
const MOUNT: &str = "/dev/shm";

/// How many bytes it must have free. The tests and Chromium use 310 MiB.
const ENOUGH: u64 = 2 << 30;

/// Removes a folder when the parent process ends, however it ends: what is left there takes memory from everything else.
/// What that process has started may write for a moment longer.
const REMOVE: &str = r#"exec >/dev/null 2>&1; tail --pid=$PPID --follow /dev/null && for _ in 1 2 3 4; do rm -rf "$0"; sleep 1; done"#;

/// Lets programs started by a shell keep temporary files in memory, if there is room, programs may run from there, and `TMPDIR`
/// names no other place.
pub(super) fn use_memory(sh: &Shell) -> Option<()> {
    let look = cmd!(sh, "findmnt --noheadings --bytes --output AVAIL,OPTIONS {MOUNT}");
    let mount = look.quiet().ignore_stderr().read().ok()?;
    let free: u64 = mount.split_whitespace().next()?.parse().ok()?;
    if free < ENOUGH || mount.contains("noexec") || env::var_os("TMPDIR").is_some() {
        return None;
    }
    let folder = cmd!(sh, "mktemp -d {MOUNT}/warmstart-test-XXXXXX").quiet().read().ok()?;
    // Other users are among the tests.
    cmd!(sh, "chmod 755 {folder}").quiet().run().ok()?;
    process::Command::new("setsid").args(["sh", "-c", REMOVE, &folder]).spawn().ok()?;
    println!("temporary files are in {folder}");
    sh.set_var("TMPDIR", folder);
    Some(())
}
