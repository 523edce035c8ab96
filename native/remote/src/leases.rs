//! The leases of this process: taken with a look-up or a claim, renewed in the background, and released after the upload.

use std::{
    collections::HashMap,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use warmstart_core::{
    key::Key,
    lease::{Lease, TTL, Watch},
};

use crate::{
    engine::{Token, Version},
    health::Health,
    monitor::Monitor,
    store::RemoteStore,
};

/// How long a lease that a look-up took is kept for the claim that follows, in milliseconds.
const AHEAD: u64 = 1_000;

/// How long the lease of another process is watched that is not observed again, in milliseconds: much longer than who waits for it
/// pauses.
const WATCHED: u64 = 10 * TTL;

/// How long a lease is kept for an upload, in milliseconds. One that takes longer, or comes after many others, would cost the machines
/// that wait more than a build.
const LONGEST_UPLOAD: u64 = 2 * TTL;

/// How often the background looks at an open breaker.
const IDLE: Duration = Duration::from_secs(1);

/// The leases that this process holds, and those of others that it watches.
#[derive(Debug)]
pub(crate) struct Leases {
    remote: Arc<RemoteStore>,
    health: Arc<Health>,
    token: Token,
    started: Instant,
    state: Monitor<State>,
}

#[derive(Debug, Default)]
struct State {
    held: HashMap<Key, Held>,
    watches: HashMap<Key, Watched>,
    /// When watches were last dropped.
    swept: u64,
    /// How many uploads were tried. One that failed ends its lease too: others may build meanwhile.
    tried: u64,
    /// What the background released last, and when that ended: the claim of one may have come before or after.
    released: Vec<Key>,
    released_by: u64,
    has_thread: bool,
    is_closed: bool,
}

/// The lease of another process, and when it was last observed.
#[derive(Debug)]
struct Watched {
    watch: Watch<Version>,
    seen: u64,
}

#[derive(Debug)]
struct Held {
    lease: Lease,
    version: Version,
    /// Whether nothing can be stored, because only the holder of the lease builds.
    is_absent: bool,
    phase: Phase,
}

/// What a lease is held for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// A look-up took it; the claim may follow. An earlier artifact was uploaded once so many uploads were tried.
    Ahead { since: u64, uploads: u64 },
    /// Its artifact is being built.
    Building,
    /// Its artifact is built, and was uploaded once so many uploads were tried.
    Uploading { uploads: u64, since: u64 },
}

/// What the background does next.
#[derive(Debug, Default)]
struct Tasks {
    renewals: Vec<(Key, Version)>,
    releases: Vec<Key>,
    /// When it has more to do.
    next: Option<u64>,
}

impl Leases {
    pub(crate) fn new(remote: Arc<RemoteStore>, health: Arc<Health>, token: Token) -> Arc<Self> {
        Arc::new(Self { remote, health, token, started: Instant::now(), state: Monitor::default() })
    }

    pub(crate) const fn token(&self) -> &Token {
        &self.token
    }

    /// Returns the time since the fleet was opened, in milliseconds.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Keeps a lease that was requested at `sent`, for a claim that may follow. `is_absent` says whether the same request found
    /// nothing stored. Returns false if this process released an earlier lease of that name meanwhile, which may have ended this one.
    pub(crate) fn keep(self: &Arc<Self>, name: Key, version: Version, sent: u64, is_absent: bool) -> bool {
        let mut state = self.state.lock();
        if sent <= state.released_by && state.released.contains(&name) {
            return false;
        }
        state.keep(name, version, sent, is_absent, self.now());
        self.start_thread(&mut state);
        self.state.notify();
        true
    }

    /// Returns whether the remote need not be asked, because this process has held the lease since it found nothing there.
    pub(crate) fn is_known_absent(&self, name: &Key) -> bool {
        let is_absent = |held: &Held| held.is_absent && held.lease.is_held(self.now());
        self.state.lock().held.get(name).is_some_and(is_absent)
    }

    /// Begins a build under a lease that is held for a claim. Returns whether there is one.
    pub(crate) fn begin_build(&self, name: &Key) -> bool {
        let now = self.now();
        match self.state.lock().held.get_mut(name) {
            Some(held) if held.lease.is_held(now) && matches!(held.phase, Phase::Ahead { .. }) => {
                held.phase = Phase::Building;
                true
            }
            _ => false,
        }
    }

    /// Ends a build. The lease is released once so many uploads were tried, or after a while.
    pub(crate) fn end_build(&self, name: &Key, uploads: u64) {
        let since = self.now();
        if let Some(held) = self.state.lock().held.get_mut(name) {
            held.phase = Phase::Uploading { uploads, since };
            held.is_absent = false;
        }
        self.state.notify();
    }

    /// Records how many uploads were tried.
    pub(crate) fn record_uploads(&self, tried: u64) {
        self.state.lock().tried = tried;
        self.state.notify();
    }

