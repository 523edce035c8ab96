//! Another process that works on a store, for the tests of several processes.

use std::{
    convert::Infallible,
    error::Error,
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use clap::{Parser, Subcommand, ValueEnum};
use warmstart::{
    Cache, Limits, Lookup, Reason, Seal, Store,
    store::{FileOptions, FileStore, SqliteOptions, SqliteStore},
};
use warmstart_tests::{
    launching::{Data, Runtime},
    proof::{artifact, numbered_key, numbered_len, payload, prove},
};

#[derive(Debug, Parser)]
#[command(about)]
struct Arguments {
    /// The kind of store.
    #[arg(long)]
    store: Kind,
    /// Where it is.
    #[arg(long)]
    path: PathBuf,
    /// The most bytes.
    #[arg(long, global = true)]
    max_bytes: Option<u64>,
    /// Seals with a secret of 32 such bytes.
    #[arg(long)]
    secret: Option<u8>,
    #[command(subcommand)]
    work: Work,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    Files,
    Sqlite,
}

#[derive(Debug, Subcommand)]
enum Work {
    /// Stores artifacts and says which, one number a line, each as soon as it is stored.
    Put {
        /// Worker SEED stores the artifacts numbered from SEED * 1,000,000.
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// How many.
        #[arg(long, default_value_t = u64::MAX)]
        count: u64,
        /// The bytes of a payload; what the number makes of it where it is not given.
        #[arg(long)]
        len: Option<usize>,
        /// Ends without closing the store.
        #[arg(long)]
        abort: bool,
        /// Keeps the store open until its input ends.
        #[arg(long)]
        wait: bool,
    },
    /// Looks artifacts up, proves those that are found, and says how many those were.
    Get {
        /// As for `put`.
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// How many.
        #[arg(long)]
        count: u64,
    },
    /// Puts and gets artifacts of random sizes under the keys 0 to 199, and proves what it gets.
    Churn {
        #[arg(long)]
        seed: u64,
        /// How many operations.
        #[arg(long)]
        count: u64,
        /// The largest payload in bytes.
        #[arg(long, default_value_t = 16384)]
        len: usize,
        /// Clears the store once in so many operations.
        #[arg(long)]
        clear_every: Option<u64>,
    },
    /// Builds the keys from 0 on through the one call; every build adds a line with its key to a log.
    Build {
        #[arg(long)]
        log: PathBuf,
        /// How many keys.
        #[arg(long)]
        keys: u64,
        /// How long a build takes.
        #[arg(long, default_value_t = 20)]
        build_ms: u64,
    },
    /// Compiles a kernel, launches it on the data of SEED, and stores both.
    Launch {
        kernel: String,
        #[arg(long)]
        seed: u64,
    },
    /// Builds `outer`, whose builder needs `inner`, and says how many milliseconds that took once another worker was
    /// building `inner`.
    Nest {
        outer: String,
        inner: String,
        /// A directory where each worker says what it builds.
        #[arg(long)]
        barrier: PathBuf,
    },
}

fn main() -> Result<(), Box<dyn Error>> {
    let Arguments { store, path, max_bytes, secret, work } = Arguments::parse();
    let limits = Limits { max_bytes, max_entries: None };
    let patience = Duration::from_secs(20);
    let seal = secret.map(|byte| Seal::new(&[byte; 32]));
    let store: Box<dyn Store> = match store {
        Kind::Files => {
            let mut options = FileOptions::default().with_limits(limits).with_patience(patience);
            if let Some(seal) = seal {
                options = options.with_seal(seal);
            }
            Box::new(FileStore::open(path, options)?)
        }
        Kind::Sqlite => {
            let mut options = SqliteOptions::default().with_limits(limits).with_patience(patience);
            if let Some(seal) = seal {
                options = options.with_seal(seal);
            }
            Box::new(SqliteStore::open(path, options)?)
        }
    };
    match work {
        Work::Put { seed, count, len, abort, wait } => put(&*store, seed, count, len, abort, wait)?,
        Work::Get { seed, count } => get(&*store, seed, count)?,
        Work::Churn { seed, count, len, clear_every } => churn(&*store, seed, count, len, clear_every)?,
        Work::Build { log, keys, build_ms } => build(store, &log, keys, Duration::from_millis(build_ms)),
        Work::Launch { kernel, seed } => launch(store, &kernel, seed)?,
        Work::Nest { outer, inner, barrier } => nest(store, &outer, &inner, &barrier),
    }
    Ok(())
}

fn put(
    store: &dyn Store,
    seed: u64,
    count: u64,
    len: Option<usize>,
    abort: bool,
    wait: bool,
) -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout();
    for n in (seed * 1_000_000..).take(usize::try_from(count).unwrap_or(usize::MAX)) {
        let key = numbered_key(n);
        store.put(&key, &artifact(&key, n, len.unwrap_or_else(|| numbered_len(n))))?;
        writeln!(out, "{n}")?;
    }
    if wait {
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    }
    if abort {
        std::process::abort();
    }
    Ok(store.close()?)
}

