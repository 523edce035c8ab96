//! What lies between a fleet and its engine, and fails: a proxy that delays, cuts and swallows answers, and the engine itself, which
//! stops in the middle.

use std::{
    collections::HashSet,
    convert::Infallible,
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use warmstart::{
    Artifact, Cache, Limits, MissReason, Store,
    cache::ManyOptions,
    store::{Claims, FileStore, MemoryStore},
};
use warmstart_core::{key::Key, lease};
use warmstart_remote::{
    Fleet, FleetOptions, Trouble,
    engine::{Answer, Surveyed, Token},
    pull, push,
};

use crate::{
    Case, PASSWORD, PATIENT, Place,
    fleet::{Machine, fleet_at},
    open_with, patient,
    servers::{Engine, Server, free_port},
    until,
};

pub(crate) const CASES: &[Case] = &[
    ("slow_answers_cost_no_build", slow_answers_cost_no_build),
    ("batch_longer_than_the_deadline_arrives", batch_longer_than_the_deadline_arrives),
    ("leases_behind_slow_answers_are_kept", leases_behind_slow_answers_are_kept),
    ("late_answers_do_no_harm", late_answers_do_no_harm),
    ("answers_cut_short_do_no_harm", answers_cut_short_do_no_harm),
    ("connections_cut_at_random_do_no_harm", connections_cut_at_random_do_no_harm),
    ("lost_answers_to_claims_do_no_harm", lost_answers_to_claims_do_no_harm),
    ("lost_answers_to_puts_do_no_harm", lost_answers_to_puts_do_no_harm),
    ("upload_in_progress_does_not_undo_a_removal", upload_in_progress_does_not_undo_a_removal),
    ("removal_during_a_long_upload_is_refused", removal_during_a_long_upload_is_refused),
    ("upload_that_fails_alone_is_dropped", upload_that_fails_alone_is_dropped),
    ("new_builds_go_before_what_was_left", new_builds_go_before_what_was_left),
    ("removal_holds_though_the_upload_is_tried_again", removal_holds_though_the_upload_is_tried_again),
    ("puts_do_not_shorten_the_pauses_of_an_upload", puts_do_not_shorten_the_pauses_of_an_upload),
];

pub(crate) const OF_S3: &[Case] = &[
    ("store_that_ignores_if_match_has_no_leases", store_that_ignores_if_match_has_no_leases),
    ("probe_that_takes_longer_than_a_call_is_remembered", probe_that_takes_longer_than_a_call_is_remembered),
    ("probe_without_end_means_no_leases", probe_without_end_means_no_leases),
    ("lost_request_of_a_probe_ends_no_leases", lost_request_of_a_probe_ends_no_leases),
    ("copies_go_on_after_busy_answers", copies_go_on_after_busy_answers),
];

/// With a Redis of their own, which they stop.
pub(crate) const OF_REDIS: &[Case] = &[
    ("engine_paused_in_mid_run_costs_no_artifact", engine_paused_in_mid_run_costs_no_artifact),
    ("engine_killed_in_mid_run_costs_no_artifact", engine_killed_in_mid_run_costs_no_artifact),
];

const DEADLINE: Duration = Duration::from_millis(300);
const BUILD: Duration = Duration::from_millis(20);
const KEYS: usize = 12;

/// How many of the keys are stored before the machines start.
const STORED: usize = 4;

/// What a proxy does to what the engine answers.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Delay(Duration),
    /// Holds back requests that store entries.
    DelayPuts(Duration),
    /// Cuts each connection after so many bytes.
    CutAfter(usize),
    /// Cuts one answer in eight, before it or in its midst, by the numbers of this seed.
    CutAtRandom(u64),
    /// Swallows the first answers to requests that claim, and cuts their connections.
    LoseClaims(usize),
    /// The same of requests that store entries.
    LosePuts(usize),
    /// Hides the header `If-Match`.
    HideIfMatch,
    /// Never answers the first requests with the header `If-Match`.
    SwallowIfMatch(usize),
    /// Cuts the connection of the first request that stores an entry, after a while, and that of the next request.
    CutTwice(Duration),
    /// Answers 503 to each request once.
    BusyOnce,
}

