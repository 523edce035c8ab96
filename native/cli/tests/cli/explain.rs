//! Why a look-up missed, as the command tells it.

use std::{fs, io::Write, process::Stdio};

use serde_json::json;

use crate::support::{MADE, command, fields, filled, miss, ran, run, stores};

#[test]
fn the_last_miss_is_explained_by_the_field_that_differs() {
    let directory = tempfile::tempdir().unwrap();
    for (store, path) in stores(directory.path()) {
        crate::support::fill(&*store);
        miss(&*store, "softmax", "-O3 -g -DNDEBUG");
        store.close().unwrap();

        let json = run(&["explain", "--last-miss", "--json", "STORE"], &path).json();
        assert_eq!(json["changes"], json!([{ "label": "flags", "old": "-O2 -g", "new": "-O3 -g -DNDEBUG" }]));
        assert_eq!((&json["miss"]["reason"], &json["miss"]["unix_ms"]), (&json!("absent"), &json!(MADE)));
        assert_eq!(
            (&json["nearest"]["label"], &json["nearest"]["size"].is_u64()),
            (&json!("softmax"), &true)
        );

        let text = run(&["explain", "STORE", "--last-miss"], &path).out;
        assert_eq!(
            text,
            "\
missed   2024-03-01T12:00:00.000Z (2h ago)
reason   absent: nothing is stored under this key
wanted   softmax (example, schema 1)
nearest  8b411f8cdf8a  softmax  (made 2h ago)

flags
  stored  -O2 -g
  wanted  -O3 -g -DNDEBUG
          - -O2   + -O3   + -DNDEBUG

1 other field is the same
"
        );
    }
}

#[test]
fn a_recipe_is_explained_from_a_file_and_from_standard_input() {
    let (directory, paths) = filled();
    let recipe = serde_json::to_string(&fields("softmax", "-O2").recipe()).unwrap();
    let file = directory.path().join("recipe.json");
    fs::write(&file, &recipe).unwrap();
    for path in &paths {
        let from_file = run(&["explain", "--json", "STORE", "--recipe", file.to_str().unwrap()], path);
        assert_eq!(from_file.json()["changes"], json!([{ "label": "flags", "old": "-O2 -g", "new": "-O2" }]));

        let mut child = command();
        child.args(["explain", "--json", "--recipe", "-"]).arg(path);
        let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(recipe.as_bytes()).unwrap();
        assert_eq!(ran(&child.wait_with_output().unwrap()).out, from_file.out);
    }
}

#[test]
fn a_schema_that_differs_is_no_field() {
    let (directory, paths) = filled();
    let mut recipe = serde_json::to_value(fields("softmax", "-O2 -g").recipe()).unwrap();
    recipe["schema"] = json!(2);
    let file = directory.path().join("recipe.json");
    fs::write(&file, recipe.to_string()).unwrap();
    let text = run(&["explain", "STORE", "--recipe", file.to_str().unwrap()], &paths[0]).out;
    assert!(text.ends_with("\nschema\n  stored  1\n  wanted  2\n\n2 other fields are the same\n"), "{text}");
}

#[test]
fn what_inspect_prints_is_a_recipe_and_is_found_stored() {
    let (directory, paths) = filled();
    let file = directory.path().join("recipe.json");
    for path in &paths {
        fs::write(&file, run(&["inspect", "--json", "STORE", "8b41"], path).out).unwrap();
        let json = run(&["explain", "--json", "STORE", "--recipe", file.to_str().unwrap()], path).json();
        assert_eq!(json["stored"]["label"], json!("softmax"));
        assert!(json["stored"]["name"].as_str().unwrap().starts_with("8b41"));
    }
}

#[test]
fn what_is_no_recipe_is_refused_with_a_reason() {
    let (directory, paths) = filled();
    let file = directory.path().join("recipe.json");
    for wrong in [
        "",
        "{",
        "[]",
        "{\"domain\":1}",
        "{\"domain\":\"d\",\"schema\":1,\"fields\":[{\"label\":\"l\",\"digest\":\"é\",\"text\":null}]}",
        "\u{0}\u{1b}",
    ] {
        fs::write(&file, wrong).unwrap();
        let ran = run(&["explain", "--json", "STORE", "--recipe", file.to_str().unwrap()], &paths[0]);
        assert_eq!((ran.code, &ran.json()["error"]["code"]), (Some(1), &json!("bad_recipe")), "{wrong}");
    }
    let missing = run(&["explain", "STORE", "--recipe", "/nonexistent"], &paths[0]);
    assert_eq!(missing.code, Some(1));
    assert!(missing.errors.contains("cannot read the recipe"), "{}", missing.errors);
}