    /// Observes the lease of another process. Returns whether it may be taken over.
    pub(crate) fn observe(&self, name: &Key, version: &Version) -> bool {
        self.state.lock().observe(name, version, self.now())
    }

    /// Releases all leases, and ends the background. Returns by `until`.
    pub(crate) fn close(&self, until: Instant) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let Tasks { releases, .. } = state.due(self.now());
        drop(state);
        self.state.notify();
        if !releases.is_empty() && self.health.is_closed() {
            let _ = self.remote.engine().release(&releases, &self.token, until);
        }
    }

    /// Starts the thread that renews, or does without: leases then end by themselves.
    fn start_thread(self: &Arc<Self>, state: &mut State) {
        if !state.has_thread {
            let leases = Arc::clone(self);
            let thread = thread::Builder::new().name("warmstart-lease".to_owned());
            state.has_thread = thread.spawn(move || leases.run()).is_ok();
        }
    }

    /// Lets the background probe the remote if its breaker is open.
    pub(crate) fn probe_if_open(self: &Arc<Self>) {
        if !self.health.is_closed() {
            self.start_thread(&mut self.state.lock());
        }
    }

    fn run(&self) {
        loop {
            let mut state = self.state.lock();
            let now = self.now();
            let Tasks { renewals, releases, next } = state.due(now);
            let is_closed = state.is_closed;
            if renewals.is_empty() && releases.is_empty() && !is_closed {
                let wait =
                    next.map_or(IDLE, |next| Duration::from_millis(next.saturating_sub(now)).min(IDLE));
                (state, _) = self.state.wait(state, wait);
            }
            if !releases.is_empty() {
                state.released.clone_from(&releases);
                state.released_by = u64::MAX;
            }
            drop(state);
            if !renewals.is_empty() {
                self.renew(renewals);
            }
            if !releases.is_empty() {
                // A lease that cannot be released ends by itself.
                let _ = self.remote.engine().release(&releases, &self.token, self.until());
                self.state.lock().released_by = self.now();
            }
            if is_closed {
                return;
            }
            if self.health.is_probe_due() {
                let until = Instant::now() + self.remote.deadline();
                let _ = self.health.observe(self.remote.probe(until));
            }
        }
    }

    /// Renews all of these at once: one after the other, many would take longer than a lease lives.
    fn renew(&self, held: Vec<(Key, Version)>) {
        let sent = self.now();
        let renewed = self.remote.engine().renew(&held, &self.token, self.until());
        let mut state = self.state.lock();
        for ((name, _), renewed) in held.into_iter().zip(renewed) {
            let Some(held) = state.held.get_mut(&name) else { continue };
            match renewed {
                Ok(Some(version)) => {
                    held.version = version;
                    held.lease.renew(sent);
                }
                Ok(None) => _ = state.held.remove(&name),
                Err(_) => held.lease.retry(self.now()),
            }
        }
    }

    /// Returns by when the background must have an answer: a longer wait would leave a lease no time for another try.
    fn until(&self) -> Instant {
        Instant::now() + self.remote.deadline().min(Duration::from_millis(TTL / 3))
    }
}

impl State {
    fn keep(&mut self, name: Key, version: Version, sent: u64, is_absent: bool, now: u64) {
        self.watches.remove(&name);
        match self.held.get_mut(&name).filter(|held| held.lease.is_held(now)) {
            // A look-up within the build, or before its upload, got the lease that this process has. The remote did not extend it.
            Some(held) => {
                held.version = version;
                match held.phase {
                    Phase::Building => held.is_absent |= is_absent,
                    Phase::Ahead { uploads, .. } | Phase::Uploading { uploads, .. } => {
                        // What is not uploaded yet may be soon.
                        held.is_absent |= is_absent && self.tried >= uploads;
                        held.phase = Phase::Ahead { since: now, uploads };
                    }
                }
            }
            None => {
                let phase = Phase::Ahead { since: now, uploads: 0 };
                self.held.insert(name, Held { lease: Lease::new(sent), version, is_absent, phase });
            }
        }
    }

    fn observe(&mut self, name: &Key, version: &Version, now: u64) -> bool {
        if now.saturating_sub(self.swept) >= WATCHED {
            // Its artifact is stored by now, or is no longer asked for.
            self.watches.retain(|_, watched| now.saturating_sub(watched.seen) < WATCHED);
            self.swept = now;
        }
        let new = || Watched { watch: Watch::new(version.clone(), now), seen: now };
        let watched = self.watches.entry(*name).or_insert_with(new);
        watched.seen = now;
        watched.watch.is_over(version.clone(), now)
    }