/// Copies bytes from and to an engine, as long as the process lives.
struct Proxy {
    port: u16,
    /// How often it did harm.
    harmed: Arc<AtomicUsize>,
}

impl Proxy {
    fn start(engine: u16, harm: Harm) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Self { port: listener.local_addr().unwrap().port(), harmed: Arc::default() };
        let (harmed, refused) = (Arc::clone(&proxy.harmed), Arc::<Mutex<HashSet<_>>>::default());
        thread::spawn(move || {
            for (number, client) in (1..).zip(listener.incoming().flatten()) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", engine)) else { continue };
                let (harmed, refused) = (Arc::clone(&harmed), Arc::clone(&refused));
                let way = Way { client, server, harm, number, harmed, refused };
                thread::spawn(move || way.copy());
            }
        });
        proxy
    }
}

/// A connection through a proxy.
struct Way {
    client: TcpStream,
    server: TcpStream,
    harm: Harm,
    number: u64,
    harmed: Arc<AtomicUsize>,
    /// The first lines of the requests that were answered with 503.
    refused: Arc<Mutex<HashSet<Vec<u8>>>>,
}

impl Way {
    fn copy(self) {
        let is_swallowed = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| self.copy_requests(&is_swallowed));
            self.copy_answers(&is_swallowed);
            self.cut();
        });
    }

    fn cut(&self) {
        let _ = (self.client.shutdown(Shutdown::Both), self.server.shutdown(Shutdown::Both));
    }

    fn copy_requests(&self, is_swallowed: &AtomicBool) {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(len @ 1..) = (&self.client).read(&mut bytes) {
            if let Harm::DelayPuts(time) = self.harm
                && stores(&bytes[..len])
            {
                self.harmed.fetch_add(1, SeqCst);
                thread::sleep(time);
            }
            if let Harm::HideIfMatch = self.harm
                && let Some(at) = bytes[..len].windows(11).position(|window| window == b"\r\nif-match:")
            {
                self.harmed.fetch_add(1, SeqCst);
                bytes[at + 2] = b'x';
            }
            if let Harm::BusyOnce = self.harm
                && bytes[..len].windows(11).any(|window| window == b" HTTP/1.1\r\n")
                && let Some(line) = bytes[..len].split(|byte| *byte == b'\r').next()
                && self.refused.lock().unwrap().insert(line.to_vec())
            {
                self.harmed.fetch_add(1, SeqCst);
                let busy = "HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                let _ = (&self.client).write_all(busy.as_bytes());
                // The rest of the request; a reset would overtake the answer.
                while let Ok(1..) = (&self.client).read(&mut bytes) {}
                break;
            }
            if let Harm::SwallowIfMatch(most) = self.harm
                && contains(&bytes[..len], "\r\nif-match:")
                && self.harmed.fetch_add(1, SeqCst) < most
            {
                continue;
            }
            if let Harm::CutTwice(time) = self.harm
                && (stores(&bytes[..len]) || self.harmed.load(SeqCst) > 0)
                && self.harmed.fetch_add(1, SeqCst) < 2
            {
                if stores(&bytes[..len]) {
                    thread::sleep(time);
                }
                break;
            }
            let most = match self.harm {
                Harm::LoseClaims(most) if claims(&bytes[..len]) => most,
                Harm::LosePuts(most) if stores(&bytes[..len]) => most,
                _ => 0,
            };
            if self.harmed.fetch_update(SeqCst, SeqCst, |lost| (lost < most).then_some(lost + 1)).is_ok() {
                is_swallowed.store(true, SeqCst);
            }
            if (&self.server).write_all(&bytes[..len]).is_err() {
                break;
            }
        }
        self.cut();
    }

    fn copy_answers(&self, is_swallowed: &AtomicBool) {
        let (mut bytes, mut copied) = (vec![0; 1 << 16], 0);
        let mut random = match self.harm {
            Harm::CutAtRandom(seed) => seed << 32 | self.number,
            _ => 0,
        };
        while let Ok(len @ 1..) = (&self.server).read(&mut bytes) {
            let mut whole = len;
            match self.harm {
                Harm::Delay(time) => thread::sleep(time),
                Harm::CutAfter(most) => whole = len.min(most - copied),
                Harm::CutAtRandom(_) => {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    whole = if random >> 61 == 0 { (random >> 32) as usize % len } else { len };
                }
                _ if is_swallowed.load(SeqCst) => whole = 0,
                _ => {}
            }
            if (&self.client).write_all(&bytes[..whole]).is_err() {
                return;
            }
            if whole < len {
                if !is_swallowed.load(SeqCst) {
                    self.harmed.fetch_add(1, SeqCst);
                }
                return;
            }
            copied += len;
        }
    }
}

