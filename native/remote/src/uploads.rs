//! The uploads of a machine: a queue in each process, and a file that lists what is left of it, so that a later process continues.

use std::{
    collections::VecDeque,
    fs::{self, File, OpenOptions},
    io::{Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use warmstart::{Artifact, MissReason, Store, os::fork::LockHolder};
use warmstart_core::{key::Key, lease::Backoff};

use crate::{
    engine::Trouble, health::Health, leases::Leases, monitor::Monitor, random::random, statistics::Counters,
    store::RemoteStore,
};

/// The name of the folder in the directory of a machine.
pub(crate) const FOLDER: &str = "uploads";

/// How often an upload is tried while the remote or the local store is busy, or the remote fails at this upload alone, and the pauses in
/// between, in milliseconds.
const ATTEMPTS: usize = 4;
const BUSY_PAUSES: Backoff = Backoff::new(1_000, 8_000);

/// How often the queue looks whether a remote that failed is back.
const SECOND: Duration = Duration::from_secs(1);

/// How often an idle process looks for the lists of others that ended.
const IDLE: Duration = Duration::from_secs(30);

/// How long the first upload after a pause waits. A start stores many artifacts, one after the other, and goes on with the next one
/// meanwhile; a machine that waits for one looks again after more time than this.
const LINGER: Duration = Duration::from_millis(20);

/// How often a wait for uploads looks at the breaker, which does not wake it.
const HEALTH: Duration = Duration::from_millis(10);

/// The longest list that is read, in bytes.
const MAX_LIST: u64 = 256 << 20;

/// The uploads of one process.
#[derive(Debug)]
pub(crate) struct Uploads<S> {
    local: Arc<S>,
    remote: Arc<RemoteStore>,
    health: Arc<Health>,
    leases: Arc<Leases>,
    counters: Arc<Counters>,
    /// The folder with the lists of all processes.
    folder: Option<PathBuf>,
    /// How many bytes of artifacts may wait.
    max_bytes: u64,
    state: Monitor<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Upload>,
    /// What failed because the remote did, and is tried again when it is back.
    postponed: VecDeque<Upload>,
    /// The key of the upload in progress.
    sending: Option<Vec<u8>>,
    /// The bytes of the artifacts that wait, are postponed or are being sent.
    bytes: u64,
    /// How many uploads were added, and how many of them were tried.
    added: u64,
    tried: u64,
    list: Option<List>,
    /// Whether the background is about to look at what processes left that ended.
    is_taking_over: bool,
    has_thread: bool,
    is_closed: bool,
}

#[derive(Debug)]
struct Upload {
    key: Vec<u8>,
    bytes: u64,
    /// The artifact, if the local store does not have it.
    artifact: Option<Artifact>,
    /// Whether it comes long after the look-up, or without one.
    is_late: bool,
}

/// A file with keys, which its process keeps locked.
#[derive(Debug)]
struct List {
    path: PathBuf,
    file: LockHolder,
}

impl<S: Store + 'static> Uploads<S> {
    pub(crate) fn new(
        local: Arc<S>,
        remote: Arc<RemoteStore>,
        leases: Arc<Leases>,
        health: Arc<Health>,
        counters: Arc<Counters>,
        folder: Option<PathBuf>,
        max_bytes: u64,
    ) -> Arc<Self> {
        let state = Monitor::default();
        let uploads = Arc::new(Self { local, remote, health, leases, counters, folder, max_bytes, state });
        if uploads.lists().next().is_some() {
            let mut state = uploads.state.lock();
            uploads.start_thread(&mut state);
            state.is_taking_over = state.has_thread;
        }
        uploads
    }

    /// Adds an upload, if there is room. `artifact` is what the local store refused, if it did: that is lost if the process dies.
    pub(crate) fn add(self: &Arc<Self>, key: &[u8], bytes: u64, artifact: Option<Artifact>) {
        // A queue of empty artifacts is bounded too.
        let bytes = bytes.max(1);
        let mut state = self.state.lock();
        let has_room = state.bytes.saturating_add(bytes) <= self.max_bytes;
        if state.is_closed || !has_room || !self.health.writes() {
            self.counters.add(|counts| &mut counts.uploads_dropped, 1);
            return;
        }
        if artifact.is_none() {
            self.write_down(&mut state, key);
        }
        state.bytes += bytes;
        state.added += 1;
        state.waiting.push_back(Upload { key: key.to_vec(), bytes, artifact, is_late: false });
        self.start_thread(&mut state);
        self.state.notify();
    }

    /// Returns how many uploads were added.
    pub(crate) fn added(&self) -> u64 {
        self.state.lock().added
    }

    /// Returns how many uploads wait.
    pub(crate) fn waiting(&self) -> u64 {
        let state = self.state.lock();
        state.added - state.tried + state.postponed.len() as u64
    }

    /// Waits until each upload that was added was tried, or none is sent any more. Returns whether none is left.
    pub(crate) fn wait(&self, until: Instant) -> bool {
        let mut state = self.state.lock();
        let is_over =
            |state: &State| state.tried == state.added && state.postponed.is_empty() && !state.is_taking_over;
        let is_sending = |state: &State| {
            let is_stuck = state.tried == state.added && !state.is_taking_over && !self.health.writes();
            state.has_thread && !state.is_closed && self.health.is_closed() && !is_stuck
        };
        while !is_over(&state) && is_sending(&state) {
            let left = until.saturating_duration_since(Instant::now()).min(HEALTH);
            if left.is_zero() {
                break;
            }
            (state, _) = self.state.wait(state, left);
        }
        is_over(&state)
    }

    /// Gives up what waits in memory for this key, and waits until no upload of it is in progress. Returns whether that is so. One that
    /// begins later sends what the local store has then.
    pub(crate) fn withdraw(&self, key: &[u8], until: Instant) -> bool {
        let mut state = self.state.lock();
        while state.sending.as_deref() == Some(key) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            (state, _) = self.state.wait(state, left);
        }
        // Also the one that was in progress, if it is tried again.
        let State { waiting, postponed, .. } = &mut *state;
        let of_key = waiting.iter_mut().chain(postponed).filter(|upload| upload.key == key);
        of_key.for_each(|upload| upload.artifact = None);
        true
    }

    /// Ends the background after the upload in progress. The list says what is left.
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.state.notify();
    }

    fn start_thread(self: &Arc<Self>, state: &mut State) {
        if !state.has_thread {
            let uploads = Arc::clone(self);
            let thread = thread::Builder::new().name("warmstart-send".to_owned());
            state.has_thread = thread.spawn(move || uploads.run()).is_ok();
        }
    }

    fn run(&self) {
        while let Some(upload) = self.next() {
            let is_over = self.send(&upload);
            self.leases.probe_if_open();
            let mut state = self.state.lock();
            state.sending = None;
            state.tried += 1;
            if is_over {
                state.bytes -= upload.bytes;
            } else {
                state.postponed.push_back(Upload { is_late: true, ..upload });
            }
            let is_empty = state.waiting.is_empty() && state.postponed.is_empty();
            if let Some(list) = state.list.as_mut().filter(|_| is_empty) {
                list.clear();
            }
            self.leases.record_uploads(state.tried);
            self.state.notify();
        }
        let mut state = self.state.lock();
        let is_empty = state.waiting.is_empty() && state.postponed.is_empty();
        if let Some(list) = state.list.take().filter(|_| is_empty) {
            let _ = fs::remove_file(list.path);
        }
    }

    /// Waits for the next upload; returns nothing when the queue is closed.
    fn next(&self) -> Option<Upload> {
        let mut state = self.state.lock();
        loop {
            if state.is_closed {
                return None;
            }
            if state.is_taking_over && self.health.is_closed() {
                drop(state);
                self.take_over_lists();
                state = self.state.lock();
                state.is_taking_over = false;
                self.state.notify();
            }
            // Other machines wait for what was just built.
            if state.waiting.is_empty()
                && self.health.is_closed()
                && self.health.writes()
                && let Some(late) = state.postponed.pop_front()
            {
                state.added += 1;
                state.waiting.push_back(late);
            }
            if let Some(upload) = state.waiting.pop_front() {
                state.sending = Some(upload.key.clone());
                return Some(upload);
            }
            let is_idle = state.postponed.is_empty() && !state.is_taking_over;
            let pause = if is_idle { IDLE } else { SECOND };
            let is_late;
            (state, is_late) = self.state.wait(state, pause);
            if is_late && state.postponed.is_empty() && self.health.is_closed() {
                drop(state);
                self.take_over_lists();
                state = self.state.lock();
            } else if !state.waiting.is_empty() {
                drop(state);
                thread::sleep(LINGER);
                state = self.state.lock();
            }
        }
    }

    /// Sends an artifact, which is read again where the local store has it. Returns whether that need not be tried again.
    fn send(&self, Upload { key, artifact, is_late, .. }: &Upload) -> bool {
        if !self.health.writes() {
            // What others left, a process that may write continues.
            return !is_late && self.drop_upload();
        }
        let mut pauses = BUSY_PAUSES;
        for attempt in 0..ATTEMPTS {
            if !self.health.is_closed() {
                return false;
            }
            match artifact.clone().map_or_else(|| self.local.get(key), Ok) {
                Ok(artifact) => {
                    let Ok(entry) = self.remote.encode(key, &artifact) else { return self.drop_upload() };
                    match self.store(key, &artifact, &entry, *is_late) {
                        Ok(()) => return true,
                        Err(Trouble::TimedOut(_) | Trouble::Unreachable(_) | Trouble::Other(_))
                            if !self.health.is_closed() =>
                        {
                            return false;
                        }
                        // Readers have less time for it.
                        Err(Trouble::TimedOut(_)) if attempt > 0 => break,
                        Err(
                            Trouble::Busy(_)
                            | Trouble::TimedOut(_)
                            | Trouble::Unreachable(_)
                            | Trouble::Other(_),
                        ) => {}
                        Err(_) => break,
                    }
                }
                // It may be there, and a later process sends it.
                Err(MissReason::Closed) if self.state.lock().is_closed => return false,
                // The local store may answer soon.
                Err(MissReason::Busy | MissReason::Unavailable) => {}
                // It was evicted or removed meanwhile.
                Err(_) => return self.drop_upload(),
            }
            // Each put wakes this.
            let end = Instant::now() + Duration::from_millis(pauses.pause(random()));
            let mut state = self.state.lock();
            loop {
                if state.is_closed {
                    return false;
                }
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                (state, _) = self.state.wait(state, left);
            }
        }
        if *is_late && !self.health.writes() {
            return false;
        }
        self.drop_upload()
    }

    /// Stores an entry in the remote, and counts it, unless the artifact or one of another version is there already.
    fn store(&self, key: &[u8], artifact: &Artifact, entry: &[u8], is_late: bool) -> Result<(), Trouble> {
        let (name, until) = (Key::digest(key), self.remote.background_deadline());
        let upload = || {
            // The remote remembers what it finds of a newer version, and does not replace it.
            if is_late
                && let Some(found) = self.remote.engine().get(&name, until)?
                && let Ok(found) = self.remote.verify(key, found)
                && found.artifact.payload() == artifact.payload()
            {
                return Ok(false);
            }
            Ok(self.remote.upload(&name, entry, until)?.is_ok())
        };
        let probe = || self.remote.probe(Instant::now() + self.remote.deadline());
        if self.health.observe_upload(upload(), probe)? {
            self.counters.add(|counts| &mut counts.uploads, 1);
            self.counters.add(|counts| &mut counts.bytes_sent, entry.len() as u64);
        }
        Ok(())
    }

    /// Counts an upload that will not be. Returns that nothing is left to do for it.
    fn drop_upload(&self) -> bool {
        self.counters.add(|counts| &mut counts.uploads_dropped, 1);
        true
    }

    /// Takes over the lists of processes that ended: what is left of them becomes part of this process's own.
    fn take_over_lists(&self) {
        for path in self.lists() {
            let Some(list) = List::take_over(path) else { continue };
            let mut state = self.state.lock();
            let is_taken = keys(&*list.file).into_iter().all(|key| {
                let is_written = self.write_down(&mut state, &key);
                if is_written {
                    state.bytes += 1;
                    state.postponed.push_back(Upload { key, bytes: 1, artifact: None, is_late: true });
                }
                is_written
            });
            if is_taken {
                let _ = fs::remove_file(&list.path);
            }
        }
    }

    /// Appends a key to the list of this process. Returns whether a later process will find it there.
    fn write_down(&self, state: &mut State, key: &[u8]) -> bool {
        let Some(folder) = &self.folder else { return false };
        state.list = state.list.take().or_else(|| List::create(folder));
        state.list.as_mut().is_some_and(|list| list.append(key))
    }

    fn lists(&self) -> impl Iterator<Item = PathBuf> {
        self.folder.as_deref().into_iter().flat_map(lists)
    }
}

