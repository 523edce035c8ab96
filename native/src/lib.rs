//! warmstart keeps what an ML runtime computed once, so that the next start and the next process begin warm.
//!
//! One call does the usual thing: look up, else build, store and return.
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
//! | module | holds |
//! |---|---|
//! | [`cache`] | the one call, single flight, statistics |
//! | [`store`] | where artifacts are kept: memory, files, SQLite, memory in front of either |
//! | `pack` | files of packed weights, mapped |
//! | `memo` | results of launches, kept until what they were computed from moves |
//! | `registry` | which kernel and task an id in generated code stands for |
//! | [`target`] | what makes artifacts: C kernels for the CPU, CUDA programs, weights that XNNPACK packs |
//! | [`os`] | the seams to the operating system, of the file store and of packs |
//!
//! Calls block: an async host makes them where it may block, as in tokio's `spawn_blocking`:
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
//! A cache never makes its host worse: damage is a miss with a reason, a failing disk still yields the artifact, and
//! only the caller's own mistakes are errors. What decides all this is in [`warmstart_core`].

pub mod cache;
#[cfg(feature = "launch")]
pub mod memo;
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
pub use clock::{Clock, SystemClock};
pub use error::OpenError;
pub use store::{Lookup, Store};
pub use warmstart_core::{
    artifact::{Artifact, Provenance},
    head::Head,
    key::{Key, KeyFields},
    launch_record::{self, LaunchRecord},
    lru::Limits,
    metadata::Metadata,
    miss::Miss,
    reason::Reason,
    recipe::{FieldChange, Recipe, RecipeField},
    seal::Seal,
    statistics::{ReasonCounts, Statistics},
    tally::Tally,
};

/// Runs the example of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
