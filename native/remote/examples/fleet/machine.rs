//! The start of a machine: compiles all kernels, or finds them, and runs each.

use std::{
    error::Error,
    fmt, fs,
    path::Path,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use warmstart::{
    Cache,
    cache::{Fetched, ManyOptions, Origin},
    store::{FileStore, StoreOptions},
    target::cpu::{Compiler, CpuTarget, Kernel, LoadError, Loaded},
};
use warmstart_remote::{Fleet, FleetOptions, RemoteOptions, RemoteStore};
use warmstart_tests::kernels::cpu::{CASES, Case};

/// How long a request may take. The default of Redis, 200 ms, is for machines with a core to spare: here the compilers of all machines
/// share one processor.
const DEADLINE: Duration = Duration::from_secs(5);

/// How long the end of a start waits for uploads.
const UPLOADS: Duration = Duration::from_secs(60);

/// What a start did.
#[derive(Serialize, Deserialize)]
pub(crate) struct Start {
    /// Kernels that this machine compiled.
    pub(crate) builds: u64,
    /// Kernels that it found, on its disk or in the remote.
    pub(crate) hits: u64,
    /// Kernels that it waited for while another machine compiled them.
    waits: u64,
    /// Look-ups that the remote answered, with those of headers.
    from_remote: u64,
    millis: f64,
    /// The kernels that failed or computed something wrong, and how.
    pub(crate) failures: Vec<String>,
}

/// Starts the machine of this directory, and prints what it did.
pub(crate) fn run(directory: &Path, url: &str, secret: &Path) -> Result<(), Box<dyn Error>> {
    let secret: [u8; 32] = fs::read(secret)?.as_slice().try_into()?;
    let options = RemoteOptions::default().with_secret(&secret).with_deadline(DEADLINE);
    let remote = RemoteStore::open(url, options)?;
    let local = FileStore::open(directory.join("files"), StoreOptions::default())?;
    let options = FleetOptions::default()
        .with_directory(directory.join("fleet"))
        .with_on_trouble(|trouble| eprintln!("fleet: {trouble}"));
    let cache = Cache::new(Fleet::new(local, remote, options));

    let kernels: Vec<Kernel> = CASES.iter().map(|case| case.describe(false)).collect();
    let [builds, hits, waits] = [const { AtomicU64::new(0) }; 3];
    let on_ready = |_: usize, fetched: &Fetched| {
        let count = match fetched.origin() {
            Origin::Hit => &hits,
            Origin::Built { .. } => &builds,
            _ => &waits,
        };
        count.fetch_add(1, Relaxed);
    };
    let started = Instant::now();
    let target = CpuTarget::new(Compiler::find()?);
    let loaded = target.load_many(&cache, &kernels, ManyOptions::default().with_on_ready(&on_ready));
    let millis = started.elapsed().as_secs_f64() * 1e3;

    let check = |(loaded, case): (Result<Loaded, LoadError>, &Case)| {
        let checked = match loaded {
            Ok(loaded) => (case.check)(loaded.library()),
            Err(error) => Err(error.to_string()),
        };
        checked.err().map(|problem| format!("{}: {problem}", case.name))
    };
    let failures = loaded.into_iter().zip(CASES).filter_map(check).collect();
    cache.store().wait_for_uploads(UPLOADS);
    let from_remote = cache.store().statistics().remote_hits;
    let [builds, hits, waits] = [builds, hits, waits].map(AtomicU64::into_inner);
    println!("{}", serde_json::to_string(&Start { builds, hits, waits, from_remote, millis, failures })?);
    Ok(())
}

/// Writes a secret of 32 random bytes.
pub(crate) fn write_secret(path: &Path) -> Result<(), Box<dyn Error>> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret)?;
    Ok(fs::write(path, secret)?)
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { builds, hits, waits, from_remote, millis, .. } = self;
        write!(
            f,
            "{builds:>2} compiled, {hits:>2} found, {waits:>2} waited for; {from_remote:>2} look-ups by the remote; {millis:.0} ms"
        )
    }
}
