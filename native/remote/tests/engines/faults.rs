//! Servers that are slow, down, forbidden, full, or not what they seem.

use std::{
    io::{Read, Write},
    net::TcpStream,
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
    time::{Duration, Instant},
};

use warmstart::{Artifact, MissReason, Seal, Store};
use warmstart_core::key::Key;
use warmstart_remote::{
    Check, RemoteOptions, RemoteStore,
    engine::{Answer, Token, Trouble},
};

use crate::{
    Case, PASSWORD, PATIENT, Place, open_with, patient,
    servers::{BUCKET, Engine, Server, certificates, free_port, serve},
    until,
};

/// Of every engine.
pub(crate) const CASES: &[Case] = &[
    ("server_that_never_answers_costs_one_deadline", server_that_never_answers_costs_one_deadline),
    ("server_that_trickles_costs_one_deadline", server_that_trickles_costs_one_deadline),
    ("server_that_refuses_is_unreachable_at_once", server_that_refuses_is_unreachable_at_once),
    ("server_that_resets_is_unreachable_at_once", server_that_resets_is_unreachable_at_once),
    ("call_after_its_deadline_times_out", call_after_its_deadline_times_out),
    ("forked_child_has_connections_of_its_own", forked_child_has_connections_of_its_own),
];

pub(crate) const OF_REDIS: &[Case] = &[
    ("wrong_password_is_forbidden", wrong_password_is_forbidden),
    ("reader_without_rights_reads_and_may_not_write", reader_without_rights_reads_and_may_not_write),
    ("full_server_serves_and_refuses_puts", full_server_serves_and_refuses_puts),
    ("server_without_its_replicas_is_read", server_without_its_replicas_is_read),
    ("stopped_server_costs_a_deadline_and_then_serves", stopped_server_costs_a_deadline_and_then_serves),
    ("restarted_server_is_used_again", restarted_server_is_used_again),
    ("unrenewed_lease_expires", unrenewed_lease_expires),
    ("miss_with_its_claim_is_one_command", miss_with_its_claim_is_one_command),
];

pub(crate) const OF_S3: &[Case] = &[
    ("status_is_told_apart_from_absent", status_is_told_apart_from_absent),
    ("object_without_answer_costs_only_itself", object_without_answer_costs_only_itself),
    ("entry_cut_off_is_no_entry", entry_cut_off_is_no_entry),
    ("missing_bucket_is_a_miss", missing_bucket_is_a_miss),
    ("store_without_if_match_has_no_leases", store_without_if_match_has_no_leases),
    ("store_that_refuses_conditions_has_no_leases", store_that_refuses_conditions_has_no_leases),
    ("lease_that_is_too_long_is_not_read", lease_that_is_too_long_is_not_read),
    ("touch_renews_the_age_of_an_object", touch_renews_the_age_of_an_object),
    ("entry_that_is_read_when_old_is_renewed", entry_that_is_read_when_old_is_renewed),
];

pub(crate) const OF_NGINX: &[Case] = &[
    ("store_that_ignores_conditions_has_no_leases", store_that_ignores_conditions_has_no_leases),
    ("plain_http_is_read_and_never_written", plain_http_is_read_and_never_written),
];

pub(crate) const OF_REDIS_TLS: &[Case] =
    &[("encrypted_server_is_verified_and_used", encrypted_server_is_verified_and_used)];

pub(crate) const OF_NGINX_TLS: &[Case] = &[("encrypted_web_server_is_read", encrypted_web_server_is_read)];

pub(crate) const OF_NONE: &[Case] = &[("unknown_host_is_unreachable", unknown_host_is_unreachable)];

/// The head of an answer whose body has 900 bytes.
const HEAD_OF_900_BYTES: &str = "HTTP/1.1 200 OK\r\nETag: \"x\"\r\nLast-Modified: Mon, 23 Nov 2026 00:00:00 GMT\r\n\
                                 Content-Length: 900\r\n\r\n";

/// Long enough that a fifth of it is no less than a busy machine may make a thread wait.
const DEADLINE: Duration = Duration::from_secs(1);

