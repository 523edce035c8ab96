//! The connection of a store: the one state machine here. It is open, or there is a reason why it is not. Every call but those
//! on a store that is closed, or a newer version's, opens it again if it must.

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use warmstart_core::reason::Reason;

use super::{database::Database, fault::Fault, open, options::SqliteOptions, place::Place};
use crate::{
    error::OpenError,
    os::fork::{BeforeFork, Mutex},
};

/// The pause between attempts of a call that waits for a lock.
const PAUSE: Duration = Duration::from_millis(1);

/// The connection of a store, which no fork passes on: SQLite keeps for the whole process which of its files are locked, and
/// a child that inherits that takes none of the locks itself.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) place: Place,
    pub(super) options: SqliteOptions,
    /// [`Reason::Closed`] and [`Reason::NewerVersion`] are for good.
    state: Mutex<Result<Box<Database>, Reason>>,
    pub(super) lock_directory: OnceLock<PathBuf>,
}

impl Connection {
    /// Opens the database at `path`. Where the medium is at fault, the next call tries again.
    pub(super) fn new(path: &Path, options: SqliteOptions) -> Result<Self, OpenError> {
        let state = Mutex::new(Err(Reason::Unavailable));
        let connection = Self { place: Place::new(path)?, options, state, lock_directory: OnceLock::new() };
        match connection.open(connection.options.patience) {
            Err(Fault::Caller(error)) => return Err(error),
            opened => *connection.state.lock() = opened.map_err(|fault| fault.reason()),
        }
        Ok(connection)
    }

    /// Why nothing can be stored, if that is known without trying.
    pub(super) fn check_writable(&self) -> Result<(), Reason> {
        match &*self.state.lock() {
            Err(reason @ (Reason::Closed | Reason::NewerVersion)) => Err(*reason),
            _ if self.options.read_only => Err(Reason::ReadOnly),
            _ => Ok(()),
        }
    }

    /// Runs `call` on the database, which is opened again if it must be, and does what a fault asks for.
    pub(super) fn with<T>(&self, mut call: impl FnMut(&Database) -> Result<T, Fault>) -> Result<T, Reason> {
        // A call that panics half way leaves no transaction behind: it is rolled back as it is dropped.
        let mut state = self.state.lock();
        let begun = Instant::now();
        let is_late = || begun.elapsed() >= open::LOOK_UP;
        let mut was_repeated = false;
        loop {
            let is_open = match &*state {
                Ok(database) => !database.has_changed(),
                Err(reason) => matches!(reason, Reason::Closed | Reason::NewerVersion),
            };
            if !is_open {
                *state = self.open(open::wait(&self.options)).map_err(|fault| fault.reason());
            }
            let database = state.as_ref().map_err(|reason| *reason)?;
            let called = call(database);
            let has_changed = database.has_changed();
            if has_changed && !is_late() {
                continue;
            }
            let fault = match called {
                Ok(value) => return Ok(value),
                Err(Fault::Refused(reason)) => return Err(reason),
                // Some of it was read before it was changed, and some after.
                Err(Fault::Damaged(_)) if has_changed => return Err(Reason::Busy),
                Err(fault) => fault,
            };
            // Somebody removed the database or set it aside: then this call is made on the one that is there now.
            let has_moved = matches!(fault, Fault::Disconnected(_)) && database.may_have_moved();
            let gone = std::mem::replace(&mut *state, Err(fault.reason()));
            if let (Ok(database), Fault::Damaged(_)) = (gone, &fault) {
                database.set_aside();
            }
            // Once: a medium that fails says the same each time.
            if !has_moved || was_repeated {
                return Err(fault.reason());
            }
            was_repeated = true;
        }
    }

    /// As [`with`](Self::with), for as long as others hold the lock, at most for `timeout`. Look-ups of other threads come in
    /// between.
    pub(super) fn with_timeout<T>(
        &self,
        timeout: Duration,
        mut call: impl FnMut(&Database) -> Result<T, Fault>,
    ) -> Result<T, Reason> {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            match self.with(&mut call) {
                Err(Reason::Busy) if deadline.is_none_or(|at| Instant::now() < at) => thread::sleep(PAUSE),
                answer => return answer,
            }
        }
    }

    /// Writes down what was used, and closes the connection for good.
    pub(super) fn close(&self) -> Result<(), Reason> {
        let is_open = self.state.lock().is_ok();
        let flush = || self.with_timeout(self.options.patience, Database::flush);
        let flushed = if is_open { flush() } else { Ok(()) };
        *self.state.lock() = Err(Reason::Closed);
        flushed
    }

    fn open(&self, timeout: Duration) -> Result<Box<Database>, Fault> {
        let database = Database::open(&self.place, &self.options, timeout)?;
        if database.opened.writable
            && let Some(directory) = self.place.lock_directory()
        {
            crate::os::process_lock::sweep(&directory);
            let _ = self.lock_directory.set(directory);
        }
        Ok(Box::new(database))
    }
}

impl BeforeFork for Connection {
    /// Closes the connection: parent and child open one of their own when they next need it.
    fn before_fork(&self) {
        let mut state = self.state.lock();
        if let Ok(database) = &*state {
            // What is not written down now only makes the order of use a little older.
            let _ = database.flush();
            *state = Err(Reason::Unavailable);
        }
    }
}
