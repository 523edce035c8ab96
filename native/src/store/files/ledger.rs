//! The shared accounting of a directory: its journal, and the lock on it.
//!
//! The journal file is also the lock. A process that replaces the journal locks the new file before it renames it over the old
//! one; a process that locks a file without a name opens the journal again. See docs/format.md.

use std::{
    fs::File,
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use foldhash::fast::RandomState;
use warmstart_core::{
    journal::{self, Account, Accounts, Event, Record},
    key::Key,
    lru::Limits,
    reason::MissReason,
};

use super::{layout::Layout, rebuild};
use crate::{
    os::{
        FileKind, StorageBackend,
        fork::{self, Mutex, MutexGuard},
        if_there, reason_of, retry_sharing,
    },
    store::options::StoreOptions,
};

/// The length, in bytes, from which recording uses also replays a journal, and compacts it if that is worthwhile.
const LONG: u64 = 4 << 20;

/// The same length for a hit, which does not wait and so leaves compaction to others for longer.
const TOO_LONG: u64 = 64 << 20;

/// The bytes of a journal that are read at once: a whole number of records. Reading stops at the first
/// damaged record, whatever length the file claims.
const CHUNK: u64 = 1 << 20;

/// The most bytes of a journal that are read without its lock, whatever length the file claims.
const LONGEST: u64 = 256 << 20;

/// The time between checks that the path still leads to the locked journal. Checking only that the file has a name is cheaper.
const NAME_CHECK: Duration = Duration::from_millis(10);

/// The pause between attempts to lock the state with a timeout.
const PAUSE: Duration = Duration::from_millis(1);

/// How often the journal is opened again if other processes keep replacing it.
const ATTEMPTS: usize = 16;

/// The shared accounting of one directory, as seen by one handle.
#[derive(Debug)]
pub(super) struct Ledger {
    state: Mutex<State>,
    pub(super) layout: Arc<Layout>,
    pub(super) options: Arc<StoreOptions>,
}

#[derive(Debug)]
struct State {
    log: Option<File>,
    /// `None` before the journal is first replayed.
    accounts: Option<Accounts<RandomState>>,
    /// The bytes of the journal that `accounts` includes.
    replayed: u64,
    /// The identity of the journal file, as far as the platform has one.
    identity: (u64, u64),
    /// The last time when the path led to this file.
    name_checked: Option<Instant>,
    /// Whether the journal was moved away, so that recent records of this handle may be lost.
    was_moved: bool,
    /// The [generation](fork::generation) that opened the journal. A forked child opens it again, because locks on one shared
    /// descriptor do not exclude each other.
    generation: u64,
}

/// The accounting, locked against all other handles.
#[derive(Debug)]
pub(super) struct LockedLedger<'a> {
    pub(super) ledger: &'a Ledger,
    state: MutexGuard<'a, State>,
    /// Records that are applied to the accounts, but not yet written.
    pending: Vec<u8>,
}

impl Ledger {
    pub(super) fn new(layout: Arc<Layout>, options: Arc<StoreOptions>) -> Self {
        let state = Mutex::new(State {
            log: None,
            accounts: None,
            replayed: 0,
            identity: (0, 0),
            name_checked: None,
            was_moved: false,
            generation: fork::generation(),
        });
        Self { state, layout, options }
    }

    pub(super) fn disk(&self) -> &dyn StorageBackend {
        &*self.options.disk
    }

    /// Checks whether the journal can be used: returns `Err(ReadOnly)` on a read-only medium, and `Err(NewerVersion)` if a newer
    /// version of warmstart uses this directory.
    pub(super) fn probe(&self) -> Result<(), MissReason> {
        let log = self.open_log().map_err(|error| reason_of_write(&error))?;
        // Where locks are mandatory, a process that holds this one keeps others from reading.
        let head = retry_sharing(self.disk(), || self.disk().read_log(&log, 0..journal::HEADER_LEN as u64));
        match journal::check_header(&head.map_err(|error| reason_of(&error))?) {
            Err(MissReason::NewerVersion) => Err(MissReason::NewerVersion),
            // Any other damage is repaired by the next process that locks it.
            _ => Ok(()),
        }
    }

    /// Returns whether a newer version uses this directory. Opens nothing for writing.
    pub(super) fn is_newer(&self) -> bool {
        let head = self.disk().read(&self.layout.journal, &|_| journal::HEADER_LEN as u64);
        head.is_ok_and(|(head, _)| journal::check_header(&head) == Err(MissReason::NewerVersion))
    }

