//! The SQLite store: one database file, shared by any number of processes.
//!
//! | module | holds |
//! |---|---|
//! | `options` | how it is opened |
//! | `place` | the path: who may have written there, how it is made and set aside |
//! | `schema` | the tables, and how a database is told to be ours |
//! | `connect` | how it is opened, made and rebuilt |
//! | `database` | the statements |
//! | `space` | the cap |
//! | `fault` | what can go wrong, and what is to be done about it |

mod connect;
mod database;
mod fault;
mod options;
mod place;
mod schema;
mod space;

pub use options::SqliteOptions;

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock, PoisonError},
    thread,
    time::{Duration, Instant},
};

use warmstart_core::{artifact::Artifact, envelope, reason::Reason};

use self::{database::Database, fault::Fault, place::Place};
use super::{Lookup, Store, Stored, Verified};
use crate::error::OpenError;

/// The pause between attempts of a call that waits for a lock.
const PAUSE: Duration = Duration::from_millis(1);

/// Keeps artifacts in one SQLite database, which any number of threads and processes share.
///
/// An entry counts its envelope and twice its key against the cap, and 1/256 of that for the links between SQLite's
/// pages. The cap bounds the bytes on disk: at rest the database is at most the cap and 64 KiB long, its log
/// (`-wal`) at most 4 MiB, and the log's index (`-shm`) 32 KiB for each 16 MiB of the longest log there was. While a
/// put is at work, the log is longer by what that writes; while somebody reads without a pause, it cannot be emptied.
///
/// On a medium with little space left the log is kept shorter, and a put is refused that would leave no room to move
/// the log into the database, or less than 128 KiB: so [`remove`](Store::remove) frees space at once. Where others have
/// taken all of it, only [`clear`](Store::clear) does, which then removes the files.
///
/// A use is written down with the next call that writes, with every 1024th entry used, and when the store is closed.
///
/// A call that writes waits for other writers for as long as its
/// [patience](SqliteOptions::with_patience). A look-up waits for no writer, nor for a call of this process that does;
/// for somebody who wants the whole database it waits 50 ms at most.
///
/// What happens to a database that cannot be used:
///
/// | it is | then |
/// |---|---|
/// | damaged | renamed to `<name>.damaged-1` with its log, and made anew; two are kept |
/// | no database | the same, but kept for good, as `<name>.damaged-2` and so on when others follow |
/// | an empty file | taken over, with mode 0600 |
/// | an older version's | rebuilt, empty |
/// | a newer version's | left alone; everything is a miss, because of [`Reason::NewerVersion`] |
/// | this version's, with an entry of a newer one | that entry is a miss, and a put in its place is refused, because of [`Reason::NewerVersion`] |
/// | another application's | left alone; [`open`](Self::open) fails |
/// | locked | left alone; [`Reason::Busy`] |
/// | on a read-only medium | hits, without locks and without recency |
/// | on a disk too full to open it | hits, one at a time, and without recency, while no other process has it open |
///
/// SQLite's locks do not work on network disks. Keep the file on a local one.
///
/// ```
/// use warmstart::{Artifact, Store, store::{SqliteOptions, SqliteStore}};
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("kernels.db");
/// let store = SqliteStore::open(&path, SqliteOptions::default().with_max_bytes(1 << 30))?;
/// store.put(b"k", &Artifact::new(vec![1, 2, 3]))?;
/// store.close()?;
///
/// let store = SqliteStore::open(&path, SqliteOptions::default().with_max_bytes(1 << 30))?;
/// assert_eq!(store.get(b"k").hit().unwrap().payload(), [1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SqliteStore {
    place: Place,
    options: SqliteOptions,
    state: Mutex<State>,
    lock_directory: OnceLock<PathBuf>,
}

#[derive(Debug)]
enum State {
    Open(Box<Database>),
    /// There is no connection, and why. The next call tries again.
    Down(Reason),
    /// A newer version's: not even looked at again.
    Newer,
    Closed,
}

