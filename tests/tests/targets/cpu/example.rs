//! The example of a warm start, run as its readers run it.

use std::{path::Path, process::Command};

use serde_json::Value;
use warmstart_tests::built;

/// Runs the example over a kept file store, and returns its line of JSON.
fn run(directory: &Path, arguments: &[&str]) -> Value {
    let output = Command::new(built::example("warm_start"))
        .args(["--json", "--store", "files", "--keep"])
        .arg(directory)
        .args(arguments)
        .output()
        .unwrap();
    let (report, printed) =
        (String::from_utf8(output.stderr).unwrap(), String::from_utf8(output.stdout).unwrap());
    assert!(output.status.success(), "{report}{printed}");
    serde_json::from_str(printed.lines().last().unwrap()).unwrap()
}

#[test]
fn warm_start_hits_all_kernels_but_the_changed_one() {
    let directory = tempfile::tempdir().unwrap();
    let line = run(directory.path(), &["--workers", "2"]);
    assert_eq!(line["workers"], 2, "{line}");
    let files = &line["stores"][0];
    assert_eq!((&files["hits"], &files["misses"]), (&38.into(), &0.into()), "{line}");
    assert_eq!(files["verified"], true, "{line}");
    for field in ["cold_ms", "two_processes_cold_ms", "warm_ms"] {
        assert!(files[field].as_f64() > Some(0.0), "{field} of {line}");
    }

    let line = run(directory.path(), &["--change-flag", "3"]);
    let files = &line["stores"][0];
    assert_eq!((&files["hits"], &files["misses"]), (&37.into(), &1.into()), "{line}");
}