    /// Returns the accounts in the journal, the least recently used first. Reads without the lock, while other processes may append.
    /// Returns none if the journal cannot be read.
    pub(super) fn look(&self) -> Vec<Account> {
        let read = |most: u64| {
            retry_sharing(self.disk(), || {
                self.disk().read(&self.layout.journal, &|metadata| metadata.len.min(most))
            })
        };
        let mut accounts = Accounts::new(Limits::NONE, RandomState::default());
        // A file that is not a journal is not read to its end.
        let head = read(journal::HEADER_LEN as u64);
        if head.is_ok_and(|(head, _)| journal::check_header(&head).is_ok())
            && let Ok((bytes, _)) = read(LONGEST)
        {
            // Records before the first damaged or incomplete one count.
            let _ = accounts.replay(bytes.get(journal::HEADER_LEN..).unwrap_or_default());
        }
        accounts.iter().collect()
    }

    /// Locks the accounting without reading the journal. The timeout bounds the wait for threads too.
    pub(super) fn hold(&self, timeout: Duration) -> Result<LockedLedger<'_>, MissReason> {
        let started = Instant::now();
        // Another thread may hold the lock for long, to prune for example.
        let state = loop {
            match self.state.try_lock() {
                Some(state) => break state,
                None if started.elapsed() >= timeout => return Err(MissReason::Busy),
                None => thread::sleep(PAUSE),
            }
        };
        self.lock_file(state, timeout.saturating_sub(started.elapsed())).map(|(locked, _)| locked)
    }

    /// Locks the accounting and brings the accounts up to date. The timeout bounds the wait for other processes; for a thread of
    /// this process, the wait takes as long as that thread holds the lock: mostly for one put.
    pub(super) fn lock(&self, timeout: Duration) -> Result<LockedLedger<'_>, MissReason> {
        for _ in 0..ATTEMPTS {
            let (mut locked, len) = self.lock_only(timeout)?;
            match locked.catch_up(len) {
                // The journal was removed while it was rebuilt.
                Err(MissReason::Busy) if locked.state.log.is_none() => {}
                caught_up => return caught_up.map(|()| locked),
            }
        }
        Err(MissReason::Busy)
    }

    /// Records uses of entries, in this order. Replays the journal only if it is long or was replayed before.
    pub(super) fn record_uses(&self, uses: &[(u64, Key)], timeout: Duration) -> Result<(), MissReason> {
        let (mut locked, len) = self.lock_only(timeout)?;
        let long = if timeout.is_zero() { TOO_LONG } else { LONG };
        if locked.state.accounts.is_some() || len >= long || locked.check_header().is_err() {
            locked.catch_up(len)?;
        }
        for (_, digest) in uses {
            locked.record(*digest, Event::Used);
        }
        if len >= long || !timeout.is_zero() { locked.finish() } else { locked.finish_as_it_is() }
    }

    /// Locks the current journal file, and returns its length in bytes.
    fn lock_only(&self, timeout: Duration) -> Result<(LockedLedger<'_>, u64), MissReason> {
        let (state, timeout) = self.lock_state(timeout)?;
        self.lock_file(state, timeout)
    }

    fn lock_file<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        timeout: Duration,
    ) -> Result<(LockedLedger<'a>, u64), MissReason> {
        if state.generation != fork::generation() {
            // Closing the parent's descriptor does not release the parent's lock; unlocking would.
            (state.log, state.generation) = (None, fork::generation());
        }
        for _ in 0..ATTEMPTS {
            let log = match state.log.take() {
                Some(log) => log,
                None => {
                    (state.accounts, state.replayed) = (None, 0);
                    self.open_log().map_err(|error| reason_of_write(&error))?
                }
            };
            if let Err(error) = self.disk().lock(&log, timeout) {
                state.log = Some(log);
                return Err(reason_of_write(&error));
            }
            let found = self.disk().log_state(&log).map_err(|error| reason_of_write(&error))?;
            if found.is_linked {
                state.log = Some(log);
                state.identity = found.identity;
                return Ok((LockedLedger { ledger: self, state, pending: Vec::new() }, found.len));
            }
        }
        Err(MissReason::Busy)
    }

    /// Waits for the other threads of this process, and returns what remains of the timeout. With a timeout of zero it does not
    /// wait for them either.
    fn lock_state(&self, timeout: Duration) -> Result<(MutexGuard<'_, State>, Duration), MissReason> {
        match self.state.try_lock() {
            // Every record is applied completely, so a panic under this lock leaves the state consistent.
            Some(state) => return Ok((state, timeout)),
            None if timeout.is_zero() => return Err(MissReason::Busy),
            None => {}
        }
        let started = Instant::now();
        let state = self.state.lock();
        Ok((state, timeout.saturating_sub(started.elapsed())))
    }

    /// Opens the journal. Removes or moves away anything in its place that is not a file of this user.
    fn open_log(&self) -> io::Result<File> {
        let (disk, path) = (self.disk(), &self.layout.journal);
        for _ in 0..ATTEMPTS {
            match if_there(disk.metadata(path))? {
                Some(metadata) if metadata.is_readable() => {}
                Some(metadata) if metadata.kind == FileKind::Directory => {
                    self.layout.quarantine(disk, path)?;
                }
                Some(_) => disk.remove(path)?,
                None => {}
            }
            let log = retry_sharing(disk, || disk.open_log(path))?;
            if if_there(disk.metadata(path))?.is_some_and(|metadata| metadata.is_readable()) {
                return Ok(log);
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }
}

impl LockedLedger<'_> {
    /// Returns the current accounts.
    pub(super) fn accounts(&mut self) -> &mut Accounts<RandomState> {
        let limits = self.ledger.options.limits;
        self.state.accounts.get_or_insert_with(|| Accounts::new(limits, RandomState::default()))
    }

    /// Records an event. [`write`](Self::write) or [`finish`](Self::finish) writes it to the journal.
    pub(super) fn record(&mut self, digest: Key, event: Event) {
        let record = Record { digest, event, unix_ms: self.ledger.options.clock.unix_ms() };
        self.pending.extend_from_slice(&record.encode());
        if let Some(accounts) = &mut self.state.accounts {
            accounts.apply(&record);
        }
    }

    /// Appends the pending records to the journal.
    pub(super) fn write(&mut self) -> Result<(), MissReason> {
        let Some(log) = &self.state.log else { return Err(MissReason::Unavailable) };
        if self.pending.is_empty() {
            return Ok(());
        }
        let error = match self.ledger.disk().append(log, &self.pending) {
            Ok(()) => {
                if self.state.accounts.is_some() {
                    self.state.replayed += self.pending.len() as u64;
                }
                self.pending.clear();
                return Ok(());
            }
            Err(error) => error,
        };
        // The journal may now end with a partial record, and the accounts have records that it lacks. Removing it makes the next
        // process rebuild it from the entries; on a full disk this also frees space.
        let _ = self.ledger.disk().remove(&self.ledger.layout.journal);
        self.pending.clear();
        self.forget();
        Err(reason_of_write(&error))
    }

    /// Writes the pending records, compacts the journal if it is long, and unlocks.
    ///
    /// Returns `Err(Busy)` if another process removed the journal in the meantime, and the records with it.
    pub(super) fn finish(mut self) -> Result<(), MissReason> {
        self.write()?;
        if self.state.accounts.as_ref().is_some_and(Accounts::should_compact) {
            // A long journal still works. If compaction fails, the next process retries.
            let _ = self.rebuild();
        }
        self.finish_as_it_is()
    }

    /// Does the same as [`finish`](Self::finish), without compaction.
    fn finish_as_it_is(mut self) -> Result<(), MissReason> {
        self.write()?;
        if self.is_current() {
            return Ok(());
        }
        self.forget();
        Err(MissReason::Busy)
    }

    /// Returns whether the journal's path leads to the locked file. Checks each time that the file has a name, and periodically that
    /// it is the right one. If not, the journal was moved, and records of this handle may be in the moved file.
    fn is_current(&mut self) -> bool {
        let (disk, layout) = (self.ledger.disk(), &self.ledger.layout);
        let Some(log) = &self.state.log else { return false };
        if !disk.log_state(log).is_ok_and(|state| state.is_linked) {
            return false;
        }
        let now = Instant::now();
        if self.state.name_checked.is_some_and(|checked| now.duration_since(checked) < NAME_CHECK) {
            return true;
        }
        let leads_here =
            disk.metadata(&layout.journal).is_ok_and(|metadata| metadata.identity == self.state.identity);
        self.state.name_checked = leads_here.then_some(now);
        self.state.was_moved |= !leads_here;
        leads_here
    }

    /// Reads what other handles appended. Rebuilds a journal that is new, damaged or shorter than before.
    fn catch_up(&mut self, len: u64) -> Result<(), MissReason> {
        if self.state.was_moved {
            self.check_header().or_else(|reason| match reason {
                MissReason::NewerVersion => Err(reason),
                _ => Ok(()),
            })?;
            return self.rebuild_or_forget();
        }
        if self.state.accounts.is_some() && len == self.state.replayed {
            return Ok(());
        }
        match self.replay_to(len) {
            // The journal of a newer version is not changed.
            Ok(()) | Err(MissReason::NewerVersion) => self.check_header(),
            Err(_) => self.rebuild_or_forget(),
        }
    }

    fn check_header(&self) -> Result<(), MissReason> {
        if self.state.replayed > 0 {
            return Ok(());
        }
        let log = self.state.log.as_ref().ok_or(MissReason::Unavailable)?;
        let head = self.ledger.disk().read_log(log, 0..journal::HEADER_LEN as u64);
        journal::check_header(&head.map_err(|error| reason_of(&error))?)
    }

    fn replay_to(&mut self, len: u64) -> Result<(), MissReason> {
        if len < self.state.replayed {
            return Err(MissReason::Truncated);
        }
        while self.state.replayed < len {
            let start = self.state.replayed;
            let end = len.min(start + CHUNK);
            let log = self.state.log.as_ref().ok_or(MissReason::Unavailable)?;
            let fresh = self.ledger.disk().read_log(log, start..end).map_err(|error| reason_of(&error))?;
            let mut records = fresh.as_slice();
            if start == 0 {
                journal::check_header(records)?;
                records = records.get(journal::HEADER_LEN..).unwrap_or_default();
            }
            self.accounts().replay(records)?;
            if fresh.is_empty() {
                return Err(MissReason::Truncated);
            }
            self.state.replayed = start + fresh.len() as u64;
        }
        // An empty journal has no header yet.
        if len == 0 { Err(MissReason::Truncated) } else { Ok(()) }
    }

    /// Rebuilds a journal that the accounts do not match. If that fails, the accounts are of no use either.
    fn rebuild_or_forget(&mut self) -> Result<(), MissReason> {
        let rebuilt = self.rebuild();
        if rebuilt.is_err() {
            self.forget();
        }
        rebuilt
    }

    /// Rebuilds the journal from the entries. If that fails, the journal and the accounts stay as they are.
    pub(super) fn rebuild(&mut self) -> Result<(), MissReason> {
        let (disk, layout) = (self.ledger.disk(), &self.ledger.layout);
        let records = rebuild::count_entries(disk, layout, self.state.accounts.as_ref())
            .map_err(|error| reason_of_write(&error))?;
        let mut accounts = Accounts::new(self.ledger.options.limits, RandomState::default());
        let mut bytes = journal::header().to_vec();
        for record in records {
            bytes.extend_from_slice(&record.encode());
            accounts.apply(&record);
        }
        let log = rebuild::replace_journal(disk, layout, self.state.log.as_ref(), &bytes)
            .map_err(|error| reason_of_write(&error))?;
        // Dropping the old journal releases its lock; a process that then locks it sees that it has no name.
        self.state.identity = disk.log_state(&log).map_or((0, 0), |state| state.identity);
        self.state.log = Some(log);
        self.state.accounts = Some(accounts);
        self.state.replayed = bytes.len() as u64;
        self.state.was_moved = false;
        Ok(())
    }

    /// Forgets the state of the journal, so that the next lock opens and replays it.
    fn forget(&mut self) {
        (self.state.log, self.state.accounts, self.state.replayed) = (None, None, 0);
        self.state.name_checked = None;
    }
}

impl Drop for LockedLedger<'_> {
    fn drop(&mut self) {
        if !self.pending.is_empty() {
            // An early return: the pending events did happen.
            let _ = self.write();
        }
        if let Some(log) = &self.state.log {
            let _ = log.unlock();
        }
    }
}

/// Converts an error of a write. A missing file is then a missing directory, not an absent entry.
pub(super) fn reason_of_write(error: &io::Error) -> MissReason {
    match reason_of(error) {
        MissReason::Absent => MissReason::Unavailable,
        reason => reason,
    }
}