impl SqliteStore {
    /// Opens the database at `path`; makes it, and the directories that lead to it, if they are missing.
    ///
    /// A medium that fails, is full or is read-only is no error: the store then misses and refuses with the reason,
    /// and works as soon as the medium does.
    ///
    /// # Errors
    /// `path` is a directory, a symbolic link or another application's database, or somebody else could have written
    /// to it.
    pub fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self, OpenError> {
        let place = Place::new(path.as_ref())?;
        let store =
            Self { place, options, state: Mutex::new(State::Closed), lock_directory: OnceLock::new() };
        let state = match Database::open(&store.place, &store.options, store.options.patience) {
            Ok(database) if database.is_alone() => State::Down(Reason::NoSpace),
            Ok(database) => store.opened(database),
            Err(Fault::Caller(error)) => return Err(error),
            Err(fault) => State::after(&fault),
        };
        store.with_state(|current| *current = state);
        Ok(store)
    }

    /// The path of the database, made absolute.
    ///
    /// ```
    /// # use warmstart::store::{SqliteOptions, SqliteStore};
    /// # let directory = tempfile::tempdir()?;
    /// let path = directory.path().join("kernels.db");
    /// assert_eq!(SqliteStore::open(&path, SqliteOptions::default())?.path(), path);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// What all entries count against the cap, added up.
    ///
    /// # Errors
    /// The reason why that is not known.
    ///
    /// ```
    /// # use warmstart::{Artifact, Store, store::{SqliteOptions, SqliteStore}};
    /// # let directory = tempfile::tempdir()?;
    /// let store = SqliteStore::open(directory.path().join("db"), SqliteOptions::default())?;
    /// assert_eq!(store.total_bytes()?, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn total_bytes(&self) -> Result<u64, Reason> {
        self.with(Database::total_bytes)
    }

    /// Runs `call` on the database, which is opened again if it must be, and does what a fault asks for.
    fn with<T>(&self, mut call: impl FnMut(&Database) -> Result<T, Fault>) -> Result<T, Reason> {
        self.with_state(|state| {
            match state {
                State::Closed => return Err(Reason::Closed),
                State::Newer => return Err(Reason::NewerVersion),
                State::Down(_) => self.reopen(state),
                State::Open(_) => {}
            }
            for last in [false, true] {
                let database = match state {
                    State::Open(database) => database,
                    State::Down(reason) => return Err(*reason),
                    State::Newer => return Err(Reason::NewerVersion),
                    State::Closed => return Err(Reason::Closed),
                };
                let called = call(database);
                let alone = database.is_alone();
                let fault = match called {
                    Ok(value) => {
                        if alone {
                            *state = State::Down(Reason::NoSpace);
                        }
                        return Ok(value);
                    }
                    Err(fault) => fault,
                };
                let reason = fault.reason();
                // Somebody removed the database or set it aside: then this call is made on the one that is there now.
                let moved = matches!(fault, Fault::Disconnected(_)) && !database.is_current();
                if alone || !matches!(fault, Fault::Refused(_)) {
                    let gone = std::mem::replace(state, State::Down(reason));
                    if let (State::Open(database), Fault::Damaged(_)) = (gone, fault) {
                        database.set_aside();
                    }
                }
                if !moved || last {
                    return Err(reason);
                }
                self.reopen(state);
            }
            Err(Reason::Unavailable)
        })
    }

    /// As [`with`](Self::with), for as long as others hold the lock and patience lasts. Look-ups of other threads come in
    /// between.
    fn with_patience<T>(&self, mut call: impl FnMut(&Database) -> Result<T, Fault>) -> Result<T, Reason> {
        let deadline = Instant::now().checked_add(self.options.patience);
        patiently(deadline, || self.with(&mut call))
    }

    /// Removes the database where there is no room to empty it. Only one that is known to be ours.
    fn start_over(&self) -> Result<(), Reason> {
        self.with_state(|state| {
            if matches!(state, State::Down(_)) {
                self.reopen(state);
            }
            match std::mem::replace(state, State::Down(Reason::NoSpace)) {
                State::Open(database) => database.discard().map_err(|fault| fault.reason())?,
                State::Down(reason) => return Err(reason),
                other => {
                    *state = other;
                    return Err(Reason::NoSpace);
                }
            }
            self.reopen(state);
            Ok(())
        })
    }

    fn reopen(&self, state: &mut State) {
        *state = match Database::open(&self.place, &self.options, connect::wait(&self.options)) {
            Ok(database) => self.opened(database),
            Err(fault) => State::after(&fault),
        };
    }

    fn opened(&self, database: Database) -> State {
        if database.is_writable()
            && let Some(directory) = self.place.lock_directory()
        {
            crate::cache::sweep_locks(&directory);
            let _ = self.lock_directory.set(directory);
        }
        State::Open(Box::new(database))
    }

    /// A call that panics half way leaves no transaction behind: it is rolled back as it is dropped.
    fn with_state<T>(&self, call: impl FnOnce(&mut State) -> T) -> T {
        call(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Store for SqliteStore {
    fn get(&self, key: &[u8]) -> Lookup {
        let stored = match self.with(|database| database.find(key)) {
            Ok(Some(stored)) => stored,
            Ok(None) => return Lookup::Miss(Reason::Absent),
            // Nothing could be read: that nothing can be written is not why it missed.
            Err(Reason::ReadOnly | Reason::NoSpace) => return Lookup::Miss(Reason::Unavailable),
            Err(reason) => return Lookup::Miss(reason),
        };
        // Without the lock: others look up while this thread proves its hit.
        let found = envelope::decode_with(stored, key, self.options.seal.as_ref());
        if found.as_ref().is_err_and(|reason| reason.is_damage()) {
            let _ = self.with(|database| database.remove_damaged(key));
        }
        found.into()
    }

    fn put(&self, key: &[u8], artifact: &Artifact) -> Result<Stored, Reason> {
        let encoded = envelope::encode_with(key, artifact, self.options.seal.as_ref())?;
        let size = space::size_of(key, encoded.len());
        if let closed @ Err(Reason::Closed | Reason::NewerVersion) = self.with(|_| Ok(())) {
            return closed.map(|()| Stored::default());
        }
        self.options.limits.admit(size)?;
        let stored = encoded.to_vec();
        self.with_patience(|database| database.put(key, size, &stored)).map(|evicted| Stored { evicted })
    }

    fn remove(&self, key: &[u8]) -> Result<bool, Reason> {
        self.with_patience(|database| database.remove(key))
    }

    fn contains(&self, key: &[u8]) -> Result<bool, Reason> {
        self.with(|database| database.contains(key))
    }

    fn len(&self) -> Result<u64, Reason> {
        self.with_patience(Database::len)
    }

    fn verify(&self) -> Result<Verified, Reason> {
        let keys = self.with_patience(Database::keys)?;
        let mut found = Verified::default();
        for key in keys {
            // Gone since it was listed, or busy: neither whole nor damaged.
            let Ok(Some(stored)) = self.with(|database| database.read(&key)) else { continue };
            match envelope::decode_with(stored, &key, self.options.seal.as_ref()) {
                Ok(_) => found.whole += 1,
                Err(reason) if reason.is_damage() => {
                    found.damaged += 1;
                    let _ = self.with_patience(|database| database.remove_damaged(&key));
                }
                Err(_) => {}
            }
        }
        Ok(found)
    }

    fn clear(&self) -> Result<(), Reason> {
        match self.with_patience(Database::clear) {
            Err(Reason::NoSpace) => self.start_over(),
            cleared => cleared,
        }
    }

    fn touch(&self, keys: &[&[u8]]) {
        let _ = self.with(|database| keys.iter().try_for_each(|key| database.touch(key)));
    }

    fn close(&self) -> Result<(), Reason> {
        let state = self.with_state(|state| std::mem::replace(state, State::Closed));
        match state {
            State::Open(database) => {
                let deadline = Instant::now().checked_add(self.options.patience);
                patiently(deadline, || database.flush().map_err(|fault| fault.reason()))
            }
            _ => Ok(()),
        }
    }

    fn lock_directory(&self) -> Option<&Path> {
        self.lock_directory.get().map(PathBuf::as_path)
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

/// Asks again until `deadline` while the answer is that somebody else holds the lock.
fn patiently<T>(deadline: Option<Instant>, mut ask: impl FnMut() -> Result<T, Reason>) -> Result<T, Reason> {
    loop {
        match ask() {
            Err(Reason::Busy) if deadline.is_none_or(|at| Instant::now() < at) => thread::sleep(PAUSE),
            answer => return answer,
        }
    }
}

impl State {
    /// What a database that could not be opened leaves.
    const fn after(fault: &Fault) -> Self {
        match fault.reason() {
            Reason::NewerVersion => Self::Newer,
            reason => Self::Down(reason),
        }
    }
}
