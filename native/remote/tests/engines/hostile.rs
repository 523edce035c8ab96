//! Servers, files and callers that do what no honest one does.

use std::{
    convert::Infallible,
    env, fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::Command,
    sync::{
        Condvar, Mutex,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use warmstart::{Artifact, Cache, Limits, MissReason, Seal, Store, cache::ManyOptions, store::MemoryStore};
use warmstart_core::key::Key;
use warmstart_remote::{
    Check, Fleet, FleetOptions, FleetStatistics, RemoteOptions, RemoteStore, TransferError, Transferred,
    Trouble, pull,
};

use crate::{
    Case, PASSWORD, PATIENT, Place,
    fleet::{Machine, fleet_at},
    fork, open_with, patient,
    servers::{self, BUCKET, Engine, free_port},
};

pub(crate) const CASES: &[Case] = &[
    ("pull_goes_on_after_an_entry_without_room", pull_goes_on_after_an_entry_without_room),
    ("wait_without_end_is_no_panic", wait_without_end_is_no_panic),
    ("removed_artifact_is_not_uploaded_later", removed_artifact_is_not_uploaded_later),
    ("closed_fleet_leaves_no_lease", closed_fleet_leaves_no_lease),
    ("evicted_artifacts_count_as_dropped", evicted_artifacts_count_as_dropped),
    ("local_store_that_is_busy_loses_no_upload", local_store_that_is_busy_loses_no_upload),
];

pub(crate) const OF_REDIS: &[Case] = &[
    ("value_that_is_no_string_is_a_miss", value_that_is_no_string_is_a_miss),
    ("file_that_is_no_list_is_left_alone", file_that_is_no_list_is_left_alone),
    ("pipe_in_the_directory_stops_no_process", pipe_in_the_directory_stops_no_process),
];

pub(crate) const OF_NGINX: &[Case] =
    &[("process_that_only_reads_leaves_lists", process_that_only_reads_leaves_lists)];

pub(crate) const OF_NONE: &[Case] = &[
    ("error_of_a_server_is_not_repeated", error_of_a_server_is_not_repeated),
    ("listing_that_never_ends_is_a_failure", listing_that_never_ends_is_a_failure),
    ("surplus_replies_fail_the_call", surplus_replies_fail_the_call),
    ("reply_without_end_costs_one_deadline", reply_without_end_costs_one_deadline),
    ("forks_do_not_wait_for_a_flush", forks_do_not_wait_for_a_flush),
    ("survey_that_ends_early_is_no_failure", survey_that_ends_early_is_no_failure),
    ("long_list_of_uploads_delays_no_start", long_list_of_uploads_delays_no_start),
    ("remote_that_stays_busy_is_left_alone", remote_that_stays_busy_is_left_alone),
    ("scan_that_never_ends_is_a_failure", scan_that_never_ends_is_a_failure),
    ("object_that_is_too_long_is_a_miss", object_that_is_too_long_is_a_miss),
    ("age_without_end_renews_nothing", age_without_end_renews_nothing),
    ("renewals_without_answers_are_few_and_end", renewals_without_answers_are_few_and_end),
    ("upload_at_the_close_stays_listed", upload_at_the_close_stays_listed),
    ("list_on_a_full_disk_takes_what_fits", list_on_a_full_disk_takes_what_fits),
    ("list_that_begins_is_not_removed", list_that_begins_is_not_removed),
];

/// Names the directory of a machine whose files have a longest length, which is set before a process starts.
pub(crate) const FULL: &str = "WARMSTART_ENGINES_FULL";

/// Starts a server that answers each request with this, as long as the process lives.
fn serve(answer: impl Into<Vec<u8>>) -> u16 {
    let (listener, answer) = (TcpListener::bind("127.0.0.1:0").unwrap(), answer.into());
    let port = listener.local_addr().unwrap().port();
    let serve = move |mut client: TcpStream, answer: Vec<u8>| {
        while let Ok(1..) = client.read(&mut [0; 65536]) {
            let _ = client.write_all(&answer);
        }
    };
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let answer = answer.clone();
            thread::spawn(move || serve(client, answer));
        }
    });
    port
}

