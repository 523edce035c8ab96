//! Machines that share a remote, each a directory of its own.

use std::{
    convert::Infallible,
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use warmstart::{
    Artifact, Cache, Limits, MissReason, Store,
    cache::{ManyOptions, Origin},
    store::{Claims, FileStore, MemoryStore, StoreOptions},
};
use warmstart_core::key::Key;
use warmstart_remote::{
    Fleet, FleetOptions, RemoteStore, Trouble,
    engine::{Answer, Surveyed, Token},
};

use crate::{
    Case, PASSWORD, PATIENT, Place, open_with, patient,
    servers::{Server, free_port},
    until,
};

pub(crate) const CASES: &[Case] = &[
    ("second_machine_finds_what_the_first_built", second_machine_finds_what_the_first_built),
    ("machines_that_start_together_build_each_once", machines_that_start_together_build_each_once),
    ("single_calls_on_two_machines_build_once", single_calls_on_two_machines_build_once),
    ("dead_builder_is_replaced_after_its_lease", dead_builder_is_replaced_after_its_lease),
    ("call_for_many_counts_its_waits", call_for_many_counts_its_waits),
    ("survey_goes_on_after_an_entry_without_room", survey_goes_on_after_an_entry_without_room),
    ("look_up_that_builds_nothing_frees_its_lease", look_up_that_builds_nothing_frees_its_lease),
    ("dead_remote_costs_one_deadline_a_machine", dead_remote_costs_one_deadline_a_machine),
    ("later_process_uploads_what_is_left", later_process_uploads_what_is_left),
    ("entry_too_long_for_the_deadline_stays_local", entry_too_long_for_the_deadline_stays_local),
    ("short_process_waits_for_what_others_left", short_process_waits_for_what_others_left),
    ("unverified_entry_stays_remote", unverified_entry_stays_remote),
    ("removed_entry_is_gone_on_both_levels", removed_entry_is_gone_on_both_levels),
    ("absent_entry_is_found_once_it_is_uploaded", absent_entry_is_found_once_it_is_uploaded),
];

pub(crate) const OF_REDIS: &[Case] = &[
    ("remote_that_comes_back_is_used_again", remote_that_comes_back_is_used_again),
    ("start_of_machines_takes_few_requests", start_of_machines_takes_few_requests),
    ("reader_without_scripts_reads_at_once", reader_without_scripts_reads_at_once),
];

pub(crate) const OF_NGINX: &[Case] = &[
    ("remote_without_leases_builds_and_says_so_once", remote_without_leases_builds_and_says_so_once),
    ("read_only_remote_serves_and_keeps_the_disk", read_only_remote_serves_and_keeps_the_disk),
];

const DEADLINE: Duration = Duration::from_millis(300);

/// A machine: a directory with a local store and the state of the fleet.
pub(crate) struct Machine(TempDir);

impl Machine {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn local(&self) -> FileStore {
        local_at(self.path())
    }

    /// Does what passing time does: the next process sends requests again.
    pub(crate) fn close_breaker(&self) {
        let started = Instant::now();
        // It is written after the process has noticed.
        while fs::remove_file(self.path().join("fleet/breaker")).is_err() {
            assert!(started.elapsed() < PATIENT);
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn fleet_with(&self, url: &str, deadline: Duration, options: FleetOptions) -> Fleet<FileStore> {
        fleet_at(self.path(), open_with(url, deadline), options)
    }

    pub(crate) fn fleet(&self, url: &str) -> Fleet<FileStore> {
        self.fleet_with(url, PATIENT, FleetOptions::default())
    }
}

fn local_at(folder: &Path) -> FileStore {
    FileStore::open(folder.join("cache"), StoreOptions::default()).unwrap()
}

pub(crate) fn fleet_at(folder: &Path, remote: RemoteStore, options: FleetOptions) -> Fleet<FileStore> {
    Fleet::new(local_at(folder), remote, options.with_directory(folder.join("fleet")))
}

fn artifact() -> Artifact {
    Artifact::new(b"payload".to_vec())
}

fn second_machine_finds_what_the_first_built(place: &Place) {
    let (one, two) = (Machine::new(), Machine::new());
    let cache = Cache::new(one.fleet(&place.url()));
    let built = cache.get_or_build("key", || Ok::<_, Infallible>(b"payload".to_vec())).unwrap();
    assert!(matches!(built.origin(), Origin::Built { .. }));
    assert!(cache.store().wait_for_uploads(PATIENT));
    let statistics = cache.store().statistics();
    assert_eq!((statistics.uploads, statistics.uploads_waiting, statistics.uploads_dropped), (1, 0, 0));
    assert_eq!(statistics.misses, 1, "the look-up after the claim is the same call's");

    let cache = Cache::new(two.fleet(&place.url()));
    let found = cache.get_or_build("key", || -> Result<Vec<u8>, Infallible> { unreachable!() }).unwrap();
    assert_eq!((found.artifact().payload(), found.origin()), (&b"payload"[..], Origin::Hit));
    assert_eq!(cache.get("key").unwrap().payload(), b"payload");
    let statistics = cache.store().statistics();
    assert_eq!((statistics.remote_hits, statistics.local_hits, statistics.uploads), (1, 1, 0));
    assert_eq!(
        two.local().get(b"key").unwrap().payload(),
        b"payload",
        "it is on the disk without the remote"
    );
}

fn machines_that_start_together_build_each_once(place: &Place) {
    const KEYS: usize = 30;
    let machines = [Machine::new(), Machine::new()];
    let builds = AtomicUsize::new(0);
    thread::scope(|scope| {
        // Two processes each, as far as the store can tell.
        for machine in machines.iter().chain(&machines) {
            let (url, builds) = (place.url(), &builds);
            scope.spawn(move || {
                let cache = Cache::new(machine.fleet(&url));
                let keys: Vec<String> = (0..KEYS).map(|number| number.to_string()).collect();
                let build = |index: usize| {
                    builds.fetch_add(1, SeqCst);
                    thread::sleep(Duration::from_millis(20));
                    Ok::<_, Infallible>(keys[index].clone().into_bytes())
                };
                let options = ManyOptions::default().with_workers(2);
                let fetched = cache.get_or_build_many(keys.iter().map(String::as_str), options, build);
                for (key, fetched) in keys.iter().zip(fetched) {
                    assert_eq!(fetched.unwrap().artifact().payload(), key.as_bytes());
                }
                assert!(cache.store().wait_for_uploads(PATIENT));
            });
        }
    });
    assert_eq!(builds.load(SeqCst), KEYS);
}

/// What others have stored is asked for at once, and not one by one.
fn start_of_machines_takes_few_requests(place: &Place) {
    const MACHINES: usize = 8;
    let server = Server::redis(&["--requirepass", PASSWORD]);
    let url = place.engine.url(server.port, place.case);
    let info = |command: &str| server.request(&format!("AUTH {PASSWORD}\r\n{command}\r\nQUIT"));
    let builds = AtomicUsize::new(0);
    info("CONFIG RESETSTAT");
    thread::scope(|scope| {
        for _ in 0..MACHINES {
            scope.spawn(|| {
                let fleet = Fleet::new(
                    MemoryStore::new(Limits::NONE),
                    open_with(&url, PATIENT),
                    FleetOptions::default(),
                );
                let cache = Cache::new(fleet);
                let keys: Vec<[u8; 1]> = (0..80).map(|number| [number]).collect();
                let build = |at: usize| {
                    builds.fetch_add(1, SeqCst);
                    thread::sleep(Duration::from_millis(20));
                    Ok::<_, Infallible>(vec![at as u8])
                };
                for (number, built) in cache
                    .get_or_build_many(&keys, ManyOptions::default().with_workers(1), build)
                    .iter()
                    .enumerate()
                {
                    assert!(built.as_ref().is_ok_and(|built| built.artifact().payload() == [number as u8]));
                }
            });
        }
    });
    let counted = info("INFO commandstats");
    let calls = |command: &str| {
        let line = counted.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
        line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
    };
    let requests: usize = calls("eval") + calls("mget");
    assert_eq!(builds.into_inner(), 80);
    assert!(requests <= MACHINES * 90, "{requests} requests: {counted}");
}

fn single_calls_on_two_machines_build_once(place: &Place) {
    let machines = [Machine::new(), Machine::new()];
    let builds = AtomicUsize::new(0);
    thread::scope(|scope| {
        for machine in &machines {
            let (url, builds) = (place.url(), &builds);
            scope.spawn(move || {
                let cache = Cache::new(machine.fleet(&url));
                let build = || {
                    builds.fetch_add(1, SeqCst);
                    // Longer than a lease lives without renewal.
                    thread::sleep(Duration::from_secs(4));
                    Ok::<_, Infallible>(b"payload".to_vec())
                };
                assert_eq!(cache.get_or_build("key", build).unwrap().artifact().payload(), b"payload");
            });
        }
    });
    assert_eq!(builds.load(SeqCst), 1);
}

fn dead_builder_is_replaced_after_its_lease(place: &Place) {
    let dead = patient(&place.url());
    let claimed = dead.engine().get_or_claim(&Key::digest(b"key"), &Token::random().unwrap(), until());
    assert!(matches!(claimed, Ok(Answer::Claimed(_))), "{claimed:?}");
    let machine = Machine::new();
    let cache = Cache::new(machine.fleet(&place.url()));
    let started = Instant::now();
    let built = cache.get_or_build("key", || Ok::<_, Infallible>(b"payload".to_vec())).unwrap();
    assert!(matches!(built.origin(), Origin::Built { .. }));
    let waited = started.elapsed();
    assert!(waited > Duration::from_secs(2) && waited < Duration::from_secs(20), "{waited:?}");
    assert_eq!(cache.store().statistics().lease_waits, 1);
}

fn call_for_many_counts_its_waits(place: &Place) {
    let dead = patient(&place.url());
    let claimed = dead.engine().get_or_claim(&Key::digest(b"key"), &Token::random().unwrap(), until());
    assert!(matches!(claimed, Ok(Answer::Claimed(_))), "{claimed:?}");
    let machine = Machine::new();
    let cache = Cache::new(machine.fleet(&place.url()));
    let build = |_| Ok::<_, Infallible>(b"payload".to_vec());
    let built = cache.get_or_build_many(["own", "key"], ManyOptions::default(), build);
    assert!(built.iter().all(|built| matches!(built.as_ref().unwrap().origin(), Origin::Built { .. })));
    let statistics = cache.store().statistics();
    assert_eq!(statistics.lease_waits, 1);
    assert!(statistics.lease_wait_nanos > 1_000_000_000, "{statistics:?}");
}

fn survey_goes_on_after_an_entry_without_room(place: &Place) {
    let remote = patient(&place.url());
    let keys: [&[u8]; 3] = [b"long", b"short", b"other"];
    for (key, len) in keys.iter().zip([100_000, 100, 100]) {
        remote.put(key, &Artifact::new(vec![7; len])).unwrap();
    }
    let fleet = Fleet::new(MemoryStore::new(Limits::bytes(50_000)), remote, FleetOptions::default());
    let surveyed = fleet.survey(&keys.map(Key::digest)).unwrap();
    assert_eq!(surveyed, [warmstart_core::batch::Surveyed::Stored; 3]);
    for key in &keys[1..] {
        assert!(fleet.local().get(key).is_ok());
        assert!(fleet.get(key).is_ok());
    }
    let statistics = fleet.statistics();
    assert_eq!((statistics.remote_hits, statistics.local_hits), (0, 2), "each was looked up once");
    assert!(statistics.bytes_used < 2_000 && statistics.bytes_received > 100_000, "{statistics:?}");
}

fn look_up_that_builds_nothing_frees_its_lease(place: &Place) {
    let machine = Machine::new();
    let fleet = machine.fleet(&place.url());
    assert_eq!(fleet.get_to_build(b"key").unwrap_err(), MissReason::Absent);
    assert_eq!(fleet.get(b"other").unwrap_err(), MissReason::Absent);
    let other = patient(&place.url());
    let state = |key: &[u8]| other.engine().survey(&[Key::digest(key)], until()).unwrap().remove(0);
    assert!(matches!(state(b"key"), Surveyed::Held(_)));
    assert_eq!(state(b"other"), Surveyed::Free, "a look-up that builds nothing takes no lease");
    let started = Instant::now();
    while state(b"key") != Surveyed::Free {
        assert!(started.elapsed() < PATIENT);
        thread::sleep(Duration::from_millis(50));
    }
    let again = fleet.claim(&Key::digest(b"key"), Some(Instant::now())).unwrap();
    assert!(again.is_some() && matches!(state(b"key"), Surveyed::Held(_)));
}

fn dead_remote_costs_one_deadline_a_machine(place: &Place) {
    // Accepts, and never answers.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = place.engine.url(listener.local_addr().unwrap().port(), place.case);
    let machine = Machine::new();
    let run = || {
        let started = Instant::now();
        let troubles = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&troubles);
        let options = FleetOptions::default().with_on_trouble(move |trouble| {
            // An assertion would be caught.
            let kind = match trouble {
                Trouble::TimedOut(_) => 1,
                Trouble::Unreachable(why) if why.contains("another process") => 10,
                _ => 100,
            };
            seen.fetch_add(kind, SeqCst);
        });
        let cache = Cache::new(machine.fleet_with(&url, DEADLINE, options));
        for key in ["a", "b", "c"] {
            let built = cache.get_or_build(key, || Ok::<_, Infallible>(key.as_bytes().to_vec())).unwrap();
            assert_eq!(built.artifact().payload(), key.as_bytes());
        }
        let took = started.elapsed();
        let statistics = cache.store().statistics();
        assert!(statistics.is_breaker_open);
        (took, troubles.load(SeqCst))
    };
    let (took, troubles) = run();
    assert!(took >= DEADLINE.mul_f64(0.95) && took < DEADLINE * 2, "{took:?}");
    assert_eq!(troubles, 1);
    let (took, troubles) = run();
    assert!(took < DEADLINE && troubles == 10, "{took:?}: the next process knows, and says so");

    let fleet = machine.fleet_with(&url, DEADLINE, FleetOptions::default());
    assert!(fleet.get(b"d").is_err() && fleet.get_into(b"d", &mut Vec::new()).is_err());
    assert!(fleet.get_many(&[b"a", b"d"])[1].is_err() && fleet.get_to_build(b"d").is_err());
    let statistics = fleet.statistics();
    assert_eq!((statistics.local_hits, statistics.misses), (1, 4), "counted without a remote too");
}

/// On machines where nothing but the failure itself starts the background.
fn remote_that_comes_back_is_used_again(place: &Place) {
    let (machines, port) = ([Machine::new(), Machine::new()], free_port());
    let [reader, writer] =
        machines.each_ref().map(|machine| machine.fleet(&place.engine.url(port, place.case)));
    assert_eq!(reader.get(b"key").unwrap_err(), MissReason::Absent);
    writer.put(b"key", &artifact()).unwrap();
    assert!(!writer.wait_for_uploads(PATIENT));
    assert!(reader.statistics().is_breaker_open && writer.statistics().is_breaker_open);
    let _server = Server::redis_at(port, &["--requirepass", PASSWORD]);
    let started = Instant::now();
    while reader.get(b"key").is_err() {
        assert!(started.elapsed() < PATIENT);
        thread::sleep(Duration::from_millis(100));
    }
}

/// Claims and surveys are scripts, which this reader may not run.
fn reader_without_scripts_reads_at_once(place: &Place) {
    let server = Server::redis(&["--requirepass", PASSWORD]);
    let url = place.engine.url(server.port, place.case);
    patient(&url).put(b"key", &artifact()).unwrap();
    let rights = format!("ACL SETUSER default reset on >{PASSWORD} ~* -@all +mget +select");
    let said = server.request(&format!("AUTH {PASSWORD}\r\n{rights}\r\nQUIT"));
    assert_eq!(said.matches("+OK").count(), 3, "{said}");
    let [one, many] = [Machine::new(), Machine::new()].map(|machine| machine.fleet(&url));
    assert_eq!(one.get_to_build(b"key").unwrap().payload(), b"payload");
    assert_eq!(many.claims().and_then(|claims| claims.survey(&[Key::digest(b"key")])), None);
    assert_eq!(many.get(b"key").unwrap().payload(), b"payload");
    assert!(!one.statistics().is_breaker_open && !many.statistics().is_breaker_open);
}

fn later_process_uploads_what_is_left(place: &Place) {
    let machine = Machine::new();
    let port = free_port();
    {
        let dead = machine.fleet_with(&place.engine.url(port, place.case), DEADLINE, FleetOptions::default());
        for key in [b"a", b"b"] {
            dead.put(key, &artifact()).unwrap();
        }
        assert!(!dead.wait_for_uploads(PATIENT));
        assert_eq!(dead.statistics().uploads_waiting, 2);
    }
    machine.close_breaker();
    let other = patient(&place.url());
    let started = Instant::now();
    // The thread of the first fleet keeps its list until its request ended.
    while other.get_many(&[b"a", b"b"]).iter().any(Result::is_err) {
        assert!(started.elapsed() < PATIENT);
        let _later = machine.fleet(&place.url());
        thread::sleep(Duration::from_millis(500));
    }
    while fs::read_dir(machine.path().join("fleet/uploads")).unwrap().count() > 0 {
        assert!(started.elapsed() < PATIENT, "the list of uploads goes when they are done");
        thread::sleep(Duration::from_millis(50));
    }
}

fn entry_too_long_for_the_deadline_stays_local(place: &Place) {
    let machine = Machine::new();
    let deadline = Duration::from_millis(500);
    let long = Artifact::new(vec![0; 50_000_000]);
    let fleet = machine.fleet_with(&place.url(), deadline, FleetOptions::default());
    fleet.put(b"long", &long).unwrap();
    assert!(fleet.wait_for_uploads(PATIENT));
    let statistics = fleet.statistics();
    assert_eq!((statistics.uploads, statistics.uploads_dropped), (0, 1));
    assert!(!statistics.is_breaker_open && fleet.get(b"long").is_ok());
    assert_eq!(open_with(&place.url(), deadline).put(b"long", &long), Err(MissReason::Oversize));
}

fn short_process_waits_for_what_others_left(place: &Place) {
    const LEFT: u32 = 100;
    let machine = Machine::new();
    let keys: Vec<[u8; 4]> = (0..LEFT).map(u32::to_le_bytes).collect();
    {
        let dead =
            machine.fleet_with(&place.engine.url(free_port(), place.case), DEADLINE, FleetOptions::default());
        keys.iter().for_each(|key| _ = dead.put(key, &artifact()).unwrap());
        assert!(!dead.wait_for_uploads(PATIENT));
    }
    machine.close_breaker();
    // The thread of the first fleet keeps its list until its request ended.
    let list = fs::read_dir(machine.path().join("fleet/uploads")).unwrap().next().unwrap().unwrap().path();
    while fs::File::open(&list).unwrap().try_lock().is_err() {
        thread::sleep(Duration::from_millis(10));
    }
    {
        let short = machine.fleet(&place.url());
        assert!(short.wait_for_uploads(PATIENT));
        assert_eq!(short.statistics().uploads, u64::from(LEFT));
    }
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    assert!(patient(&place.url()).get_many(&keys).iter().all(Result::is_ok));
    assert!(!list.exists());
}

fn unverified_entry_stays_remote(place: &Place) {
    let other = patient(&place.url());
    let mut entry = other.encode(b"key", &artifact()).unwrap();
    *entry.last_mut().unwrap() ^= 1;
    let name = Key::digest(b"key");
    other.engine().put(&name, &entry, until()).unwrap();
    let machine = Machine::new();
    let fleet = machine.fleet(&place.url());
    for _ in 0..2 {
        assert_eq!(fleet.get(b"key").unwrap_err(), MissReason::ChecksumMismatch);
        assert_eq!(fleet.get_many(&[b"key"]).remove(0).unwrap_err(), MissReason::ChecksumMismatch);
        assert_eq!(fleet.get_to_build(b"key").unwrap_err(), MissReason::ChecksumMismatch);
    }
    assert_eq!(fleet.statistics().refused, 6);
    assert_eq!(machine.local().contains(b"key"), Ok(false));
    assert_eq!(other.engine().get(&name, until()).unwrap().unwrap().bytes, entry);
}

fn removed_entry_is_gone_on_both_levels(place: &Place) {
    let machine = Machine::new();
    let fleet = machine.fleet(&place.url());
    fleet.put(b"key", &artifact()).unwrap();
    assert!(fleet.wait_for_uploads(PATIENT));
    assert_eq!(fleet.contains(b"key"), Ok(true));
    assert_eq!((fleet.remove(b"key"), fleet.remove(b"key")), (Ok(true), Ok(false)));
    assert_eq!((fleet.contains(b"key"), fleet.get(b"key").unwrap_err()), (Ok(false), MissReason::Absent));
}

fn absent_entry_is_found_once_it_is_uploaded(place: &Place) {
    let machines = [Machine::new(), Machine::new()];
    let [reader, writer] = machines.each_ref().map(|machine| machine.fleet(&place.url()));
    for key in [b"a", b"b"] {
        assert_eq!(reader.get(key).unwrap_err(), MissReason::Absent);
        assert_eq!(reader.get_many(&[key]).remove(0).unwrap_err(), MissReason::Absent);
        assert_eq!(reader.contains(key), Ok(false));
        writer.put(key, &artifact()).unwrap();
    }
    assert!(writer.wait_for_uploads(PATIENT));
    assert_eq!(reader.contains(b"a"), Ok(true));
    assert_eq!(reader.get(b"a").unwrap().payload(), b"payload");
    assert_eq!(reader.get_many(&[b"b"]).remove(0).unwrap().payload(), b"payload");
}

fn remote_without_leases_builds_and_says_so_once(place: &Place) {
    let machines = [Machine::new(), Machine::new()];
    for (number, machine) in machines.iter().enumerate() {
        let troubles = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&troubles);
        let options = FleetOptions::default().with_on_trouble(move |trouble| {
            // An assertion would be caught.
            seen.fetch_add(if matches!(trouble, Trouble::Unsupported(_)) { 1 } else { 100 }, SeqCst);
        });
        let cache = Cache::new(machine.fleet_with(&place.url(), PATIENT, options));
        for key in ["a", "b", "c"] {
            let fetched = cache.get_or_build(key, || Ok::<_, Infallible>(key.as_bytes().to_vec())).unwrap();
            assert_eq!(fetched.artifact().payload(), key.as_bytes());
        }
        assert!(cache.store().wait_for_uploads(PATIENT));
        assert_eq!(cache.statistics().builds, if number == 0 { 3 } else { 0 });
        // The second machine finds all, and claims nothing.
        assert_eq!(troubles.load(SeqCst), usize::from(number == 0));
    }
}

fn read_only_remote_serves_and_keeps_the_disk(place: &Place) {
    let writer = Machine::new();
    let fleet = writer.fleet(&place.url());
    fleet.put(b"key", &artifact()).unwrap();
    assert!(fleet.wait_for_uploads(PATIENT));
    let port = place.servers.nginx().port;
    let url = format!("http://127.0.0.1:{port}/{}/{}", crate::servers::BUCKET, place.case);
    let reader = Machine::new();
    let cache = Cache::new(reader.fleet(&url));
    assert_eq!(cache.get("key").unwrap().payload(), b"payload");
    let built = cache.get_or_build("own", || Ok::<_, Infallible>(b"own".to_vec())).unwrap();
    assert_eq!(built.artifact().payload(), b"own");
    assert_eq!(cache.get("own").unwrap().payload(), b"own");
    assert_eq!(reader.local().get(b"own").unwrap().payload(), b"own");
    assert_eq!(fleet.get(b"own").unwrap_err(), MissReason::Absent);
}
