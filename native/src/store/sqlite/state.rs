//! The connection of a store: opened again when it must be, and what becomes of it after a fault.

use std::{
    thread,
    time::{Duration, Instant},
};

use warmstart_core::reason::Reason;

use super::{SqliteStore, connect, database::Database, fault::Fault};
use crate::os::fork::{BeforeFork, Mutex, MutexGuard};

/// The pause between attempts of a call that waits for a lock.
const PAUSE: Duration = Duration::from_millis(1);

/// So often, at least, a call is made on a database that others change while it is read without locks.
const ATTEMPTS: u32 = 2;

/// Where a store stands.
#[derive(Debug)]
pub(super) enum State {
    Open(Box<Database>),
    /// There is no connection, and why. The next call tries again.
    Down(Reason),
    /// A newer version's: not even looked at again.
    Newer,
    Closed,
}

/// The connection of a store, which no fork passes on: SQLite keeps for the whole process which of its files are locked, and
/// a child that inherits that takes none of the locks itself.
#[derive(Debug)]
pub(super) struct Connection(Mutex<State>);

impl Connection {
    pub(super) const fn new(state: State) -> Self {
        Self(Mutex::new(state))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl BeforeFork for Connection {
    /// Closes the connection: parent and child open one of their own when they next need it.
    fn before_fork(&self) {
        let mut state = self.lock();
        if let State::Open(database) = &*state {
            // What is not written down now only makes the order of use a little older.
            let _ = database.flush();
            *state = State::Down(Reason::Unavailable);
        }
    }
}

impl State {
    /// What a database that could not be opened leaves.
    pub(super) const fn after(fault: &Fault) -> Self {
        match fault.reason() {
            Reason::NewerVersion => Self::Newer,
            reason => Self::Down(reason),
        }
    }
}

impl SqliteStore {
    /// Runs `call` on the database, which is opened again if it must be, and does what a fault asks for.
    pub(super) fn with<T>(&self, mut call: impl FnMut(&Database) -> Result<T, Fault>) -> Result<T, Reason> {
        self.with_state(|state| {
            match state {
                State::Closed => return Err(Reason::Closed),
                State::Newer => return Err(Reason::NewerVersion),
                State::Down(_) => self.reopen(state),
                State::Open(_) => {}
            }
            let deadline = Instant::now().checked_add(connect::wait(&self.options));
            let (mut has_moved, mut attempts) = (false, 0);
            loop {
                if matches!(state, State::Open(database) if database.has_changed()) {
                    self.reopen(state);
                }
                let database = match state {
                    State::Open(database) => database,
                    State::Down(reason) => return Err(*reason),
                    State::Newer => return Err(Reason::NewerVersion),
                    State::Closed => return Err(Reason::Closed),
                };
                let called = call(database);
                attempts += 1;
                let has_changed = database.has_changed();
                if has_changed && (attempts < ATTEMPTS || deadline.is_none_or(|at| Instant::now() < at)) {
                    continue;
                }
                let alone = database.is_alone();
                let fault = match called {
                    // Some of it was read before it was changed, and some after.
                    Err(Fault::Damaged(_)) if has_changed => return Err(Reason::Busy),
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
                // One that is only read may have lost the index of its log to who was the last to write.
                let moved = matches!(fault, Fault::Disconnected(_))
                    && (!database.is_current() || database.is_only_read());
                if alone || !matches!(fault, Fault::Refused(_)) {
                    let gone = std::mem::replace(state, State::Down(reason));
                    if let (State::Open(database), Fault::Damaged(_)) = (gone, fault) {
                        database.set_aside();
                    }
                }
                if !moved || has_moved {
                    return Err(reason);
                }
                has_moved = true;
                self.reopen(state);
            }
        })
    }

    /// As [`with`](Self::with), for as long as others hold the lock and patience lasts. Look-ups of other threads come in
    /// between.
    pub(super) fn with_patience<T>(
        &self,
        mut call: impl FnMut(&Database) -> Result<T, Fault>,
    ) -> Result<T, Reason> {
        let deadline = Instant::now().checked_add(self.options.patience);
        patiently(deadline, || self.with(&mut call))
    }

    /// Removes the database where there is no room to empty it, and keeps what was reported. Only one that is known to be
    /// ours.
    pub(super) fn start_over(&self) -> Result<(), Reason> {
        self.with_state(|state| {
            if matches!(state, State::Down(_)) {
                self.reopen(state);
            }
            let notes = match std::mem::replace(state, State::Down(Reason::NoSpace)) {
                State::Open(database) => {
                    let notes = database.notes().unwrap_or_default();
                    database.discard().map_err(|fault| fault.reason())?;
                    notes
                }
                State::Down(reason) => return Err(reason),
                other => {
                    *state = other;
                    return Err(Reason::NoSpace);
                }
            };
            self.reopen(state);
            if let State::Open(database) = state {
                let _ = database.restore(&notes);
            }
            Ok(())
        })
    }

    fn reopen(&self, state: &mut State) {
        *state = match Database::open(&self.place, &self.options, connect::wait(&self.options)) {
            Ok(database) => self.opened(database),
            Err(fault) => State::after(&fault),
        };
    }

    pub(super) fn opened(&self, database: Database) -> State {
        if database.is_writable()
            && let Some(directory) = self.place.lock_directory()
        {
            crate::os::process_lock::sweep(&directory);
            let _ = self.lock_directory.set(directory);
        }
        State::Open(Box::new(database))
    }

    /// A call that panics half way leaves no transaction behind: it is rolled back as it is dropped.
    pub(super) fn with_state<T>(&self, call: impl FnOnce(&mut State) -> T) -> T {
        call(&mut self.connection.lock())
    }
}

/// Asks again until `deadline` while the answer is that somebody else holds the lock.
pub(super) fn patiently<T>(
    deadline: Option<Instant>,
    mut ask: impl FnMut() -> Result<T, Reason>,
) -> Result<T, Reason> {
    loop {
        match ask() {
            Err(Reason::Busy) if deadline.is_none_or(|at| Instant::now() < at) => thread::sleep(PAUSE),
            answer => return answer,
        }
    }
}