fn contains(bytes: &[u8], part: &str) -> bool {
    bytes.windows(part.len()).any(|window| window == part.as_bytes())
}

fn claims(request: &[u8]) -> bool {
    contains(request, "return {'claimed', held}")
        || request.starts_with(b"PUT ") && contains(request, "/lease/") && !contains(request, "/lease/probe")
}

fn stores(request: &[u8]) -> bool {
    contains(request, "\r\nSET\r\n") || request.starts_with(b"PUT ") && !contains(request, "/lease/")
}

fn key(number: usize) -> String {
    format!("kernel {number}")
}

fn payload(number: usize) -> Vec<u8> {
    format!("code of {number}, ").repeat(60).into_bytes()
}

/// Gets or builds all keys, and checks what it got. Counts the builds of each key.
fn get_all(machine: &Machine, fleet: Fleet<FileStore>, keys: usize, builds: &Mutex<Vec<u32>>) {
    let cache = Cache::new(fleet);
    let build = |index: usize| {
        builds.lock().unwrap()[index] += 1;
        thread::sleep(BUILD);
        Ok::<_, Infallible>(payload(index))
    };
    let names: Vec<String> = (0..keys).map(key).collect();
    let options = ManyOptions::default().with_workers(2);
    let fetched = cache.get_or_build_many(names.iter().map(String::as_str), options, build);
    for (number, fetched) in fetched.into_iter().enumerate() {
        assert!(fetched.unwrap().artifact().payload() == payload(number), "{number}");
    }
    drop(cache);
    let local = machine.local();
    for (number, name) in names.iter().enumerate() {
        assert!(local.get(name.as_bytes()).unwrap().payload() == payload(number), "{number}");
    }
}

fn engine_port(place: &Place) -> u16 {
    let servers = &place.servers;
    if place.engine == Engine::Redis { servers.redis().port } else { servers.moto().port }
}

/// Lets three machines start at once, one of them behind a proxy. Returns the builds of each key, and how often the proxy did harm.
///
/// No machine gets anything wrong or nothing, and the two without a proxy never build the same.
fn play(place: &Place, harm: Harm, deadline: Duration) -> (Vec<u32>, usize) {
    let port = engine_port(place);
    let proxy = Proxy::start(port, harm);
    let prefix = format!("{}-{}", place.case, proxy.port);
    let [direct, through] = [port, proxy.port].map(|port| place.engine.url(port, &prefix));
    let remote = patient(&direct);
    for number in 0..STORED {
        remote.put(key(number).as_bytes(), &Artifact::new(payload(number))).unwrap();
    }
    let machines = [Machine::new(), Machine::new(), Machine::new()];
    let builds = Mutex::new(vec![0; KEYS]);
    thread::scope(|scope| {
        for (number, machine) in machines.iter().enumerate() {
            let remote = if number == 0 { open_with(&through, deadline) } else { patient(&direct) };
            let fleet = fleet_at(machine.path(), remote, FleetOptions::default());
            let builds = &builds;
            scope.spawn(move || get_all(machine, fleet, KEYS, builds));
        }
    });
    for (number, found) in (0..KEYS).map(|number| (number, remote.get(key(number).as_bytes()))) {
        assert!(found.is_ok_and(|found| found.payload() == payload(number)), "{harm:?}: {number}");
    }
    let builds = builds.into_inner().unwrap();
    assert!(builds.iter().all(|builds| *builds <= 2), "{harm:?}: {builds:?}");
    assert!(builds[..STORED].iter().all(|builds| *builds <= 1), "{harm:?}: {builds:?}");
    (builds, proxy.harmed.load(SeqCst))
}

