//! Entries of the first edition are found: a change of a format is a decision, and no accident.

use std::{fs, path::Path};

use tempfile::TempDir;
use warmstart::{
    Key, KeyFields, Seal, Store,
    pack::{Fingerprint, ModelId, Name, Pack, PackOptions, Packing, WeightKey},
    store::{FileStore, SqliteStore, StoreOptions},
};
use warmstart_tests::whole::Whole;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures");

/// Copies a fixture to where no other user may write.
fn copied(name: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    copy(&Path::new(FIXTURES).join(name), &directory.path().join(name));
    directory
}

fn copy(from: &Path, to: &Path) {
    if from.is_file() {
        fs::write(to, fs::read(from).unwrap()).unwrap();
        return set_mode(to, 0o600);
    }
    fs::create_dir(to).unwrap();
    set_mode(to, 0o700);
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        copy(&entry.path(), &to.join(entry.file_name()));
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
}

fn fields(n: u8) -> KeyFields<'static> {
    KeyFields::new("fixture", 2)
        .text("text", "grün")
        .bytes("bytes", vec![0, 255, n])
        .number("number", u64::from(n))
        .list("list", ["a", "", "bc"])
        .digest("digest", vec![7; 32], "of a note")
}

/// The bytes of artifact and of weight `n`.
fn payload(n: u8) -> Vec<u8> {
    (0..100 + usize::from(n) * 50).map(|at| (at * 7) as u8).map(|byte| byte.wrapping_add(n)).collect()
}

fn are_found(store: &dyn Store) {
    for n in 0..3 {
        let found = store.get(fields(n).key().as_bytes()).expect("it is a hit");
        assert_eq!(found.payload(), payload(n));
        let metadata = found.metadata().unwrap();
        assert_eq!(metadata.attribute("kind"), Some(&b"fixture"[..]));
        assert_eq!(metadata.recipe(), Some(fields(n).recipe()).as_ref());
    }
    assert_eq!(store.whole(), Ok(3));
}

#[test]
fn keys_of_the_first_edition_are_derived() {
    let keys = fs::read_to_string(Path::new(FIXTURES).join("keys.txt")).unwrap();
    let keys: Vec<Key> = keys.lines().map(|line| Key::from_hex(line).unwrap()).collect();
    assert_eq!(keys, [0, 1, 2].map(|n| fields(n).key()));
}

#[test]
fn stores_of_the_first_edition_are_found() {
    let (files, sealed, sqlite) = (copied("files"), copied("sealed"), copied("sqlite.db"));
    let options = StoreOptions::default().with_max_bytes(1 << 20);
    are_found(&FileStore::open(files.path().join("files"), options).unwrap());
    let options = StoreOptions::default().with_seal(Seal::new(&[9; 32]));
    are_found(&FileStore::open(sealed.path().join("sealed"), options).unwrap());
    are_found(&SqliteStore::open(sqlite.path().join("sqlite.db"), StoreOptions::default()).unwrap());
}

#[test]
fn a_pack_of_the_first_edition_is_found() {
    let directory = copied("weights.xpwc");
    let pack = Pack::open(directory.path().join("weights.xpwc"), PackOptions::default()).unwrap();
    for n in 0..3 {
        let (weight, bias) = (format!("layer.{n}.weight"), format!("layer.{n}.bias"));
        let name = Name { weight: &weight, bias: (n > 0).then_some(&bias) };
        let fingerprint = (n > 1).then_some(Fingerprint { id: 3, value: Some(u32::from(n) + 9) });
        let packing = Packing { fingerprint, ..Packing::of_seed(u32::from(n) + 5) };
        let model = ModelId::from_bytes([n; 32]);
        assert_eq!(*pack.look_up(&WeightKey { name, model, packing }).unwrap(), payload(n));
    }
    assert_eq!((pack.len(), pack.refusal()), (3, None));
}
