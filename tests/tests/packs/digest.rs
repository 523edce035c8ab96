//! The digest of a model's file, remembered beside a pack.

use std::{
    fs::{self, File, FileTimes},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, SystemTime},
};

use warmstart::pack::{ModelId, Pack, PackOptions, model_of_file};
use warmstart_tests::packed::{open, place};

/// A model's file that was left alone for so long that its digest may be remembered.
fn settled(directory: &Path, name: &str, content: &[u8]) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, content).unwrap();
    settle(&path);
    path
}

/// No program can set back the time at which an inode changed.
fn settle(path: &Path) {
    let age = || {
        let changed = fs::metadata(path).unwrap().ctime().cast_unsigned();
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() - changed
    };
    while age() < 4 {
        thread::sleep(Duration::from_millis(50));
    }
}

fn memory(path: &Path) -> PathBuf {
    path.with_file_name("weights.xpwc.models")
}

/// Writes another digest where the right one is remembered: who returns it has read the memory, and not the file.
fn forge(path: &Path, right: ModelId) -> ModelId {
    let mut bytes = fs::read(memory(path)).unwrap();
    let at = bytes.windows(32).position(|window| window == right.as_bytes()).unwrap();
    bytes[at] ^= 1;
    let record = at - 56..at + 32;
    let sum = xxhash_rust::xxh3::xxh3_64(&bytes[record.clone()]);
    bytes[record.end..record.end + 8].copy_from_slice(&sum.to_le_bytes());
    fs::write(memory(path), bytes).unwrap();
    let mut forged = *right.as_bytes();
    forged[0] ^= 1;
    ModelId::from_bytes(forged)
}

#[test]
fn a_digest_is_remembered_until_the_file_is_another() {
    let (directory, path) = place().unwrap();
    let model = settled(directory.path(), "model.safetensors", b"abc");
    let pack = open(&path).unwrap();
    let digest = pack.model_of_file(&model).unwrap();
    assert_eq!(digest.to_string(), "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
    assert_eq!(model_of_file(&model).unwrap(), digest);
    assert!(!path.exists(), "no pack is made for it");
    let forged = forge(&path, digest);
    assert_eq!(open(&path).unwrap().model_of_file(&model).unwrap(), forged, "it is remembered");
    assert_eq!(model_of_file(&model).unwrap(), digest);
    // Another name and other ways to it are the same file.
    std::os::unix::fs::symlink(&model, directory.path().join("link")).unwrap();
    assert_eq!(pack.model_of_file(directory.path().join("link")).unwrap(), forged);

    // The same length, and the same time of modification.
    let modified = fs::metadata(&model).unwrap().modified().unwrap();
    fs::write(&model, b"abd").unwrap();
    let file = File::options().write(true).open(&model).unwrap();
    file.set_times(FileTimes::new().set_modified(modified)).unwrap();
    let changed = pack.model_of_file(&model).unwrap();
    assert_eq!(changed, model_of_file(&model).unwrap());
    settle(&model);
    assert_eq!(pack.model_of_file(&model).unwrap(), changed);
    // Another file of the same length under its name.
    let other = settled(path.parent().unwrap(), "other", b"abe");
    fs::rename(other, &model).unwrap();
    let replaced = pack.model_of_file(&model).unwrap();
    assert_eq!(replaced, model_of_file(&model).unwrap());
    assert_ne!(replaced, changed);
}

#[test]
fn a_file_that_was_just_written_is_not_remembered() {
    let (directory, path) = place().unwrap();
    let model = directory.path().join("model");
    fs::write(&model, b"abc").unwrap();
    let pack = open(&path).unwrap();
    pack.model_of_file(&model).unwrap();
    assert!(!memory(&path).exists());
    fs::write(&model, b"abd").unwrap();
    assert_eq!(pack.model_of_file(&model).unwrap(), model_of_file(&model).unwrap());
}

#[test]
fn remembered_digest_that_is_damaged_or_shared_is_ignored() {
    let (directory, path) = place().unwrap();
    let model = settled(directory.path(), "model.safetensors", b"abc");
    let digest = open(&path).unwrap().model_of_file(&model).unwrap();
    let whole = fs::read(memory(&path)).unwrap();
    for damaged in [&whole[..whole.len() - 1], &[&whole[..40], &[0; 90]].concat(), b"WSMODEL1"] {
        fs::write(memory(&path), damaged).unwrap();
        assert_eq!(open(&path).unwrap().model_of_file(&model).unwrap(), digest);
        assert_eq!(fs::read(memory(&path)).unwrap(), whole, "it is mended");
    }
    // Files that are not ours are left alone, even the model itself.
    for foreign in [&b"abc"[..], b"", &[0; 100_000]] {
        fs::write(memory(&path), foreign).unwrap();
        assert_eq!(open(&path).unwrap().model_of_file(&model).unwrap(), digest);
        assert_eq!(fs::read(memory(&path)).unwrap(), foreign);
    }
    let itself = settled(directory.path(), "weights.xpwc.models", b"abc");
    assert_eq!(open(&path).unwrap().model_of_file(&itself).unwrap(), digest);
    assert_eq!(fs::read(&itself).unwrap(), b"abc");
    fs::write(memory(&path), &whole).unwrap();
    forge(&path, digest);
    fs::set_permissions(memory(&path), fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(open(&path).unwrap().model_of_file(&model).unwrap(), digest);

    // Nothing is remembered where nothing is written to, or there is no pack.
    fs::remove_file(memory(&path)).unwrap();
    let read_only = Pack::open(&path, PackOptions::default().with_read_only(true)).unwrap();
    assert_eq!(read_only.model_of_file(&model).unwrap(), digest);
    assert_eq!(Pack::in_memory().model_of_file(&model).unwrap(), digest);
    assert!(!memory(&path).exists());
    fs::create_dir(memory(&path)).unwrap();
    drop(read_only);
    assert_eq!(open(&path).unwrap().model_of_file(&model).unwrap(), digest);
}

#[test]
fn a_model_that_is_no_file_is_an_error() {
    let (directory, path) = place().unwrap();
    let pack = open(&path).unwrap();
    for model in [directory.path().to_owned(), directory.path().join("absent")] {
        assert!(pack.model_of_file(&model).is_err() && model_of_file(&model).is_err());
    }
}
