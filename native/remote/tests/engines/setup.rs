//! The configurations of docs/fleet.md, each given to the server that it is for.

use std::{
    convert::Infallible,
    env, fs,
    process::Command,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use tempfile::TempDir;
use warmstart::{
    Artifact, Cache, Limits, MissReason, Store,
    cache::{Fetched, ManyOptions},
    store::{FileStore, MemoryStore, StoreOptions},
};
use warmstart_remote::{Fleet, FleetOptions, RemoteStore, pull};

use crate::{
    Case, PATIENT, Place, patient,
    servers::{Server, WRITABLE, certificates, free_port, python},
};

pub(crate) const OF_REDIS: &[Case] = &[
    ("writer_writes_and_reader_only_reads", redis_writer_writes_and_reader_only_reads),
    ("full_server_evicts_the_least_recently_used", full_server_evicts_the_least_recently_used),
];

pub(crate) const OF_REDIS_TLS: &[Case] =
    &[("writer_writes_and_reader_only_reads", encrypted_writer_writes_and_reader_only_reads)];

pub(crate) const OF_S3: &[Case] =
    &[("writer_writes_and_reader_only_reads", bucket_writer_writes_and_reader_only_reads)];

pub(crate) const OF_NGINX: &[Case] =
    &[("folder_is_read_and_never_written", folder_is_read_and_never_written)];

const DOCUMENT: &str = include_str!("../../../../docs/fleet.md");

/// Names the variable that makes this program a user of a server, with the user's credentials: the user's name and a URL.
pub(crate) const VISIT: &str = "WARMSTART_TEST_VISIT";

/// Gives the document's policies and rule to moto, and prints a file of profiles. From then on, moto enforces signatures, actions and
/// resources. It does not let objects expire, and answers 404 where S3 would answer 403 to a reader that may not list.
const MAKE_BUCKET: &str = r#"
import json, sys, urllib.request, boto3
endpoint, rules, *policies = sys.argv[1:]
any = dict(endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="any", aws_secret_access_key="any")
s3, iam = boto3.client("s3", **any), boto3.client("iam", **any)
s3.create_bucket(Bucket="team-cache")
rules = json.loads(rules)
s3.put_bucket_lifecycle_configuration(Bucket="team-cache", LifecycleConfiguration=rules)
assert s3.get_bucket_lifecycle_configuration(Bucket="team-cache")["Rules"] == rules["Rules"]
for user, policy in zip(["writer", "reader"], policies):
    iam.create_user(UserName=user)
    iam.put_user_policy(UserName=user, PolicyName="warmstart", PolicyDocument=policy)
    key = iam.create_access_key(UserName=user)["AccessKey"]
    print(f"[{user}]\naws_access_key_id = {key['AccessKeyId']}\naws_secret_access_key = {key['SecretAccessKey']}")
enforce = urllib.request.Request(endpoint + "/moto-api/reset-auth", b"0", {"Content-Type": "text/plain"})
urllib.request.urlopen(enforce)
"#;

/// Prints the names of all objects.
const LIST_BUCKET: &str = r#"
import sys, boto3
s3 = boto3.Session(profile_name="writer").client("s3", endpoint_url=sys.argv[1], region_name="us-east-1")
for found in s3.list_objects_v2(Bucket="team-cache")["Contents"]:
    print(found["Key"])
"#;

/// Returns the block of the document with this name, which stands beside its language.
fn block(name: &str) -> &'static str {
    let blocks = DOCUMENT.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
    let mut named = blocks.filter(|(info, _)| info.split_once(' ').is_some_and(|(_, found)| found == name));
    named.next().expect(name).1
}

fn password(user: &str) -> &'static str {
    let line =
        block("warmstart.conf").lines().find_map(|line| line.strip_prefix(&format!("user {user} on >")));
    line.unwrap().split(' ').next().unwrap()
}

/// Runs this program as a user, whose credentials are in these variables, and returns what it prints.
fn run_as(user: &str, url: &str, variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(env::current_exe().unwrap());
    command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY").env_remove("REDISCLI_AUTH");
    printed(command.env(VISIT, format!("{user} {url}")).envs(variables.iter().copied()))
}

fn run_as_user_of_redis(user: &str, task: &str, url: &str) -> String {
    run_as(task, url, &[("WARMSTART_REDIS_USER", user), ("REDISCLI_AUTH", password(user))])
}

fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Does what a user does, on one machine with single calls and on another with a call for many.
pub(crate) fn visit(visit: &str) {
    let (task, url) = visit.split_once(' ').unwrap();
    if task == "fill" {
        return fill(&patient(url));
    }
    if task == "copy" {
        let copied = pull(&patient(url), &MemoryStore::new(Limits::NONE), &|_| {});
        return println!("{:?}", copied.map(|copied| copied.entries).map_err(|error| error.to_string()));
    }
    for calls in ["single", "many"] {
        println!("{calls}: {}", use_fleet(task, url, calls));
    }
}

fn use_fleet(user: &str, url: &str, calls: &str) -> String {
    let (machine, own) = (TempDir::new().unwrap(), format!("{user} {calls}"));
    let local = FileStore::open(machine.path().join("cache"), StoreOptions::default()).unwrap();
    let said = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&said);
    let options = FleetOptions::default()
        .with_directory(machine.path().join("fleet"))
        .with_on_trouble(move |trouble| seen.lock().unwrap().push(trouble.to_string()));
    let cache = Cache::new(Fleet::new(local, patient(url), options));
    let keys = ["stored", &own];
    let build = |at: usize| Ok::<_, Infallible>(keys[at].as_bytes().to_vec());
    let fetched: Vec<Fetched> = match calls {
        "single" => (0..2).map(|at| cache.get_or_build(keys[at], || build(at)).unwrap()).collect(),
        _ => cache
            .get_or_build_many(keys, ManyOptions::default(), build)
            .into_iter()
            .map(Result::unwrap)
            .collect(),
    };
    for (key, fetched) in keys.iter().zip(&fetched) {
        assert_eq!(fetched.artifact().payload(), key.as_bytes());
    }
    let is_done = cache.store().wait_for_uploads(PATIENT);
    let hits: Vec<bool> = fetched.iter().map(Fetched::is_hit).collect();
    let statistics = cache.store().statistics();
    let (uploads, is_open) = (statistics.uploads, statistics.is_breaker_open);
    let (put, removed) = (
        patient(url).put(b"stored", &Artifact::new(b"stored".to_vec())),
        patient(url).remove(own.as_bytes()),
    );
    let said = said.lock().unwrap();
    format!(
        "hits {hits:?}, {uploads} uploads, done {is_done}, open {is_open}, put {put:?}, removed {removed:?}, said {said:?}"
    )
}

/// What a writer prints who comes first, or a later one.
fn writes(is_first: bool) -> String {
    let line = |calls: &str, hit: bool, uploads: u32| {
        format!(
            "{calls}: hits [{hit}, false], {uploads} uploads, done true, open false, put Ok(0), removed Ok(true), said []\n"
        )
    };
    line("single", !is_first, 1 + u32::from(is_first)) + &line("many", true, 1)
}

/// What a reader prints after a writer: the remote serves, refuses, and says so once.
fn only_reads() -> String {
    ["single", "many"]
        .map(|calls| {
            format!(
                "{calls}: hits [true, false], 0 uploads, done true, open false, put Err(Forbidden), removed Err(Forbidden), \
                 said [\"the remote is read-only: the credentials permit no writes, so builds are not shared\"]\n"
            )
        })
        .concat()
}

fn redis_writer_writes_and_reader_only_reads(_: &Place) {
    let port = free_port();
    let _server = Server::redis_of(block("warmstart.conf"), port, &["--port", &port.to_string()]);
    let url = format!("redis://127.0.0.1:{port}/1");
    assert_eq!(run_as_user_of_redis("writer", "writer", &url), writes(true));
    assert_eq!(run_as_user_of_redis("reader", "reader", &url), only_reads());
    assert_eq!(run_as_user_of_redis("copier", "copy", &url), "Ok(1)\n");
    let refused = "Err(\"the remote refuses the credentials: redis answered NOPERM; the rules of its user";
    let answer = run_as_user_of_redis("reader", "copy", &url);
    assert!(answer.starts_with(refused), "{answer}");
    let elsewhere = run_as_user_of_redis("reader", "reader", &format!("{url}?prefix=another"));
    assert!(
        elsewhere.starts_with("single: hits [false, false], 0 uploads, done true, open true"),
        "{elsewhere}"
    );
    let said = "said [\"the remote refuses the credentials: redis answered NOPERM; the rules of its user must permit";
    assert_eq!(elsewhere.matches(said).count(), 2, "{elsewhere}");
    // Without a user, the password is that of the user `default`, who is off.
    assert_eq!(patient(&url).get(b"stored").unwrap_err(), MissReason::Forbidden);
}

