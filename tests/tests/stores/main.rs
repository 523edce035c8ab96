//! The stores beyond what the conformance suite asks: what only files or only SQLite can do, and what can go wrong there.
#![allow(clippy::unwrap_used, reason = "every function here is part of a test")]

mod files {
    //! The file store.

    #[cfg(unix)]
    mod faults;
    mod inspect;
    #[cfg(unix)]
    mod journal;
    #[cfg(unix)]
    mod place;
    #[cfg(unix)]
    mod processes;
    #[cfg(unix)]
    mod reports;
}
#[cfg(unix)]
mod fixtures;
#[cfg(unix)]
mod forks;
#[cfg(unix)]
mod model;
mod scenarios;
#[cfg(unix)]
mod sealed_shared;
#[cfg(unix)]
mod single_flight;
mod sqlite {
    //! The SQLite store.

    use std::path::{Path, PathBuf};

    use warmstart::store::{SqliteStore, StoreOptions};

    mod cap;
    mod damage;
    mod format;
    mod inspect;
    #[cfg(unix)]
    mod place;
    #[cfg(unix)]
    mod processes;
    #[cfg(unix)]
    mod read_only;
    mod reports;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cache.db");
        (directory, path)
    }

    fn open(path: &Path) -> SqliteStore {
        SqliteStore::open(path, StoreOptions::default()).unwrap()
    }

    /// A file that belongs to a database, such as its log.
    fn beside(path: &Path, suffix: &str) -> PathBuf {
        PathBuf::from(format!("{}{suffix}", path.display()))
    }
}
mod tiered;
