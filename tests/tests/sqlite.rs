//! The SQLite store passes the conformance suite.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use std::{path::PathBuf, sync::Arc};

use warmstart::{
    Clock, Limits, Store,
    store::{SqliteOptions, SqliteStore},
};
use warmstart_tests::conformance::Harness;

struct Sqlite {
    directory: tempfile::TempDir,
}

impl Sqlite {
    fn path(&self) -> PathBuf {
        self.directory.path().join("cache.db")
    }
}

impl Harness for Sqlite {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn open(&self, limits: Limits, clock: Arc<dyn Clock>) -> Box<dyn Store> {
        let options = SqliteOptions::default().with_limits(limits).with_clock(clock);
        Box::new(SqliteStore::open(self.path(), options).unwrap())
    }

    fn damage(&self, key: &[u8], alter: &mut dyn FnMut(&mut Vec<u8>)) {
        let connection = rusqlite::Connection::open(self.path()).unwrap();
        connection.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
        let (id, mut envelope): (i64, Vec<u8>) = connection
            .query_row(
                "SELECT id, envelope FROM entry JOIN content USING (id) WHERE key = ?1",
                [key],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .unwrap();
        let before = envelope.clone();
        alter(&mut envelope);
        if envelope != before {
            connection.execute("UPDATE content SET envelope = ?2 WHERE id = ?1", (id, envelope)).unwrap();
        }
    }
}

warmstart_tests::conformance!(Sqlite);