fn pull_goes_on_after_an_entry_without_room(place: &Place) {
    let remote = patient(&place.url());
    for number in 0..20u8 {
        let len = if number == 7 { 100_000 } else { 100 };
        remote.put(&[number], &Artifact::new(vec![number; len])).unwrap();
    }
    let local = MemoryStore::new(Limits::bytes(50_000));
    let pulled = pull(&remote, &local, &|_| {}).unwrap();
    assert_eq!((pulled.entries, pulled.refused), (19, 1));
}

fn wait_without_end_is_no_panic(place: &Place) {
    let fleet = Machine::new().fleet(&place.url());
    fleet.put(b"key", &Artifact::new(vec![7])).unwrap();
    assert!(fleet.wait_for_uploads(Duration::MAX));
}

/// The local store has no room for it, so that it waits in memory; the upload before it takes a while.
fn removed_artifact_is_not_uploaded_later(place: &Place) {
    let remote = open_with(&place.url(), PATIENT);
    let fleet = Fleet::new(MemoryStore::new(Limits::bytes(1)), remote, FleetOptions::default());
    for number in 0..20u8 {
        assert!(fleet.put(&[number], &Artifact::new(vec![number; 1_000_000])).is_err());
    }
    fleet.remove(&[19]).unwrap();
    assert!(fleet.wait_for_uploads(PATIENT));
    assert_eq!(fleet.contains(&[19]), Ok(false));
    assert_eq!(fleet.contains(&[18]), Ok(true));
}

/// Servers answer so while they load, or limit requests; callers wait for that, but not for long.
fn remote_that_stays_busy_is_left_alone(_: &Place) {
    let redis = serve("-LOADING the dataset\r\n");
    let objects = serve("HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n");
    for url in [format!("redis://127.0.0.1:{redis}"), format!("s3://b?endpoint=http://127.0.0.1:{objects}")] {
        let fleet = Fleet::new(MemoryStore::new(Limits::NONE), patient(&url), FleetOptions::default());
        let (cache, started) = (Cache::new(fleet), Instant::now());
        let keys: Vec<[u8; 1]> = (0..38).map(|number| [number]).collect();
        let built =
            cache.get_or_build_many(&keys, ManyOptions::default(), |at| Ok::<_, Infallible>(vec![at as u8]));
        assert!(built.iter().all(Result::is_ok));
        assert!(started.elapsed() < Duration::from_secs(20), "{url}: {:?}", started.elapsed());
        assert!(cache.store().statistics().is_breaker_open, "{url}");
    }
}

/// It arrives faster than what puts the deadline of a batch off.
fn reply_without_end_costs_one_deadline(_: &Place) {
    const DEADLINE: Duration = Duration::from_millis(300);
    static SENT: AtomicUsize = AtomicUsize::new(0);
    let port = servers::serve(|mut client| {
        let _ = client.read(&mut [0; 65536]);
        let _ = client.write_all(b"+OK\r\n");
        let _ = client.read(&mut [0; 65536]);
        let _ = client.write_all(b"*2\r\n$400000000\r\n");
        while client.write_all(&[7; 65536]).is_ok() {
            SENT.fetch_add(65536, SeqCst);
            thread::sleep(Duration::from_millis(1));
        }
    });
    let store = open_with(&format!("redis://127.0.0.1:{port}"), DEADLINE);
    let started = Instant::now();
    assert_eq!(store.get(b"key").unwrap_err(), MissReason::Busy);
    assert!(started.elapsed() < 2 * DEADLINE, "{:?}", started.elapsed());
    SENT.store(0, SeqCst);
    let found = store.engine().survey(&[Key::digest(b"key")], Instant::now() + PATIENT);
    assert!(matches!(&found, Err(Trouble::Other(why)) if why.contains("too long")), "{found:?}");
    assert!(SENT.load(SeqCst) < 64 << 20);
}