    /// Takes what is due now.
    fn due(&mut self, now: u64) -> Tasks {
        let mut tasks = Tasks::default();
        let (tried, is_closed) = (self.tried, self.is_closed);
        self.held.retain(|name, held| {
            if !held.lease.is_held(now) {
                return false;
            }
            let is_uploaded =
                |uploads, since| tried >= uploads || now.saturating_sub(since) >= LONGEST_UPLOAD;
            let is_over = match held.phase {
                Phase::Ahead { since, uploads } => {
                    now.saturating_sub(since) >= AHEAD && is_uploaded(uploads, since)
                }
                Phase::Building => false,
                Phase::Uploading { uploads, since } => is_uploaded(uploads, since),
            };
            if is_over || is_closed {
                tasks.releases.push(*name);
                return false;
            }
            if held.lease.renewal() <= now {
                tasks.renewals.push((*name, held.version.clone()));
            }
            let due = match held.phase {
                Phase::Ahead { since, uploads } if tried >= uploads => {
                    held.lease.renewal().min(since.saturating_add(AHEAD))
                }
                _ => held.lease.renewal(),
            };
            tasks.next = Some(tasks.next.map_or(due, |next| next.min(due)));
            true
        });
        tasks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_that_is_looked_up_again_stays_with_its_build() {
        let mut state = State::default();
        let (name, version) = (Key::digest(b"k"), Version::new(vec![1]));
        state.keep(name, version.clone(), 0, false, 0);
        state.held.get_mut(&name).unwrap().phase = Phase::Building;
        state.keep(name, version.clone(), 10, true, 10);
        let held = &state.held[&name];
        assert!(held.is_absent && held.phase == Phase::Building, "{held:?}");
        assert!(state.due(10 + 2 * AHEAD).releases.is_empty());
        // After it, the lease is for the next build, and for the upload before.
        *state.held.get_mut(&name).unwrap() = Held {
            lease: Lease::new(20),
            version: version.clone(),
            is_absent: false,
            phase: Phase::Uploading { uploads: 1, since: 20 },
        };
        for _ in 0..2 {
            state.keep(name, version.clone(), 20, true, 20);
        }
        assert!(!state.held[&name].is_absent && state.due(20 + AHEAD).releases.is_empty());
        state.tried = 1;
        assert!(state.due(19 + AHEAD).releases.is_empty());
        assert_eq!(state.due(20 + AHEAD).releases, [name]);
        state.keep(name, version.clone(), 30, true, 30);
        // One that has ended is taken for the next build.
        state.keep(name, version, 100 * TTL, true, 100 * TTL);
        assert!(matches!(state.held[&name].phase, Phase::Ahead { .. }));
    }

    #[test]
    fn long_upload_does_not_keep_its_lease() {
        let mut state = State::default();
        let name = Key::digest(b"k");
        for phase in [Phase::Uploading { uploads: 5, since: 0 }, Phase::Ahead { uploads: 5, since: 0 }] {
            for (now, releases) in [(LONGEST_UPLOAD - 1, 0), (LONGEST_UPLOAD, 1)] {
                let (lease, version) = (Lease::new(now), Version::new(vec![1]));
                state.held.insert(name, Held { lease, version, is_absent: false, phase });
                assert_eq!(state.due(now).releases.len(), releases);
            }
        }
    }

    #[test]
    fn lease_whose_release_is_in_flight_is_not_kept() {
        use crate::store::RemoteOptions;

        let options = RemoteOptions::default().unsealed().with_deadline(Duration::from_secs(60));
        let remote = Arc::new(RemoteStore::open("redis://127.0.0.1", options).unwrap());
        let health = Arc::new(Health::open(None, None));
        let leases = Leases::new(remote, health, Token::from_bytes([7; Token::LEN]));
        let (name, version) = (Key::digest(b"k"), Version::new(vec![1]));
        let sent = leases.now();
        let released_by = |by| {
            let mut state = leases.state.lock();
            (state.released, state.released_by) = (vec![name], by);
        };
        for by in [u64::MAX, sent] {
            released_by(by);
            assert!(!leases.keep(name, version.clone(), sent, true) && !leases.is_known_absent(&name));
        }
        assert!(leases.keep(name, version, sent + 1, true) && leases.begin_build(&name));
        assert!(leases.until() < Instant::now() + Duration::from_millis(TTL / 2));
    }

    #[test]
    fn watches_that_are_not_observed_are_dropped() {
        let mut state = State::default();
        let name = |number: u64| Key::digest(&number.to_le_bytes());
        let version = Version::new(vec![1]);
        for number in 0..1_000 {
            let now = number * TTL;
            assert!(!state.observe(&name(number), &version, now));
            assert_eq!(state.observe(&name(u64::MAX), &version, now), now >= TTL, "it stands still");
            assert!(state.watches.len() <= 22, "{number}: {}", state.watches.len());
        }
        assert!(!state.observe(&name(0), &version, 1_000 * TTL), "it is watched from now on");
    }
}