fn open(url: &str) -> RemoteStore {
    open_with(url, DEADLINE)
}

fn artifact() -> Artifact {
    Artifact::new(b"payload".to_vec())
}

/// Answers each request with this status line and body.
fn answer(mut stream: TcpStream, status: &str, headers: &str, body: &str) {
    let mut request = [0; 65536];
    while let Ok(1..) = stream.read(&mut request) {
        let _ = write!(stream, "HTTP/1.1 {status}\r\n{headers}\r\n\r\n{body}");
    }
}

/// Calls methods that read, write and claim, and checks that each ends in 1.2 deadlines and with this reason.
fn check_all(store: &RemoteStore, least: Duration, reason: MissReason) {
    type Call = fn(&RemoteStore) -> Option<MissReason>;
    let calls: [(&str, Call); 5] = [
        ("get", |store| store.get(b"key").err()),
        ("get_many", |store| store.get_many(&[b"a", b"b"]).pop().and_then(Result::err)),
        ("put", |store| store.put(b"key", &artifact()).err()),
        ("contains", |store| store.contains(b"key").err()),
        ("get_or_claim", |store| {
            let until = Instant::now() + DEADLINE;
            let token = Token::random().unwrap();
            store
                .engine()
                .get_or_claim(&Key::digest(b"key"), &token, until)
                .err()
                .map(|trouble| trouble.reason())
        }),
    ];
    for (name, call) in calls {
        let started = Instant::now();
        assert_eq!(call(store), Some(reason), "{name}");
        let took = started.elapsed();
        assert!(least <= took && took < DEADLINE.mul_f64(1.2), "{name} took {took:?}");
    }
}

fn server_that_never_answers_costs_one_deadline(place: &Place) {
    let port = serve(|mut stream| while let Ok(1..) = stream.read(&mut [0; 4096]) {});
    // Objects that arrived are returned, so a request ends a little earlier than the call.
    check_all(&open(&place.engine.url(port, place.case)), DEADLINE.mul_f64(0.95), MissReason::Busy);
}

fn server_that_trickles_costs_one_deadline(place: &Place) {
    let is_redis = place.engine == Engine::Redis;
    let start = if is_redis { "*1\r\n$9000\r\n" } else { HEAD_OF_900_BYTES };
    let port = serve(move |mut stream| {
        let _ = stream.read(&mut [0; 65536]);
        if is_redis {
            // What it read was a password and the number of a database.
            let _ = stream.write_all(b"+OK\r\n+OK\r\n");
            let _ = stream.read(&mut [0; 65536]);
        }
        let _ = stream.write_all(start.as_bytes());
        while stream.write_all(b"x").is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
    });
    let store = open(&place.engine.url(port, place.case));
    let started = Instant::now();
    assert_eq!(store.get(b"key").unwrap_err(), MissReason::Busy);
    assert!(started.elapsed() < DEADLINE.mul_f64(1.2), "{:?}", started.elapsed());
}

fn server_that_refuses_is_unreachable_at_once(place: &Place) {
    check_all(&open(&place.engine.url(free_port(), place.case)), Duration::ZERO, MissReason::Unavailable);
}

fn server_that_resets_is_unreachable_at_once(place: &Place) {
    let port = serve(|mut stream| drop(stream.read(&mut [0; 1])));
    check_all(&open(&place.engine.url(port, place.case)), Duration::ZERO, MissReason::Unavailable);
}

fn call_after_its_deadline_times_out(place: &Place) {
    let store = patient(&place.url());
    store.put(b"key", &artifact()).unwrap();
    let late = store.fetch_many(&[b"key"], Instant::now());
    assert!(matches!(late, Err(Trouble::TimedOut(_))), "{late:?}");
    assert!(store.get(b"key").is_ok());
}

fn stopped_server_costs_a_deadline_and_then_serves(place: &Place) {
    let server = Server::redis(&["--requirepass", PASSWORD]);
    let store = open(&place.engine.url(server.port, place.case));
    store.put(b"key", &artifact()).unwrap();
    server.signal("-STOP");
    check_all(&store, DEADLINE, MissReason::Busy);
    server.signal("-CONT");
    assert!(store.get(b"key").is_ok());
}