/// Plays with each harm at the same time. Together they do some.
fn play_all(place: &Place, harms: &[Harm]) {
    let harmed = AtomicUsize::new(0);
    thread::scope(|scope| {
        for harm in harms {
            let harmed = &harmed;
            scope.spawn(move || harmed.fetch_add(play(place, *harm, PATIENT).1, SeqCst));
        }
    });
    assert!(harmed.into_inner() >= harms.len() / 2);
}

fn slow_answers_cost_no_build(place: &Place) {
    let (builds, _) = play(place, Harm::Delay(Duration::from_millis(30)), PATIENT);
    assert_eq!((&builds[..STORED], &builds[STORED..]), (&[0; STORED][..], &[1; KEYS - STORED][..]));
}

/// Many large entries take longer than one deadline on a network that is all right.
fn batch_longer_than_the_deadline_arrives(place: &Place) {
    let remote = patient(&place.url());
    let keys: Vec<[u8; 1]> = (0..48).map(|number| [number]).collect();
    for key in &keys {
        remote.put(key, &Artifact::new(vec![key[0]; 1_000_000])).unwrap();
    }
    let proxy = Proxy::start(engine_port(place), Harm::Delay(Duration::from_millis(2)));
    let remote = open_with(&place.engine.url(proxy.port, place.case), Duration::from_secs(1));
    let started = Instant::now();
    let found = remote.get_many(&keys.iter().map(|key| &key[..]).collect::<Vec<_>>());
    assert!(found.iter().all(Result::is_ok), "after {:?}", started.elapsed());
}

/// Renewed one after the other, these would take longer than a lease lives.
fn leases_behind_slow_answers_are_kept(place: &Place) {
    const DELAY: Duration = Duration::from_millis(200);
    let (port, machine) = (engine_port(place), Machine::new());
    let proxy = Proxy::start(port, Harm::Delay(DELAY));
    let [direct, through] = [port, proxy.port].map(|port| place.engine.url(port, place.case));
    let (fleet, direct) = (machine.fleet(&through), patient(&direct));
    let names: Vec<String> = (0..20).map(key).collect();
    let claim = &|key: &String| {
        assert!(fleet.get_to_build(key.as_bytes()).is_err());
        fleet.claim(&Key::digest(key.as_bytes()), None).unwrap().expect("it is free")
    };
    let _claims: Vec<_> = thread::scope(|scope| {
        let claims: Vec<_> = names.iter().map(|key| scope.spawn(move || claim(key))).collect();
        claims.into_iter().map(|claim| claim.join().unwrap()).collect()
    });
    let digests: Vec<Key> = names.iter().map(|key| Key::digest(key.as_bytes())).collect();
    let survey = || direct.engine().survey(&digests, until()).unwrap();
    let before = survey();
    thread::sleep(Duration::from_millis(lease::TTL));
    for (number, (before, after)) in before.iter().zip(survey()).enumerate() {
        assert!(matches!(after, Surveyed::Held(_)) && after != *before, "{number}: {before:?}, {after:?}");
    }
}