/// What did not arrive is looked up by itself.
fn survey_that_ends_early_is_no_failure(_: &Place) {
    let port = servers::serve(|mut client| {
        let (mut request, mut is_first) = ([0; 65536], true);
        while let Ok(len @ 1..) = client.read(&mut request) {
            let answer = match () {
                () if request[..len].windows(4).any(|part| part == b"EVAL") => {
                    "*80\r\n".to_owned() + &":1\r\n".repeat(80)
                }
                () if request[..len].windows(4).any(|part| part == b"AUTH") => "+OK\r\n".to_owned(),
                () if is_first => {
                    is_first = false;
                    "*64\r\n".to_owned() + &"$-1\r\n".repeat(64)
                }
                () => "-ERR it is broken\r\n".to_owned(),
            };
            let _ = client.write_all(answer.as_bytes());
        }
    });
    let remote = patient(&format!("redis://127.0.0.1:{port}"));
    let fleet = Fleet::new(MemoryStore::new(Limits::NONE), remote, FleetOptions::default());
    let digests: Vec<Key> = (0..80u8).map(|number| Key::digest(&[number])).collect();
    assert!(fleet.claims().unwrap().survey(&digests).is_some());
    assert!(!fleet.statistics().is_breaker_open);
    assert!(fleet.get(b"key").is_err());
    assert!(fleet.statistics().is_breaker_open, "the server is broken");
}

fn forks_do_not_wait_for_a_flush(_: &Place) {
    let (machine, is_done) = (Machine::new(), AtomicBool::new(false));
    // An upload without room is counted while the queue is locked.
    let options = FleetOptions::default().with_max_upload_bytes(1);
    let fleet = fleet_at(machine.path(), dead(Duration::from_millis(200)), options);
    thread::scope(|scope| {
        for thread in 0..4u64 {
            let (fleet, is_done) = (&fleet, &is_done);
            scope.spawn(move || {
                for number in 0.. {
                    if is_done.load(Relaxed) {
                        break;
                    }
                    let key = [thread, number].map(u64::to_le_bytes).concat();
                    if thread % 2 == 0 {
                        fleet.put(&key, &Artifact::new(vec![7])).unwrap();
                    } else {
                        let _ = fleet.get(&key);
                        fleet.flush().unwrap();
                    }
                }
            });
        }
        for _ in 0..300 {
            let took = fork();
            if took > Duration::from_secs(5) {
                is_done.store(true, Relaxed);
                panic!("a fork took {took:?}");
            }
        }
        is_done.store(true, Relaxed);
    });
}

fn closed_fleet_leaves_no_lease(place: &Place) {
    let open = || {
        let remote = open_with(&place.url(), PATIENT);
        Fleet::new(MemoryStore::new(Limits::NONE), remote, FleetOptions::default())
    };
    let one = open();
    assert_eq!(one.get_to_build(b"key").unwrap_err(), MissReason::Absent);
    one.close().unwrap();
    let claimed = open().claims().unwrap().claim(&Key::digest(b"key"), Some(Instant::now()));
    assert!(claimed.is_ok_and(|claim| claim.is_some()), "the lease is free");
}

fn evicted_artifacts_count_as_dropped(place: &Place) {
    let remote = open_with(&place.url(), PATIENT);
    let fleet = Fleet::new(MemoryStore::new(Limits::bytes(300_000)), remote, FleetOptions::default());
    for number in 0..50u8 {
        fleet.put(&[number], &Artifact::new(vec![number; 100_000])).unwrap();
    }
    assert!(fleet.wait_for_uploads(PATIENT));
    let statistics = fleet.statistics();
    assert!(statistics.uploads_dropped > 0, "{statistics:?}");
    assert_eq!(statistics.uploads + statistics.uploads_dropped, 50, "{statistics:?}");
}

