//! What a dead remote costs a process, and the next one.

use std::{
    convert::Infallible,
    error::Error,
    fs, io,
    net::{TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use warmstart::{Artifact, Cache, Store, cache::ManyOptions};
use warmstart_remote::{RemoteOptions, RemoteStore};
use warmstart_tests::{measure::median, medium::Medium, servers::free_port};

use super::{SECRET, files, fleet};
use crate::{
    Rows,
    measure::Plan,
    row::{Row, Sense},
};

const KEYS: [&str; 20] =
    ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"];

/// What a dead server does with a connection.
type Serve = fn(TcpStream);

/// Ways to be dead, and what a server does with a connection.
const WAYS: [(&str, Option<Serve>); 3] =
    [("refuses", None), ("never_answers", Some(hold)), ("resets", Some(drop))];

pub(super) fn rows(plan: &Plan, disk: &Medium) -> Rows {
    let runs = if plan.is_quick() { 2 } else { 7 };
    let mut rows = Vec::new();
    for (engine, scheme) in
        [("redis", "redis://127.0.0.1:PORT"), ("objects", "s3://b?endpoint=http://127.0.0.1:PORT")]
    {
        for (way, serve) in WAYS {
            let port = serve.map_or_else(|| Ok(free_port()), listen)?;
            let url = scheme.replace("PORT", &port.to_string());
            let remote = || RemoteStore::open(&url, RemoteOptions::default().with_secret(&SECRET));
            let deadline = remote()?.deadline().as_secs_f64() * 1e3;
            let (mut first, mut next) = (Vec::new(), Vec::new());
            for run in 0..runs {
                let machine = format!("dead-{engine}-{way}-{run}");
                let alone = time(|| process(files(disk, &format!("{machine}-alone"))?))?;
                first.push(time(|| process(fleet(disk, &machine, remote()?)?))? - alone);
                // The same work, on the disk of a machine without its entries.
                fs::remove_dir_all(disk.path(&machine).join("files"))?;
                next.push(time(|| process(fleet(disk, &machine, remote()?)?))? - alone);
            }
            let name = format!("dead/{engine}/{way}");
            let deadlines = (median(first) / deadline, "deadlines");
            rows.push(Row::bounded(name.clone(), deadlines, "files_alone", Sense::AtMost, 1.2));
            let next = (median(next), "ms");
            rows.push(Row::bounded(format!("{name}/next"), next, "files_alone", Sense::AtMost, 2.0));
        }
    }
    Ok(rows)
}

/// What a process does with its cache, from opening it to closing it.
fn process<S: Store>(store: S) -> Result<(), Box<dyn Error>> {
    let cache = Cache::new(store);
    for key in &KEYS[..10] {
        if cache.get(*key).is_ok() {
            return Err("an empty store has an entry".into());
        }
        cache.put(*key, &Artifact::new(key.as_bytes().to_vec()))?;
    }
    let build = |at: usize| Ok::<_, Infallible>(KEYS[at].as_bytes().to_vec());
    for (fetched, key) in cache.get_or_build_many(KEYS, ManyOptions::default(), build).into_iter().zip(KEYS) {
        if fetched?.artifact().payload() != key.as_bytes() {
            return Err("an artifact is another one's".into());
        }
    }
    cache.store().close()?;
    Ok(())
}

/// Returns the milliseconds that `work` takes.
fn time(work: impl FnOnce() -> Result<(), Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let started = Instant::now();
    work()?;
    Ok(started.elapsed().as_secs_f64() * 1e3)
}

/// Listens as long as the benchmark runs.
fn listen(serve: fn(TcpStream)) -> io::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || listener.incoming().flatten().for_each(serve));
    Ok(port)
}

fn hold(connection: TcpStream) {
    thread::spawn(move || {
        thread::sleep(Duration::from_secs(60));
        drop(connection);
    });
}
