//! The example of a launch loop, run as its readers run it.

use std::process::Command;

use serde_json::Value;
use warmstart_tests::built;

#[test]
fn example_gives_right_answers_and_its_hits_allocate_nothing() {
    let output = Command::new(built::example("launch_loop"))
        .args(["--json", "--rounds", "1"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .unwrap();
    let (report, printed) =
        (String::from_utf8(output.stderr).unwrap(), String::from_utf8(output.stdout).unwrap());
    assert!(output.status.success(), "{report}{printed}");

    let line: Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    let expected = [
        ("launches", 2008),
        ("checked", 2008),
        ("wrong", 0),
        ("results_per_map", 600),
        ("allocations_on_hit", 0),
    ];
    for (field, value) in expected {
        assert_eq!(line[field], value, "{field} of {line}");
    }
    assert!((64..=150).contains(&line["dependencies"].as_u64().unwrap()), "{line}");
    // Far from what an optimised build does, so that no debug build on a busy machine fails. Whether the bounds hold, the
    // report says, and no test decides. It is a difference of two times, which is none on a busy machine.
    let millis = |field: &str| line[field].as_f64().unwrap();
    assert!(millis("memo_ms") >= 0.0 && millis("memo_ms") * 5.0 < millis("deep_copy_ms"), "{line}");
    assert!(millis("hits_ms") > 0.0, "{line}");
    assert_eq!(line.as_object().unwrap().len(), 9, "{line}");

    for said in ["kernel `", "All answers equal", "bound 0.50 ms: ", "bound 1/100: "] {
        assert!(report.contains(said), "{said:?} in {report}");
    }
}