/// Who may write without the secret causes a miss, and not an open breaker.
fn value_that_is_no_string_is_a_miss(place: &Place) {
    let (remote, name) = (patient(&place.url()), Key::digest(b"key"));
    let seal: String = Seal::new(&[7; 32]).id().iter().map(|byte| format!("{byte:02x}")).collect();
    let folder = format!("{}:v1:{seal}", place.case);
    remote.put(b"key", &Artifact::new(vec![7])).unwrap();
    let plant = || {
        let mut redis = TcpStream::connect(("127.0.0.1", place.servers.redis().port)).unwrap();
        let evil = [format!("{folder}:{name}"), format!("{folder}:lease:{name}")];
        let evil = evil.map(|key| format!("DEL {key}\r\nLPUSH {key} evil\r\n")).concat();
        write!(redis, "AUTH {PASSWORD}\r\nSELECT 1\r\n{evil}QUIT\r\n").unwrap();
        let mut said = String::new();
        redis.read_to_string(&mut said).unwrap();
        assert!(!said.contains('-'), "{said}");
    };
    plant();
    let fleet = Machine::new().fleet(&place.url());
    assert_eq!(fleet.get_to_build(b"key").unwrap_err(), MissReason::Absent);
    assert!(!fleet.statistics().is_breaker_open);
    fleet.put(b"key", &Artifact::new(vec![8])).unwrap();
    assert!(fleet.wait_for_uploads(PATIENT));
    assert_eq!(remote.get(b"key").unwrap().payload(), [8]);

    plant();
    let cache = Cache::new(Machine::new().fleet(&place.url()));
    let built = cache.get_or_build_many(["key"], ManyOptions::default(), |_| Ok::<_, Infallible>(vec![9]));
    assert_eq!(built[0].as_ref().unwrap().artifact().payload(), [9]);
    assert!(!cache.store().statistics().is_breaker_open);
}

/// A folder of that name may be there for another reason.
fn file_that_is_no_list_is_left_alone(place: &Place) {
    let machine = Machine::new();
    let uploads = machine.path().join("fleet/uploads");
    fs::create_dir_all(uploads.join("0011223344556677")).unwrap();
    fs::write(uploads.join("holiday.jpg"), b"photo").unwrap();
    let fleet = machine.fleet(&place.url());
    // The background looks at the folder first.
    fleet.put(b"key", &Artifact::new(vec![7])).unwrap();
    assert!(fleet.wait_for_uploads(PATIENT));
    assert_eq!(fs::read(uploads.join("holiday.jpg")).unwrap(), b"photo");
}

/// Opening or reading a pipe waits for its other end.
fn pipe_in_the_directory_stops_no_process(place: &Place) {
    let machine = Machine::new();
    fs::create_dir_all(machine.path().join("fleet/uploads")).unwrap();
    for pipe in ["fleet/uploads/00112233445566ff", "fleet/breaker", "fleet/statistics"] {
        let made = Command::new("mkfifo").arg(machine.path().join(pipe)).status().unwrap();
        assert!(made.success());
    }
    let (done, is_done) = mpsc::channel();
    let (path, url) = (machine.path().to_owned(), place.url());
    thread::spawn(move || {
        let fleet = fleet_at(&path, open_with(&url, PATIENT), FleetOptions::default());
        fleet.put(b"key", &Artifact::new(vec![7])).unwrap();
        let is_uploaded = fleet.wait_for_uploads(PATIENT / 3);
        drop(fleet);
        let counts = FleetStatistics::of_machine(&path.join("fleet"));
        done.send((is_uploaded, counts.is_err())).unwrap();
    });
    assert_eq!(is_done.recv_timeout(PATIENT), Ok((true, true)));
}

/// Another one of the machine may have the right to write.
fn process_that_only_reads_leaves_lists(place: &Place) {
    let machine = Machine::new();
    let dead = open_with(&Engine::S3.url(free_port(), place.case), Duration::from_millis(300));
    let fleet = fleet_at(machine.path(), dead, FleetOptions::default());
    fleet.put(b"key", &Artifact::new(vec![7])).unwrap();
    assert!(!fleet.wait_for_uploads(PATIENT));
    drop(fleet);
    machine.close_breaker();

    let port = place.servers.nginx().port;
    let reader = machine.fleet(&format!("http://127.0.0.1:{port}/{}/{}", BUCKET, place.case));
    reader.put(b"other", &Artifact::new(vec![8])).unwrap();
    // What it took over is left, if the first fleet's thread has ended by now.
    let _ = reader.wait_for_uploads(PATIENT);
    drop(reader);
    let waiting = || FleetStatistics::of_machine(&machine.path().join("fleet")).unwrap().uploads_waiting;
    assert!(waiting() >= 1);
    let (remote, started) = (patient(&place.url()), Instant::now());
    // The threads of closed fleets keep their lists until their requests ended.
    while remote.get(b"key").is_err() {
        assert!(started.elapsed() < PATIENT);
        let writer = machine.fleet(&place.url());
        assert!(writer.wait_for_uploads(PATIENT));
    }
    assert_eq!(remote.get(b"key").unwrap().payload(), [7]);
}

