//! Runs scenarios against real engines: Redis, moto's S3, and nginx. Each case is a test, such as
//! `redis::leases::released_lease_is_free`.
//!
//! A case whose server is not installed is ignored, and says what it needs: `cargo xtask runtimes --engines` installs them.
#![allow(clippy::unwrap_used, reason = "every function here is part of a test")]

mod conformance;
mod dead;
mod entries;
mod faults;
mod fleet;
mod hostile;
mod leases;
mod processes;
mod proxies;
mod servers;
mod setup;
mod transfer;
mod trust;

use std::{
    env,
    process::{Command, ExitCode},
    ptr,
    sync::Arc,
    time::{Duration, Instant},
};

use libtest_mimic::{Arguments, Failed, Trial};
use servers::{Engine, Servers};
use warmstart_remote::{RemoteOptions, RemoteStore};

/// A case: its name, and what it does at a place of its own on an engine.
type Case = (&'static str, fn(&Place));

/// The password of the servers and the secret key of S3, which nothing may show.
const PASSWORD: &str = "hunter2";

/// The deadline of requests that must succeed, on a machine that does much else.
const PATIENT: Duration = Duration::from_secs(30);

/// Names the processes that have the credentials.
const CREDENTIALS: [(&str, &str); 4] = [
    ("REDISCLI_AUTH", PASSWORD),
    ("AWS_ACCESS_KEY_ID", "AKIAHUNTER"),
    ("AWS_SECRET_ACCESS_KEY", PASSWORD),
    ("AWS_REGION", "us-east-1"),
];

/// An engine, and a prefix that no other case uses.
struct Place {
    servers: Arc<Servers>,
    engine: Engine,
    case: &'static str,
}

impl Place {
    fn url(&self) -> String {
        self.servers.url(self.engine, self.case)
    }
}

/// Opens a remote whose requests succeed unless the case is about failures.
fn patient(url: &str) -> RemoteStore {
    open_with(url, PATIENT)
}

fn open_with(url: &str, deadline: Duration) -> RemoteStore {
    RemoteStore::open(url, RemoteOptions::default().with_secret(&[7; 32]).with_deadline(deadline)).unwrap()
}

fn until() -> Instant {
    Instant::now() + PATIENT
}

/// Forks a child that ends at once. Returns how long that took.
fn fork() -> Duration {
    let started = Instant::now();
    // SAFETY: that this may be done while other threads run is what is tested. The child ends at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: it ends the child.
        unsafe { libc::_exit(0) };
    }
    let took = started.elapsed();
    // SAFETY: it is a child of this process that nothing else waits for.
    unsafe { libc::waitpid(child, ptr::null_mut(), 0) };
    took
}

/// Makes a test of a case at a place.
fn trial(group: &str, place: Place, play: impl FnOnce(&Place) + Send + 'static) -> Trial {
    let Place { engine, case, .. } = place;
    let run = move || -> Result<(), Failed> {
        play(&place);
        Ok(())
    };
    let trial = Trial::test(format!("{}::{group}::{case}", engine.name()), run);
    match engine.missing() {
        None => trial,
        Some(program) => trial.with_ignored_flag(true).with_kind(format!("needs {program}")),
    }
}

fn main() -> ExitCode {
    if let Ok(visit) = env::var(setup::VISIT) {
        setup::visit(&visit);
        return ExitCode::SUCCESS;
    }
    if let Ok(folder) = env::var(hostile::FULL) {
        hostile::fill(&folder);
        return ExitCode::SUCCESS;
    }
    if processes::is_worker() {
        processes::work();
        return ExitCode::SUCCESS;
    }
    if CREDENTIALS.iter().any(|(name, value)| env::var(name).as_deref() != Ok(value)) {
        // The environment of a process is set before it starts.
        let program = env::current_exe().expect("a running program has a path");
        let mut command = Command::new(program);
        command.args(env::args_os().skip(1)).envs(CREDENTIALS);
        if let Some(certificates) = servers::certificates() {
            command.env("SSL_CERT_FILE", certificates.join("ca.pem"));
        }
        let status = command.status();
        return if status.expect("it starts again").success() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
    }
    let both = [Engine::Redis, Engine::S3];
    let groups: &[(&str, &[Engine], &[Case])] = &[
        ("leases", &both, leases::CASES),
        ("entries", &both, entries::CASES),
        ("entries", &[Engine::S3], entries::OF_S3),
        ("faults", &both, faults::CASES),
        ("fleet", &both, fleet::CASES),
        ("fleet", &[Engine::Redis], fleet::OF_REDIS),
        ("fleet", &[Engine::Nginx], fleet::OF_NGINX),
        ("transfer", &both, transfer::CASES),
        ("transfer", &[Engine::Nginx], transfer::OF_NGINX),
        ("hostile", &both, hostile::CASES),
        ("hostile", &[Engine::Redis], hostile::OF_REDIS),
        ("hostile", &[Engine::Nginx], hostile::OF_NGINX),
        ("hostile", &[Engine::None], hostile::OF_NONE),
        ("processes", &both, processes::CASES),
        ("processes", &[Engine::None], processes::OF_NONE),
        ("trust", &both, trust::CASES),
        ("dead", &both, dead::CASES),
        ("proxies", &both, proxies::CASES),
        ("proxies", &[Engine::Redis], proxies::OF_REDIS),
        ("proxies", &[Engine::S3], proxies::OF_S3),
        ("faults", &[Engine::Redis], faults::OF_REDIS),
        ("faults", &[Engine::S3], faults::OF_S3),
        ("faults", &[Engine::Nginx], faults::OF_NGINX),
        ("faults", &[Engine::None], faults::OF_NONE),
        ("faults", &[Engine::RedisTls], faults::OF_REDIS_TLS),
        ("faults", &[Engine::NginxTls], faults::OF_NGINX_TLS),
        ("setup", &[Engine::Redis], setup::OF_REDIS),
        ("setup", &[Engine::RedisTls], setup::OF_REDIS_TLS),
        ("setup", &[Engine::S3], setup::OF_S3),
        ("setup", &[Engine::Nginx], setup::OF_NGINX),
    ];
    let servers = Arc::new(Servers::default());
    let mut trials = Vec::new();
    for &(group, engines, cases) in groups {
        for (engine, (case, play)) in
            engines.iter().flat_map(|engine| cases.iter().map(move |case| (*engine, *case)))
        {
            let place = Place { servers: Arc::clone(&servers), engine, case };
            trials.push(trial(group, place, play));
        }
    }
    for engine in both {
        for (case, play) in conformance::cases() {
            let place = Place { servers: Arc::clone(&servers), engine, case };
            trials.push(trial("conformance", place, play));
        }
    }
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    servers.stop();
    conclusion.exit_code()
}
