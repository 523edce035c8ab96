//! Stores that are sealed.

use std::fs;

use serde_json::json;
use warmstart::store::{FileOptions, FileStore};
use warmstart_core::seal::Seal;

use crate::support::{fill, run};

#[test]
fn a_seal_is_checked_with_its_secret_only() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sealed");
    let store = FileStore::open(&path, FileOptions::default().with_seal(Seal::new(&[7; 32]))).unwrap();
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
