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
    Cache, Limits, MissReason, Seal, Store,
    cache::ManyOptions,
    store::{FileStore, SqliteStore, StoreOptions, TieredStore},
};
use warmstart_tests::{
    launching::{Data, Runtime},
    proof::{artifact, numbered_key, numbered_len, payload, verify},
};

#[derive(Debug, Parser)]
#[command(about)]
struct Arguments {
    /// The kind of store.
    #[arg(long)]
    store: Kind,
    /// The path of the store.
    #[arg(long)]
    path: PathBuf,
    /// The cap in bytes.
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
    /// Memory in front of files.
    Tiered,
}

#[derive(Debug, Subcommand)]
enum Work {
    /// Stores artifacts and says which, one number a line, each as soon as it is stored.
    Put {
        /// Worker SEED stores the artifacts numbered from SEED * 1,000,000.
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// The number of entries.
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
    /// Looks up artifacts, verifies the found ones, and prints their number.
    Get {
        /// The seed of the artifacts, as for `put`.
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// The number of entries.
        #[arg(long)]
        count: u64,
    },
    /// Puts and gets artifacts of random sizes under the keys 0 to 199, and proves what it gets.
    Churn {
        #[arg(long)]
        seed: u64,
        /// The number of operations.
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
        /// The number of keys.
        #[arg(long)]
        keys: u64,
        /// The duration of a build.
        #[arg(long, default_value_t = 20)]
        build_ms: u64,
        /// Asks for all keys in one call, and builds with one thread.
        #[arg(long)]
        together: bool,
    },
    /// Builds the keys of a tree in one call, in an order drawn from SEED, with three threads. Each build asks for its two
    /// branches, and adds a line with its key to a log.
    Tree {
        #[arg(long)]
        log: PathBuf,
        #[arg(long)]
        seed: u64,
        /// The number of keys.
        #[arg(long)]
        keys: u64,
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
    let timeout = Duration::from_secs(20);
    let seal = secret.map(|byte| Seal::new(&[byte; 32]));
    let store: Box<dyn Store> = match store {
        Kind::Files | Kind::Tiered => {
            let mut options = StoreOptions::default().with_limits(limits).with_timeout(timeout);
            if let Some(seal) = seal {
                options = options.with_seal(seal);
            }
            let files = FileStore::open(path, options)?;
            match store {
                Kind::Tiered => Box::new(TieredStore::new(Limits::NONE, files)),
                _ => Box::new(files),
            }
        }
        Kind::Sqlite => {
            let mut options = StoreOptions::default().with_limits(limits).with_timeout(timeout);
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
        Work::Build { log, keys, build_ms, together } => {
            build(store, &log, keys, Duration::from_millis(build_ms), together);
        }
        Work::Tree { log, seed, keys } => tree(store, &log, seed, keys),
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
        if let Ok(found) = store.get(&key) {
            assert_eq!(verify(&key, &found), n);
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
            if let Ok(found) = store.get(&key) {
                let _ = verify(&key, &found);
            }
        } else {
            let len = usize::try_from(state >> 20)? % len;
            match store.put(&key, &artifact(&key, state, len)) {
                // Busy is an answer; anything else is not, on a disk that works.
                Ok(_) | Err(MissReason::Busy) => {}
                Err(reason) => return Err(reason.into()),
            }
        }
        if clear_every.is_some_and(|every| n % every == every - 1) {
            store.clear()?;
        }
    }
    Ok(())
}

fn build(store: Box<dyn Store>, log: &Path, keys: u64, takes: Duration, together: bool) {
    let cache = Cache::new(store);
    let build = |n: u64| {
        let mut log = OpenOptions::new().create(true).append(true).open(log).expect("the log opens");
        thread::sleep(takes);
        log.write_all(format!("{n}\n").as_bytes()).expect("the log is written");
        Ok::<_, Infallible>(payload(&numbered_key(n), 1, 1000))
    };
    let fetched: Vec<_> = if together {
        let options = ManyOptions::default().with_workers(1);
        cache.get_or_build_many((0..keys).map(numbered_key), options, |index| build(index as u64))
    } else {
        (0..keys).map(|n| cache.get_or_build(numbered_key(n), || build(n))).collect()
    };
    for (n, Ok(fetched)) in (0..keys).zip(fetched) {
        assert_eq!(verify(&numbered_key(n), fetched.artifact()), 1);
    }
}

fn tree(store: Box<dyn Store>, log: &Path, seed: u64, keys: u64) {
    let cache = Cache::new(store);
    let mut order: Vec<u64> = (0..keys).collect();
    let mut state = seed;
    for last in (1..order.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(last, usize::try_from(state >> 33).expect("31 bits fit") % (last + 1));
    }
    branch(&cache, log, keys, &order, 3);
}

/// Asks for the keys `wanted` of a tree of so many, and proves what it gets.
fn branch(cache: &Cache, log: &Path, keys: u64, wanted: &[u64], workers: usize) {
    let build = |n: u64| {
        let branches: Vec<u64> = [2 * n + 2, 2 * n + 1].into_iter().filter(|branch| *branch < keys).collect();
        match &branches[..] {
            // Half of the keys ask for one at a time.
            _ if n.is_multiple_of(2) => branches.iter().for_each(|branch_key| {
                self::branch(cache, log, keys, &[*branch_key], 1);
            }),
            branches => branch(cache, log, keys, branches, 2),
        }
        thread::sleep(Duration::from_millis(1 + n % 5));
        let mut log = OpenOptions::new().create(true).append(true).open(log).expect("the log opens");
        log.write_all(format!("{n}\n").as_bytes()).expect("the log is written");
        Ok::<_, Infallible>(payload(&numbered_key(n), 1, 1000))
    };
    let options = ManyOptions::default().with_workers(workers);
    let fetched = match wanted {
        [n] => vec![cache.get_or_build(numbered_key(*n), || build(*n))],
        wanted => {
            let requests = wanted.iter().map(|n| numbered_key(*n));
            cache.get_or_build_many(requests, options, |index| build(wanted[index]))
        }
    };
    for (n, Ok(fetched)) in wanted.iter().zip(fetched) {
        assert_eq!(verify(&numbered_key(*n), fetched.artifact()), 1);
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
    // Only the timeout ends a circle of processes.
    let cache = Cache::new(store).with_timeout(Duration::from_secs(1));
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