fn encrypted_writer_writes_and_reader_only_reads(_: &Place) {
    let port = free_port();
    let tls = block("tls.conf").replace("/etc/redis", &certificates().unwrap().display().to_string());
    let config = format!("{}\n{tls}", block("warmstart.conf"));
    let _server = Server::redis_of(&config, port, &["--tls-port", &port.to_string()]);
    let url = format!("rediss://localhost:{port}");
    assert_eq!(run_as_user_of_redis("writer", "writer", &url), writes(true));
    assert_eq!(run_as_user_of_redis("reader", "reader", &url), only_reads());
    assert_eq!(
        patient(&format!("redis://localhost:{port}")).get(b"stored").unwrap_err(),
        MissReason::Unavailable
    );
}

/// With less memory than in the document, which would take long to fill.
fn full_server_evicts_the_least_recently_used(_: &Place) {
    let port = free_port();
    let options = ["--port", &port.to_string(), "--maxmemory", "9mb"];
    let _server = Server::redis_of(block("warmstart.conf"), port, &options);
    let url = format!("redis://127.0.0.1:{port}");
    assert_eq!(run_as_user_of_redis("writer", "fill", &url), "evicted [0]\n");
    assert_eq!(run_as_user_of_redis("writer", "writer", &url), writes(true));
}

/// Stores entries until one is evicted.
fn fill(store: &RemoteStore) {
    const OLD: u32 = 5;
    let put = |number: u32| store.put(&number.to_le_bytes(), &Artifact::new(vec![7; 1_000_000])).unwrap();
    (0..OLD).for_each(|number| _ = put(number));
    // Redis tells times of use apart by seconds.
    thread::sleep(Duration::from_millis(1_500));
    (1..OLD).for_each(|number| _ = store.get(&number.to_le_bytes()).unwrap());
    thread::sleep(Duration::from_millis(1_500));
    for number in OLD..20 {
        put(number);
        let evicted: Vec<u32> =
            (0..=number).filter(|number| store.contains(&number.to_le_bytes()) == Ok(false)).collect();
        if !evicted.is_empty() {
            println!("evicted {evicted:?}");
            return;
        }
    }
}

fn bucket_writer_writes_and_reader_only_reads(_: &Place) {
    let (server, folder) = (Server::moto(), TempDir::new().unwrap());
    let endpoint = format!("http://127.0.0.1:{}", server.port);
    let [rules, writer, reader] = ["lifecycle.json", "writer.json", "reader.json"].map(block);
    let profiles = printed(python().args(["-c", MAKE_BUCKET, &endpoint, rules, writer, reader]));
    let path = folder.path().join("credentials");
    fs::write(&path, profiles).unwrap();
    let path = path.to_str().unwrap();
    let run = |user| {
        let url = format!("s3://team-cache/warmstart?endpoint={endpoint}");
        run_as(user, &url, &[("AWS_SHARED_CREDENTIALS_FILE", path), ("AWS_PROFILE", user)])
    };
    assert_eq!(run("writer"), writes(true));
    assert_eq!(run("reader"), only_reads());
    assert_eq!(run("writer"), writes(false));
    let list = ["-c", LIST_BUCKET, &endpoint];
    let objects =
        printed(python().args(list).env_remove("AWS_ACCESS_KEY_ID").env("AWS_SHARED_CREDENTIALS_FILE", path));
    // The rule is for all of them.
    assert!(rules.contains(r#""Prefix": "warmstart/""#));
    assert!(
        objects.lines().count() > 0 && objects.lines().all(|name| name.starts_with("warmstart/")),
        "{objects}"
    );
}

/// The second server stands for the program that fills the folder.
fn folder_is_read_and_never_written(_: &Place) {
    let (port, filling) = (free_port(), free_port());
    let location = block("server.conf").replace("/srv", "ROOT");
    let servers = format!(
        "server {{ listen 127.0.0.1:{port}; {location} }}\nserver {{ listen 127.0.0.1:{filling}; {WRITABLE} }}"
    );
    let server = Server::nginx_of(port, &servers);
    let filled = patient(&format!("s3://warmstart?endpoint=http://127.0.0.1:{filling}"));
    filled.put(b"stored", &Artifact::new(b"stored".to_vec())).unwrap();
    let url = format!("http://127.0.0.1:{port}/warmstart");
    let why = "plain HTTP is read-only";
    for calls in ["single", "many"] {
        let done = use_fleet("reader", &url, calls);
        let expected = format!(
            "hits [true, false], 0 uploads, done true, open false, put Err(ReadOnly), removed Err(ReadOnly), \
             said [\"the remote has no leases: {why}\", \"the remote is read-only: {why}\"]"
        );
        assert_eq!(done, expected, "{calls}");
    }
    let put = server.request("PUT /warmstart/v1/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0");
    assert!(put.starts_with("HTTP/1.1 403"), "{put}");
}
