//! rusqlite alone: one table, its statements prepared.

use std::{
    path::Path,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use rusqlite::{Connection, OptionalExtension};

use super::{
    Peer, Settings,
    proved::{Plain, Proved, Raw},
};
use crate::value::Key;

struct Table(Mutex<Connection>);

impl Table {
    fn with<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> T {
        work(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).expect("the database works")
    }
}

impl Raw for Table {
    fn put_raw(&self, key: &Key, bytes: &[u8]) {
        self.with(|connection| {
            connection.prepare_cached("INSERT OR REPLACE INTO entries VALUES (?1, ?2)")?.execute((key, bytes))
        });
    }

    fn get_raw(&self, key: &Key, show: &mut dyn FnMut(&[u8])) -> bool {
        let found = self.with(|connection| {
            let mut select = connection.prepare_cached("SELECT value FROM entries WHERE key = ?1")?;
            select.query_row([key], |row| Ok(row.get_ref(0)?.as_blob()?.to_vec())).optional()
        });
        if let Some(bytes) = &found {
            show(bytes);
        }
        found.is_some()
    }
}

fn table(path: &Path, settings: Settings) -> Table {
    let open = || -> rusqlite::Result<Connection> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(60))?;
        let synchronous = if settings.durable { "FULL" } else { "NORMAL" };
        connection.execute_batch(&format!(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous};
             CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, value BLOB NOT NULL);"
        ))?;
        Ok(connection)
    };
    Table(Mutex::new(open().expect("the database can be opened")))
}

pub(super) fn open(path: &Path, settings: Settings) -> Box<dyn Peer> {
    Box::new(Plain(table(path, settings)))
}

pub(super) fn open_proved(path: &Path, settings: Settings) -> Box<dyn Peer> {
    Box::new(Proved { raw: table(path, settings), shows_a_view: false })
}
