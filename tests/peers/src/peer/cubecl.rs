//! cubecl-environment: where `CubeCL` keeps its kernels and its tuning; a table of Turso, a SQLite written in Rust.

use std::{fs, path::Path};

use cubecl_environment::persistence::{Access, Database, Insertion, Origin};

use super::{Peer, Settings};
use crate::value::{Key, Value};

/// The database alone. The map in memory that `CubeCL` puts in front of it answers repeated hits, as `TieredStore` does.
struct Environment(Database);

/// Caches of `CubeCL` are told apart by a name.
const NAMESPACE: &str = "compilation/1/cuda";

impl Peer for Environment {
    fn put(&self, key: &Key, value: &Value) {
        let stored = self.0.replace(NAMESPACE, key, value.payload(), Origin::Local);
        assert_eq!(stored, Insertion::Stored, "the medium has room");
    }

    fn get(&self, key: &Key, show: &mut dyn FnMut(&[u8])) -> bool {
        let found = self.0.get(NAMESPACE, key);
        if let Some(bytes) = &found {
            show(bytes);
        }
        found.is_some()
    }
}

pub(super) fn open(path: &Path, _: Settings) -> Box<dyn Peer> {
    fs::create_dir_all(path).expect("the directory can be made");
    let database = Database::open_at(&path.join("cubecl.db"), Access::ReadWrite);
    Box::new(Environment(database.expect("the database can be opened")))
}
