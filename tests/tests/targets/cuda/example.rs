//! The example of CUDA kernels, run as its readers run it.

use std::{
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;
use warmstart_tests::{built, cuda};

fn run(libraries: &Path, arguments: &[&str]) -> Output {
    Command::new(built::example("cuda_kernels"))
        .arg("--libraries")
        .arg(libraries)
        .args(arguments)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .unwrap()
}

#[test]
#[cfg_attr(not(has_cuda), ignore = "needs the CUDA compilers: cargo xtask runtimes --cuda")]
fn the_example_misses_where_it_must_and_nowhere_else() {
    let libraries = cuda::folder();
    let output = run(&libraries, &["--json"]);
    let (report, printed) =
        (String::from_utf8(output.stderr).unwrap(), String::from_utf8(output.stdout).unwrap());
    assert!(output.status.success(), "{report}{printed}");

    let line: Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    let expected: [(&str, Value); 5] = [
        ("kernels", 24.into()),
        ("warm_misses", 0.into()),
        ("header_edit_misses", 8.into()),
        ("arch_change_misses", 12.into()),
        ("verified", true.into()),
    ];
    for (field, value) in expected {
        assert_eq!(line[field], value, "{field} of {line}");
    }
    assert!(line["warm_ms"].as_f64() < line["cold_ms"].as_f64(), "{line}");
    assert!(line["warm_ms"].as_f64() > Some(0.0), "{line}");
    // Null, or the GPU that launched all of them.
    assert!(line["gpu"].is_null() || line["gpu"]["checked"] == 12, "{line}");
    let fields: Vec<&String> = line.as_object().unwrap().keys().collect();
    assert_eq!(fields.len(), 8, "{line}");

    let warm = report.lines().find(|row| row.trim_start().starts_with("warm ")).unwrap();
    assert!(warm.contains("none loaded"), "{report}");
}

#[test]
fn without_a_compiler_the_example_says_what_to_run() {
    let nowhere = tempfile::tempdir().unwrap();
    let output = run(nowhere.path(), &[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(output.stdout.is_empty());
    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("cuda_kernels: ")).collect();
    assert!(lines.len() == 1 && said.ends_with(&format!("{}\n", lines[0])), "{said}");
    assert!(lines[0].contains("cargo xtask runtimes --cuda"), "{said}");
}
