//! The kinds of stores that pass the suite, each with the folder that it is in.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use tempfile::TempDir;
use warmstart::{
    Clock, Key, Limits, Seal, Store,
    store::{FileStore, MemoryStore, SqliteStore, StoreOptions, TieredStore},
};

use super::{Harness, OnDisk, Opening};
use crate::whole::Whole;

/// The timeout of a store for other processes, where there are many.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The memory store.
#[derive(Debug)]
pub struct Memory;

/// Memory in front of files.
#[derive(Debug)]
pub struct Tiered(TempDir);

/// The file store.
#[derive(Debug)]
pub struct Files {
    directory: TempDir,
    secret: Option<u8>,
}

/// The SQLite store.
#[derive(Debug)]
pub struct Sqlite {
    directory: TempDir,
    secret: Option<u8>,
}

fn seal(secret: u8) -> Seal {
    Seal::new(&[secret; 32])
}

impl Harness for Memory {
    fn open(&self, limits: Limits, _: Arc<dyn Clock>) -> Box<dyn Store> {
        Box::new(MemoryStore::new(limits))
    }

    fn is_persistent(&self) -> bool {
        false
    }
}

impl Tiered {
    /// Makes an empty folder.
    #[must_use]
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
}

impl Default for Tiered {
    fn default() -> Self {
        Self::new()
    }
}

impl Harness for Tiered {
    fn open(&self, limits: Limits, clock: Arc<dyn Clock>) -> Box<dyn Store> {
        let options = StoreOptions::default().with_limits(limits).with_clock(clock);
        let files = FileStore::open(self.0.path(), options).unwrap();
        Box::new(TieredStore::new(Limits::bytes(1 << 20), files))
    }

    fn is_checked(&self) -> bool {
        false
    }
}

impl Files {
    /// Makes an empty folder; the store is sealed if there is a secret.
    #[must_use]
    pub fn new(secret: Option<u8>) -> Self {
        Self { directory: tempfile::tempdir().unwrap(), secret }
    }

    /// Makes a folder that a group may write to; the store is sealed.
    #[cfg(unix)]
    #[must_use]
    pub fn shared(secret: u8) -> Self {
        let files = Self::new(Some(secret));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o2770);
        fs::set_permissions(files.directory.path(), mode).unwrap();
        files
    }

    fn store(&self, opening: Opening) -> FileStore {
        let options = StoreOptions::default().with_limits(opening.limits).with_clock(opening.clock);
        let mut options = options.with_read_only(opening.is_read_only);
        if let Some(secret) = opening.secret {
            options = options.with_seal(seal(secret));
        }
        FileStore::open(self.directory.path(), options).unwrap()
    }

    fn entry(&self, key: &[u8]) -> PathBuf {
        self.directory.path().join("entries").join(Key::digest(key).to_string())
    }
}

impl Harness for Files {
    fn open(&self, limits: Limits, clock: Arc<dyn Clock>) -> Box<dyn Store> {
        self.open_as(Opening { limits, clock, secret: self.secret, is_read_only: false })
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

impl OnDisk for Files {
    fn open_as(&self, opening: Opening) -> Box<dyn Store> {
        Box::new(self.store(opening))
    }

    fn secret(&self) -> Option<u8> {
        self.secret
    }

    fn folder(&self) -> &Path {
        self.directory.path()
    }

    fn worker(&self, worker: &mut Command) {
        worker.args(["--store", "files", "--path"]).arg(self.directory.path());
    }

    fn check_accounts(&self, cap: Option<u64>) {
        let bytes = bytes_in(&self.directory.path().join("entries"));
        assert!(cap.is_none_or(|cap| bytes <= cap), "{bytes} bytes at rest");
        assert!(self.store(Opening::of(self)).total_bytes() >= Ok(bytes), "the accounts say too little");
    }

    fn check_files(&self, _cap: Option<u64>) {
        assert_eq!(bytes_in(&self.directory.path().join("tmp")), 0, "temp files are left");
    }

    fn temp_files(&self) -> Vec<String> {
        names_in(&self.directory.path().join("tmp"))
    }
}

/// Returns the length of all files in a folder.
fn bytes_in(folder: &Path) -> u64 {
    fs::read_dir(folder).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

fn names_in(folder: &Path) -> Vec<String> {
    fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
}

impl Sqlite {
    /// Makes an empty folder; the store is sealed if there is a secret.
    #[must_use]
    pub fn new(secret: Option<u8>) -> Self {
        Self { directory: tempfile::tempdir().unwrap(), secret }
    }

    /// Returns the path of the database.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("cache.db")
    }

    fn store(&self, opening: Opening) -> SqliteStore {
        let options = StoreOptions::default().with_limits(opening.limits).with_clock(opening.clock);
        let mut options = options.with_read_only(opening.is_read_only).with_timeout(TIMEOUT);
        if let Some(secret) = opening.secret {
            options = options.with_seal(seal(secret));
        }
        SqliteStore::open(self.path(), options).unwrap()
    }

    fn connection(&self) -> rusqlite::Connection {
        let connection = rusqlite::Connection::open(self.path()).unwrap();
        connection.busy_timeout(Duration::from_secs(5)).unwrap();
        connection
    }
}

impl Harness for Sqlite {
    fn open(&self, limits: Limits, clock: Arc<dyn Clock>) -> Box<dyn Store> {
        self.open_as(Opening { limits, clock, secret: self.secret, is_read_only: false })
    }

    fn damage(&self, key: &[u8], alter: &mut dyn FnMut(&mut Vec<u8>)) {
        let connection = self.connection();
        let select = "SELECT id, envelope FROM entry JOIN content USING (id) WHERE key = ?1";
        let (id, mut envelope): (i64, Vec<u8>) =
            connection.query_row(select, [key], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let before = envelope.clone();
        alter(&mut envelope);
        if envelope != before {
            connection.execute("UPDATE content SET envelope = ?2 WHERE id = ?1", (id, envelope)).unwrap();
        }
    }
}

impl OnDisk for Sqlite {
    fn open_as(&self, opening: Opening) -> Box<dyn Store> {
        Box::new(self.store(opening))
    }

    fn secret(&self) -> Option<u8> {
        self.secret
    }

    fn folder(&self) -> &Path {
        self.directory.path()
    }

    fn worker(&self, worker: &mut Command) {
        worker.args(["--store", "sqlite", "--path"]).arg(self.path());
    }

    fn check_accounts(&self, cap: Option<u64>) {
        let sums = "SELECT count(*), (SELECT count(*) FROM content), coalesce(sum(size), 0) FROM entry";
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let found: (i64, i64, i64) = self.connection().query_row(sums, [], row).unwrap();
        let store = self.store(Opening::of(self));
        // Last, because it removes what is not whole.
        let (total, whole) =
            (store.inspect().unwrap().totals().map(|totals| totals.bytes).unwrap(), store.whole().unwrap());
        assert_eq!(found, (whole as i64, whole as i64, total as i64), "something was torn");
        assert!(cap.is_none_or(|cap| total <= cap), "{total} bytes");
    }

    fn check_files(&self, cap: Option<u64>) {
        let check: String =
            self.connection().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok");
        let len = fs::metadata(self.path()).unwrap().len();
        assert!(cap.is_none_or(|cap| len <= cap + (64 << 10)), "{len} bytes on disk");
        assert!(!self.path().with_extension("db.damaged-1").exists(), "it was taken for damaged");
    }

    fn temp_files(&self) -> Vec<String> {
        Vec::new()
    }
}
