//! The state machine of a store's connection: it is open, or there is a reason why not. Every call opens it again if necessary,
//! unless the store is closed or the database is of a newer version.

use std::{
    path::Path,
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use warmstart_core::reason::MissReason;

use super::{database::Database, error::DbError, open, place::Place};
use crate::{
    error::OpenError,
    os::fork::{BeforeFork, Mutex},
    store::{StoreOptions, claims::LockDirectory},
};

/// The pause between attempts of a call that waits for a lock.
const PAUSE: Duration = Duration::from_millis(1);

/// The connection of a store. It is closed before a fork: SQLite tracks file locks per process, so a child with an inherited
/// connection would believe that it holds its parent's locks.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) place: Place,
    pub(super) options: StoreOptions,
    /// [`MissReason::Closed`] and [`MissReason::NewerVersion`] are permanent.
    state: Mutex<Result<Box<Database>, MissReason>>,
    pub(super) claims: OnceLock<LockDirectory>,
}

impl Connection {
    /// Opens the database at `path`. If the medium fails, the next call retries.
    pub(super) fn new(path: &Path, options: StoreOptions) -> Result<Self, OpenError> {
        let state = Mutex::new(Err(MissReason::Unavailable));
        let connection = Self { place: Place::new(path)?, options, state, claims: OnceLock::new() };
        match connection.open(connection.options.timeout) {
            Err(DbError::Caller(error)) => return Err(error),
            opened => *connection.state.lock() = opened.map_err(|error| error.reason()),
        }
        Ok(connection)
    }

    /// Returns the reason why nothing can be stored, if it is known without an attempt.
    pub(super) fn check_writable(&self) -> Result<(), MissReason> {
        match &*self.state.lock() {
            Err(reason @ (MissReason::Closed | MissReason::NewerVersion)) => Err(*reason),
            _ if self.options.read_only => Err(MissReason::ReadOnly),
            _ => Ok(()),
        }
    }

    /// Runs `call` on the database, which is opened first if necessary, and handles its faults.
    pub(super) fn with<T>(
        &self,
        mut call: impl FnMut(&Database) -> Result<T, DbError>,
    ) -> Result<T, MissReason> {
        // A call that panics leaves no open transaction: dropping it rolls it back.
        let mut state = self.state.lock();
        let begun = Instant::now();
        let is_late = || begun.elapsed() >= open::LOOK_UP;
        let mut was_repeated = false;
        loop {
            let is_open = match &*state {
                Ok(database) => !database.has_changed(),
                Err(reason) => matches!(reason, MissReason::Closed | MissReason::NewerVersion),
            };
            if !is_open {
                *state = self.open(open::wait(&self.options)).map_err(|error| error.reason());
            }
            let database = state.as_ref().map_err(|reason| *reason)?;
            let called = call(database);
            let has_changed = database.has_changed();
            if has_changed && !is_late() {
                continue;
            }
            let error = match called {
                Ok(value) => return Ok(value),
                Err(DbError::Refused(reason)) => return Err(reason),
                // Part of the data was read before a change and part after it.
                Err(DbError::Damaged(_)) if has_changed => return Err(MissReason::Busy),
                Err(error) => error,
            };
            // Another process removed or quarantined the database, so the call runs on the one that is there now.
            let has_moved = matches!(error, DbError::Disconnected(_)) && database.may_have_moved();
            let gone = std::mem::replace(&mut *state, Err(error.reason()));
            if let (Ok(database), DbError::Damaged(_)) = (gone, &error) {
                database.quarantine();
            }
            // Retried once only: a failing medium would fail again.
            if !has_moved || was_repeated {
                return Err(error.reason());
            }
            was_repeated = true;
        }
    }

    /// Does the same as [`with`](Self::with), and retries for at most `timeout` while another process holds the lock. Look-ups of
    /// other threads run in between.
    pub(super) fn with_timeout<T>(
        &self,
        timeout: Duration,
        mut call: impl FnMut(&Database) -> Result<T, DbError>,
    ) -> Result<T, MissReason> {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            match self.with(&mut call) {
                Err(MissReason::Busy) if deadline.is_none_or(|at| Instant::now() < at) => {
                    thread::sleep(PAUSE);
                }
                answer => return answer,
            }
        }
    }

    /// Writes pending uses, and closes the connection permanently.
    pub(super) fn close(&self) -> Result<(), MissReason> {
        let is_open = self.state.lock().is_ok();
        let flush = || self.with_timeout(self.options.timeout, Database::flush);
        let flushed = if is_open { flush() } else { Ok(()) };
        *self.state.lock() = Err(MissReason::Closed);
        flushed
    }

    fn open(&self, timeout: Duration) -> Result<Box<Database>, DbError> {
        let database = Database::open(&self.place, &self.options, timeout)?;
        if database.opened.writable
            && let Some(directory) = self.place.lock_directory()
        {
            crate::os::process_lock::sweep(&directory);
            let _ = self.claims.set(LockDirectory(directory));
        }
        Ok(Box::new(database))
    }
}

impl BeforeFork for Connection {
    /// Closes the connection. Parent and child each open their own when they next need it.
    fn before_fork(&self) {
        let mut state = self.state.lock();
        if let Ok(database) = &*state {
            // If this fails, the order of use only becomes a little older.
            let _ = database.flush();
            *state = Err(MissReason::Unavailable);
        }
    }
}
