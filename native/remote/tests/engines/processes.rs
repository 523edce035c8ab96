//! Processes that share a remote: they start together, die, stand still, and fork. Each is this program, started again as a worker.

use std::{
    collections::HashSet,
    convert::Infallible,
    env,
    fs::{self, File, OpenOptions},
    io::{BufRead, BufReader, Read as _, Write},
    net::TcpListener,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process::{self, Child, Command, Stdio},
    sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use warmstart::{Artifact, Cache, MissReason, Store, cache::ManyOptions, store::FileStore};
use warmstart_remote::{Fleet, FleetOptions};

use crate::{
    Case, PATIENT, Place,
    fleet::{Machine, fleet_at},
    patient,
    servers::Engine,
};

pub(crate) const CASES: &[Case] = &[
    ("eight_processes_build_each_once", eight_processes_build_each_once),
    ("killed_process_costs_the_builds_it_began", killed_process_costs_the_builds_it_began),
    ("paused_process_costs_one_build_at_most", paused_process_costs_one_build_at_most),
    ("forked_children_use_the_local_store_alone", forked_children_use_the_local_store_alone),
];

/// Without an engine.
pub(crate) const OF_NONE: &[Case] =
    &[("child_of_a_dead_process_holds_no_list", child_of_a_dead_process_holds_no_list)];

/// Names the work of a worker. Its arguments are the URL of the remote, the folder of its machine, and the log of all builds.
const WORK: &str = "WARMSTART_ENGINES_WORK";

const KEYS: usize = 40;
const BUILD: Duration = Duration::from_millis(25);

/// The first build of a slow worker.
const SLOW_BUILD: Duration = Duration::from_secs(2);

const FORKS: u32 = 50;

/// How long a forked child may live, in seconds.
const CHILD_SECONDS: u32 = 5;

/// Returns whether this process was started by a case.
pub(crate) fn is_worker() -> bool {
    env::var_os(WORK).is_some()
}

pub(crate) fn work() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [url, folder, log] = &arguments[..] else { panic!("{arguments:?}") };
    let folder = Path::new(folder);
    match env::var(WORK).as_deref() {
        Ok("build") => build(url, folder, log, 2, BUILD),
        Ok("build slowly") => build(url, folder, log, 1, SLOW_BUILD),
        Ok("fork") => fork(url, folder),
        Ok("fork and end") => fork_and_end(folder),
        work => panic!("{work:?}"),
    }
}

fn key(number: usize) -> String {
    format!("kernel {number}")
}

fn payload(number: usize) -> Vec<u8> {
    format!("code of {number}, ").repeat(50).into_bytes()
}

/// A process on a machine.
struct Worker(Child);