/// Returns how many uploads the lists in this folder have.
pub(crate) fn listed(folder: &Path) -> u64 {
    let files = lists(folder).filter_map(|list| File::open(list).ok());
    files.map(|file| keys(file).len() as u64).sum()
}

/// Returns the lists in this folder. What else is there, such as a folder or a pipe, is not opened and not removed.
fn lists(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let is_name = |name: &str| name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let lists = entries.filter(move |entry| {
        entry.file_name().to_str().is_some_and(is_name) && entry.file_type().is_ok_and(|kind| kind.is_file())
    });
    lists.map(|entry| entry.path())
}

/// Reads the keys of a list before the first record that is not whole.
fn keys(list: impl Read) -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    let _ = list.take(MAX_LIST).read_to_end(&mut bytes);
    let (mut keys, mut rest) = (Vec::new(), &bytes[..]);
    while let Some((len, after)) = rest.split_first_chunk()
        && let Some((key, after)) = after.split_at_checked(u32::from_le_bytes(*len) as usize)
        && let Some((sum, after)) = after.split_first_chunk::<8>()
        && Key::digest(key).as_bytes().starts_with(sum)
    {
        keys.push(key.to_vec());
        rest = after;
    }
    keys
}

impl List {
    fn create(folder: &Path) -> Option<Self> {
        let path = folder.join(format!("{:016x}", random()));
        // Until it is locked, it has a name that no other process takes for a list, to remove it as an empty one.
        let new = path.with_extension("new");
        let file = LockHolder::open(|| OpenOptions::new().append(true).create_new(true).open(&new)).ok()?;
        if file.try_lock().is_err() || fs::rename(&new, &path).is_err() {
            let _ = fs::remove_file(new);
            return None;
        }
        Some(Self { path, file })
    }

    /// Opens the list of a process that ended; returns nothing if it lives.
    fn take_over(path: PathBuf) -> Option<Self> {
        let file = LockHolder::open(|| OpenOptions::new().read(true).append(true).open(&path)).ok()?;
        file.try_lock().ok()?;
        Some(Self { path, file })
    }

    /// Appends a key: its length, its bytes, and 8 bytes of its digest, in one write. Where that fails, a later process does not
    /// continue the upload.
    fn append(&mut self, key: &[u8]) -> bool {
        let Ok(len) = u32::try_from(key.len()) else { return false };
        let record = [&len.to_le_bytes()[..], key, &Key::digest(key).as_bytes()[..8]].concat();
        let len = self.file.metadata().map(|found| found.len());
        let is_written = (&*self.file).write_all(&record).is_ok();
        if !is_written && let Ok(len) = len {
            // A part of a record would hide those after it.
            let _ = self.file.set_len(len);
        }
        is_written
    }

    fn clear(&mut self) {
        let _ = self.file.set_len(0);
    }
}
