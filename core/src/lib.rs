//! The pure core of warmstart: what is decided, without anything being done.
//!
//! | module | holds |
//! |---|---|
//! | [`key`] | 32-byte keys derived from labelled fields |
//! | [`recipe`] | what a key was made of, kept beside the artifact so that a miss can be explained |
//! | [`miss`] | the last miss, as it is kept with a store |
//! | [`artifact`], [`metadata`] | what is cached: a payload, and what is known about it |
//! | [`envelope`], [`head`] | the bytes of a stored artifact, and what the first of them say |
//! | [`seal`] | a secret that proves who wrote them |
//! | [`program`] | what a CUDA program is, and its key or why it has none |
//! | [`lru`] | which entry goes when the cap is reached |
//! | [`journal`] | the bytes of the shared accounting of a cache directory |
//! | [`trailer`] | the bytes of a file of packed weights |
//! | [`memo`] | results that are computed at each launch, kept until something that they were computed from moves |
//! | [`launch_record`] | what travels with an artifact for its launches |
//! | [`includes`] | what a CUDA C++ text includes, and the same text with other names in its directives |
//! | [`flight`] | who builds and who waits, without deadlock |
//! | [`registry`] | which kernel and task an id in generated code stands for |
//! | [`reason`], [`statistics`], [`tally`] | why something missed or was refused, how often, and how that is kept |
//!
//! Nothing here reads a clock, draws a random number or touches a file: time, sizes and randomness are
//! arguments. That is what lets the same decisions run in a native process, in a browser and under a fuzzer.
//!
//! ```
//! use warmstart_core::{artifact::Artifact, envelope, key::KeyFields};
//!
//! let fields = KeyFields::new("example", 1).text("source", "int f(void) { return 1; }").number("tile", 16);
//! let key = fields.key();
//!
//! let artifact = Artifact::new(b"machine code".to_vec());
//! let stored = envelope::encode(key.as_bytes(), &artifact).unwrap().to_vec();
//!
//! let found = envelope::decode(stored, key.as_bytes()).unwrap();
//! assert_eq!(found.payload(), b"machine code");
//! ```
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;

pub mod artifact;
pub mod envelope;
pub mod flight;
pub mod head;
pub mod includes;
pub mod journal;
pub mod key;
pub mod launch_record;
pub mod lru;
pub mod memo;
pub mod metadata;
pub mod miss;
pub mod program;
pub mod reason;
pub mod recipe;
pub mod registry;
pub mod seal;
pub mod statistics;
pub mod tally;
pub mod trailer;

mod bytes;
mod hex;
mod sum;
mod table;
mod wire;
