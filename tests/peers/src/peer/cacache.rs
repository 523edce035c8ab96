//! cacache: contents by their hash, and an index of files. No longer maintained, and still at work in many programs.

use std::path::{Path, PathBuf};

use cacache::{Algorithm, Error};
use warmstart::Key as Digest;

use super::{Peer, Settings};
use crate::value::{Key, Value};

/// The peer, with its cheapest checksum, XXH3, which is ours too; its default is SHA-256.
struct Cacache(PathBuf);

impl Peer for Cacache {
    fn put(&self, key: &Key, value: &Value) {
        let key = Digest::from_bytes(*key).to_string();
        cacache::write_sync_with_algo(Algorithm::Xxh3, &self.0, key, value.payload())
            .expect("the medium has room");
    }

    fn get(&self, key: &Key, show: &mut dyn FnMut(&[u8])) -> bool {
        match cacache::read_sync(&self.0, Digest::from_bytes(*key).to_string()) {
            Ok(bytes) => show(&bytes),
            Err(Error::EntryNotFound(..)) => return false,
            Err(error) => panic!("the cache can be read: {error}"),
        }
        true
    }
}

pub(super) fn open(path: &Path, _: Settings) -> Box<dyn Peer> {
    Box::new(Cacache(path.to_owned()))
}
