//! What a dead remote costs a process, whatever it does: one deadline.

use std::{
    convert::Infallible,
    io::{Read, Write},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use warmstart::{Artifact, Cache, MissReason, Store, cache::ManyOptions};
use warmstart_remote::FleetOptions;

use crate::{
    Case, Place,
    fleet::{Machine, fleet_at},
    open_with,
    servers::{Engine, free_port, serve},
};

pub(crate) const CASES: &[Case] = &[
    ("remote_that_refuses_costs_one_deadline", |place| check(place, free_port())),
    ("remote_that_is_silent_costs_one_deadline", |place| check(place, serve(read))),
    ("remote_that_resets_costs_one_deadline", |place| check(place, serve(reset))),
    ("remote_that_forbids_costs_one_deadline", |place| check(place, forbidding(place.engine))),
];

/// Long enough that what the machine itself does is a small part of it.
const DEADLINE: Duration = Duration::from_secs(1);

const KEYS: usize = 20;

/// Reads until the client is gone.
fn read(mut client: TcpStream) {
    while let Ok(1..) = client.read(&mut [0; 4096]) {}
}

/// Closes the connection while there are bytes to read, so that it is reset.
fn reset(mut client: TcpStream) {
    let _ = client.read(&mut [0]);
}

fn forbidding(engine: Engine) -> u16 {
    serve(move |mut client| {
        let answer = match engine {
            // To a password and the number of a database.
            Engine::Redis => "-WRONGPASS invalid\r\n-NOAUTH required\r\n",
            _ => "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n",
        };
        while let Ok(1..) = client.read(&mut [0; 65536]) {
            let _ = client.write_all(answer.as_bytes());
        }
    })
}

/// What a process does first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    Get,
    Put,
    Build,
}

/// Works as a process does from its start to its end, and returns how long that took.
fn work<S: Store>(open: impl FnOnce() -> S, first: First) -> Duration {
    let started = Instant::now();
    let cache = Cache::new(open());
    let get = || {
        for number in 0..KEYS {
            assert_eq!(cache.get(format!("absent {number}").as_str()).unwrap_err(), MissReason::Absent);
        }
    };
    let put = || {
        for number in 0..KEYS {
            cache.store().put(format!("put {number}").as_bytes(), &Artifact::new(vec![7; 1000])).unwrap();
        }
    };
    let build = || {
        let keys: Vec<String> = (0..KEYS).map(|number| format!("built {number}")).collect();
        let requests = keys.iter().map(String::as_str);
        let build = |_| Ok::<_, Infallible>(vec![8; 1000]);
        for built in cache.get_or_build_many(requests, ManyOptions::default(), build) {
            assert_eq!(built.unwrap().artifact().payload(), [8; 1000]);
        }
    };
    match first {
        First::Get => (get(), put(), build()),
        First::Put => (put(), get(), build()),
        First::Build => (build(), get(), put()),
    };
    cache.store().close().unwrap();
    drop(cache);
    started.elapsed()
}

/// Adds one deadline at most, to the first process of a machine; and none to the second.
fn check(place: &Place, port: u16) {
    let url = place.engine.url(port, place.case);
    thread::scope(|scope| {
        for first in [First::Get, First::Put, First::Build] {
            let url = &url;
            scope.spawn(move || {
                let alone = work(|| Machine::new().local(), first);
                let machine = Machine::new();
                for most in [DEADLINE.mul_f64(1.2), DEADLINE / 2] {
                    let open = || fleet_at(machine.path(), open_with(url, DEADLINE), FleetOptions::default());
                    let added = work(open, first).saturating_sub(alone);
                    assert!(added < most, "{first:?}: {added:?}");
                }
                let local = machine.local();
                for number in 0..KEYS {
                    assert_eq!(local.get(format!("put {number}").as_bytes()).unwrap().payload(), [7; 1000]);
                    let built = local.get(format!("built {number}").as_bytes()).unwrap();
                    assert_eq!(built.payload(), [8; 1000]);
                }
            });
        }
        // One that only stores learns nothing of the remote before it ends.
        scope.spawn(|| {
            let machine = Machine::new();
            let started = Instant::now();
            let fleet = fleet_at(machine.path(), open_with(&url, DEADLINE / 4), FleetOptions::default());
            fleet.put(b"key", &Artifact::new(vec![7])).unwrap();
            fleet.close().unwrap();
            drop(fleet);
            let took = started.elapsed();
            assert!(took < DEADLINE / 2, "{took:?}");
            assert!(machine.local().get(b"key").is_ok());
        });
    });
}
