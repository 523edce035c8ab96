//! Temporary files of the quick run, in memory: they come and go by the ten thousand, and a disk would take most of the time.

use std::{env, fs, process};

use xshell::{Shell, cmd};

/// Where Linux has a file system in memory.
const MOUNT: &str = "/dev/shm";

/// How many KiB it must have free. The tests and Chromium use 310 MiB.
const ENOUGH: u64 = 2 << 20;

/// Lets programs started by a shell keep temporary files in memory, if there is room and `TMPDIR` names no other place.
pub(super) fn use_memory(sh: &Shell) -> Option<()> {
    let room = cmd!(sh, "df --output=avail {MOUNT}").quiet().ignore_stderr().read().ok()?;
    let free: u64 = room.lines().last()?.trim().parse().ok()?;
    if free < ENOUGH || env::var_os("TMPDIR").is_some() {
        return None;
    }
    let us = process::id();
    let folder = format!("{MOUNT}/warmstart-test-{us}");
    // What is left there takes memory from everything else: it goes when this process ends, however it ends.
    let remove = format!("exec >/dev/null 2>&1; tail --pid={us} --follow /dev/null && rm -rf {folder}");
    process::Command::new("setsid").args(["sh", "-c", &remove]).spawn().ok()?;
    fs::create_dir(&folder).ok()?;
    println!("temporary files are in {folder}");
    sh.set_var("TMPDIR", folder);
    Some(())
}
