//! A local store with a remote behind it that many machines share.

use std::{
    fmt,
    path::{Path, PathBuf},
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use warmstart::{
    Artifact, MissReason, Store,
    os::fork::Mutex,
    store::{Buffer, Claims, Inspect},
};
use warmstart_core::{batch, key::Key, lease::Backoff};

use crate::{
    engine::{Answer, Surveyed, Token, Trouble, Version},
    files,
    health::{self, Health, OnTrouble},
    leases::Leases,
    random::random,
    statistics::{self, Counters, FleetStatistics},
    store::{Found, RemoteStore},
    uploads::{self, Uploads},
};

/// The pauses while another machine builds, in milliseconds.
const PAUSES: Backoff = Backoff::new(250, 4_000);

/// How often a request is tried while the remote is busy, and the pauses in between, in milliseconds.
const ATTEMPTS: usize = 4;
const BUSY_PAUSES: Backoff = Backoff::new(20, 200);

/// How long closing waits for uploads, unless a call may take less.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// The longest wait for uploads. A clock has an end, and `Duration::MAX` lies beyond it.
const LONGEST_WAIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// Options of a [`Fleet`].
#[derive(Clone)]
pub struct FleetOptions {
    directory: Option<PathBuf>,
    max_upload_bytes: u64,
    on_trouble: Option<OnTrouble>,
}

impl FleetOptions {
    /// Keeps the state of the machine in `directory`: whether the remote failed, what is left to upload, and counts. Use one directory
    /// for each pair of a local store and a remote, beside the local store. Without it, each process finds out for itself, and what it
    /// did not upload stays on the machine. The same holds if the directory cannot be created.
    #[must_use]
    pub fn with_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Limits the bytes of artifacts that wait for their upload: 1 GiB by default. What exceeds it is not uploaded.
    #[must_use]
    pub const fn with_max_upload_bytes(mut self, max: u64) -> Self {
        self.max_upload_bytes = max;
        self
    }

    /// Sets a callback for warnings: it is called once for each kind of trouble, by any thread. No message contains credentials. If it
    /// panics, the fleet goes on.
    #[must_use]
    pub fn with_on_trouble(mut self, on_trouble: impl Fn(&Trouble) + Send + Sync + 'static) -> Self {
        self.on_trouble = Some(Arc::new(on_trouble));
        self
    }
}

impl Default for FleetOptions {
    fn default() -> Self {
        Self { directory: None, max_upload_bytes: 1 << 30, on_trouble: None }
    }
}

impl fmt::Debug for FleetOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FleetOptions").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// A local store in front of a remote that many machines share.
///
/// Look-ups ask the local store, and then the remote; what came from there is kept in the local store. A put is done when the local
/// store has the artifact; the upload follows in the background. Of all machines, one builds.
///
/// A remote that is dead, slow or forbidden costs one timeout a process, and with a directory one a machine. It is then left alone for
/// a while: the fleet works as its local store does. A forked child works with the local store alone; open a fleet there to use the remote.
///
/// [`remove`](Store::remove) removes an entry here and in the remote, and [`contains`](Store::contains) looks there for what is not here.
/// While the remote is left alone, both return [`Unavailable`](MissReason::Unavailable), `remove` after the local store did its part. It
/// returns [`Busy`](MissReason::Busy) if an upload of the entry is in progress that does not end in time: call it again.
/// [`clear`](Store::clear) empties the local store, and leaves the remote to the other machines.
///
/// ```no_run
/// use warmstart::{Cache, Limits, store::MemoryStore};
/// use warmstart_remote::{Fleet, FleetOptions, RemoteOptions, RemoteStore};
///
/// let secret = [7; 32];
/// let remote = RemoteStore::open("redis://cache.example", RemoteOptions::default().with_secret(&secret))?;
/// let options = FleetOptions::default().with_on_trouble(|trouble| eprintln!("shared cache: {trouble}"));
/// let cache = Cache::new(Fleet::new(MemoryStore::new(Limits::NONE), remote, options));
/// let built = cache.get_or_build("relu", || Ok::<_, std::io::Error>(b"code".to_vec()))?;
/// assert_eq!(built.artifact().payload(), b"code");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Fleet<S: Store + 'static> {
    local: Arc<S>,
    remote: Arc<RemoteStore>,
    health: Arc<Health>,
    leases: Arc<Leases>,
    uploads: Arc<Uploads<S>>,
    counters: Arc<Counters>,
    /// Apart from the other counters: a local hit takes no lock.
    local_hits: AtomicU64,
    /// Since when a call for many artifacts has found nothing to build, because other machines build all that is left.
    paused: Mutex<Option<Instant>>,
    /// The counts of the machine, and what was added to them of this fleet's.
    statistics: Option<PathBuf>,
    added: Mutex<FleetStatistics>,
    is_closed: AtomicBool,
    process: u32,
}

