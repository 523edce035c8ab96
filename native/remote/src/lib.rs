//! One cache for many machines: stores artifacts of [warmstart] on Redis, Valkey, S3 and what speaks it, and reads them over
//! plain HTTP.
//!
//! [`RemoteStore`] is a [`Store`](warmstart::Store), opened from a URL. [`Fleet`] puts a local store in front of it, which is what most
//! programs want.
//!
//! | URL | engine | credentials |
//! |---|---|---|
//! | `redis://host:6379/0?prefix=team`, `rediss://` | Redis, Valkey | `REDISCLI_AUTH`, `WARMSTART_REDIS_USER` |
//! | `s3://bucket/prefix?endpoint=https://host&region=r` | S3 and what speaks it | those of AWS's programs: environment, profile, role |
//! | `https://host/path` | any web server, read-only | none |
//!
//! Calls block, inside of asynchronous hosts and outside: see `warmstart`. They end by their deadline, and those for
//! many entries a while later if these arrive: see [`RemoteStore`].
#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod engine;

mod check;
mod files;
mod fleet;
mod health;
mod leases;
mod machine;
mod monitor;
mod objects;
mod random;
mod redis;
mod statistics;
mod store;
mod tls;
mod transfer;
mod uploads;
mod url;

pub use self::check::Check;
pub use self::engine::Trouble;
pub use self::fleet::{Fleet, FleetOptions};
pub use self::statistics::FleetStatistics;
#[doc(hidden)]
pub use self::store::Found;
pub use self::store::{RemoteOptions, RemoteStore};
pub use self::transfer::{TransferError, Transferred, has_entries, pull, push};
pub use self::url::RemoteError;

/// Compiles the example of the document.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/fleet.md")]
mod document {}
