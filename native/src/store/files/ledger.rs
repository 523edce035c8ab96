//! The accounting that all handles of a directory share: the journal, under its lock.
//!
//! The journal file is also the lock. Whoever makes a journal anew locks the new file before it takes the old one's
//! name, and whoever gets the lock of a file that has lost its name opens the new one. See docs/format.md.

use std::{
    fs::File,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
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
    os::{self, Disk, FileKind, reason_of},
};

/// A journal this long, in bytes, is loaded, and made anew if it is worth it, even by one who only reads entries.
const LONG: u64 = 4 << 20;

/// A journal longer than this, in bytes, is made anew instead of being read: four million records, more than any
/// directory has a use for.
const LONGEST: u64 = 256 << 20;

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
        let state = Mutex::new(State { log: None, accounts: None, replayed: 0 });
        Self { state, limits, layout, disk, clock }
    }

    /// Whether the journal can be used: `Err(ReadOnly)` on a read-only medium, `Err(NewerVersion)` if a newer version
    /// of warmstart keeps this directory.
    pub(super) fn probe(&self) -> Result<(), Reason> {
        let (head, facts) = match self.disk.read(self.layout.journal(), &|_| journal::HEADER_LEN as u64) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::NotFound => (Vec::new(), self.open_log()?.1),
            // A link: opening the log removes it.
            Err(error) if reason_of(&error) == Reason::Untrusted => return self.open_log().map(drop),
            Err(error) => return Err(reason_of(&error)),
        };
        if facts.is_readable() && journal::check_header(&head) == Err(Reason::NewerVersion) {
            return Err(Reason::NewerVersion);
        }
        self.open_log().map(drop)
    }

    /// Locks the accounting and brings it up to date.
    pub(super) fn lock(&self, patience: Duration) -> Result<LockedLedger<'_>, Reason> {
        let (mut locked, len) = self.lock_only(patience)?;
        locked.catch_up(len)?;
        Ok(locked)
    }

    /// Writes down that entries were used, in this order. Does not read the journal unless it has grown long.
    pub(super) fn record_uses(&self, names: &[Key], patience: Duration) -> Result<(), Reason> {
        let (mut locked, len) = self.lock_only(patience)?;
        if locked.state.accounts.is_some() || !(journal::HEADER_LEN as u64..LONG).contains(&len) {
            locked.catch_up(len)?;
        }
        for name in names {
            locked.record(*name, Event::Used);
        }
        locked.finish()
    }

    /// Locks the file that is the journal now, and says how long it is.
    fn lock_only(&self, patience: Duration) -> Result<(LockedLedger<'_>, u64), Reason> {
        // What is done under this lock never panics half way: every record is applied whole.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..ATTEMPTS {
            let log = match state.log.take() {
                Some(log) => log,
                None => {
                    (state.accounts, state.replayed) = (None, 0);
                    self.open_log()?.0
                }
            };
            match os::lock_within(&log, patience) {
                Ok(()) => {}
                Err(error) => {
                    state.log = Some(log);
                    return Err(reason_of(&error));
                }
            }
            let metadata = log.metadata().map_err(|error| reason_of(&error))?;
            if os::is_linked(&metadata) {
                state.log = Some(log);
                return Ok((LockedLedger { ledger: self, state, pending: Vec::new() }, metadata.len()));
            }
        }
        Err(Reason::Busy)
    }

    /// Opens the journal, and replaces what is there if it is not a file of ours.
    fn open_log(&self) -> Result<(File, os::FileFacts), Reason> {
        let path = self.layout.journal();
        let unavailable = |error: io::Error| match reason_of(&error) {
            Reason::Absent => Reason::Unavailable,
            reason => reason,
        };
        for _ in 0..ATTEMPTS {
            match self.disk.facts(path) {
                Ok(facts) if !facts.is_readable() => self.disk.remove(path).map_err(unavailable)?,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(unavailable(error)),
            }
            match os::retry_sharing(&*self.disk, || self.disk.open_log(path)) {
                Ok(log) => match self.disk.facts(path) {
                    Ok(facts) => return Ok((log, facts)),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(unavailable(error)),
                },
                Err(error) => return Err(unavailable(error)),
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
        match self.ledger.disk.append(log, &self.pending) {
            Ok(()) => {
                if self.state.accounts.is_some() {
                    self.state.replayed += self.pending.len() as u64;
                }
                self.pending.clear();
                Ok(())
            }
            Err(error) => {
                // Part of a record may be in the journal now, and the accounts say what it does not. Removing it makes
                // whoever comes next count the entries themselves; on a full disk it also gives room back.
                let _ = self.ledger.disk.remove(self.ledger.layout.journal());
                self.pending.clear();
                self.forget();
                Err(reason_of(&error))
            }
        }
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
        match &self.state.log {
            Some(log) if log.metadata().is_ok_and(|metadata| os::is_linked(&metadata)) => Ok(()),
            _ => Err(Reason::Busy),
        }
    }

    /// Reads what others have appended. A journal that is new, damaged or shorter than before is made anew.
    fn catch_up(&mut self, len: u64) -> Result<(), Reason> {
        if self.state.accounts.is_some() && len == self.state.replayed {
            return Ok(());
        }
        if self.replay_to(len).is_err() { self.rebuild() } else { Ok(()) }
    }

    fn replay_to(&mut self, len: u64) -> Result<(), Reason> {
        let mut start = self.state.replayed;
        if len < start {
            return Err(Reason::Truncated);
        }
        if len > LONGEST {
            return Err(Reason::TooLong);
        }
        let log = self.state.log.as_ref().ok_or(Reason::Unavailable)?;
        let fresh = read_range(log, start, len).map_err(|error| reason_of(&error))?;
        let mut records = fresh.as_slice();
        if start == 0 {
            journal::check_header(records)?;
            records = records.get(journal::HEADER_LEN..).unwrap_or_default();
        }
        self.accounts().replay(records)?;
        start += fresh.len() as u64;
        self.state.replayed = start;
        Ok(())
    }

    /// Counts the entries themselves and makes the journal anew. The order of use is kept as far as this handle knows
    /// it; of the other entries the time of their storing tells.
    pub(super) fn rebuild(&mut self) -> Result<(), Reason> {
        let Ledger { layout, disk, clock, limits, .. } = self.ledger;
        if journal_is_newer(&**disk, layout) {
            return Err(Reason::NewerVersion);
        }
        let known: std::collections::HashMap<Key, usize, RandomState> =
            self.state.accounts.iter().flat_map(Accounts::iter).map(|(name, _)| name).zip(0..).collect();
        let mut entries = Vec::new();
        disk.list(layout.entries(), &mut |name| {
            let Some(name) = name.to_str().and_then(Key::from_hex) else { return };
            match disk.facts(&layout.entry(&name)) {
                Ok(facts) if facts.kind == FileKind::File => {
                    // Those whose use is not known were stored since: they are the newer ones.
                    let age = (known.get(&name).copied().unwrap_or(usize::MAX), facts.modified_ns);
                    entries.push((age, name, facts.len));
                }
                _ => {}
            }
        })
        .map_err(|error| reason_of(&error))?;
        entries.sort_unstable();

        let mut accounts = Accounts::new(*limits, RandomState::default());
        let mut bytes = journal::header().to_vec();
        let unix_ms = clock.unix_ms();
        for (_, name, size) in entries {
            let record = Record { name, event: Event::Stored { size }, unix_ms };
            bytes.extend_from_slice(&record.encode());
            accounts.apply(&record);
        }

        let temp = layout.new_temp(&**disk);
        // Locked before it takes the journal's name: nobody gets in between.
        let replaced = disk.open_log(&temp).and_then(|log| {
            os::lock_within(&log, Duration::ZERO)
                .and_then(|()| disk.append(&log, &bytes))
                .and_then(|()| os::retry_sharing(&**disk, || disk.rename(&temp, layout.journal())))
                .inspect_err(|_| _ = disk.remove(&temp))
                .map(|()| log)
        });
        let log = match replaced {
            Ok(log) => log,
            Err(error) => {
                self.forget();
                return Err(reason_of(&error));
            }
        };
        // Dropping the old journal lets its lock go; whoever gets it finds that it has lost its name.
        self.state.log = Some(log);
        self.state.accounts = Some(accounts);
        self.state.replayed = bytes.len() as u64;
        Ok(())
    }

    /// Drops what this handle believes, so that the next lock begins anew.
    fn forget(&mut self) {
        (self.state.log, self.state.accounts, self.state.replayed) = (None, None, 0);
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

fn journal_is_newer(disk: &dyn Disk, layout: &Layout) -> bool {
    disk.read(layout.journal(), &|_| journal::HEADER_LEN as u64)
        .is_ok_and(|(head, _)| journal::check_header(&head) == Err(Reason::NewerVersion))
}

/// Reads `start..end` of a file, or up to its end.
fn read_range(mut file: &File, start: u64, end: u64) -> io::Result<Vec<u8>> {
    use io::{Read, Seek, SeekFrom};

    let len = end.saturating_sub(start);
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(len).unwrap_or(usize::MAX))?;
    // Appending does not depend on where the file's cursor is.
    file.seek(SeekFrom::Start(start))?;
    file.take(len).read_to_end(&mut bytes)?;
    Ok(bytes)
}
