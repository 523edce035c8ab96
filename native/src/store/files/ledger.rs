//! The accounting that all handles of a directory share: the journal, under its lock.
//!
//! The journal file is also the lock. Whoever makes a journal anew locks the new file before it takes the old one's
//! name, and whoever gets the lock of a file that has lost its name opens the new one. See docs/format.md.

mod rebuild;

use std::{
    fs::File,
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use foldhash::fast::RandomState;
use warmstart_core::{
    journal::{self, Accounts, Event, Record},
    key::Key,
    lru::Limits,
    reason::Reason,
};

use super::layout::Layout;
use crate::{
    clock::Clock,
    os::{
        Disk, FileKind,
        fork::{self, Mutex, MutexGuard},
        reason_of, retry_sharing,
    },
};

/// A journal this long, in bytes, is loaded, and made anew if it is worth it, even by one who only reads entries.
const LONG: u64 = 4 << 20;

/// Only one this long is by a hit, which has no time for it.
const TOO_LONG: u64 = 64 << 20;

/// How much of a journal is read at once, in bytes: a whole number of records. A damaged one ends the reading at its
/// first bad record, however long it claims to be.
const CHUNK: u64 = 1 << 20;

/// How often it is asked whether the name still leads to the journal, which costs more than asking whether any does.
const NAME_CHECK: Duration = Duration::from_millis(10);

/// The pause between attempts of one who does not wait for other threads as long as they take.
const PAUSE: Duration = Duration::from_millis(1);

/// How often a journal that somebody else replaces under way is opened again.
const ATTEMPTS: usize = 16;

/// The shared accounting of one directory, as one handle sees it.
#[derive(Debug)]
pub(super) struct Ledger {
    state: Mutex<State>,
    limits: Limits,
    layout: Arc<Layout>,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug)]
struct State {
    log: Option<File>,
    /// Nothing until the journal was first read.
    accounts: Option<Accounts<RandomState>>,
    /// How much of the journal is in `accounts`, in bytes.
    replayed: u64,
    /// Which file the journal is, as far as that can be told.
    identity: (u64, u64),
    /// When the name last led to the journal.
    name_checked: Option<Instant>,
    /// Whether what this handle appended lately may have gone to a journal that has been moved away.
    was_moved: bool,
    /// The [generation](fork::generation) that opened the journal: a forked child opens its own, for locks of one descriptor
    /// do not exclude each other.
    generation: u64,
}

/// The accounting, locked against all other handles.
#[derive(Debug)]
pub(super) struct LockedLedger<'a> {
    ledger: &'a Ledger,
    state: MutexGuard<'a, State>,
    /// Records that are applied to the accounts, but not written yet.
    pending: Vec<u8>,
}

impl Ledger {
    pub(super) fn new(
        limits: Limits,
        layout: Arc<Layout>,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let state = Mutex::new(State {
            log: None,
            accounts: None,
            replayed: 0,
            identity: (0, 0),
            name_checked: None,
            was_moved: false,
            generation: fork::generation(),
        });
        Self { state, limits, layout, disk, clock }
    }

    /// Whether the journal can be used: `Err(ReadOnly)` on a read-only medium, `Err(NewerVersion)` if a newer version
    /// of warmstart keeps this directory.
    pub(super) fn probe(&self) -> Result<(), Reason> {
        let log = self.open_log()?;
        // Where locks are mandatory, who holds this one keeps others from reading.
        let head = retry_sharing(&*self.disk, || self.disk.read_log(&log, 0..journal::HEADER_LEN as u64));
        match journal::check_header(&head.map_err(|error| reason_of(&error))?) {
            Err(Reason::NewerVersion) => Err(Reason::NewerVersion),
            // Whatever else is wrong with it, whoever locks it makes it anew.
            _ => Ok(()),
        }
    }

