//! Keeps temporary files of the quick run in memory: there are tens of thousands, and a disk would take most of the time.

use std::{env, process};

use xshell::{Shell, cmd};

/// The mount point of Linux's file system in memory.
const MOUNT: &str = "/dev/shm";

/// The free space that it must have, in bytes. The tests and Chromium use 310 MiB.
const ENOUGH: u64 = 2 << 30;

/// Removes a folder when the parent process ends, however it ends, because files left there occupy memory. The process's
/// children may write for a moment longer.
const REMOVE: &str = r#"exec >/dev/null 2>&1; tail --pid=$PPID --follow /dev/null && for _ in 1 2 3 4; do rm -rf "$0"; sleep 1; done"#;

/// Sets `TMPDIR` of programs that a shell starts to a folder in memory, if there is room, programs may run from there, and
/// `TMPDIR` is not set.
pub(super) fn use_memory(sh: &Shell) -> Option<()> {
    let look = cmd!(sh, "findmnt --noheadings --bytes --output AVAIL,OPTIONS {MOUNT}");
    let mount = look.quiet().ignore_stderr().read().ok()?;
    let free: u64 = mount.split_whitespace().next()?.parse().ok()?;
    if free < ENOUGH || mount.contains("noexec") || env::var_os("TMPDIR").is_some() {
        return None;
    }
    let folder = cmd!(sh, "mktemp -d {MOUNT}/warmstart-test-XXXXXX").quiet().read().ok()?;
    // Some tests run as another user.
    cmd!(sh, "chmod 755 {folder}").quiet().run().ok()?;
    process::Command::new("setsid").args(["sh", "-c", REMOVE, &folder]).spawn().ok()?;
    println!("temporary files are in {folder}");
    sh.set_var("TMPDIR", folder);
    Some(())
}
