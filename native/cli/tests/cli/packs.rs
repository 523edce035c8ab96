//! The command on files of packed weights.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tempfile::TempDir;
use warmstart::pack::{Fingerprint, ModelId, Name, Pack, PackOptions, Packing, WeightKey};

use crate::support::{COMMANDS, NEITHER, contents, filled, is_unchanged, run};

const HEX: [&str; 2] = [
    "0101010101010101010101010101010101010101010101010101010101010101",
    "0202020202020202020202020202020202020202020202020202020202020202",
];

/// A pack with two weights of model 1, and in a second commit one of them of model 2.
fn packed() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("weights.xpwc");
    let fingerprint = Some(Fingerprint { id: 0xab, value: Some(0xcd) });
    let first = (Name::new("fc.w").with_bias("fc.b"), 1, Packing { seed: 7, fingerprint }, 1000);
    let second = (Name::new("proj.w"), 1, Packing::of_seed(8), 10);
    save(&path, &[first, second]);
    save(&path, &[(second.0, 2, second.2, 20)]);
    (directory, path)
}

fn save(path: &Path, all: &[(Name<'_>, u8, Packing, usize)]) {
    let pack = Pack::open(path, PackOptions::default()).unwrap();
    for (name, model, packing, len) in all {
        let mut reservation = pack.reserve(*len).unwrap();
        reservation.bytes_mut().fill(*model);
        let model = ModelId::from_bytes([*model; 32]);
        pack.insert(&WeightKey { name: *name, model, packing: *packing }, reservation);
    }
    pack.save().unwrap();
}

#[test]
fn what_people_are_shown_of_a_pack_is_this() {
    let (directory, path) = packed();
    let before = contents(directory.path());
    let ran = run(&["inspect"], &path);
    let file_bytes = fs::metadata(&path).unwrap().len();
    let shown = ran.out.replace(path.to_str().unwrap(), "PACK");
    assert_eq!(
        shown,
        format!(
            "\
OFFSET    SIZE      SEED  FINGERPRINT        MODEL         COMMIT  NAME
  4096  1000 B  00000007  000000ab 000000cd  010101010101       1  fc.w + fc.b
  5120    10 B  00000008  -                  010101010101       1  proj.w
  5632    20 B  00000008  -                  020202020202       2  proj.w

PACK: packed weights, version 3
3 entries, 1.0 KiB of {:.1} KiB in the file; 384 B dead
2 commits
model {}: 2 entries
model {}: 1 entry
",
            file_bytes as f64 / 1024.0,
            HEX[0],
            HEX[1]
        )
    );
    assert_eq!((ran.code, ran.errors.as_str()), (Some(0), ""));
    assert_eq!(run(&["verify"], &path).out, "3 entries whole\n");
    is_unchanged(&before, directory.path(), "looking");
}

#[test]
fn what_programs_are_told_of_version_3_begins_like_version_2() {
    let (_directory, path) = packed();
    let ran = run(&["inspect", "--json"], &path);
    assert!(
        ran.out.starts_with(
            r#"{"format":"xpwc","version":3,"entries":[{"name":"fc.w","offset":4096,"size":1000,"seed":7,"bias":"fc.b","#
        ),
        "{}",
        ran.out
    );
    assert!(ran.out.contains(r#"}],"dead_bytes":384,"#), "{}", ran.out);
    let json = ran.json();
    assert_eq!((&json["generation"], &json["models"]), (&json!(2), &json!(HEX)));
    let entry = &json["entries"][0];
    assert_eq!(entry["fingerprint"], json!({ "id": 0xab, "value": 0xcd }));
    assert_eq!((&entry["model"], &entry["is_imported"]), (&json!(HEX[0]), &json!(false)));
    assert_eq!(entry["checksum"].as_str().unwrap().len(), 16);

    assert_eq!(run(&["convert", "--to", "2", "--model", HEX[1]], &path).code, Some(0));
    let exported = run(&["inspect", "--json"], &path).out;
    let expected = r#"{"format":"xpwc","version":2,"entries":[{"name":"proj.w","offset":0,"size":20,"seed":8}],"dead_bytes":0}"#;
    assert_eq!(exported.trim_end(), expected);
}

#[test]
fn a_pack_is_compacted_once_and_what_is_dropped_is_told() {
    let (_directory, path) = packed();
    let json = run(&["compact", "--json"], &path).json();
    assert_eq!(
        (&json["is_changed"], &json["entries"], &json["left_out"]),
        (&json!(true), &json!(3), &json!(0))
    );
    let before = (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().modified().unwrap());
    let again = run(&["compact"], &path);
    assert!(again.out.starts_with("nothing to do: 3 entries, "), "{again:?}");
    assert_eq!((fs::read(&path).unwrap(), fs::metadata(&path).unwrap().modified().unwrap()), before);

    let only = run(&["compact", "--model", HEX[0]], &path);
    assert!(only.out.contains("; 1 left out\n"), "{only:?}");
    let mut bytes = fs::read(&path).unwrap();
    bytes[4096] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let damaged = run(&["verify"], &path);
    assert_eq!(damaged.code, Some(1));
    assert!(damaged.out.contains("fc.w + fc.b\n\n1 entry whole, 1 damaged\n"), "{}", damaged.out);
    let json = run(&["verify", "--json"], &path).json();
    assert_eq!((&json["whole"], &json["problems"][0]["name"]), (&json!(1), &json!("fc.w")));
    assert!(run(&["verify", "--remove"], &path).errors.contains("warmstart compact"));
    let dropped = run(&["compact"], &path);
    assert!(dropped.out.contains("; 1 damaged and dropped\n"), "{dropped:?}");
    assert_eq!((dropped.code, run(&["verify"], &path).code), (Some(1), Some(0)));
}

#[test]
fn inspect_recovered_index_is_reported() {
    let (_directory, path) = packed();
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 30;
    bytes[last] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let ran = run(&["inspect"], &path);
    assert_eq!(ran.code, Some(1));
    assert!(ran.out.contains("recovered: ") && ran.out.contains("the index was damaged"), "{}", ran.out);
    assert_eq!(run(&["inspect", "--json"], &path).json()["recovered"], json!("the index was damaged"));
}

#[test]
fn a_pack_is_converted_there_and_back() {
    let (directory, path) = packed();
    let error =
        |arguments: &[&str]| run(&[arguments, &["--json"]].concat(), &path).json()["error"]["code"].clone();
    assert_eq!(error(&["convert", "--to", "2"]), json!("ambiguous"));
    let unknown = "0".repeat(64);
    assert_eq!(error(&["convert", "--to", "2", "--model", &unknown]), json!("no_such_model"));
    let output = directory.path().join("out.xpwc");
    let to = ["convert", "--to", "2", "--model", HEX[0], "--output", output.to_str().unwrap()];
    let ran = run(&to, &path);
    assert!(ran.out.starts_with("2 entries written in version 2, "), "{ran:?}");
    assert_eq!(error(&to), json!("exists"));
    let back = run(&["convert", "--to", "3"], &output);
    assert!(back.out.starts_with("2 entries written in version 3, "), "{back:?}");
    let again = run(&["convert", "--to", "3"], &output);
    assert!(again.out.starts_with("nothing to do: "), "{again:?}");
    for ran in [back, again, run(&["inspect"], &output)] {
        assert!(ran.out.contains("2 entries are of an unverified model"), "{ran:?}");
        assert!(ran.out.contains("WS_UNVERIFIED") && ran.out.contains("--to 3 --model MODEL"), "{ran:?}");
    }
    let json = run(&["inspect", "--json"], &output).json();
    let names: Vec<&Value> = json["entries"].as_array().unwrap().iter().map(|entry| &entry["name"]).collect();
    assert_eq!(names, [&json!("fc.wfc.b"), &json!("proj.w")]);
    assert_eq!((&json["entries"][0]["is_imported"], &json["models"]), (&json!(true), &json!([])));
    for wrong in [&["convert"][..], &["convert", "--to", "1"]] {
        assert_eq!(run(wrong, &path).code, Some(2), "{wrong:?}");
    }
    let before = contents(directory.path());
    for nothing in ["01", &"7".repeat(64)] {
        let refused = run(&["compact", "--model", nothing, "--json"], &path);
        assert_eq!(refused.json()["error"]["code"], json!("no_such_model"), "{refused:?}");
    }
    let unlike = run(&["convert", "--to", "3", "--model", &"7".repeat(64)], &path);
    assert!(unlike.errors.contains("was imported as the model 777"), "{unlike:?}");
    assert!(!unlike.errors.contains("--to 2"), "its entries would lose their fingerprints: {unlike:?}");
    is_unchanged(&before, directory.path(), ["compact"]);

    // The model is said later: by its file, or by what `b2sum -l 256` prints of that.
    let model = directory.path().join("model.safetensors");
    fs::write(&model, "abc").unwrap();
    let digest = "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319";
    let absent = run(&["convert", "--to", "3", "--model", "absent", "--json"], &output);
    assert_eq!(absent.json()["error"]["code"], json!("no_such_model"));
    let named = run(&["convert", "--to", "3", "--model", model.to_str().unwrap()], &output);
    assert!(named.out.starts_with("2 entries written in version 3, "), "{named:?}");
    assert!(!named.out.contains("unverified"), "{named:?}");
    let json = run(&["inspect", "--json"], &output).json();
    assert_eq!(json["models"], json!([digest]));
    assert!(json["entries"].as_array().unwrap().iter().all(|entry| entry["model"] == json!(digest)));
    let again = run(&["convert", "--to", "3", "--model", &digest.to_uppercase(), "--json"], &output).json();
    assert_eq!((&again["is_changed"], &again["unverified"]), (&json!(false), &json!(0)));
    // One that was wrong is changed by way of version 2.
    let other = "1".repeat(64);
    let ran = run(&["convert", "--to", "3", "--model", &other], &output);
    assert_eq!(ran.code, Some(1));
    assert!(ran.errors.contains(&other) && ran.errors.contains("--to 2, and then --to 3"), "{ran:?}");
    assert_eq!(run(&["convert", "--to", "2", "--model", digest], &output).code, Some(0));
    assert_eq!(run(&["convert", "--to", "3", "--model", &other], &output).code, Some(0));
    assert_eq!(run(&["inspect", "--json"], &output).json()["models"], json!([other]));
    let zeros = run(&["convert", "--to", "3", "--model", &"0".repeat(64)], &output);
    assert!(zeros.errors.contains("64 zeros are no model"), "{zeros:?}");
}

#[test]
fn a_busy_pack_is_left_alone() {
    let (directory, path) = packed();
    let before = contents(directory.path());
    let holder = fs::File::open(&path).unwrap();
    holder.lock().unwrap();
    for arguments in [&["compact"][..], &["convert", "--to", "2", "--model", HEX[0]]] {
        let json = run(&[arguments, &["--json"]].concat(), &path).json();
        assert_eq!(json["error"]["code"], json!("busy"));
        is_unchanged(&before, directory.path(), arguments);
    }
}

#[test]
fn other_sub_commands_say_which_take_a_pack() {
    let (directory, path) = packed();
    let before = contents(directory.path());
    for arguments in COMMANDS.into_iter().filter(|arguments| arguments[0] != "verify") {
        let ran = run(arguments, &path);
        assert_eq!(ran.code, Some(1), "{arguments:?}");
        assert!(
            ran.errors.contains("a file of packed weights") && ran.errors.contains("`inspect`"),
            "{}",
            ran.errors
        );
        is_unchanged(&before, directory.path(), arguments);
    }
    // And these say so of a store.
    let (_directory, stores) = filled();
    for store in stores {
        for arguments in [&["compact"][..], &["convert", "--to", "3"]] {
            assert!(run(arguments, &store).errors.contains("not a file of packed weights"));
        }
        let nameless = run(&["inspect"], &store);
        assert_eq!(nameless.code, Some(2));
        assert!(nameless.errors.contains("inspect STORE NAME"), "{}", nameless.errors);
    }
}

#[test]
fn what_is_no_pack_is_refused_by_name_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().join("it");
    let footer = |magic: &[u8; 4], version: [u8; 4]| [&[0; 12][..], magic, &version].concat();
    let little = |version: u32| footer(b"CWPX", version.to_le_bytes());
    let cases = [
        (little(0), "malformed", "version 0 is not known"),
        (little(1), "old_version", "version 1 has no seeds"),
        (little(4), "newer_version", "version 4 is not known"),
        (little(u32::MAX), "newer_version", "version 4294967295 is not known"),
        (footer(b"XPWC", [0, 0, 0, 2]), "foreign", "big-endian"),
        (b"\x89WSP\r\n\x1a\n and no more".to_vec(), "truncated", "are too few"),
        (Vec::new(), "not_a_store", NEITHER),
        (vec![7; 5000], "not_a_store", NEITHER),
    ];
    for (bytes, code, part) in cases {
        fs::write(&at, bytes).unwrap();
        is_refused(directory.path(), &at, code, part);
    }
    is_refused(directory.path(), directory.path(), "not_a_store", NEITHER);
    is_refused(directory.path(), &directory.path().join("none"), "missing", "there is nothing at");
    #[cfg(unix)]
    {
        let fifo = directory.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        is_refused(directory.path(), &fifo, "not_a_store", NEITHER);
    }
}

fn is_refused(around: &Path, path: &Path, code: &str, part: &str) {
    let before = contents(around);
    for arguments in
        [&["inspect"][..], &["verify"], &["compact"], &["convert", "--to", "2"], &["convert", "--to", "3"]]
    {
        let text = run(arguments, path);
        assert_eq!((text.code, text.out.as_str()), (Some(1), ""), "{arguments:?}");
        assert!(text.errors.contains(part), "{arguments:?}: {}", text.errors);
        let json = run(&[arguments, &["--json"]].concat(), path);
        assert_eq!(json.json()["error"]["code"], json!(code), "{arguments:?}");
        is_unchanged(&before, around, arguments);
    }
}

#[test]
fn what_a_pack_says_never_reaches_the_terminal_raw() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("it");
    let evil = "\u{1b}]0;owned\u{7}\u{202e}";
    save(
        &path,
        &[
            (Name::new(evil).with_bias("x"), 1, Packing::of_seed(1), 9),
            (Name::new(evil), 1, Packing::of_seed(1), 9),
        ],
    );
    save(&path, &[(Name::new(&format!("{evil}x")), 1, Packing::of_seed(1), 9)]);
    for arguments in [&["inspect"][..], &["inspect", "--json"], &["verify"], &["convert", "--to", "2"]] {
        let ran = run(arguments, &path);
        let text = ran.out + &ran.errors;
        let hidden = text.chars().find(|char| char.is_control() && *char != '\n' || *char == '\u{202e}');
        assert_eq!(hidden, None, "{text}");
    }
}