    /// Locks the accounting without reading it.
    pub(super) fn hold(&self, patience: Duration) -> Result<LockedLedger<'_>, Reason> {
        let deadline = Instant::now().checked_add(patience);
        // Another thread may be about something long, such as pruning.
        let state = loop {
            match self.state.try_lock() {
                Some(state) => break state,
                None if deadline.is_some_and(|at| Instant::now() >= at) => return Err(Reason::Busy),
                None => thread::sleep(PAUSE),
            }
        };
        self.lock_file(state, patience).map(|(locked, _)| locked)
    }

    /// Locks the accounting and brings it up to date.
    pub(super) fn lock(&self, patience: Duration) -> Result<LockedLedger<'_>, Reason> {
        let (mut locked, len) = self.lock_only(patience)?;
        locked.catch_up(len)?;
        Ok(locked)
    }

    /// Writes down that entries were used, in this order. Does not read the journal unless it has grown long.
    pub(super) fn record_uses<'a>(
        &self,
        names: impl Iterator<Item = &'a Key>,
        patience: Duration,
    ) -> Result<(), Reason> {
        let (mut locked, len) = self.lock_only(patience)?;
        let long = if patience.is_zero() { TOO_LONG } else { LONG };
        if locked.state.accounts.is_some() || len >= long || locked.check_header().is_err() {
            locked.catch_up(len)?;
        }
        for name in names {
            locked.record(*name, Event::Used);
        }
        if len >= long || !patience.is_zero() { locked.finish() } else { locked.finish_as_it_is() }
    }

    /// Locks the file that is the journal now, and says how long it is.
    fn lock_only(&self, patience: Duration) -> Result<(LockedLedger<'_>, u64), Reason> {
        let (state, patience) = self.lock_state(patience)?;
        self.lock_file(state, patience)
    }

    fn lock_file<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        patience: Duration,
    ) -> Result<(LockedLedger<'a>, u64), Reason> {
        if state.generation != fork::generation() {
            // Closing the parent's file leaves the parent's lock alone; unlocking it would not.
            (state.log, state.generation) = (None, fork::generation());
        }
        for _ in 0..ATTEMPTS {
            let log = match state.log.take() {
                Some(log) => log,
                None => {
                    (state.accounts, state.replayed) = (None, 0);
                    self.open_log()?
                }
            };
            if let Err(error) = self.disk.lock(&log, patience) {
                state.log = Some(log);
                return Err(reason_of_write(&error));
            }
            let found = self.disk.log_state(&log).map_err(|error| reason_of_write(&error))?;
            if found.is_linked {
                state.log = Some(log);
                state.identity = found.identity;
                return Ok((LockedLedger { ledger: self, state, pending: Vec::new() }, found.len));
            }
        }
        Err(Reason::Busy)
    }

    /// Waits for the other threads of this process, and says how much patience that has left. Without patience it does
    /// not wait for them either.
    fn lock_state(&self, patience: Duration) -> Result<(MutexGuard<'_, State>, Duration), Reason> {
        match self.state.try_lock() {
            // What is done under this lock never panics half way: every record is applied whole.
            Some(state) => return Ok((state, patience)),
            None if patience.is_zero() => return Err(Reason::Busy),
            None => {}
        }
        let started = Instant::now();
        let state = self.state.lock();
        Ok((state, patience.saturating_sub(started.elapsed())))
    }

    /// Opens the journal, and replaces what is there if it is not a file of ours.
    fn open_log(&self) -> Result<File, Reason> {
        let path = self.layout.journal();
        for _ in 0..ATTEMPTS {
            match self.disk.facts(path) {
                Ok(facts) if facts.is_readable() => {}
                Ok(facts) if facts.kind == FileKind::Directory => {
                    self.layout.set_aside(&*self.disk, path).map_err(|error| reason_of_write(&error))?;
                }
                Ok(_) => self.disk.remove(path).map_err(|error| reason_of_write(&error))?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(reason_of_write(&error)),
            }
            let log = retry_sharing(&*self.disk, || self.disk.open_log(path));
            let log = log.map_err(|error| reason_of_write(&error))?;
            match self.disk.facts(path) {
                Ok(facts) if facts.is_readable() => return Ok(log),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(reason_of_write(&error)),
            }
        }
        Err(Reason::Busy)
    }
}

