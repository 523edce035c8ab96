//! The place of a file store.

use std::{fs, path::PathBuf, sync::Arc};

use warmstart::{
    Clock, Key, Limits, Store,
    store::{FileOptions, FileStore},
};

use super::Harness;

/// A folder with a file store in it, which goes with it.
#[derive(Debug)]
pub struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    fn entry(&self, key: &[u8]) -> PathBuf {
        self.directory.path().join("entries").join(Key::digest(key).to_string())
    }
}

impl Harness for Files {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn open(&self, limits: Limits, clock: Arc<dyn Clock>) -> Box<dyn Store> {
        let options = FileOptions::default().with_limits(limits).with_clock(clock);
        Box::new(FileStore::open(self.directory.path(), options).unwrap())
    }

    fn damage(&self, key: &[u8], alter: &mut dyn FnMut(&mut Vec<u8>)) {
        let mut bytes = fs::read(self.entry(key)).unwrap();
        let before = bytes.clone();
        alter(&mut bytes);
        if bytes != before {
            fs::write(self.entry(key), bytes).unwrap();
        }
    }
}