fn forked_child_has_connections_of_its_own(place: &Place) {
    let store = patient(&place.url());
    store.put(b"key", &artifact()).unwrap();
    let work = || {
        for number in 0..20u32 {
            // moto fails where one object is put by two at once.
            let key = [number, std::process::id()].map(u32::to_le_bytes).concat();
            let payload = key.repeat(1000);
            store.put(&key, &Artifact::new(payload.clone())).unwrap();
            assert_eq!(store.get(&key).unwrap().payload(), payload);
        }
    };
    work();
    let children: Vec<i32> = (0..4)
        .map(|_| {
            // SAFETY: that this may be done while other threads run is what is tested. The child ends below.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let ended = catch_unwind(AssertUnwindSafe(work));
                // SAFETY: it ends the child.
                unsafe { libc::_exit(i32::from(ended.is_err())) };
            }
            child
        })
        .collect();
    work();
    for child in children {
        let mut status = 0;
        // SAFETY: it is a child of this process that nothing else waits for.
        let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((ended, status), (child, 0));
    }
}

fn wrong_password_is_forbidden(place: &Place) {
    let server = Server::redis(&["--requirepass", "another"]);
    check_all(&open(&place.engine.url(server.port, place.case)), Duration::ZERO, MissReason::Forbidden);
}

fn reader_without_rights_reads_and_may_not_write(place: &Place) {
    let writer = Server::redis(&["--requirepass", PASSWORD]);
    let store = open(&place.engine.url(writer.port, place.case));
    store.put(b"key", &artifact()).unwrap();
    // From now on, new connections may only read.
    let rights = ["reset", "on", &format!(">{PASSWORD}"), "~*", "+@read", "+select", "+auth", "+eval"];
    let set: String =
        ["ACL", "SETUSER", "default"].iter().chain(&rights).map(|word| format!("{word} ")).collect();
    let said = writer.request(&format!("AUTH {PASSWORD}\r\n{set}\r\nQUIT"));
    assert_eq!(said.matches("+OK").count(), 3, "{said}");
    let reader = open(&place.engine.url(writer.port, place.case));
    assert_eq!(reader.get(b"key").unwrap().payload(), b"payload");
    assert_eq!(reader.put(b"key", &artifact()), Err(MissReason::Forbidden));
    let token = Token::random().unwrap();
    let claimed = reader.engine().get_or_claim(&Key::digest(b"other"), &token, until()).unwrap_err();
    assert!(matches!(claimed, Trouble::Forbidden(_)), "{claimed:?}");
    assert!(!claimed.to_string().contains("default"), "{claimed}");
}

fn full_server_serves_and_refuses_puts(place: &Place) {
    let server = Server::redis(&["--requirepass", PASSWORD, "--maxmemory-policy", "noeviction"]);
    let store = patient(&place.engine.url(server.port, place.case));
    store.put(b"key", &artifact()).unwrap();
    server.request(&format!("AUTH {PASSWORD}\r\nCONFIG SET maxmemory 1\r\nQUIT"));
    assert_eq!(store.put(b"other", &artifact()), Err(MissReason::NoSpace));
    assert_eq!(store.get(b"key").unwrap().payload(), b"payload");
    let (token, name) = (Token::random().unwrap(), Key::digest(b"other"));
    let claimed = store.engine().get_or_claim(&name, &token, until());
    assert!(matches!(claimed, Err(Trouble::Full(_))), "{claimed:?}");
    let found = store.engine().get_or_claim(&Key::digest(b"key"), &token, until());
    assert!(matches!(found, Ok(Answer::Stored(_))), "{found:?}");
}