fn late_answers_do_no_harm(place: &Place) {
    let (late, port) = (DEADLINE + DEADLINE / 3, engine_port(place));
    play(place, Harm::Delay(late), DEADLINE);
    let proxy = Proxy::start(port, Harm::Delay(late));
    let store = open_with(&place.engine.url(proxy.port, place.case), DEADLINE);
    let get = |number: usize, deadline| {
        let found = store.fetch_many(&[key(number).as_bytes()], Instant::now() + deadline);
        found.map(|mut found| found.remove(0).unwrap().artifact.payload().to_vec())
    };
    for number in 0..2 {
        patient(&place.url()).put(key(number).as_bytes(), &Artifact::new(payload(number))).unwrap();
    }
    assert_eq!(get(0, PATIENT), Ok(payload(0)));
    assert!(matches!(get(0, DEADLINE), Err(Trouble::TimedOut(_))));
    thread::sleep(DEADLINE);
    assert_eq!(get(1, PATIENT), Ok(payload(1)), "the answer before is not taken for its own");
}

fn answers_cut_short_do_no_harm(place: &Place) {
    play_all(place, &[0, 1, 9, 100, 700, 2000].map(Harm::CutAfter));
}

fn connections_cut_at_random_do_no_harm(place: &Place) {
    play_all(place, &[1, 2, 3, 4].map(Harm::CutAtRandom));
}

fn lost_answers_to_claims_do_no_harm(place: &Place) {
    play_all(place, &[1, 2, 3].map(Harm::LoseClaims));
}

fn lost_answers_to_puts_do_no_harm(place: &Place) {
    play_all(place, &[1, 2, 3].map(Harm::LosePuts));
}

fn upload_in_progress_does_not_undo_a_removal(place: &Place) {
    let proxy = Proxy::start(engine_port(place), Harm::DelayPuts(DEADLINE));
    let machine = Machine::new();
    let fleet = machine.fleet(&place.engine.url(proxy.port, place.case));
    fleet.put(b"key", &Artifact::new(payload(0))).unwrap();
    while proxy.harmed.load(SeqCst) == 0 {
        thread::sleep(Duration::from_millis(5));
    }
    fleet.remove(b"key").unwrap();
    assert!(fleet.wait_for_uploads(PATIENT));
    assert_eq!(fleet.contains(b"key"), Ok(false));
}

