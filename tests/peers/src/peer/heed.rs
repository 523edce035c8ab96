//! heed: LMDB, a mapped B-tree.

use std::{fs, path::Path};

use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, WithoutTls, types::Bytes};

use super::{
    Peer, Settings,
    proved::{Plain, Proved, Raw},
};
use crate::value::Key;

/// The greatest size of the database, which LMDB needs when it is opened.
const MAP_SIZE: usize = 8 << 30;

struct Heed {
    env: Env<WithoutTls>,
    database: Database<'static, Bytes, Bytes>,
}

impl Raw for Heed {
    fn put_raw(&self, key: &Key, bytes: &[u8]) {
        let put = || -> Result<(), heed::Error> {
            let mut transaction = self.env.write_txn()?;
            self.database.put(&mut transaction, key, bytes)?;
            transaction.commit()
        };
        put().expect("the medium has room");
    }

    fn get_raw(&self, key: &Key, show: &mut dyn FnMut(&[u8])) -> bool {
        let mut get = || -> Result<bool, heed::Error> {
            let transaction = self.env.read_txn()?;
            let found = self.database.get(&transaction, key)?;
            if let Some(bytes) = found {
                show(bytes);
            }
            Ok(found.is_some())
        };
        get().expect("the database can be read")
    }
}

/// Without `NO_SYNC` a commit waits for the disk. With it, what is committed is in the kernel's hands, and survives the
/// death of the process.
fn environment(path: &Path, settings: Settings) -> Heed {
    let flags = if settings.durable { EnvFlags::empty() } else { EnvFlags::NO_SYNC };
    let open = || -> Result<Heed, Box<dyn std::error::Error>> {
        fs::create_dir_all(path)?;
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options.map_size(MAP_SIZE).max_readers(256);
        // SAFETY: nothing else writes to the files of this benchmark, and a crash that leaves them torn is not read again.
        let env = unsafe { options.flags(flags).open(path)? };
        let transaction = env.write_txn()?;
        let database = env
            .create_databases_and_commit(transaction, |opener, transaction| {
                opener.create_database(transaction, None).map(CommitOrAbort::<_, ()>::Commit)
            })?
            .unwrap_commit();
        Ok(Heed { env, database })
    };
    open().expect("the environment can be opened")
}

pub(super) fn open(path: &Path, settings: Settings) -> Box<dyn Peer> {
    Box::new(Plain(environment(path, settings)))
}

pub(super) fn open_proved(path: &Path, settings: Settings) -> Box<dyn Peer> {
    Box::new(Proved { raw: environment(path, settings), shows_a_view: true })
}