fn server_without_its_replicas_is_read(place: &Place) {
    let server = Server::redis(&["--requirepass", PASSWORD]);
    let store = patient(&place.engine.url(server.port, place.case));
    store.put(b"key", &artifact()).unwrap();
    server.request(&format!("AUTH {PASSWORD}\r\nCONFIG SET min-replicas-to-write 1\r\nQUIT"));
    assert_eq!(store.put(b"other", &artifact()), Err(MissReason::ReadOnly));
    let (token, name) = (Token::random().unwrap(), Key::digest(b"other"));
    let claimed = store.engine().get_or_claim(&name, &token, until());
    assert!(matches!(claimed, Err(Trouble::ReadOnly(_))), "{claimed:?}");
    assert_eq!(store.get(b"key").unwrap().payload(), b"payload");
}

fn restarted_server_is_used_again(place: &Place) {
    let server = Server::redis(&["--requirepass", PASSWORD]);
    let (port, store) = (server.port, open(&place.engine.url(server.port, place.case)));
    store.put(b"key", &artifact()).unwrap();
    drop(server);
    // The first call finds that its connection was closed.
    let server = Server::redis_at(port, &["--requirepass", PASSWORD]);
    assert_eq!(store.get(b"key").unwrap_err(), MissReason::Absent);
    drop(server);
    assert_eq!(store.get(b"key").unwrap_err(), MissReason::Unavailable);
    let _server = Server::redis_at(port, &["--requirepass", PASSWORD]);
    store.put(b"key", &artifact()).unwrap();
    assert!(store.get(b"key").is_ok());
}

fn unrenewed_lease_expires(place: &Place) {
    let options = RemoteOptions::default().with_secret(&[7; 32]).with_lease_ttl(Duration::from_millis(100));
    let store = RemoteStore::open(&place.url(), options).unwrap();
    let (name, first, second) = (Key::digest(b"key"), Token::random().unwrap(), Token::random().unwrap());
    assert!(matches!(store.engine().get_or_claim(&name, &first, until()), Ok(Answer::Claimed(_))));
    thread::sleep(Duration::from_millis(150));
    assert!(matches!(store.engine().get_or_claim(&name, &second, until()), Ok(Answer::Claimed(_))));
}

fn miss_with_its_claim_is_one_command(place: &Place) {
    let server = Server::redis(&["--requirepass", PASSWORD]);
    let store = patient(&place.engine.url(server.port, place.case));
    let (token, names) = (Token::random().unwrap(), (0..80u8).map(|number| Key::digest(&[number])));
    store.put(b"key", &artifact()).unwrap();
    let info = |command: &str| server.request(&format!("AUTH {PASSWORD}\r\n{command}\r\nQUIT"));
    info("CONFIG RESETSTAT");
    store.engine().get_or_claim(&Key::digest(b"other"), &token, until()).unwrap();
    assert!(store.engine().get_many(&names.clone().collect::<Vec<_>>(), until()).iter().all(Result::is_ok));
    store.engine().survey(&names.collect::<Vec<_>>(), until()).unwrap();
    let counted = info("INFO commandstats");
    let calls = |command: &str| counted.contains(&format!("cmdstat_{command}"));
    assert!(calls("eval:calls=2,") && calls("mget:calls=1,") && !calls("select"), "{counted}");
}

fn encrypted_server_is_verified_and_used(_: &Place) {
    let (port, certificates) = (free_port().to_string(), certificates().unwrap());
    let path = |name: &str| certificates.join(name).display().to_string();
    let (certificate, key, authority) = (path("server.pem"), path("server.key"), path("ca.pem"));
    let bind = ["--bind", "127.0.0.1", "127.0.0.2"];
    let files = ["--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-ca-cert-file", &authority];
    let server = ["--requirepass", PASSWORD, "--tls-auth-clients", "no", "--tls-port", &port];
    let _server = Server::redis(&[&server[..], &bind, &files].concat());
    let store = patient(&format!("rediss://localhost:{port}"));
    let long = Artifact::new(vec![7; 1_000_000]);
    store.put(b"key", &long).unwrap();
    assert_eq!(store.get(b"key").unwrap().payload(), long.payload());
    let said = |url: String| Check::of(&patient(&url)).read.unwrap_err().to_string();
    let other_host = said(format!("rediss://127.0.0.2:{port}"));
    assert!(other_host.contains("is for another host"), "{other_host}");
    let closed = said(format!("redis://localhost:{port}"));
    assert!(closed.contains("connection"), "{closed}");
}

