//! Single flight between processes, over every store that processes share.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use warmstart::Key;
use warmstart_tests::proof::numbered_key;

/// A store by the name that the worker knows, and where its locks are.
struct Shared {
    kind: &'static str,
    path: PathBuf,
    locks: PathBuf,
}

fn each_store(test: impl Fn(&Shared, &Path)) {
    for kind in ["files", "sqlite"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cache");
        let locks = match kind {
            "files" => path.join("locks"),
            _ => directory.path().join("cache.locks"),
        };
        test(&Shared { kind, path, locks }, &directory.path().join("log"));
    }
}

impl Shared {
    fn worker(&self, work: &[&str]) -> Child {
        Command::new(env!("CARGO_BIN_EXE_worker"))
            .args(["--store", self.kind, "--path"])
            .arg(&self.path)
            .args(work)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn builder(&self, log: &Path, keys: &str, build_ms: &str) -> Child {
        self.worker(&["build", "--log", log.to_str().unwrap(), "--keys", keys, "--build-ms", build_ms])
    }

    fn locks_left(&self) -> usize {
        fs::read_dir(&self.locks).unwrap().count()
    }
}

#[test]
fn a_stampede_of_processes_builds_each_artifact_once() {
    each_store(|store, log| {
        let children: Vec<Child> = (0..8).map(|_| store.builder(log, "12", "20")).collect();
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
        let mut built: Vec<u64> =
            fs::read_to_string(log).unwrap().lines().map(|line| line.parse().unwrap()).collect();
        built.sort_unstable();
        assert_eq!(built, (0..12).collect::<Vec<_>>(), "{}", store.kind);
        assert_eq!(store.locks_left(), 0);
    });
}

#[test]
fn a_killed_builder_does_not_hold_up_the_others() {
    each_store(|store, log| {
        let mut stuck = store.builder(log, "1", "600000");
        let lock = store.locks.join(Key::digest(&numbered_key(0)).to_string());
        while !lock.exists() {
            thread::sleep(Duration::from_millis(5));
        }
        let mut waiting = store.builder(log, "1", "1");
        thread::sleep(Duration::from_millis(200));
        assert!(waiting.try_wait().unwrap().is_none(), "it waits for the one that builds");
        let started = Instant::now();
        stuck.kill().unwrap();
        assert!(waiting.wait().unwrap().success());
        assert!(started.elapsed() < Duration::from_secs(5));
        stuck.wait().unwrap();
        assert_eq!(store.locks_left(), 0);
    });
}

#[test]
fn two_processes_that_need_each_others_builds_both_finish() {
    each_store(|store, _| {
        let children = [["nest", "a", "b"], ["nest", "b", "a"]].map(|work| store.worker(&work));
        for child in children {
            let output = child.wait_with_output().unwrap();
            let millis: u64 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
            assert!(millis < 5000, "it took {millis} ms, which is patience and not insight");
        }
    });
}
