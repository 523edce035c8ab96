//! The pure core of warmstart: keys, formats and decisions, without I/O.
//!
//! | module | holds |
//! |---|---|
//! | [`key`] | 32-byte keys derived from labelled fields |
//! | [`recipe`] | a summary of a key's fields, kept beside the artifact so that a miss can be explained |
//! | [`miss`] | the encoding of the last miss of a store |
//! | [`artifact`] | the cached payload with its metadata: its recipe and its attributes |
//! | [`envelope`], [`head`] | the encoding of a stored artifact, and its decoded head |
//! | [`seal`] | keyed tags, which prove that a holder of the secret stored an entry |
//! | [`program`] | CUDA programs and their keys |
//! | [`lru`] | the choice of the entry to evict when the cap is reached |
//! | [`journal`] | the encoding of the shared accounting of a cache directory |
//! | [`trailer`] | the encoding of a file of packed weights |
//! | [`memo`] | results that are computed at each launch, kept until one of their inputs changes |
//! | [`launch_record`] | the data that an artifact carries for its launches |
//! | [`includes`] | the headers that a CUDA C++ text includes, and the text with their names replaced |
//! | [`batch`] | the choice of the artifact that a process builds next, while others build the same ones |
//! | [`lease`], [`breaker`] | claims of builds on engines that many machines share, and how long a dead one is left alone |
//! | [`flight`] | single flight: one worker builds, the others wait, without deadlock |
//! | [`registry`] | the kernel and task that an id in generated code stands for |
//! | [`reason`], [`statistics`] | the reasons of misses and refusals, and their counters |
//!
//! Nothing here reads a clock, draws a random number or touches a file: time, sizes and randomness are
//! arguments. That is what lets the same decisions run in a native process, in a browser and under a fuzzer.
//!
//! The feature `std` lets checksums use the vector instructions that the processor has.
//!
//! ```
//! use warmstart_core::{artifact::Artifact, envelope, key::KeyFields};
//!
//! let fields = KeyFields::new("example", 1).text("source", "int f(void) { return 1; }").number("tile", 16);
//! let key = fields.key();
//!
//! let artifact = Artifact::new(b"machine code".to_vec());
//! let stored = envelope::encode(key.as_bytes(), &artifact, None).unwrap().to_vec();
//!
//! let found = envelope::decode(stored, key.as_bytes(), None).unwrap();
//! assert_eq!(found.payload(), b"machine code");
//! ```
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;

pub mod artifact;
pub mod batch;
pub mod breaker;
pub mod envelope;
pub mod flight;
pub mod head;
pub mod includes;
pub mod journal;
pub mod key;
pub mod launch_record;
pub mod lease;
pub mod lru;
pub mod memo;
pub mod miss;
pub mod program;
pub mod reason;
pub mod recipe;
pub mod registry;
pub mod seal;
pub mod statistics;
pub mod trailer;

mod bytes;
