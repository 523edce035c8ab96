//! Stores that are sealed.

use std::fs;

use serde_json::json;
use warmstart::store::{FileStore, StoreOptions};
use warmstart::{Seal, Store};

use crate::support::{artifact, fields, fill, miss, run};

#[test]
fn a_seal_is_checked_with_its_secret_only() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sealed");
    let store = FileStore::open(&path, StoreOptions::default().with_seal(Seal::new(&[7; 32]))).unwrap();
    fill(&store);
    drop(store);
    let key = |name: &str, bytes: &[u8]| {
        let file = directory.path().join(name);
        fs::write(&file, bytes).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let (raw, digits) = (key("raw", &[7; 32]), key("digits", format!("{}\n", "07".repeat(32)).as_bytes()));
    for right in [&raw, &digits] {
        let ran = run(&["verify", "--json", "--seal-key", right], &path);
        assert_eq!((ran.code, &ran.json()["whole"]), (Some(0), &json!(3)));
        let shown = run(&["inspect", "STORE", "9b43", "--seal-key", right], &path);
        assert_eq!(shown.code, Some(0));
        assert!(shown.out.contains("seal     sealed\n"), "{}", shown.out);
        assert_eq!(run(&["stats", "--json", "--seal-key", right], &path).json()["hits"], json!(30));
    }

    let without = run(&["verify"], &path);
    assert_eq!(without.code, Some(1));
    assert!(without.out.contains("3 sealed, which `--seal-key` can check"), "{}", without.out);
    let another = key("another", &[8; 32]);
    let ran = run(&["verify", "--json", "--seal-key", &another], &path);
    assert_eq!((ran.code, &ran.json()["forged"]), (Some(1), &json!(3)));
    assert_eq!(run(&["verify", "--seal-key", &raw], &path).code, Some(0), "looking removed nothing");

    for wrong in
        [key("short", &[7; 31]), key("long", &[7; 33]), key("text", &[b'x'; 64]), "/nonexistent".to_owned()]
    {
        let ran = run(&["ls", "--json", "--seal-key", &wrong], &path);
        assert_eq!((ran.code, &ran.json()["error"]["code"]), (Some(1), &json!("bad_seal_key")), "{wrong}");
    }
}

#[cfg(unix)]
#[test]
fn a_secret_is_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let directory_of_secrets = directory.path().join("directory");
    fs::create_dir(&directory_of_secrets).unwrap();
    for wrong in [fifo, directory_of_secrets] {
        let ran = run(&["ls", "--seal-key", wrong.to_str().unwrap()], directory.path());
        assert_eq!(ran.code, Some(1));
        assert!(ran.errors.contains("not a regular file"), "{}", ran.errors);
    }
}

#[test]
fn a_miss_that_may_be_sealed_asks_for_the_secret() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sealed");
    let store = FileStore::open(&path, StoreOptions::default().with_seal(Seal::new(&[7; 32]))).unwrap();
    fill(&store);
    miss(&store, "softmax", "-O3");
    drop(store);
    let secret = directory.path().join("secret");
    fs::write(&secret, [7; 32]).unwrap();
    let with = run(&["explain", "STORE", "--last-miss", "--seal-key", secret.to_str().unwrap()], &path);
    assert_eq!(with.code, Some(0), "{with:?}");
    let without = run(&["explain", "STORE", "--last-miss"], &path);
    assert_eq!(without.code, Some(1));
    assert!(
        without.errors.contains("or it is sealed: pass the secret by `--seal-key`"),
        "{}",
        without.errors
    );

    let plain = directory.path().join("plain");
    fill(&FileStore::open(&plain, StoreOptions::default()).unwrap());
    let none = run(&["explain", "STORE", "--last-miss"], &plain);
    assert!(none.errors.contains("no miss is recorded"), "{}", none.errors);
}

#[test]
fn an_entry_without_the_seal_explains_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sealed");
    fill(&FileStore::open(&path, StoreOptions::default().with_seal(Seal::new(&[7; 32]))).unwrap());
    let wanted = fields("softmax", "-O2");
    let plain = FileStore::open(&path, StoreOptions::default()).unwrap();
    plain.put(wanted.key().as_bytes(), &artifact(&wanted, 10)).unwrap();
    drop(plain);
    let recipe = directory.path().join("recipe.json");
    fs::write(&recipe, serde_json::to_string(&wanted.recipe()).unwrap()).unwrap();
    let secret = directory.path().join("secret");
    fs::write(&secret, [7; 32]).unwrap();
    let arguments = ["explain", "--json", "STORE", "--recipe", recipe.to_str().unwrap()];
    let without = run(&arguments, &path).json();
    assert_eq!(without["stored"]["label"], json!("softmax"));
    let with = run(&[&arguments[..], &["--seal-key", secret.to_str().unwrap()]].concat(), &path).json();
    assert_eq!((&with["stored"], &with["nearest"]["label"]), (&json!(null), &json!("softmax")));
}