impl LockedLedger<'_> {
    /// The accounts as of now.
    pub(super) fn accounts(&mut self) -> &mut Accounts<RandomState> {
        let Ledger { limits, .. } = self.ledger;
        self.state.accounts.get_or_insert_with(|| Accounts::new(*limits, RandomState::default()))
    }

    /// Notes what happened, to be written by [`write`](Self::write) or [`finish`](Self::finish).
    pub(super) fn record(&mut self, name: Key, event: Event) {
        let record = Record { name, event, unix_ms: self.ledger.clock.unix_ms() };
        self.pending.extend_from_slice(&record.encode());
        if let Some(accounts) = &mut self.state.accounts {
            accounts.apply(&record);
        }
    }

    /// Writes what was noted.
    pub(super) fn write(&mut self) -> Result<(), Reason> {
        let Some(log) = &self.state.log else { return Err(Reason::Unavailable) };
        if self.pending.is_empty() {
            return Ok(());
        }
        let error = match self.ledger.disk.append(log, &self.pending) {
            Ok(()) => {
                if self.state.accounts.is_some() {
                    self.state.replayed += self.pending.len() as u64;
                }
                self.pending.clear();
                return Ok(());
            }
            Err(error) => error,
        };
        // Part of a record may be in the journal now, and the accounts say what it does not. Removing it makes whoever
        // comes next count the entries themselves; on a full disk it also gives room back.
        let _ = self.ledger.disk.remove(self.ledger.layout.journal());
        self.pending.clear();
        self.forget();
        Err(reason_of_write(&error))
    }

    /// Writes what was noted, makes the journal anew if it is long, and unlocks.
    ///
    /// `Err(Busy)` says that somebody removed the journal meanwhile: what was written is lost with it.
    pub(super) fn finish(mut self) -> Result<(), Reason> {
        self.write()?;
        if self.state.accounts.as_ref().is_some_and(Accounts::should_compact) {
            // It is only long. If it cannot be made anew now, the next one tries.
            let _ = self.rebuild();
        }
        self.finish_as_it_is()
    }

    /// As [`finish`](Self::finish), and leaves the journal as long as it is.
    fn finish_as_it_is(mut self) -> Result<(), Reason> {
        self.write()?;
        if self.is_current() {
            return Ok(());
        }
        self.forget();
        Err(Reason::Busy)
    }

    /// Whether the journal's name leads to the file that is locked. That it has any name is asked each time; that it
    /// is this one, from time to time. If not, somebody moved it, and this handle wrote to it meanwhile.
    fn is_current(&mut self) -> bool {
        let Ledger { disk, layout, .. } = self.ledger;
        let Some(log) = &self.state.log else { return false };
        if !disk.log_state(log).is_ok_and(|state| state.is_linked) {
            return false;
        }
        let now = Instant::now();
        if self.state.name_checked.is_some_and(|checked| now.duration_since(checked) < NAME_CHECK) {
            return true;
        }
        let leads_here =
            disk.facts(layout.journal()).is_ok_and(|facts| facts.identity == self.state.identity);
        self.state.name_checked = leads_here.then_some(now);
        self.state.was_moved |= !leads_here;
        leads_here
    }

    /// Reads what others have appended. A journal that is new, damaged or shorter than before is made anew.
    fn catch_up(&mut self, len: u64) -> Result<(), Reason> {
        if self.state.was_moved {
            self.check_header().or_else(|reason| match reason {
                Reason::NewerVersion => Err(reason),
                _ => Ok(()),
            })?;
            return self.rebuild();
        }
        if self.state.accounts.is_some() && len == self.state.replayed {
            return Ok(());
        }
        match self.replay_to(len) {
            // A newer version's is left alone, to the byte.
            Ok(()) | Err(Reason::NewerVersion) => self.check_header(),
            Err(_) => self.rebuild(),
        }
    }

    fn check_header(&self) -> Result<(), Reason> {
        if self.state.replayed > 0 {
            return Ok(());
        }
        let log = self.state.log.as_ref().ok_or(Reason::Unavailable)?;
        let head = self.ledger.disk.read_log(log, 0..journal::HEADER_LEN as u64);
        journal::check_header(&head.map_err(|error| reason_of(&error))?)
    }

    fn replay_to(&mut self, len: u64) -> Result<(), Reason> {
        if len < self.state.replayed {
            return Err(Reason::Truncated);
        }
        while self.state.replayed < len {
            let start = self.state.replayed;
            let end = len.min(start + CHUNK);
            let log = self.state.log.as_ref().ok_or(Reason::Unavailable)?;
            let fresh = self.ledger.disk.read_log(log, start..end).map_err(|error| reason_of(&error))?;
            let mut records = fresh.as_slice();
            if start == 0 {
                journal::check_header(records)?;
                records = records.get(journal::HEADER_LEN..).unwrap_or_default();
            }
            self.accounts().replay(records)?;
            if fresh.is_empty() {
                return Err(Reason::Truncated);
            }
            self.state.replayed = start + fresh.len() as u64;
        }
        // An empty journal has no header yet.
        if len == 0 { Err(Reason::Truncated) } else { Ok(()) }
    }

    /// Drops what this handle believes, so that the next lock begins anew.
    fn forget(&mut self) {
        (self.state.log, self.state.accounts, self.state.replayed) = (None, None, 0);
        self.state.name_checked = None;
    }
}

impl Drop for LockedLedger<'_> {
    fn drop(&mut self) {
        if !self.pending.is_empty() {
            // An error on the way: what was noted did happen.
            let _ = self.write();
        }
        if let Some(log) = &self.state.log {
            let _ = log.unlock();
        }
    }
}

/// What is missing when something is to be written is no absence of an entry.
pub(super) fn reason_of_write(error: &io::Error) -> Reason {
    match reason_of(error) {
        Reason::Absent => Reason::Unavailable,
        reason => reason,
    }
}
