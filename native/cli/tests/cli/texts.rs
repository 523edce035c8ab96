//! The output for people and for programs.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::Stdio,
};

use serde_json::json;
use warmstart::{
    Artifact, KeyFields, Metadata, Store,
    store::{FileStore, StoreOptions},
};

use crate::support::{MADE, command, contents, filled, is_unchanged, ran, run, stores};

#[test]
fn a_list_has_the_last_used_first_and_a_sum() {
    let (_directory, paths) = filled();
    let ran = run(&["ls"], &paths[0]);
    assert_eq!(
        ran.out,
        "\
NAME              SIZE  AGE  USED    BUILD  DOMAIN   LABEL
9b43b70de446     131 B    -    2h        -  -        -
cc4d960c85be  49.1 KiB   2h    2h  250.0ms  example  matmul
8b411f8cdf8a   1.2 KiB   2h    2h  250.0ms  example  softmax

3 entries, 50.4 KiB; building took 500.0ms
"
    );
    assert_eq!((ran.code, ran.errors.as_str()), (Some(0), ""));
    let sorted = run(&["ls", "--sort", "size", "--bytes", "--full"], &paths[0]).out;
    let sizes: Vec<&str> = sorted.lines().filter_map(|line| line.split_whitespace().nth(1)).take(4).collect();
    assert_eq!(sizes, ["SIZE", "50256", "1256", "131"]);
}

#[test]
fn statistics_are_the_same_in_every_form() {
    let (_directory, paths) = filled();
    for path in &paths {
        let json = run(&["stats", "--json"], path).json();
        assert_eq!(json["entries"], json!(3));
        assert_eq!((&json["hits"], &json["builds"], &json["shared"]), (&json!(30), &json!(9), &json!(1)));
        assert_eq!(json["hit_rate"], json!(0.75));
        let misses = json!({ "total": 10, "by_reason": { "absent": 9, "checksum_mismatch": 1 } });
        assert_eq!(json["misses"], misses);
        assert_eq!(json["refusals"]["by_reason"], json!({ "no_space": 2 }));
        assert_eq!((&json["since_unix_ms"], &json["resets"]), (&json!(MADE), &json!(0)));
        assert_eq!(json["saved_nanos"], json!(7_500_000_000_u64));

        let prometheus = run(&["stats", "--prometheus", "--label", "a\"b"], path).out;
        assert!(prometheus.contains("warmstart_misses_total{store=\"a\\\"b\",reason=\"absent\"} 9\n"));
        assert!(prometheus.contains("warmstart_saved_seconds_total{store=\"a\\\"b\"} 7.500000000\n"));
    }
    let text = run(&["stats"], &paths[0]).out;
    let (first, rest) = text.split_once('\n').unwrap();
    assert!(first.ends_with("/files (directory)"), "{first}");
    assert_eq!(
        rest,
        "\
3 entries, 50.4 KiB

Counted since 2024-03-01T12:00:00.000Z (2h ago)
look-ups                     40
  hits                       30  75.0 %  saved 7.5s of building
  misses                     10  25.0 %
    absent                    9          nothing is stored under this key
    checksum_mismatch         1          the entry's bytes changed after they were stored
built                         9          took 2.2s
shared                        1          built by another thread or process, waited 2.5s
not stored                    2
    no_space                  2          no space is left for the store
evicted                       0
read                   39.1 KiB
written                49.8 KiB
"
    );
}

#[test]
fn prometheus_text_is_this_to_the_letter() {
    let (_directory, paths) = filled();
    let text = run(&["stats", "--prometheus"], &paths[0]).out;
    let kept = |line: &&str| !line.starts_with("warmstart_misses") && !line.starts_with("warmstart_refusals");
    let text: Vec<&str> = text.lines().filter(kept).collect();
    assert_eq!(text.join("\n") + "\n", include_str!("stats.prom"));
}

#[test]
fn one_entry_is_shown_whole_and_its_payload_is_what_was_stored() {
    let (directory, paths) = filled();
    for path in &paths {
        let json = run(&["inspect", "--json", "STORE", "9b43"], path).json();
        assert_eq!((&json["key"], &json["key_text"]), (&json!("706c61696e"), &json!("plain")));
        assert_eq!((&json["is_whole"], &json["payload_bytes"]), (&json!(true), &json!(3)));
        let text = run(&["inspect", "STORE", "8B41"], path);
        assert!(text.out.contains("\nproof    whole\n"), "{}", text.out);
        assert!(text.out.contains("flags   "), "{}", text.out);

        let file = directory.path().join("payload");
        let ran = run(&["inspect", "STORE", "9b43", "--payload", file.to_str().unwrap()], path);
        assert_eq!((ran.code, fs::read(&file).unwrap()), (Some(0), vec![1, 2, 3]));
        let piped = run(&["inspect", "STORE", "9b43", "--payload", "-"], path);
        assert_eq!(piped.out.as_bytes(), [1, 2, 3]);
    }
}