fn get(store: &dyn Store, seed: u64, count: u64) -> Result<(), Box<dyn Error>> {
    let mut hits = 0;
    for n in seed * 1_000_000..seed * 1_000_000 + count {
        let key = numbered_key(n);
        if let Lookup::Hit(found) = store.get(&key) {
            assert_eq!(prove(&key, &found), n);
            hits += 1;
        }
    }
    println!("{hits}");
    Ok(())
}

fn churn(
    store: &dyn Store,
    seed: u64,
    count: u64,
    len: usize,
    clear_every: Option<u64>,
) -> Result<(), Box<dyn Error>> {
    let mut state = seed;
    for n in 0..count {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = numbered_key((state >> 33) % 200);
        if state >> 63 == 0 {
            if let Some(found) = store.get(&key).hit() {
                let _ = prove(&key, &found);
            }
        } else {
            let len = usize::try_from(state >> 20)? % len;
            match store.put(&key, &artifact(&key, state, len)) {
                // Busy is an answer; anything else is not, on a disk that works.
                Ok(_) | Err(Reason::Busy) => {}
                Err(reason) => return Err(reason.into()),
            }
        }
        if clear_every.is_some_and(|every| n % every == every - 1) {
            store.clear()?;
        }
    }
    Ok(())
}

fn build(store: Box<dyn Store>, log: &Path, keys: u64, takes: Duration) {
    let cache = Cache::new(store);
    for n in 0..keys {
        let key = numbered_key(n);
        let Ok(fetched) = cache.get_or_build(&*key, || {
            thread::sleep(takes);
            let mut log = OpenOptions::new().create(true).append(true).open(log).expect("the log opens");
            log.write_all(format!("{n}\n").as_bytes()).expect("the log is written");
            Ok::<_, Infallible>(payload(&key, 1, 1000))
        });
        assert_eq!(prove(&key, fetched.artifact()), 1);
    }
}

fn launch(store: Box<dyn Store>, kernel: &str, seed: u64) -> Result<(), Box<dyn Error>> {
    let (cache, data) = (Cache::new(store), Data::new(seed));
    let mut runtime = Runtime::default();
    let kernel = runtime.load(&cache, kernel)?;
    let (launched, _) = runtime.launch(&kernel, &data)?;
    assert_eq!(*launched, data.depths());
    runtime.keep(&cache, &kernel, &data)?;
    println!("{}", runtime.dispatched);
    Ok(())
}

fn nest(store: Box<dyn Store>, outer: &str, inner: &str, barrier: &Path) {
    // Only patience ends a circle of processes.
    let cache = Cache::new(store).with_patience(Duration::from_secs(1));
    let mut both_build = Instant::now();
    let Ok(_) = cache.get_or_build(outer, || {
        fs::write(barrier.join(outer), b"").expect("the barrier is written");
        let begun = Instant::now();
        while !barrier.join(inner).exists() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the other worker does not come");
            thread::sleep(Duration::from_millis(1));
        }
        both_build = Instant::now();
        let Ok(_) = cache.get_or_build(inner, || Ok::<_, Infallible>(vec![1]));
        Ok::<_, Infallible>(vec![2])
    });
    println!("{}", both_build.elapsed().as_millis());
}