impl<S: Store + 'static> Fleet<S> {
    /// Puts `local` in front of `remote`. Sends nothing yet.
    #[must_use]
    pub fn new(local: S, remote: RemoteStore, options: FleetOptions) -> Self {
        let FleetOptions { directory, max_upload_bytes, on_trouble } = options;
        let make = |directory: &PathBuf| {
            files::make_directory(directory)
                .and_then(|()| files::make_directory(&directory.join(uploads::FOLDER)))
        };
        let directory = directory.filter(|directory| make(directory).is_ok());
        let (local, remote) = (Arc::new(local), Arc::new(remote));
        let path = |name: &str| directory.as_deref().map(|directory: &Path| directory.join(name));
        let file = |name: &str| path(name).filter(|path| files::is_file_or_absent(path));
        let health = Arc::new(Health::open(file(health::FILE), on_trouble));
        let counters = Arc::<Counters>::default();
        let leases = Leases::new(Arc::clone(&remote), Arc::clone(&health), token());
        let uploads = Uploads::new(
            Arc::clone(&local),
            Arc::clone(&remote),
            Arc::clone(&leases),
            Arc::clone(&health),
            Arc::clone(&counters),
            path(uploads::FOLDER),
            max_upload_bytes,
        );
        leases.probe_if_open();
        let (local_hits, process) = (AtomicU64::new(0), process::id());
        let (statistics, added) = (file(statistics::FILE), Mutex::default());
        let is_closed = AtomicBool::new(false);
        Self {
            local,
            remote,
            health,
            leases,
            uploads,
            counters,
            local_hits,
            paused: Mutex::default(),
            statistics,
            added,
            is_closed,
            process,
        }
    }

    /// Returns the local store.
    #[must_use]
    pub fn local(&self) -> &S {
        &self.local
    }

    /// Returns the counts since the fleet was opened.
    #[must_use]
    pub fn statistics(&self) -> FleetStatistics {
        let mut statistics = self.counts();
        statistics.uploads_waiting = if self.is_parent() { self.uploads.waiting() } else { 0 };
        statistics.is_breaker_open = !self.health.is_closed();
        statistics
    }

    /// Returns the counts alone: for what waits, the queue is locked.
    fn counts(&self) -> FleetStatistics {
        let mut counts = self.counters.snapshot();
        counts.bytes_received = self.remote.received();
        counts.refused = self.remote.refused();
        counts.local_hits = self.local_hits.load(Relaxed);
        counts
    }

    /// Waits until no upload waits, the remote fails, or the time is up. Returns whether none waits; what the remote refused does not.
    /// Call it at the end of a short job.
    pub fn wait_for_uploads(&self, timeout: Duration) -> bool {
        self.is_parent() && self.uploads.wait(Instant::now() + timeout.min(LONGEST_WAIT))
    }

    /// Adds to the counts of the machine what is new. Where that fails, the next time adds it.
    fn add_statistics(&self) {
        let mut added = self.added.lock();
        let counts = self.counts();
        if let Some(file) = &self.statistics
            && counts != *added
            && statistics::add(counts, *added, file)
        {
            *added = counts;
        }
    }

    /// Returns whether this is the process that opened the fleet, and not a forked child, which has none of its threads.
    fn is_parent(&self) -> bool {
        process::id() == self.process
    }

    fn is_remote_used(&self) -> bool {
        self.health.is_closed() && self.is_parent() && !self.is_closed.load(Relaxed)
    }

    /// Sends a request that only reads.
    fn ask<T>(&self, request: impl Fn(&RemoteStore, Instant) -> Result<T, Trouble>) -> Result<T, Trouble> {
        let until = Instant::now() + self.remote.deadline();
        let outcome = self.health.observe(self.send(request, until));
        self.leases.probe_if_open();
        outcome
    }

    /// Sends a request that a client without the right to write may not send.
    fn ask_to_write<T>(
        &self,
        request: impl Fn(&RemoteStore, Instant) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        let until = Instant::now() + self.remote.deadline();
        let outcome = self.health.observe_claim(self.send(request, until), || self.remote.probe(until));
        self.leases.probe_if_open();
        outcome
    }

    /// Sends a request, again a few times while the remote is busy.
    fn send<T>(
        &self,
        request: impl Fn(&RemoteStore, Instant) -> Result<T, Trouble>,
        until: Instant,
    ) -> Result<T, Trouble> {
        let mut pauses = BUSY_PAUSES;
        for _ in 1..ATTEMPTS {
            let outcome = request(&self.remote, until);
            let pause = Duration::from_millis(pauses.pause(random()));
            if !matches!(outcome, Err(Trouble::Busy(_))) || Instant::now() + pause >= until {
                return outcome;
            }
            thread::sleep(pause);
        }
        request(&self.remote, until)
    }

    /// Counts what the remote answered, and keeps an entry.
    fn accept(&self, key: &[u8], found: Result<Found, MissReason>) -> Result<Artifact, MissReason> {
        match found {
            Ok(found) => {
                // Where the local store has no room, the remote is asked again next time.
                self.counters.add(|counts| &mut counts.remote_hits, 1);
                self.counters.add(|counts| &mut counts.bytes_used, found.len);
                let _ = self.local.put(key, &found.artifact);
                Ok(found.artifact)
            }
            Err(reason) => self.missed(reason),
        }
    }

    fn get_from_remote(&self, key: &[u8], reason: MissReason) -> Result<Artifact, MissReason> {
        let found = self.ask(|remote, until| remote.fetch_many(&[key], until));
        match found.ok().and_then(|mut found| found.pop()) {
            Some(Err(MissReason::Absent)) | None => self.missed(reason),
            Some(found) => self.accept(key, found),
        }
    }

    fn found_here<T>(&self, found: T) -> Result<T, MissReason> {
        self.local_hits.fetch_add(1, Relaxed);
        Ok(found)
    }

    fn missed<T>(&self, reason: MissReason) -> Result<T, MissReason> {
        self.counters.add(|counts| &mut counts.misses, 1);
        Err(reason)
    }

    /// Waits for the lease of a build. Returns whether this process may build now.
    fn wait_for_lease(&self, name: &Key, deadline: Option<Instant>) -> bool {
        let started = Instant::now();
        let mut pauses = PAUSES;
        let mut has_waited = false;
        let may_build = loop {
            if self.try_lease(name) {
                break true;
            }
            let pause = Duration::from_millis(pauses.pause(random()));
            let left = deadline.map_or(pause, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break false;
            }
            thread::sleep(pause.min(left));
            has_waited = true;
        };
        if has_waited {
            self.counters.add(|counts| &mut counts.lease_waits, 1);
            self.counters.waited(started.elapsed());
        }
        may_build
    }

    /// Returns whether this process may build now: it took the lease, the artifact is stored by now, or no lease is to be had.
    fn try_lease(&self, name: &Key) -> bool {
        if !self.health.leases() || self.leases.begin_build(name) {
            return true;
        }
        let claim = |over: Option<&Version>| {
            let sent = self.leases.now();
            let claimed = self
                .ask_to_write(|remote, until| remote.engine().claim(name, self.leases.token(), over, until));
            match claimed {
                Ok(Some(version)) => {
                    let is_kept = self.leases.keep(*name, version, sent, false);
                    self.leases.begin_build(name);
                    is_kept
                }
                Ok(None) | Err(Trouble::Busy(_)) => false,
                Err(_) => true,
            }
        };
        if claim(None) {
            return true;
        }
        let found = self.ask_to_write(|remote, until| remote.engine().survey(&[*name], until));
        match found.as_deref() {
            Ok([Surveyed::Held(held)]) if self.leases.observe(name, held) => claim(Some(held)),
            Ok([Surveyed::Held(_) | Surveyed::Free]) | Err(Trouble::Busy(_)) => false,
            _ => true,
        }
    }
}