#[test]
fn looking_changes_nothing() {
    let (directory, paths) = filled();
    // SQLite cannot read a log without its index; it takes both away again.
    let before = contents(directory.path());
    for path in &paths {
        for arguments in [
            &["ls"][..],
            &["inspect", "STORE", "9b43"],
            &["verify"],
            &["stats"],
            &["explain", "STORE", "--last-miss"],
        ] {
            let _ = run(arguments, path);
            is_unchanged(&before, directory.path(), arguments);
        }
    }
}

#[test]
fn what_is_pruned_and_cleared_is_told() {
    let (_directory, paths) = filled();
    for path in &paths {
        let nothing = run(&["prune", "--max-bytes", "1MiB"], path);
        assert!(nothing.out.starts_with("nothing was removed: 3 entries, "), "{nothing:?}");
        let json = run(&["prune", "--max-entries", "2", "--json"], path).json();
        assert_eq!((&json["removed"]["entries"], &json["left"]["entries"]), (&json!(1), &json!(2)));
        let cleared = run(&["clear"], path);
        assert!(cleared.out.starts_with("removed 2 entries, "), "{cleared:?}");
        assert!(cleared.out.ends_with("; 0 entries, 0 B left\n"), "{cleared:?}");
        assert_eq!(run(&["ls"], path).out, "no entries\n");
        assert_eq!(run(&["stats", "--json"], path).json()["hits"], json!(30), "what was counted stays");
    }
}

#[test]
fn colours_are_for_terminals_and_for_who_asks() {
    let (_directory, paths) = filled();
    let has_colour = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = command();
        command.args(arguments).arg(&paths[0]).envs(variables.iter().copied());
        ran(&command.output().unwrap()).out.contains('\u{1b}')
    };
    assert!(!has_colour(&["ls"], &[]));
    assert!(has_colour(&["ls", "--color", "always"], &[("NO_COLOR", "1")]));
    assert!(has_colour(&["ls"], &[("CLICOLOR_FORCE", "1")]));
    assert!(!has_colour(&["ls"], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
    assert!(!has_colour(&["ls", "--color", "never"], &[("CLICOLOR_FORCE", "1")]));
}

#[test]
fn what_a_store_says_never_reaches_the_terminal_raw() {
    let directory = tempfile::tempdir().unwrap();
    for (store, path) in stores(directory.path()) {
        let evil = "\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}";
        let fields = KeyFields::new(evil, 1).text(evil, evil);
        let metadata = Metadata::new().with_recipe(fields.recipe()).with_attribute(evil, evil);
        store.put(evil.as_bytes(), &Artifact::new(vec![1]).with_metadata(&metadata)).unwrap();
        store.close().unwrap();
        let name = warmstart::Key::digest(evil.as_bytes()).to_string();
        for arguments in [
            &["ls"][..],
            &["ls", "--json"],
            &["inspect", "STORE", &name],
            &["inspect", "--json", "STORE", &name],
        ] {
            let ran = run(arguments, &path);
            let hidden =
                ran.out.chars().find(|char| char.is_control() && *char != '\n' || *char == '\u{202e}');
            assert_eq!((ran.code, hidden), (Some(0), None), "{}", ran.out);
        }
    }
}

#[test]
fn reader_that_stops_early_ends_the_command_quietly() {
    let directory = tempfile::tempdir().unwrap();
    let store = FileStore::open(directory.path(), StoreOptions::default()).unwrap();
    // More than a pipe holds.
    for n in 0..2000_u64 {
        store.put(&n.to_le_bytes(), &Artifact::new(Vec::new())).unwrap();
    }
    drop(store);
    for arguments in [&["ls"][..], &["ls", "--json"]] {
        let mut command = command();
        command.args(arguments).arg(directory.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut pipe = BufReader::with_capacity(16, child.stdout.take().unwrap());
        let _ = pipe.fill_buf().unwrap();
        drop(pipe);
        let ran = ran(&child.wait_with_output().unwrap());
        assert_eq!((ran.code, ran.errors.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    let (_directory, paths) = filled();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ran = ran(&command().arg("ls").arg(&paths[0]).stdout(full).output().unwrap());
    assert_eq!(ran.code, Some(1));
    assert!(ran.errors.contains("cannot write to standard output"), "{}", ran.errors);
}
