//! redb: a copy-on-write B-tree in one file.

use std::path::Path;

use redb::{ConcurrencyMode, Database, ReadableDatabase, TableDefinition};

use super::{
    Peer, Settings,
    proved::{Plain, Proved, Raw},
};
use crate::value::Key;

const TABLE: TableDefinition<'_, &[u8; 32], &[u8]> = TableDefinition::new("entries");

/// Each put is a transaction of its own, and durable: what redb commits without that is lost with the process.
struct Redb(Database);

impl Raw for Redb {
    fn put_raw(&self, key: &Key, bytes: &[u8]) {
        let put = || -> Result<(), redb::Error> {
            let transaction = self.0.begin_write()?;
            transaction.open_table(TABLE)?.insert(key, bytes)?;
            Ok(transaction.commit()?)
        };
        put().expect("the medium has room");
    }

    fn get_raw(&self, key: &Key, show: &mut dyn FnMut(&[u8])) -> bool {
        let mut get = || -> Result<bool, redb::Error> {
            let found = self.0.begin_read()?.open_table(TABLE)?.get(key)?;
            if let Some(value) = &found {
                show(value.value());
            }
            Ok(found.is_some())
        };
        get().expect("the database can be read")
    }
}

fn database(path: &Path, settings: Settings) -> Redb {
    let mode = if settings.shared { ConcurrencyMode::MultiWriter } else { ConcurrencyMode::ExclusiveWriter };
    let open = || -> Result<Database, redb::Error> {
        let database = Database::builder().set_concurrency_mode(mode).create(path)?;
        let transaction = database.begin_write()?;
        // Made once: a table that is not there cannot be read.
        if transaction.list_tables()?.next().is_none() {
            transaction.open_table(TABLE)?;
            transaction.commit()?;
        } else {
            transaction.abort()?;
        }
        Ok(database)
    };
    Redb(open().expect("the database can be opened"))
}

pub(super) fn open(path: &Path, settings: Settings) -> Box<dyn Peer> {
    Box::new(Plain(database(path, settings)))
}

pub(super) fn open_proved(path: &Path, settings: Settings) -> Box<dyn Peer> {
    // It shows its own page cache, which is not written to.
    Box::new(Proved { raw: database(path, settings), shows_a_view: false })
}