impl<S: Store + 'static> Store for Fleet<S> {
    fn get(&self, key: &[u8]) -> Result<Artifact, MissReason> {
        match self.local.get(key) {
            Ok(found) => self.found_here(found),
            Err(reason) if self.is_remote_used() => self.get_from_remote(key, reason),
            Err(reason) => self.missed(reason),
        }
    }

    fn get_to_build(&self, key: &[u8]) -> Result<Artifact, MissReason> {
        let reason = match self.local.get_to_build(key) {
            Ok(found) => return self.found_here(found),
            Err(reason) => reason,
        };
        let name = Key::digest(key);
        if !self.is_remote_used() {
            return self.missed(reason);
        }
        if self.leases.is_known_absent(&name) {
            // Counted by the look-up that found that.
            return Err(reason);
        }
        if !self.health.leases() || !self.remote.has_one_secret() {
            return self.get_from_remote(key, reason);
        }
        let (sent, token) = (self.leases.now(), self.leases.token());
        match self.ask_to_write(|remote, until| remote.engine().get_or_claim(&name, token, until)) {
            Ok(Answer::Stored(entry)) => self.accept(key, self.remote.verify(key, entry)),
            Ok(Answer::Held(version)) => {
                self.leases.observe(&name, &version);
                self.missed(reason)
            }
            Ok(Answer::Claimed(version)) => {
                self.leases.keep(name, version, sent, true);
                self.missed(reason)
            }
            Err(Trouble::Unsupported(_) | Trouble::Forbidden(_)) if self.is_remote_used() => {
                self.get_from_remote(key, reason)
            }
            Err(_) => self.missed(reason),
        }
    }

    fn get_into(&self, key: &[u8], buffer: &mut dyn Buffer) -> Result<usize, MissReason> {
        match self.local.get_into(key, buffer) {
            Ok(len) => self.found_here(len),
            Err(MissReason::TooLong) => Err(MissReason::TooLong),
            Err(reason) if self.is_remote_used() => {
                let artifact = self.get_from_remote(key, reason)?;
                let payload = artifact.payload();
                let room = buffer.room(payload.len()).filter(|room| room.len() == payload.len());
                room.ok_or(MissReason::TooLong)?.copy_from_slice(payload);
                Ok(payload.len())
            }
            Err(reason) => self.missed(reason),
        }
    }

    fn get_many(&self, keys: &[&[u8]]) -> Vec<Result<Artifact, MissReason>> {
        let mut all = self.local.get_many(keys);
        let missing: Vec<usize> = (0..all.len().min(keys.len())).filter(|at| all[*at].is_err()).collect();
        self.local_hits.fetch_add((all.len() - missing.len()) as u64, Relaxed);
        if missing.is_empty() {
            return all;
        }
        let wanted: Vec<&[u8]> = missing.iter().map(|at| keys[*at]).collect();
        let fetch = |remote: &RemoteStore, until| remote.fetch_many(&wanted, until);
        let found = if self.is_remote_used() { self.ask(fetch).ok() } else { None };
        let Some(found) = found else {
            self.counters.add(|counts| &mut counts.misses, missing.len() as u64);
            return all;
        };
        for (at, found) in missing.into_iter().zip(found) {
            match self.accept(keys[at], found) {
                Err(MissReason::Absent) => {}
                found => all[at] = found,
            }
        }
        all
    }

    fn put(&self, key: &[u8], artifact: &Artifact) -> Result<u64, MissReason> {
        let stored = self.local.put(key, artifact);
        if stored != Err(MissReason::Closed) && self.is_parent() {
            let refused = stored.is_err().then(|| artifact.clone());
            self.uploads.add(key, artifact.payload().len() as u64, refused);
        }
        stored
    }

    fn remove(&self, key: &[u8]) -> Result<bool, MissReason> {
        let here = self.local.remove(key)?;
        if !self.is_remote_used() {
            return Err(MissReason::Unavailable);
        }
        if !self.uploads.withdraw(key, Instant::now() + self.remote.deadline()) {
            return Err(MissReason::Busy);
        }
        let there = self.ask_to_write(|remote, until| remote.remove_by(key, until));
        there.map(|there| here || there).map_err(|trouble| trouble.reason())
    }

    fn contains(&self, key: &[u8]) -> Result<bool, MissReason> {
        if self.local.contains(key)? {
            return Ok(true);
        }
        if !self.is_remote_used() {
            return Err(MissReason::Unavailable);
        }
        self.ask_to_write(|remote, until| remote.contains_by(key, until)).map_err(|trouble| trouble.reason())
    }

    /// Clears the local store. The remote keeps its entries.
    fn clear(&self) -> Result<(), MissReason> {
        self.local.clear()
    }

    fn flush(&self) -> Result<(), MissReason> {
        if self.is_parent() {
            self.add_statistics();
        }
        self.local.flush()
    }

    fn record_access(&self, keys: &[&[u8]]) {
        self.local.record_access(keys);
    }

    /// Closes the local store, after waiting for uploads as long as a call may take, and at most a second. A later process continues
    /// with the rest. Leases that are held are released by one call more.
    fn close(&self) -> Result<(), MissReason> {
        self.is_closed.store(true, Relaxed);
        if self.is_parent() {
            let wait = LAST_WAIT.min(self.remote.deadline());
            self.uploads.wait(Instant::now() + wait);
            self.uploads.close();
            self.leases.close(Instant::now() + wait);
            self.add_statistics();
        }
        self.local.close()
    }

    fn inspect(&self) -> Option<&dyn Inspect> {
        self.local.inspect()
    }

    fn claims(&self) -> Option<&dyn Claims> {
        Some(self)
    }
}