impl Worker {
    fn start(work: &str, place: &Place, machine: &Machine, log: &Path) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.env(WORK, work).arg(place.url()).args([machine.path(), log]);
        let mut worker = Self(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
        let mut ready = String::new();
        BufReader::new(worker.0.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert_eq!(ready, "ready\n");
        worker
    }

    /// Lets it begin.
    fn begin(&mut self) {
        drop(self.0.stdin.take());
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.0.id().to_string()]).status().unwrap().success());
    }

    fn join(mut self) {
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Says that it is ready, and waits for the others.
fn wait_for_begin() {
    println!("ready");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// Gets or builds all keys. The first build takes as long as `first`.
fn build(url: &str, folder: &Path, log: &str, workers: usize, first: Duration) {
    let cache = Cache::new(fleet_at(folder, patient(url), FleetOptions::default()));
    let keys: Vec<String> = (0..KEYS).map(key).collect();
    let is_first = AtomicBool::new(true);
    let build = |index: usize| {
        // One write, so that the lines of processes do not mix.
        let mut log = OpenOptions::new().append(true).open(log).unwrap();
        log.write_all(format!("{} {index}\n", process::id()).as_bytes()).unwrap();
        thread::sleep(if is_first.swap(false, Relaxed) { first } else { BUILD });
        Ok::<_, Infallible>(payload(index))
    };
    wait_for_begin();
    let options = ManyOptions::default().with_workers(workers);
    let fetched = cache.get_or_build_many(keys.iter().map(String::as_str), options, build);
    for (number, fetched) in fetched.into_iter().enumerate() {
        assert!(fetched.unwrap().artifact().payload() == payload(number), "{number}");
    }
    assert!(cache.store().wait_for_uploads(PATIENT));
    assert_eq!(cache.store().statistics().refused, 0);
}

/// Eight processes on two machines, and the builds of all of them.
struct Processes {
    machines: [Machine; 2],
    workers: Vec<Worker>,
    log: PathBuf,
}

impl Processes {
    /// Starts them. The first one begins alone, with a slow build, where `with_slow` says so.
    fn start(place: &Place, with_slow: bool) -> Self {
        let machines = [Machine::new(), Machine::new()];
        let log = machines[0].path().join("builds");
        File::create(&log).unwrap();
        let start = |number: usize| {
            let work = if with_slow && number == 0 { "build slowly" } else { "build" };
            Worker::start(work, place, &machines[number % 2], &log)
        };
        let workers = thread::scope(|scope| {
            let starting: Vec<_> = (0..8).map(|number| scope.spawn(move || start(number))).collect();
            starting.into_iter().map(|worker| worker.join().unwrap()).collect()
        });
        let mut processes = Self { machines, workers, log };
        if with_slow {
            processes.workers[0].begin();
            let started = Instant::now();
            while processes.builds().is_empty() {
                assert!(started.elapsed() < PATIENT);
                thread::sleep(Duration::from_millis(2));
            }
        }
        processes
    }

    /// Returns who built what.
    fn builds(&self) -> Vec<(u32, usize)> {
        let parse = |line: &str| {
            let (process, index) = line.split_once(' ').unwrap();
            (process.parse().unwrap(), index.parse().unwrap())
        };
        fs::read_to_string(&self.log).unwrap().lines().map(parse).collect()
    }

    fn begin(&mut self) {
        self.workers.iter_mut().for_each(Worker::begin);
    }

    /// Waits for their ends. Checks that each artifact was built, and is right on both machines and in the remote.
    fn join(&mut self, place: &Place) {
        self.workers.drain(..).for_each(Worker::join);
        let built: HashSet<usize> = self.builds().into_iter().map(|(_, index)| index).collect();
        assert_eq!(built.len(), KEYS);
        let remote = patient(&place.url());
        let stores: [&dyn Store; 3] = [&self.machines[0].local(), &self.machines[1].local(), &remote];
        for number in 0..KEYS {
            for store in stores {
                assert!(store.get(key(number).as_bytes()).unwrap().payload() == payload(number), "{number}");
            }
        }
    }
}

fn eight_processes_build_each_once(place: &Place) {
    let mut processes = Processes::start(place, false);
    processes.begin();
    processes.join(place);
    assert_eq!(processes.builds().len(), KEYS);
}

fn killed_process_costs_the_builds_it_began(place: &Place) {
    let mut processes = Processes::start(place, true);
    let killed = processes.workers.remove(0);
    processes.begin();
    while processes.builds().len() < KEYS / 4 {
        thread::sleep(Duration::from_millis(2));
    }
    killed.signal("-KILL");
    let dead = killed.0.id();
    drop(killed);
    processes.join(place);
    let (of_dead, others): (Vec<_>, Vec<_>) =
        processes.builds().into_iter().partition(|(process, _)| *process == dead);
    // On a busy machine, its slow build ends before the others have built so many.
    assert!(!of_dead.is_empty() && others.len() <= KEYS + 1, "{} and {}", of_dead.len(), others.len());
}

fn paused_process_costs_one_build_at_most(place: &Place) {
    let mut processes = Processes::start(place, true);
    processes.workers[0].signal("-STOP");
    processes.begin();
    // Longer than a lease lives.
    thread::sleep(Duration::from_secs(4));
    processes.workers[0].signal("-CONT");
    processes.join(place);
    let builds = processes.builds().len();
    assert!(builds <= KEYS + 1, "{builds}");
}

fn forked_children_use_the_local_store_alone(place: &Place) {
    let machine = Machine::new();
    let mut worker = Worker::start("fork", place, &machine, Path::new(""));
    worker.begin();
    worker.join();
}

/// Forks while two threads store, and while what they stored is uploaded.
fn fork(url: &str, folder: &Path) {
    let cache = Cache::new(fleet_at(folder, patient(url), FleetOptions::default()));
    cache.store().put(b"stored", &Artifact::new(payload(0))).unwrap();
    patient(url).put(b"remote", &Artifact::new(payload(0))).unwrap();
    wait_for_begin();
    let (stored, is_done) = (AtomicU32::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_done.load(Relaxed) {
                    let number = stored.fetch_add(1, Relaxed).to_le_bytes();
                    cache.store().put(&number, &Artifact::new(number.to_vec())).unwrap();
                    thread::sleep(Duration::from_millis(2));
                }
            });
        }
        for number in 0..FORKS {
            // SAFETY: that this may be done while other threads run is what is tested. The child ends below.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: it ends the child if that takes too long.
                unsafe { libc::alarm(CHILD_SECONDS) };
                let ended = catch_unwind(AssertUnwindSafe(|| use_in_child(&cache, number)));
                // SAFETY: it ends the child.
                unsafe { libc::_exit(i32::from(ended.is_err())) };
            }
            let mut status = 0;
            // SAFETY: it is a child of this process that nothing else waits for.
            let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
            is_done.store(ended != child || status != 0, Relaxed);
            assert_eq!((ended, status), (child, 0), "child {number}");
        }
        is_done.store(true, Relaxed);
    });
    assert!(cache.store().wait_for_uploads(PATIENT));
    let (stored, remote) = (stored.into_inner(), patient(url));
    assert_eq!(cache.store().statistics().uploads, u64::from(stored) + 1);
    let keys: Vec<[u8; 4]> = (0..stored).map(u32::to_le_bytes).collect();
    let keys: Vec<&[u8]> = keys.iter().map(<[u8; 4]>::as_slice).collect();
    for (key, found) in keys.iter().zip(remote.get_many(&keys)) {
        assert_eq!(found.unwrap().payload(), *key);
    }
    assert!(remote.get(b"child").is_err() && remote.get(b"built by 0").is_err());
}

