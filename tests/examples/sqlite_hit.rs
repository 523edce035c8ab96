//! How long a hit of the SQLite store takes, beside the least that one could cost: a prepared SELECT of the same blob
//! into a `Vec` and a checksum of it, on the same file with the same settings. Also the cost of a put, as the number
//! of entries grows.
//!
//! `cargo run --release -p warmstart-tests --example sqlite_hit`

use std::{
    error::Error,
    hint::black_box,
    path::Path,
    time::{Duration, Instant},
};

use comfy_table::Table;
use rusqlite::Connection;
use warmstart::{
    Store,
    store::{SqliteOptions, SqliteStore},
};
use warmstart_tests::proof::{artifact, numbered_key};
use xxhash_rust::xxh3::xxh3_64;

const ENTRIES: u64 = 16;
const ROUNDS: usize = 15;

/// Microseconds for one call: the median of rounds that alternate between the two, so that noise meets both.
fn compare(calls: usize, mut one: impl FnMut(u64), mut other: impl FnMut(u64)) -> (f64, f64) {
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..=ROUNDS {
        for (times, call) in times.iter_mut().zip([&mut one as &mut dyn FnMut(u64), &mut other]) {
            let started = Instant::now();
            (0..calls as u64).for_each(|n| call(n % ENTRIES));
            if round > 0 {
                times.push(started.elapsed());
            }
        }
    }
    let [one, other] = times.map(|times| median(times).as_secs_f64() * 1e6 / calls as f64);
    (one, other)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn main() -> Result<(), Box<dyn Error>> {
    let directory = match std::env::args_os().nth(1) {
        Some(path) => tempfile::tempdir_in(path)?,
        None => tempfile::tempdir()?,
    };
    println!("{}", hits(directory.path())?);
    println!("{}", puts(directory.path())?);
    Ok(())
}

fn hits(directory: &Path) -> Result<Table, Box<dyn Error>> {
    let mut table = Table::new();
    table.set_header(["payload", "hit, µs", "SELECT + XXH3, µs", "ratio"]);
    for len in [1 << 10, 16 << 10, 256 << 10, 4 << 20] {
        let path = directory.join(format!("{len}.db"));
        let store = SqliteStore::open(&path, SqliteOptions::new())?;
        for n in 0..ENTRIES {
            let key = numbered_key(n);
            store.put(&key, &artifact(&key, n, len))?;
        }
        // What was written is in the database, not in the log, for both.
        store.close()?;
        let store = SqliteStore::open(&path, SqliteOptions::new())?;
        let connection = Connection::open(&path)?;
        connection.execute_batch(
            "PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0; PRAGMA synchronous = NORMAL",
        )?;
        let mut select = connection.prepare(
            "SELECT content.envelope FROM entry JOIN content ON content.id = entry.id WHERE key = ?1",
        )?;
        let keys: Vec<_> = (0..ENTRIES).map(numbered_key).collect();
        let (hit, floor) = compare(
            (20_000_000 / (len + 4000)).clamp(20, 3000),
            |n| {
                let found = store.get(&keys[n as usize]).hit();
                assert_eq!(black_box(found).map(|found| found.payload().len()), Some(len));
            },
            |n| {
                let blob: Result<Vec<u8>, _> =
                    select.query_row([&keys[n as usize]], |row| Ok(row.get_ref(0)?.as_blob()?.to_vec()));
                black_box(blob.map(|blob| xxh3_64(&blob)).unwrap_or_default());
            },
        );
        table.add_row([
            format!("{} KiB", len >> 10),
            format!("{hit:.2}"),
            format!("{floor:.2}"),
            format!("{:.2}", hit / floor),
        ]);
    }
    Ok(table)
}

fn puts(directory: &Path) -> Result<Table, Box<dyn Error>> {
    let mut table = Table::new();
    table.set_header(["entries of 1 KiB at the cap", "put, median µs", "put, mean µs", "len, ms"]);
    for entries in [100, 1000, 5000, 20_000] {
        let path = directory.join(format!("puts-{entries}.db"));
        let store = SqliteStore::open(&path, SqliteOptions::new().max_bytes(entries * 1500))?;
        let put = |n| {
            let key = numbered_key(n);
            let artifact = artifact(&key, n, 1024);
            let started = Instant::now();
            store.put(&key, &artifact).map(|_| started.elapsed())
        };
        for n in 0..2 * entries {
            put(n)?;
        }
        let times = (0..2000).map(|n| put(2 * entries + n)).collect::<Result<Vec<_>, _>>()?;
        let mean = times.iter().sum::<Duration>().as_secs_f64() * 1e6 / times.len() as f64;
        let started = Instant::now();
        let len = store.len()?;
        let len_ms = started.elapsed().as_secs_f64() * 1e3;
        table.add_row([
            len.to_string(),
            format!("{:.1}", median(times).as_secs_f64() * 1e6),
            format!("{mean:.1}"),
            format!("{len_ms:.2}"),
        ]);
    }
    Ok(table)
}