fn removal_during_a_long_upload_is_refused(place: &Place) {
    let proxy = Proxy::start(engine_port(place), Harm::DelayPuts(8 * DEADLINE));
    let machine = Machine::new();
    let remote = open_with(&place.engine.url(proxy.port, place.case), DEADLINE);
    let fleet = fleet_at(machine.path(), remote, FleetOptions::default());
    fleet.put(b"key", &Artifact::new(payload(0))).unwrap();
    while proxy.harmed.load(SeqCst) == 0 {
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(fleet.remove(b"key"), Err(MissReason::Busy), "it would be there again");
    assert!(fleet.wait_for_uploads(PATIENT));
    let direct = patient(&place.url());
    assert_eq!(direct.contains(b"key"), Ok(true));
    assert_eq!(fleet.remove(b"key"), Ok(true));
    assert_eq!(direct.contains(b"key"), Ok(false));
}

/// Something on the way refuses this entry. The remote works, and others use it.
fn upload_that_fails_alone_is_dropped(place: &Place) {
    let proxy = Proxy::start(engine_port(place), Harm::LosePuts(usize::MAX));
    patient(&place.url()).put(b"other", &Artifact::new(payload(1))).unwrap();
    let machine = Machine::new();
    let fleet = machine.fleet(&place.engine.url(proxy.port, place.case));
    fleet.put(b"key", &Artifact::new(payload(0))).unwrap();
    let started = Instant::now();
    while fleet.statistics().uploads_dropped == 0 {
        assert!(!fleet.statistics().is_breaker_open && started.elapsed() < PATIENT);
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(fleet.get(b"other").unwrap().payload(), payload(1));
    assert!(proxy.harmed.load(SeqCst) > 1, "it was tried again");
}

/// A miss with its claim takes eight round trips until the store is known to heed conditions, and three after that.
fn probe_that_takes_longer_than_a_call_is_remembered(place: &Place) {
    const DEADLINE: Duration = Duration::from_millis(800);
    let token = Token::random().unwrap();
    // The first call ends in the probe, after it, or with the claim.
    for part in 7..15 {
        let proxy = Proxy::start(engine_port(place), Harm::Delay(DEADLINE / part));
        let store = open_with(&place.engine.url(proxy.port, place.case), DEADLINE);
        let name = Key::digest(&proxy.port.to_le_bytes());
        let claim = || store.engine().get_or_claim(&name, &token, Instant::now() + DEADLINE);
        let first = claim();
        assert!(part > 7 || matches!(first, Err(Trouble::Busy(_))), "{first:?}");
        assert!(!matches!(first, Err(Trouble::TimedOut(_))), "{part}: {first:?}");
        let started = Instant::now();
        while !matches!(claim(), Ok(Answer::Claimed(_))) {
            assert!(started.elapsed() < PATIENT, "{:?}", claim());
        }
    }
}

/// Something between swallows requests with a condition.
fn probe_without_end_means_no_leases(place: &Place) {
    let proxy = Proxy::start(engine_port(place), Harm::SwallowIfMatch(usize::MAX));
    let store = open_with(&place.engine.url(proxy.port, place.case), DEADLINE);
    let token = Token::random().unwrap();
    let claim = || store.engine().claim(&Key::digest(b"key"), &token, None, Instant::now() + DEADLINE);
    let (first, started) = (claim(), Instant::now());
    assert!(matches!(first, Err(Trouble::Busy(_))), "{first:?}");
    while !matches!(claim(), Err(Trouble::Unsupported(_))) {
        assert!(started.elapsed() < PATIENT, "{:?}", claim());
    }
    assert!(store.get(b"key").is_err_and(|reason| reason == MissReason::Absent));
}

fn lost_request_of_a_probe_ends_no_leases(place: &Place) {
    let proxy = Proxy::start(engine_port(place), Harm::SwallowIfMatch(1));
    let store = open_with(&place.engine.url(proxy.port, place.case), DEADLINE);
    let token = Token::random().unwrap();
    let claim = |key: u8| store.engine().claim(&Key::digest(&[key]), &token, None, until());
    let soon = store.engine().claim(&Key::digest(b"first"), &token, None, Instant::now() + DEADLINE);
    assert!(matches!(soon, Err(Trouble::Busy(_))), "{soon:?}");
    // Another probe is answered, and then the time of the first one is up.
    assert!(matches!(claim(0), Ok(Some(_))));
    thread::sleep(4 * DEADLINE);
    let later = claim(1);
    assert!(matches!(later, Ok(Some(_))), "{later:?}");
}

/// Other machines wait for the new ones.
fn new_builds_go_before_what_was_left(place: &Place) {
    let machine = Machine::new();
    let dead = open_with(&place.engine.url(free_port(), place.case), DEADLINE);
    let fleet = fleet_at(machine.path(), dead, FleetOptions::default());
    for number in 0..300 {
        fleet.put(key(number).as_bytes(), &Artifact::new(payload(number))).unwrap();
    }
    assert!(!fleet.wait_for_uploads(PATIENT));
    drop(fleet);
    machine.close_breaker();
    // Its thread ends.
    thread::sleep(DEADLINE);
    let proxy = Proxy::start(engine_port(place), Harm::Delay(Duration::from_millis(20)));
    let fleet = machine.fleet(&place.engine.url(proxy.port, place.case));
    let started = Instant::now();
    while fleet.statistics().uploads < 5 {
        assert!(started.elapsed() < PATIENT, "{:?}", fleet.statistics());
        thread::sleep(Duration::from_millis(5));
    }
    fleet.put(b"new", &Artifact::new(payload(0))).unwrap();
    let direct = patient(&place.url());
    while direct.contains(b"new") != Ok(true) {
        assert!(started.elapsed() < PATIENT);
        thread::sleep(Duration::from_millis(5));
    }
    assert!(fleet.statistics().uploads_waiting > 200, "{:?}", fleet.statistics());
}

/// The local store has no room for the artifact, so that the queue holds it.
fn removal_holds_though_the_upload_is_tried_again(place: &Place) {
    let proxy = Proxy::start(engine_port(place), Harm::CutTwice(DEADLINE));
    let remote = patient(&place.engine.url(proxy.port, place.case));
    let fleet = Fleet::new(MemoryStore::new(Limits::bytes(1)), remote, FleetOptions::default());
    assert!(fleet.put(b"key", &Artifact::new(payload(0))).is_err());
    while proxy.harmed.load(SeqCst) == 0 {
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(fleet.remove(b"key"), Ok(false));
    let started = Instant::now();
    while fleet.statistics().uploads_dropped == 0 {
        assert!(started.elapsed() < PATIENT && proxy.harmed.load(SeqCst) > 1, "{:?}", fleet.statistics());
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(patient(&place.url()).contains(b"key"), Ok(false));
}

/// Each put wakes the queue.
fn puts_do_not_shorten_the_pauses_of_an_upload(place: &Place) {
    let proxy = Proxy::start(engine_port(place), Harm::LosePuts(usize::MAX));
    let machine = Machine::new();
    let fleet = machine.fleet(&place.engine.url(proxy.port, place.case));
    fleet.put(b"key", &Artifact::new(payload(0))).unwrap();
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(2) {
        fleet.put(b"other", &Artifact::new(payload(1))).unwrap();
        assert_eq!(fleet.statistics().uploads_dropped, 0, "after {:?}", started.elapsed());
        thread::sleep(Duration::from_millis(5));
    }
}

fn copies_go_on_after_busy_answers(place: &Place) {
    let (port, local) = (engine_port(place), || MemoryStore::new(Limits::NONE));
    let (one, two) = (local(), local());
    for number in 0..3 {
        one.put(key(number).as_bytes(), &Artifact::new(payload(number))).unwrap();
    }
    let proxies = [(); 2].map(|()| Proxy::start(port, Harm::BusyOnce));
    let [first, second] = [0, 1].map(|at| patient(&place.engine.url(proxies[at].port, place.case)));
    assert_eq!(push(&first, &one, &|_| {}).unwrap().entries, 3);
    assert_eq!(pull(&second, &two, &|_| {}).unwrap().entries, 3);
    assert!(proxies.iter().all(|proxy| proxy.harmed.load(SeqCst) >= 4));
}

/// A holder that stood still would renew its lease after another took it over.
fn store_that_ignores_if_match_has_no_leases(place: &Place) {
    let proxy = Proxy::start(engine_port(place), Harm::HideIfMatch);
    let store = patient(&place.engine.url(proxy.port, place.case));
    let claimed = store.engine().claim(&Key::digest(b"key"), &Token::random().unwrap(), None, until());
    assert!(matches!(claimed, Err(Trouble::Unsupported(_))), "{claimed:?}");
    assert!(proxy.harmed.load(SeqCst) > 0);
}

/// Lets two machines build, and does something to their engine in the middle.
fn stop_in_mid_run(place: &Place, signal: &str) {
    const KEYS: usize = 40;
    let server = Server::redis(&["--requirepass", PASSWORD]);
    let url = place.engine.url(server.port, place.case);
    let machines = [Machine::new(), Machine::new()];
    let builds = Mutex::new(vec![0; KEYS]);
    let begun = || builds.lock().unwrap().iter().sum::<u32>() as usize;
    thread::scope(|scope| {
        for machine in &machines {
            let fleet = fleet_at(machine.path(), open_with(&url, DEADLINE), FleetOptions::default());
            let builds = &builds;
            scope.spawn(move || get_all(machine, fleet, KEYS, builds));
        }
        let started = Instant::now();
        while begun() < KEYS / 4 {
            assert!(started.elapsed() < PATIENT);
            thread::sleep(Duration::from_millis(1));
        }
        server.signal(signal);
    });
    assert!(begun() > KEYS / 4, "what was left was built");
}

fn engine_paused_in_mid_run_costs_no_artifact(place: &Place) {
    stop_in_mid_run(place, "-STOP");
}

fn engine_killed_in_mid_run_costs_no_artifact(place: &Place) {
    stop_in_mid_run(place, "-KILL");
}