fn encrypted_web_server_is_read(place: &Place) {
    patient(&place.url()).put(b"key", &artifact()).unwrap();
    let port = place.servers.nginx_tls_port();
    let reader = patient(&format!("https://localhost:{port}/{BUCKET}/{}", place.case));
    assert_eq!(reader.get(b"key").unwrap().payload(), b"payload");
    let said = |url: String| Check::of(&patient(&url)).read.unwrap_err().to_string();
    let plain = said(format!("https://localhost:{}/", place.servers.moto().port));
    assert!(plain.contains("without TLS"), "{plain}");
}

/// Of many objects, one is refused and one is never sent.
fn object_without_answer_costs_only_itself(_: &Place) {
    let options = || RemoteOptions::default().unsealed().with_deadline(DEADLINE);
    let writer = RemoteStore::open("redis://nowhere", options()).unwrap();
    let keys: Vec<Vec<u8>> = (0..80u8).map(|number| vec![number]).collect();
    let entry = |key: &Vec<u8>| (Key::digest(key).to_string(), writer.encode(key, &artifact()).unwrap());
    let entries: Vec<_> = keys.iter().map(entry).collect();
    let port = serve(move |mut client| {
        let mut request = [0; 65536];
        while let Ok(len @ 1..) = client.read(&mut request) {
            let request = String::from_utf8_lossy(&request[..len]).into_owned();
            let Some(at) = entries.iter().position(|(name, _)| request.contains(name)) else { return };
            match at {
                7 => _ = client.write_all(b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n"),
                8 => {}
                _ => {
                    let (head, entry) =
                        ("ETag: \"x\"\r\nLast-Modified: Sun, 23 Nov 2025 00:00:00 GMT", &entries[at].1);
                    let _ = write!(
                        client,
                        "HTTP/1.1 200 OK\r\n{head}\r\nContent-Length: {}\r\n\r\n",
                        entry.len()
                    );
                    let _ = client.write_all(entry);
                }
            }
        }
    });
    let reader = RemoteStore::open(&format!("s3://b/p?endpoint=http://127.0.0.1:{port}"), options()).unwrap();
    let asked: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    for (at, found) in reader.get_many(&asked).into_iter().enumerate() {
        match at {
            7 | 8 => assert_eq!(found.unwrap_err(), MissReason::Busy, "{at}"),
            _ => assert_eq!(found.unwrap().payload(), artifact().payload(), "{at}"),
        }
    }
}

/// Returns when the only object of a case was stored or renewed.
fn last_modified(place: &Place) -> String {
    let listing = format!("GET /{BUCKET}?list-type=2&prefix={} HTTP/1.1\r\nHost: localhost", place.case);
    let answer = place.servers.moto().request(&listing);
    let (_, rest) = answer.split_once("<LastModified>").expect(&answer);
    rest.split_once('<').unwrap().0.to_owned()
}

fn entry_that_is_read_when_old_is_renewed(place: &Place) {
    let options = RemoteOptions::default().with_secret(&[7; 32]).with_deadline(PATIENT);
    let store = RemoteStore::open(&place.url(), options.with_max_age(Duration::from_secs(4))).unwrap();
    store.put(b"key", &artifact()).unwrap();
    let before = last_modified(place);
    // The server tells times in seconds.
    thread::sleep(Duration::from_millis(200));
    assert!(store.get(b"key").is_ok() && store.contains(b"key") == Ok(true));
    thread::sleep(Duration::from_millis(300));
    assert_eq!(last_modified(place), before, "a young entry is left alone");
    thread::sleep(Duration::from_secs(3));
    let started = Instant::now();
    while last_modified(place) == before {
        assert!(store.get(b"key").is_ok() && started.elapsed() < Duration::from_secs(30));
        thread::sleep(Duration::from_millis(50));
    }
}

fn touch_renews_the_age_of_an_object(place: &Place) {
    let store = patient(&place.url());
    store.put(b"key", &artifact()).unwrap();
    let before = last_modified(place);
    thread::sleep(Duration::from_millis(1100));
    store.engine().touch(&Key::digest(b"key"), until());
    let started = Instant::now();
    while last_modified(place) == before {
        assert!(started.elapsed() < PATIENT);
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(store.get(b"key").unwrap().payload(), b"payload");
}

fn status_is_told_apart_from_absent(place: &Place) {
    // As S3 does, with the id of the key in its answer.
    const BODY: &str = "<Error><Code>No</Code><AWSAccessKeyId>AKIAHUNTER</AWSAccessKeyId></Error>";
    macro_rules! server {
        ($status:literal) => {
            serve(|stream| answer(stream, $status, "Content-Length: 73", BODY))
        };
    }
    let servers = [
        (MissReason::Absent, server!("404 Not Found")),
        (MissReason::Forbidden, server!("403 Forbidden")),
        (MissReason::Forbidden, server!("401 Unauthorized")),
        (MissReason::Busy, server!("503 Slow Down")),
        (MissReason::Busy, server!("429 Too Many Requests")),
        (MissReason::NoSpace, server!("507 Insufficient Storage")),
        (MissReason::ReadOnly, server!("405 Method Not Allowed")),
        (MissReason::Unavailable, server!("400 Bad Request")),
        (MissReason::Unavailable, server!("301 Moved Permanently")),
    ];
    assert_eq!(BODY.len(), 73);
    for (reason, port) in servers {
        let store = patient(&place.engine.url(port, place.case));
        match store.fetch_many(&[b"key"], until()) {
            Ok(found) => assert_eq!(
                (found[0].as_ref().unwrap_err(), reason),
                (&MissReason::Absent, MissReason::Absent)
            ),
            Err(trouble) => {
                assert_eq!(trouble.reason(), reason, "{trouble}");
                assert!(!format!("{trouble:?} {trouble}").contains("AKIA"), "{trouble}");
            }
        }
    }
}

fn entry_cut_off_is_no_entry(place: &Place) {
    let port = serve(|mut stream| {
        let _ = stream.read(&mut [0; 65536]);
        let _ = write!(stream, "{HEAD_OF_900_BYTES}only this");
    });
    let found = open(&place.engine.url(port, place.case)).get(b"key").unwrap_err();
    assert_eq!(found, MissReason::Unavailable);
}

fn missing_bucket_is_a_miss(place: &Place) {
    let url = place.url().replace(&format!("//{BUCKET}/"), "//no-such-bucket/");
    let checked = Check::of(&patient(&url));
    let said = format!("{checked:?}");
    assert!(checked.read.is_err() && said.contains("the name of the bucket"), "{said}");
    assert_eq!(patient(&url).get(b"key").unwrap_err(), MissReason::Absent);
    assert!(patient(&url).put(b"key", &artifact()).is_err());
}

/// What someone put there is held by another, whatever it begins with.
fn lease_that_is_too_long_is_not_read(place: &Place) {
    let (store, name, token) = (patient(&place.url()), Key::digest(b"key"), Token::random().unwrap());
    let seal: String = Seal::new(&[7; 32]).id().iter().map(|byte| format!("{byte:02x}")).collect();
    for (len, is_ours) in [(24, true), (5_000, false)] {
        let path = format!("/{BUCKET}/{}/v1/{seal}/lease/{name}", place.case);
        let mut stream = TcpStream::connect(("127.0.0.1", place.servers.moto().port)).unwrap();
        // moto wants a signature, and does not verify it.
        let mut request = format!(
            "PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len}\r\nConnection: close\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential=x/y/us-east-1/s3/z\r\n\r\n"
        )
        .into_bytes();
        let end = request.len() + len;
        request.extend(token.as_bytes());
        request.resize(end, 0);
        stream.write_all(&request).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let claimed = store.engine().claim(&name, &token, None, until()).unwrap();
        assert_eq!(claimed.is_some(), is_ours, "{len}");
    }
}

fn store_that_refuses_conditions_has_no_leases(place: &Place) {
    let port = serve(|mut stream| {
        let mut request = [0; 65536];
        while let Ok(len @ 1..) = stream.read(&mut request) {
            let is_conditional = String::from_utf8_lossy(&request[..len]).contains("\r\nif-none-match:");
            let status = if is_conditional { "501 Not Implemented" } else { "200 OK" };
            let _ = write!(stream, "HTTP/1.1 {status}\r\nETag: \"x\"\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let store = patient(&place.engine.url(port, place.case));
    let claimed = store.engine().claim(&Key::digest(b"key"), &Token::random().unwrap(), None, until());
    assert!(matches!(claimed, Err(Trouble::Unsupported(_))), "{claimed:?}");
    store.put(b"key", &artifact()).unwrap();
}

/// It is no reason to take the store for one that cannot be written.
fn store_without_if_match_has_no_leases(place: &Place) {
    let port = serve(|mut stream| {
        let (mut request, mut creates) = ([0; 65536], 0..);
        while let Ok(len @ 1..) = stream.read(&mut request) {
            let request = String::from_utf8_lossy(&request[..len]);
            let status = match () {
                () if request.contains("\r\nif-match:") => "501 Not Implemented",
                () if request.contains("\r\nif-none-match:") && creates.next() > Some(0) => {
                    "412 Precondition Failed"
                }
                () => "200 OK",
            };
            let _ = write!(stream, "HTTP/1.1 {status}\r\nETag: \"x\"\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let store = patient(&place.engine.url(port, place.case));
    let claimed = store.engine().claim(&Key::digest(b"key"), &Token::random().unwrap(), None, until());
    assert!(matches!(claimed, Err(Trouble::Unsupported(_))), "{claimed:?}");
}

fn store_that_ignores_conditions_has_no_leases(place: &Place) {
    let store = patient(&place.url());
    store.put(b"key", &artifact()).unwrap();
    assert_eq!(store.get(b"key").unwrap().payload(), b"payload");
    let (engine, name, token) = (store.engine(), Key::digest(b"other"), Token::random().unwrap());
    for _ in 0..2 {
        let claimed = engine.claim(&name, &token, None, until());
        assert!(matches!(claimed, Err(Trouble::Unsupported(_))), "{claimed:?}");
        let claimed = engine.get_or_claim(&name, &token, until());
        assert!(matches!(claimed, Err(Trouble::Unsupported(_))), "{claimed:?}");
    }
    let found = engine.get_or_claim(&Key::digest(b"key"), &token, until());
    assert!(matches!(found, Ok(Answer::Stored(_))), "{found:?}");
}

fn plain_http_is_read_and_never_written(place: &Place) {
    patient(&place.url()).put(b"key", &artifact()).unwrap();
    let port = place.servers.nginx().port;
    let reader = patient(&format!("http://127.0.0.1:{port}/{BUCKET}/{}", place.case));
    assert_eq!(reader.get(b"key").unwrap().payload(), b"payload");
    assert_eq!((reader.contains(b"key"), reader.contains(b"other")), (Ok(true), Ok(false)));
    assert_eq!(reader.get(b"other").unwrap_err(), MissReason::Absent);
    let found = reader.get_many(&[b"other", b"key"]);
    assert!(found[0].is_err() && found[1].is_ok());
    assert_eq!(reader.put(b"key", &artifact()), Err(MissReason::ReadOnly));
    assert_eq!(reader.remove(b"key"), Err(MissReason::ReadOnly));
    let (name, token) = (Key::digest(b"other"), Token::random().unwrap());
    let claimed = reader.engine().claim(&name, &token, None, until());
    assert!(matches!(claimed, Err(Trouble::Unsupported(_))), "{claimed:?}");
}

fn unknown_host_is_unreachable(_: &Place) {
    for url in ["redis://no-such-host.invalid", "s3://bucket?endpoint=http://no-such-host.invalid"] {
        let started = Instant::now();
        let reason = open(url).get(b"key").unwrap_err();
        assert!(matches!(reason, MissReason::Unavailable | MissReason::Busy), "{url}: {reason:?}");
        assert!(started.elapsed() < DEADLINE.mul_f64(1.2), "{url}: {:?}", started.elapsed());
    }
}