impl<S: Store + 'static> Claims for Fleet<S> {
    fn scope(&self) -> Vec<u8> {
        // Without claims on this machine, each fleet is by itself: another one may trust others.
        let own = || self.leases.token().as_bytes().to_vec();
        self.local.claims().map_or_else(own, Claims::scope)
    }

    /// Claims the build on this machine, and then in the fleet.
    fn claim(&self, digest: &Key, deadline: Option<Instant>) -> Result<Option<Box<dyn Send>>, MissReason> {
        let here = match self.local.claims().map(|claims| claims.claim(digest, deadline)) {
            Some(Ok(None)) => return Ok(None),
            // Without claims on this machine, a lease still keeps the other processes away.
            claim => claim.and_then(Result::ok).flatten(),
        };
        if self.is_remote_used() && !self.wait_for_lease(digest, deadline) {
            return Ok(None);
        }
        let (leases, uploads) = (Arc::clone(&self.leases), Arc::clone(&self.uploads));
        Ok(Some(Box::new(Claim { name: *digest, leases, uploads, process: self.process, _here: here })))
    }

    fn survey(&self, digests: &[Key]) -> Option<Vec<batch::Surveyed>> {
        // A call begins with a survey of nothing, which ends what an earlier one left.
        let paused = self.paused.lock().take();
        if !self.is_remote_used() || !self.health.leases() {
            return None;
        }
        if digests.is_empty() {
            return Some(Vec::new());
        }
        let found = match self.ask_to_write(|remote, until| remote.engine().survey(digests, until)) {
            Ok(found) => found,
            Err(Trouble::Busy(_)) => return Some(vec![batch::Surveyed::Claimed; digests.len()]),
            Err(_) => return None,
        };
        let surveyed = |(name, found): (&Key, Surveyed)| match found {
            Surveyed::Stored => batch::Surveyed::Stored,
            Surveyed::Free => batch::Surveyed::Free,
            Surveyed::Held(version) if self.leases.observe(name, &version) => batch::Surveyed::Free,
            Surveyed::Held(_) => batch::Surveyed::Claimed,
        };
        let surveyed: Vec<_> = digests.iter().zip(found).map(surveyed).collect();
        let is_stored =
            |(name, found): (&Key, &batch::Surveyed)| (*found == batch::Surveyed::Stored).then_some(*name);
        let stored: Vec<Key> = digests.iter().zip(&surveyed).filter_map(is_stored).collect();
        if !stored.is_empty() {
            // All at once: each is looked up next, and would be a request.
            let keep = |key: &[u8], found: Found| match self.local.put(key, &found.artifact) {
                Ok(_) => {
                    // The look-up that follows counts as a hit.
                    self.counters.add(|counts| &mut counts.bytes_used, found.len);
                    true
                }
                // This one does not fit; the others may.
                Err(reason) => matches!(reason, MissReason::Oversize | MissReason::TooLong),
            };
            let _ = self.ask(|remote, until| remote.fetch_named(&stored, until, keep));
        }
        let now = Instant::now();
        if let Some(since) = paused {
            self.counters.waited(now - since);
        }
        if surveyed.iter().all(|found| *found == batch::Surveyed::Claimed) {
            self.counters.add(|counts| &mut counts.lease_waits, u64::from(paused.is_none()));
            *self.paused.lock() = Some(now);
        }
        Some(surveyed)
    }
}

impl<S: Store + 'static> Drop for Fleet<S> {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

/// Draws a token. Where the system has no random numbers, those of the hash tables will do: a token is no secret.
fn token() -> Token {
    let drawn = Token::random();
    drawn.unwrap_or_else(|_| {
        Token::from_bytes((u128::from(random()) << 64 | u128::from(random())).to_le_bytes())
    })
}

/// The claim of a build on this machine and in the fleet.
struct Claim<S: Store + 'static> {
    name: Key,
    leases: Arc<Leases>,
    uploads: Arc<Uploads<S>>,
    process: u32,
    _here: Option<Box<dyn Send>>,
}

impl<S: Store + 'static> Drop for Claim<S> {
    /// Others find the artifact only after its upload.
    fn drop(&mut self) {
        // A forked child has a copy of what its parent holds.
        if process::id() == self.process {
            self.leases.end_build(&self.name, self.uploads.added());
        }
    }
}