fn error_of_a_server_is_not_repeated(_: &Place) {
    let port = serve("-\x1b]0;evil\x07hunter2 evil\r\n");
    let options = RemoteOptions::default().unsealed();
    let remote = RemoteStore::open(&format!("redis://127.0.0.1:{port}"), options).unwrap();
    let trouble = Check::of(&remote).read.unwrap_err().to_string();
    assert!(!trouble.contains("evil") && !trouble.contains('\x1b'), "{trouble:?}");
}

const ABSENT: &[u8] = b"*1\r\n$-1\r\n";

/// One of the two may be another command's.
fn surplus_replies_fail_the_call(_: &Place) {
    let remote = patient(&format!("redis://127.0.0.1:{}", serve([ABSENT, ABSENT].concat())));
    for _ in 0..2 {
        assert_eq!(remote.get(b"key").unwrap_err(), MissReason::Unavailable);
    }
}

/// Pulls from a remote in a thread, which may never end.
fn pull_in_time(url: String) -> Result<Transferred, TransferError> {
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || {
        let _ = done.send(pull(&patient(&url), &MemoryStore::new(Limits::NONE), &|_| {}));
    });
    is_done.recv_timeout(4 * PATIENT).unwrap()
}

fn scan_that_never_ends_is_a_failure(_: &Place) {
    let port = serve("*2\r\n$1\r\n7\r\n*0\r\n");
    let pulled = pull_in_time(format!("redis://127.0.0.1:{port}"));
    assert!(matches!(pulled, Err(TransferError::Remote(Trouble::Other(_)))), "{pulled:?}");
}

