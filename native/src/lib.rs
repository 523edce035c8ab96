//! A cache of what ML runtimes compute at start-up, so that the next start and the next process are warm.
//!
//! [`Cache::get_or_build`] looks an artifact up, or builds, stores and returns it.
//!
//! ```
//! use warmstart::{Cache, KeyFields, store::MemoryStore};
//!
//! let cache = Cache::new(MemoryStore::new(warmstart::Limits::bytes(1 << 20)));
//! let fields = KeyFields::new("example", 1).text("source", "int f(void) { return 1; }");
//!
//! let built = cache.get_or_build(&fields, || Ok::<_, std::io::Error>(b"machine code".to_vec()))?;
//! assert!(!built.is_hit());
//! let found = cache.get_or_build(&fields, || -> Result<Vec<u8>, std::io::Error> { unreachable!("it is stored") })?;
//! assert!(found.is_hit());
//! assert_eq!(found.artifact().payload(), b"machine code");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! The most important types:
//!
//! | type | is |
//! |---|---|
//! | [`Cache`] | a store with `get_or_build`, single flight and statistics in front of it |
//! | [`KeyFields`] | the labelled fields from which a key is derived |
//! | [`Artifact`] | a cached payload with its metadata |
//! | [`Fetched`](cache::Fetched) | the result of `get_or_build`: the artifact and its origin |
//! | [`MissReason`] | the reason why a look-up missed, or why a store refused |
//! | [`FileStore`](store::FileStore) | a store in a directory that any number of processes share |
//! | [`StoreOptions`](store::StoreOptions) | its options: cap, durability, seal |
//! | [`MemoryStore`](store::MemoryStore) | a store in memory; [`TieredStore`](store::TieredStore) puts it in front of another |
//! | [`Store`] | the trait to implement for a store of your own |
//! | [`Statistics`] | the counters of a cache |
//!
//! | module | holds |
//! |---|---|
//! | [`cache`] | `get_or_build`, single flight, statistics |
//! | [`store`] | stores: memory, files, SQLite, and memory in front of either |
//! | `pack` | memory-mapped files of packed weights |
//! | `memo` | results of launches, cached until their dependencies change |
//! | `registry` | the kernel and task that an id in generated code stands for |
//! | [`target`] | builders of artifacts: C kernels for the CPU, CUDA programs, weights that XNNPACK packs |
//!
//! Calls block. An async host makes them where blocking is allowed, as in tokio's `spawn_blocking`:
//!
//! ```
//! # mod tokio { pub mod task { pub async fn spawn_blocking<T>(work: impl FnOnce() -> T) -> Result<T, ()> { Ok(work()) } } }
//! use std::sync::Arc;
//!
//! use warmstart::{Artifact, Cache, KeyFields};
//!
//! async fn kernel(cache: Arc<Cache>, source: String) -> std::io::Result<Artifact> {
//!     let fetch = move || {
//!         let fields = KeyFields::new("kernel", 1).text("source", &*source);
//!         cache.get_or_build(&fields, || compile(&source)).map(|fetched| fetched.artifact().clone())
//!     };
//!     tokio::task::spawn_blocking(fetch).await.expect("compile does not panic")
//! }
//! # fn compile(source: &str) -> std::io::Result<Vec<u8>> { Ok(source.bytes().collect()) }
//! # let _ = kernel;
//! ```
//!
//! A cache never makes its host worse: damage is a miss with a reason, a failing disk still yields the artifact, and only
//! mistakes of the caller are errors. [`warmstart_core`] makes all of these decisions.

pub mod cache;
#[cfg(feature = "launch")]
pub mod memo;
#[doc(hidden)]
pub mod os;
#[cfg(feature = "packs")]
pub mod pack;
#[cfg(feature = "launch")]
pub mod registry;
pub mod store;
pub mod target;

mod clock;
mod error;

pub use cache::Cache;
#[doc(hidden)]
pub use clock::{Clock, SystemClock};
pub use error::OpenError;
pub use store::Store;
#[cfg(feature = "launch")]
pub use warmstart_core::launch_record;
pub use warmstart_core::{
    artifact::{Artifact, Metadata, Provenance},
    head::Head,
    key::{Key, KeyFields},
    lru::Limits,
    miss::Miss,
    reason::MissReason,
    recipe::{FieldChange, Recipe, RecipeField},
    seal::Seal,
    statistics::{PersistedStats, ReasonCounts, Statistics},
};

/// Runs the example of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
