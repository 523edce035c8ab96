//! One of several processes that share a cache directory in a test.

use std::{
    convert::Infallible,
    fs::OpenOptions,
    io::Write,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use clap::{Parser, Subcommand};
use warmstart::{
    Cache, Store,
    store::{FileOptions, FileStore},
};
use warmstart_tests::proof::{artifact, payload, prove};

#[derive(Debug, Parser)]
struct Arguments {
    /// The cache directory.
    #[arg(long)]
    path: PathBuf,
    /// Its cap in bytes.
    #[arg(long)]
    cap: Option<u64>,
    #[command(subcommand)]
    work: Work,
}

#[derive(Debug, Subcommand)]
enum Work {
    /// Puts and gets entries of random sizes, and checks what it gets.
    Churn {
        #[arg(long)]
        seed: u64,
        #[arg(long)]
        count: u64,
        /// How many different keys there are.
        #[arg(long, default_value_t = 200)]
        keys: u64,
        /// The largest payload in bytes.
        #[arg(long, default_value_t = 16384)]
        len: usize,
        /// Clears the store once in so many operations.
        #[arg(long)]
        clear_every: Option<u64>,
    },
    /// Builds each of a list of keys through the one call; every build appends its key to a log.
    Build {
        #[arg(long)]
        log: PathBuf,
        #[arg(long)]
        keys: u64,
        #[arg(long, default_value_t = 20)]
        build_ms: u64,
    },
    /// Builds `outer`, whose builder needs `inner`.
    Nest { outer: String, inner: String },
    /// Puts one entry after the other, and says the number of each on a line once it is stored.
    Sequence {
        #[arg(long)]
        seed: u64,
        #[arg(long, default_value_t = 4096)]
        len: usize,
    },
}

fn main() {
    let arguments = Arguments::parse();
    let mut options = FileOptions::default().with_patience(Duration::from_secs(20));
    if let Some(cap) = arguments.cap {
        options = options.with_max_bytes(cap);
    }
    let store = FileStore::open(&arguments.path, options).expect("the directory can be opened");
    match arguments.work {
        Work::Churn { seed, count, keys, len, clear_every } => {
            churn(&store, seed, count, keys, len, clear_every);
        }
        Work::Build { log, keys, build_ms } => {
            let cache = Cache::new(store);
            for key in 0..keys {
                let key = format!("key {key}");
                let built = cache.get_or_build(&*key, || {
                    thread::sleep(Duration::from_millis(build_ms));
                    let mut log =
                        OpenOptions::new().create(true).append(true).open(&log).expect("the log opens");
                    log.write_all(format!("{key}\n").as_bytes()).expect("the log is written");
                    Ok::<_, Infallible>(payload(key.as_bytes(), 1, 1000))
                });
                let Ok(built) = built;
                assert_eq!(prove(key.as_bytes(), built.artifact()), 1);
            }
        }
        Work::Nest { outer, inner } => {
            let cache = Cache::new(store);
            let started = Instant::now();
            let Ok(_) = cache.get_or_build(&*outer, || {
                // Long enough for the other process to be in its own outer build by now.
                thread::sleep(Duration::from_millis(300));
                let Ok(_) = cache.get_or_build(&*inner, || Ok::<_, Infallible>(vec![1]));
                Ok::<_, Infallible>(vec![2])
            });
            println!("{}", started.elapsed().as_millis());
        }
        Work::Sequence { seed, len } => {
            for n in 0u64.. {
                let key = format!("{seed} {n}");
                store
                    .put(key.as_bytes(), &artifact(key.as_bytes(), n, len))
                    .expect("there is room and a lock");
                println!("{n}");
            }
        }
    }
}

fn churn(store: &FileStore, seed: u64, count: u64, keys: u64, len: usize, clear_every: Option<u64>) {
    let mut state = seed;
    for n in 0..count {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = format!("key {}", (state >> 33) % keys);
        if state >> 63 == 0 {
            if let Some(found) = store.get(key.as_bytes()).hit() {
                let _ = prove(key.as_bytes(), &found);
            }
        } else {
            let len = usize::try_from(state >> 20).unwrap_or(0) % len;
            let artifact = artifact(key.as_bytes(), state, len);
            // Busy is an answer; anything else is not, on a disk that works.
            if let Err(reason) = store.put(key.as_bytes(), &artifact) {
                assert_eq!(reason, warmstart::Reason::Busy);
            }
        }
        if clear_every.is_some_and(|every| n % every == every - 1) {
            store.clear().expect("the store can be cleared");
        }
    }
}