fn listing_that_never_ends_is_a_failure(_: &Place) {
    let body = "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>\
                <Contents><Key>p/v1/x</Key><Size>1</Size><ETag>e</ETag>\
                <LastModified>2026-11-23T00:00:00.000Z</LastModified></Contents></ListBucketResult>";
    let len = body.len();
    let port = serve(format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n{body}"));
    let pulled = pull_in_time(format!("s3://b/p?endpoint=http://127.0.0.1:{port}"));
    assert!(matches!(pulled, Err(TransferError::Remote(_))), "{pulled:?}");
}

/// Starts a store of objects that has this answer to everything.
fn objects(answer: &str) -> String {
    let head = "HTTP/1.1 200 OK\r\nETag: \"x\"\r\nLast-Modified: Mon, 23 Nov 2026 00:00:00 GMT\r\n";
    format!("s3://b/p?endpoint=http://127.0.0.1:{}", serve(format!("{head}{answer}")))
}

fn object_that_is_too_long_is_a_miss(_: &Place) {
    for len in [600_000_000, 5_000_000_000_u64] {
        let fleet = Machine::new().fleet(&objects(&format!("Content-Length: {len}\r\n\r\nevil")));
        assert_eq!(fleet.get(b"key").unwrap_err(), MissReason::Truncated);
        assert!(!fleet.statistics().is_breaker_open);
        assert_eq!(fleet.statistics().refused, 1);
    }
}

fn age_without_end_renews_nothing(_: &Place) {
    let options = RemoteOptions::default().unsealed().with_max_age(Duration::MAX).with_deadline(PATIENT);
    let remote = RemoteStore::open(&objects("Content-Length: 4\r\n\r\nevil"), options).unwrap();
    assert_eq!(remote.get(b"key").unwrap_err(), MissReason::Foreign);
}

/// A copy takes a connection. An entry that is not accepted is not renewed: it would outlive the rule that removes it.
fn renewals_without_answers_are_few_and_end(_: &Place) {
    static COPIES: AtomicUsize = AtomicUsize::new(0);
    let remote = RemoteStore::open("redis://nowhere", RemoteOptions::default().unsealed()).unwrap();
    let entry = remote.encode(b"key", &Artifact::new(vec![7])).unwrap();
    let port = servers::serve(move |mut client| {
        let mut request = [0; 65536];
        while let Ok(len @ 1..) = client.read(&mut request) {
            if request[..len].starts_with(b"PUT") {
                COPIES.fetch_add(1, SeqCst);
                continue;
            }
            let old = "ETag: \"x\"\r\nLast-Modified: Sun, 23 Nov 2025 00:00:00 GMT";
            let _ = write!(client, "HTTP/1.1 200 OK\r\n{old}\r\nContent-Length: {}\r\n\r\n", entry.len());
            let _ = client.write_all(&entry);
        }
    });
    let options = RemoteOptions::default().unsealed().with_max_age(Duration::from_secs(4));
    let url = format!("s3://b/p?endpoint=http://127.0.0.1:{port}");
    let remote = RemoteStore::open(&url, options.with_deadline(Duration::from_millis(400))).unwrap();
    for number in 0..50u8 {
        assert_eq!(remote.get(&[number]).unwrap_err(), MissReason::KeyMismatch);
    }
    thread::sleep(Duration::from_millis(100));
    assert_eq!(COPIES.load(SeqCst), 0);
    for _ in 0..50 {
        remote.get(b"key").unwrap();
    }
    thread::sleep(Duration::from_millis(100));
    let first = COPIES.load(SeqCst);
    assert!((1..=8).contains(&first), "{first}");
    let started = Instant::now();
    while COPIES.load(SeqCst) == first {
        assert!(started.elapsed() < PATIENT, "no renewal ended");
        let _ = remote.get(b"key");
        thread::sleep(Duration::from_millis(50));
    }
}

fn long_list_of_uploads_delays_no_start(_: &Place) {
    const KEYS: u64 = 20_000;
    let machine = Machine::new();
    let open = || {
        let options = FleetOptions::default().with_directory(machine.path());
        Fleet::new(Stub::closing(), dead(Duration::from_millis(1)), options)
    };
    let fleet = open();
    for number in 0..KEYS {
        fleet.put(&number.to_le_bytes(), &Artifact::new(vec![7])).unwrap();
    }
    drop(fleet);
    // With and without a breaker. This machine does much else, so the fastest of three counts.
    let mut fastest = [Duration::MAX; 2];
    for attempt in 0..6 {
        // The thread of the last one ends.
        thread::sleep(Duration::from_millis(300));
        if attempt % 2 == 1 {
            let _ = fs::remove_file(machine.path().join("breaker"));
        }
        let started = Instant::now();
        let fleet = open();
        fastest[attempt % 2] = fastest[attempt % 2].min(started.elapsed());
        assert!(!fleet.wait_for_uploads(Duration::from_millis(1)));
    }
    assert!(fastest.iter().all(|took| *took < Duration::from_millis(20)), "{fastest:?}");
    thread::sleep(Duration::from_millis(300));
    assert_eq!(FleetStatistics::of_machine(machine.path()).unwrap().uploads_waiting, KEYS);
}

fn local_store_that_is_busy_loses_no_upload(place: &Place) {
    let remote = open_with(&place.url(), PATIENT);
    let fleet = Fleet::new(Stub::locked(), remote, FleetOptions::default());
    fleet.put(b"key", &Artifact::new(vec![7])).unwrap();
    assert!(fleet.wait_for_uploads(PATIENT));
    let statistics = fleet.statistics();
    assert_eq!((statistics.uploads, statistics.uploads_dropped), (1, 0));
}

/// A local store that takes everything, and gets what its function says.
#[derive(Debug)]
struct Stub {
    get: fn(&Self) -> Result<Artifact, MissReason>,
    gets: AtomicUsize,
    is_closed: Mutex<bool>,
    closed: Condvar,
}

impl Stub {
    fn new(get: fn(&Self) -> Result<Artifact, MissReason>) -> Self {
        Self { get, gets: AtomicUsize::new(0), is_closed: Mutex::default(), closed: Condvar::new() }
    }

    /// Returns one that is closed while it is asked.
    fn closing() -> Self {
        Self::new(|stub| {
            let _closed = stub.closed.wait_while(stub.is_closed.lock().unwrap(), |is_closed| !*is_closed);
            Err(MissReason::Closed)
        })
    }

    /// Returns one that does not answer at first.
    fn locked() -> Self {
        Self::new(|stub| match stub.gets.fetch_add(1, SeqCst) {
            0 | 1 => Err(MissReason::Busy),
            _ => Ok(Artifact::new(vec![7])),
        })
    }
}

impl Store for Stub {
    fn get(&self, _key: &[u8]) -> Result<Artifact, MissReason> {
        (self.get)(self)
    }

    fn put(&self, _key: &[u8], _artifact: &Artifact) -> Result<u64, MissReason> {
        Ok(0)
    }

    fn remove(&self, _key: &[u8]) -> Result<bool, MissReason> {
        Ok(false)
    }

    fn contains(&self, _key: &[u8]) -> Result<bool, MissReason> {
        Ok(false)
    }

    fn clear(&self) -> Result<(), MissReason> {
        Ok(())
    }

    fn flush(&self) -> Result<(), MissReason> {
        Ok(())
    }

    fn close(&self) -> Result<(), MissReason> {
        *self.is_closed.lock().unwrap() = true;
        self.closed.notify_all();
        Ok(())
    }
}

fn dead(deadline: Duration) -> RemoteStore {
    open_with(&format!("redis://127.0.0.1:{}", free_port()), deadline)
}

fn upload_at_the_close_stays_listed(_: &Place) {
    let machine = Machine::new();
    let options = FleetOptions::default().with_directory(machine.path());
    let fleet = Fleet::new(Stub::closing(), dead(Duration::from_millis(200)), options);
    fleet.put(b"key", &Artifact::new(vec![7])).unwrap();
    fleet.close().unwrap();
    // What the background does after that.
    thread::sleep(Duration::from_millis(300));
    assert_eq!(FleetStatistics::of_machine(machine.path()).unwrap().uploads_waiting, 1);
}

/// Another process looks for lists that are left, and removes those that are empty.
fn list_that_begins_is_not_removed(_: &Place) {
    const PROCESSES: u64 = 200;
    let machine = Machine::new();
    let is_done = AtomicBool::new(false);
    let folder = machine.path().join("uploads");
    thread::scope(|scope| {
        let others = || {
            while !is_done.load(Relaxed) {
                for list in fs::read_dir(&folder).into_iter().flatten().flatten() {
                    let file = fs::File::open(list.path());
                    if list.file_name().len() == 16
                        && let Ok(file) = file
                        && file.try_lock().is_ok()
                        && file.metadata().unwrap().len() == 0
                    {
                        let _ = fs::remove_file(list.path());
                    }
                }
            }
        };
        scope.spawn(others);
        for number in 0..PROCESSES {
            let options = FleetOptions::default().with_directory(machine.path());
            let fleet = Fleet::new(Stub::closing(), dead(Duration::from_millis(1)), options);
            fleet.put(&number.to_le_bytes(), &Artifact::new(vec![7])).unwrap();
        }
        is_done.store(true, Relaxed);
    });
    thread::sleep(Duration::from_millis(300));
    assert_eq!(FleetStatistics::of_machine(machine.path()).unwrap().uploads_waiting, PROCESSES);
}

/// Works on a machine whose files may be of 50 or 100 KiB, as shells count differently.
pub(crate) fn fill(folder: &str) {
    let options = FleetOptions::default().with_directory(folder);
    let fleet = Fleet::new(Stub::closing(), dead(Duration::from_millis(200)), options);
    for key in [vec![1; 40_000], vec![2; 90_000], b"short".to_vec()] {
        fleet.put(&key, &Artifact::new(vec![7])).unwrap();
    }
}

/// What is torn does not hide what follows.
fn list_on_a_full_disk_takes_what_fits(_: &Place) {
    let machine = Machine::new();
    let limited = r#"trap "" XFSZ; ulimit -f 100; exec "$0""#;
    let mut command = Command::new("sh");
    command.args(["-c", limited]).arg(env::current_exe().unwrap()).env(FULL, machine.path());
    assert!(command.status().unwrap().success());
    assert_eq!(FleetStatistics::of_machine(machine.path()).unwrap().uploads_waiting, 2);
}
