//! Whether the remote is used: the breaker, which the processes of a machine share, and what the remote turned out not to support.

use std::{
    fmt, fs,
    mem::{self, Discriminant},
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use warmstart::os::fork::Mutex;
use warmstart_core::breaker::{Breaker, Mode};

use crate::{engine::Trouble, files, random::random};

/// The name of the file in the directory of a machine.
pub(crate) const FILE: &str = "breaker";

/// How long the remote may answer nothing but that it is busy before that counts as a failure.
const LONGEST_BUSY: Duration = Duration::from_secs(5);

/// How long the remote is not asked for what it refused or failed at, in milliseconds: entries, because a failover may end a refusal, and
/// leases.
const GIVEN_UP: u64 = 5 * 60 * 1000;

/// How many requests for leases in a row open the breaker before these are given up and look-ups go on.
const MOST_FAILED_CLAIMS: u64 = 2;

/// Called with each kind of trouble once.
pub(crate) type OnTrouble = Arc<dyn Fn(&Trouble) + Send + Sync>;

/// What is known of the remote's health.
pub(crate) struct Health {
    /// The file of the breaker, beside the local store.
    file: Option<PathBuf>,
    breaker: Mutex<Breaker>,
    /// Whether requests are sent.
    is_closed: AtomicBool,
    /// Since when the remote has answered nothing but that it is busy.
    busy: Mutex<Option<Instant>>,
    /// Whether that is any time: other answers do not lock it.
    is_busy: AtomicBool,
    opened: Instant,
    /// When the remote may accept entries again, in milliseconds since this was opened.
    writes_from: AtomicU64,
    /// When leases may be asked for, in the same unit; `u64::MAX` if the remote has none.
    leases_from: AtomicU64,
    /// How many requests for leases in a row failed as if the remote were down.
    failed_claims: AtomicU64,
    /// The kinds of trouble that were reported.
    reported: Mutex<Vec<Discriminant<Trouble>>>,
    on_trouble: Option<OnTrouble>,
}

impl Health {
    /// Reads the state of the breaker. A file that is missing or damaged is a closed breaker. So is one whose probe is due: that it
    /// failed may be long ago, and a start that built everything meanwhile would cost more than a deadline.
    pub(crate) fn open(file: Option<PathBuf>, on_trouble: Option<OnTrouble>) -> Self {
        let breaker = file.as_deref().map(read).unwrap_or_default();
        let is_open = breaker.mode(unix_ms()) == Mode::Open;
        let health = Self {
            file,
            is_closed: AtomicBool::new(!is_open),
            breaker: Mutex::new(breaker),
            busy: Mutex::default(),
            is_busy: AtomicBool::new(false),
            opened: Instant::now(),
            writes_from: AtomicU64::new(0),
            leases_from: AtomicU64::new(0),
            failed_claims: AtomicU64::new(0),
            reported: Mutex::default(),
            on_trouble,
        };
        if is_open {
            let why = "it failed in another process of this machine, and is left alone for now";
            health.report(&Trouble::Unreachable(why.to_owned()));
        }
        health
    }

    /// Returns whether requests are sent.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Relaxed)
    }

    /// Returns whether entries are sent.
    pub(crate) fn writes(&self) -> bool {
        match self.writes_from.load(Relaxed) {
            0 => true,
            from => from <= self.now(),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Sends no entries for a while. Returns whether they were sent until now.
    fn stop_writes(&self) -> bool {
        let now = self.now();
        self.writes_from.swap(now + GIVEN_UP, Relaxed) <= now
    }

    /// Returns whether leases are asked for.
    pub(crate) fn leases(&self) -> bool {
        self.is_closed() && self.leases_from.load(Relaxed) <= self.now() && self.writes()
    }

    /// Returns whether a probe is due.
    pub(crate) fn is_probe_due(&self) -> bool {
        self.breaker.lock().mode(unix_ms()) == Mode::Due
    }

    /// Draws the conclusions from the outcome of a request, and returns it.
    pub(crate) fn observe<T>(&self, outcome: Result<T, Trouble>) -> Result<T, Trouble> {
        let is_busy = matches!(outcome, Err(Trouble::Busy(_)));
        if is_busy || self.is_busy.load(Relaxed) {
            self.observe_busy(is_busy);
        }
        match &outcome {
            Ok(_) if self.is_probe_due() => {
                self.stop_failing_claims();
                self.change(Breaker::succeed);
            }
            Ok(_) => {}
            Err(trouble) => {
                match trouble {
                    Trouble::Busy(_) | Trouble::Full(_) => {}
                    Trouble::ReadOnly(_) => _ = self.stop_writes(),
                    Trouble::Unsupported(_) => self.leases_from.store(u64::MAX, Relaxed),
                    Trouble::TimedOut(_)
                    | Trouble::Unreachable(_)
                    | Trouble::Forbidden(_)
                    | Trouble::Other(_) => {
                        self.change(|breaker| breaker.fail(unix_ms(), random()));
                    }
                }
                self.report(trouble);
            }
        }
        outcome
    }

    /// Asks for no leases for a while if requests for them open the breaker, and look-ups close it again.
    fn stop_failing_claims(&self) {
        if self.failed_claims.load(Relaxed) >= MOST_FAILED_CLAIMS {
            self.failed_claims.store(0, Relaxed);
            self.leases_from.fetch_max(self.now() + GIVEN_UP, Relaxed);
            let why = "leases that it answers for in time, though it answers look-ups";
            self.report(&Trouble::Unsupported(why.to_owned()));
        }
    }

    /// Draws the conclusions from the outcome of a request for leases, as [`observe_write`](Self::observe_write) does.
    pub(crate) fn observe_claim<T>(
        &self,
        outcome: Result<T, Trouble>,
        read: impl FnOnce() -> Result<(), Trouble>,
    ) -> Result<T, Trouble> {
        match &outcome {
            Ok(_) => self.failed_claims.store(0, Relaxed),
            Err(Trouble::TimedOut(_) | Trouble::Unreachable(_) | Trouble::Other(_)) if self.is_closed() => {
                self.failed_claims.fetch_add(1, Relaxed);
            }
            Err(_) => {}
        }
        self.observe_write(outcome, read)
    }

    /// Takes a remote that has been busy for long for one that failed: callers wait while it is busy.
    fn observe_busy(&self, is_busy: bool) {
        let mut busy = self.busy.lock();
        let since = is_busy.then(|| busy.unwrap_or_else(Instant::now));
        let is_failure = since.is_some_and(|since| since.elapsed() >= LONGEST_BUSY);
        *busy = since.filter(|_| !is_failure);
        self.is_busy.store(busy.is_some(), Relaxed);
        if is_failure {
            self.change(|breaker| breaker.fail(unix_ms(), random()));
        }
    }

    /// Draws the conclusions from the outcome of a request that writes. A client that may not write may still read: `read` finds out,
    /// once.
    pub(crate) fn observe_write<T>(
        &self,
        outcome: Result<T, Trouble>,
        read: impl FnOnce() -> Result<(), Trouble>,
    ) -> Result<T, Trouble> {
        match outcome {
            Err(Trouble::Forbidden(why)) => {
                if self.stop_writes() && self.observe(read()).is_ok() {
                    let why = "the credentials permit no writes, so builds are not shared";
                    self.report(&Trouble::ReadOnly(why.to_owned()));
                }
                Err(Trouble::Forbidden(why))
            }
            outcome => self.observe(outcome),
        }
    }

    /// Draws the conclusions from the outcome of an upload. One that fails although `probe` succeeds tells nothing of the remote: its
    /// entry may be too long for this network, or something between here and there refuses it.
    pub(crate) fn observe_upload<T>(
        &self,
        outcome: Result<T, Trouble>,
        probe: impl FnOnce() -> Result<(), Trouble>,
    ) -> Result<T, Trouble> {
        match outcome {
            Err(trouble @ (Trouble::TimedOut(_) | Trouble::Unreachable(_) | Trouble::Other(_))) => {
                if self.observe(probe()).is_ok() {
                    self.report(&trouble);
                }
                Err(trouble)
            }
            outcome => self.observe_write(outcome, probe),
        }
    }

    /// Changes the breaker, and writes it down for later processes. Where that fails, each of them finds out for itself. An open breaker
    /// stays as it is: the requests that were in progress when it opened met the same outage, or were sent before it.
    fn change(&self, change: impl FnOnce(&mut Breaker)) {
        let mut breaker = self.breaker.lock();
        if breaker.mode(unix_ms()) == Mode::Open {
            return;
        }
        change(&mut breaker);
        self.is_closed.store(breaker.mode(unix_ms()) == Mode::Closed, Relaxed);
        let Some(file) = &self.file else { return };
        if self.is_closed() {
            let _ = fs::remove_file(file);
        } else {
            // A torn write is damage, and so a closed breaker.
            let _ = files::write(file, &breaker.encode());
        }
    }

    fn report(&self, trouble: &Trouble) {
        let kind = mem::discriminant(trouble);
        let mut reported = self.reported.lock();
        if reported.contains(&kind) {
            return;
        }
        reported.push(kind);
        drop(reported);
        if let Some(on_trouble) = &self.on_trouble {
            // A panic would end the thread that uploads, or that renews leases.
            let _ = panic::catch_unwind(AssertUnwindSafe(|| on_trouble(trouble)));
        }
    }
}

/// Returns whether this file says that requests are not sent now.
pub(crate) fn is_open(file: &Path) -> bool {
    read(file).mode(unix_ms()) == Mode::Open
}

fn read(file: &Path) -> Breaker {
    Breaker::decode(&files::read(file, Breaker::LEN as u64 + 1))
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Health")
            .field("breaker", &self.breaker)
            .field("writes", &self.writes())
            .finish_non_exhaustive()
    }
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    const FAILED: Result<(), Trouble> = Err(Trouble::TimedOut(String::new()));

    /// A machine whose breaker failed as often, and last so long ago.
    fn machine(failures: u64, ago: u64) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let (file, mut breaker) = (folder.path().join(FILE), Breaker::default());
        (0..failures).for_each(|_| breaker.fail(unix_ms() - ago, 0));
        if failures > 0 {
            fs::write(&file, breaker.encode()).unwrap();
        }
        (folder, file)
    }

    /// Returns whether the next probe is sent between these times from now, in milliseconds.
    fn probes_between(health: &Health, from: u64, to: u64) -> bool {
        let mode = |after: u64| health.breaker.lock().mode(unix_ms() + after);
        (mode(from), mode(to)) == (Mode::Open, Mode::Due)
    }

    #[test]
    fn failures_of_one_outage_count_once() {
        let (_folder, file) = machine(0, 0);
        let health = Health::open(Some(file), None);
        for _ in 0..8 {
            health.observe(FAILED).unwrap_err();
        }
        assert!(!health.is_closed() && probes_between(&health, 4_000, 6_250));
    }

    #[test]
    fn late_success_does_not_close_the_breaker() {
        let (_folder, file) = machine(0, 0);
        let health = Health::open(Some(file.clone()), None);
        health.observe(FAILED).unwrap_err();
        health.observe(Ok(())).unwrap();
        assert!(!health.is_closed() && is_open(&file));
    }

    #[test]
    fn probe_that_succeeds_closes_the_breaker() {
        let (_folder, file) = machine(1, 0);
        let health = Health::open(Some(file.clone()), None);
        assert!(!health.is_closed() && !health.is_probe_due());
        let mut due = Breaker::default();
        due.fail(unix_ms() - 60_000, 0);
        *health.breaker.lock() = due;
        assert!(!health.is_closed() && health.is_probe_due());
        health.observe(Ok(())).unwrap();
        assert!(health.is_closed() && !file.exists());
    }

    #[test]
    fn failure_of_yesterday_does_not_stop_a_start() {
        const DAY: u64 = 24 * 3_600_000;
        let (_folder, file) = machine(2, DAY);
        assert!(!is_open(&file));
        let health = Health::open(Some(file.clone()), None);
        assert!(health.is_closed());
        health.observe(FAILED).unwrap_err();
        assert!(!health.is_closed() && is_open(&file) && probes_between(&health, 19_000, 25_000));

        let (_folder, file) = machine(2, DAY);
        let health = Health::open(Some(file.clone()), None);
        health.observe(Ok(())).unwrap();
        assert!(health.is_closed() && !file.exists());
    }

    #[test]
    fn upload_that_fails_alone_opens_no_breaker() {
        let health = Health::open(None, None);
        health.observe_upload(FAILED, || Ok(())).unwrap_err();
        assert!(health.is_closed());
        health.observe_upload(FAILED, || FAILED).unwrap_err();
        assert!(!health.is_closed());
    }

    #[test]
    fn failing_claims_end_leases_and_no_look_ups() {
        let health = Health::open(None, None);
        let recover = || {
            let mut due = Breaker::default();
            due.fail(unix_ms() - 60_000, 0);
            *health.breaker.lock() = due;
            health.observe(Ok(())).unwrap();
        };
        let claim = |outcome| health.observe_claim(outcome, || Ok(()));
        for outcome in [FAILED, Ok(()), FAILED] {
            let _ = claim(outcome);
            recover();
            assert!(health.leases() && health.writes());
        }
        claim(FAILED).unwrap_err();
        assert!(!health.is_closed());
        recover();
        assert!(health.is_closed() && !health.leases() && health.writes());
        health.leases_from.fetch_sub(GIVEN_UP, Relaxed);
        assert!(health.leases());
    }

    #[test]
    fn callback_that_panics_ends_no_thread() {
        let health = Health::open(None, Some(Arc::new(|_| panic!("in a callback"))));
        assert!(health.observe(FAILED).is_err() && !health.is_closed());
    }

    #[test]
    fn refused_writes_are_tried_again_later() {
        let health = Health::open(None, None);
        let refuse = || health.observe::<()>(Err(Trouble::ReadOnly(String::new())));
        assert!(health.writes() && refuse().is_err() && !health.writes());
        health.writes_from.fetch_sub(GIVEN_UP, Relaxed);
        assert!(health.writes() && refuse().is_err() && !health.writes());
    }
}
