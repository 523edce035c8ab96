//! Another process that works on a store, for the tests of several processes.

use std::{error::Error, io::Write, path::PathBuf};

use clap::{Parser, Subcommand, ValueEnum};
use warmstart::{
    Limits, Lookup, Store,
    store::{SqliteOptions, SqliteStore},
};
use warmstart_tests::proof::{artifact, numbered_key, numbered_len, prove};

#[derive(Debug, Parser)]
#[command(about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Stores artifacts and says which, one number a line, each as soon as it is stored.
    Put {
        #[command(flatten)]
        place: Place,
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
    },
    /// Looks artifacts up, proves those that are found, and says how many those were.
    Get {
        #[command(flatten)]
        place: Place,
        /// As for `put`.
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// How many.
        #[arg(long)]
        count: u64,
    },
}

/// Where the store is, and of which kind.
#[derive(Debug, clap::Args)]
struct Place {
    /// The kind of store.
    #[arg(long)]
    store: Kind,
    /// Where it is.
    #[arg(long)]
    path: PathBuf,
    /// The most bytes.
    #[arg(long)]
    max_bytes: Option<u64>,
    /// How long a lock is waited for.
    #[arg(long, default_value_t = 10_000)]
    busy_ms: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    Sqlite,
}

impl Place {
    fn open(&self) -> Result<Box<dyn Store>, Box<dyn Error>> {
        let limits = Limits { max_bytes: self.max_bytes, max_entries: None };
        Ok(match self.store {
            Kind::Sqlite => {
                let patience = std::time::Duration::from_millis(self.busy_ms);
                let options = SqliteOptions::new().limits(limits).busy_timeout(patience);
                Box::new(SqliteStore::open(&self.path, options)?)
            }
        })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout();
    match Arguments::parse().command {
        Command::Put { place, seed, count, len, abort } => {
            let store = place.open()?;
            for n in (seed * 1_000_000..).take(usize::try_from(count).unwrap_or(usize::MAX)) {
                let key = numbered_key(n);
                store.put(&key, &artifact(&key, n, len.unwrap_or_else(|| numbered_len(n))))?;
                writeln!(out, "{n}")?;
            }
            if abort {
                std::process::abort();
            }
            store.close()?;
        }
        Command::Get { place, seed, count } => {
            let store = place.open()?;
            let mut hits = 0;
            for n in seed * 1_000_000..seed * 1_000_000 + count {
                let key = numbered_key(n);
                if let Lookup::Hit(found) = store.get(&key) {
                    assert_eq!(prove(&key, &found), n);
                    hits += 1;
                }
            }
            writeln!(out, "{hits}")?;
        }
    }
    Ok(())
}