/// Opens a fleet whose remote takes requests and never answers. If it refused them, a busy machine could find that out before the
/// process ends, and the next one would leave the list alone.
fn fleet_of_silent_remote(folder: &Path) -> (Fleet<FileStore>, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = Engine::Redis.url(listener.local_addr().unwrap().port(), "nothing");
    (fleet_at(folder, patient(&url), FleetOptions::default()), listener)
}

fn child_of_a_dead_process_holds_no_list(place: &Place) {
    let machine = Machine::new();
    let mut worker = Worker::start("fork and end", place, &machine, Path::new(""));
    worker.begin();
    worker.join();
    let (fleet, _silent) = fleet_of_silent_remote(machine.path());
    let started = Instant::now();
    while fleet.statistics().uploads_waiting != 1 {
        assert!(started.elapsed() < PATIENT);
        thread::sleep(Duration::from_millis(5));
    }
}

/// Leaves an upload and a child.
fn fork_and_end(folder: &Path) -> ! {
    let (fleet, _silent) = fleet_of_silent_remote(folder);
    wait_for_begin();
    fleet.put(b"key", &Artifact::new(payload(0))).unwrap();
    // SAFETY: the child does nothing but wait for its end.
    unsafe {
        if libc::fork() == 0 {
            libc::alarm(CHILD_SECONDS);
            loop {
                libc::pause();
            }
        }
    }
    // Nothing is dropped.
    process::exit(0);
}

fn use_in_child<S: Store>(cache: &Cache<S>, number: u32) {
    let store = cache.store();
    assert_eq!(store.get(b"stored").unwrap().payload(), payload(0));
    assert_eq!(store.get(b"remote").unwrap_err(), MissReason::Absent);
    store.put(b"child", &Artifact::new(number.to_le_bytes().to_vec())).unwrap();
    assert_eq!(store.get(b"child").unwrap().payload(), number.to_le_bytes());
    let key = format!("built by {number}");
    let built = cache.get_or_build(key.as_str(), || Ok::<_, Infallible>(payload(1))).unwrap();
    assert_eq!(built.artifact().payload(), payload(1));
}
