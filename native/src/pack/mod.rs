//! Files of packed weights, mapped and shared by all processes that use them.
//!
//! At each start, a runtime packs every weight of a model into the layout of a micro-kernel. A [`Pack`] keeps packed weights
//! in a file, so that the next process maps them and packs nothing.
//!
//! ```
//! use warmstart::pack::{ModelId, Name, Pack, PackOptions, Packing, WeightKey};
//!
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("weights.xpwc");
//! let key = WeightKey {
//!     name: Name::new("encoder.0.weight").with_bias("encoder.0.bias"),
//!     model: ModelId::from_bytes([7; 32]),
//!     packing: Packing::of_seed(1),
//! };
//! let pack = Pack::open(&path, PackOptions::default())?;
//! assert!(pack.look_up(&key).is_err());
//! let mut reservation = pack.reserve(512)?;
//! reservation.bytes_mut().fill(42); // Pack the weight.
//! pack.insert(&key, reservation);
//! pack.save()?;
//! drop(pack);
//!
//! let pack = Pack::open(&path, PackOptions::default())?;
//! let weights = pack.look_up(&key)?;
//! assert!(weights.iter().all(|byte| *byte == 42));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! However many processes map a file, its bytes are in the page cache once. One process writes at a time; readers never wait for it.
//! Whenever a process dies, the next one finds the last saved state, whole. The format of the file is described
//! in [`warmstart_core::trailer`].
//!
//! Files of version 2, which ExecuTorch writes, cannot be opened. [`import`], or the command
//! `warmstart convert FILE --to 3 --model MODEL`, converts them to version 3.
//!
//! # Assumptions about the file
//! No other program writes to it or truncates it: access to truncated pages of a mapping kills a process. So the file
//! must belong to this user, and group and others must not have write access. Anything else at its path is left
//! alone.
//!
//! Never give ExecuTorch and this library the same path: ExecuTorch truncates files that it cannot read. It locks the whole file
//! first, so on a local file system of Linux the shared lock of an open pack prevents that. Opening, [refreshing](Pack::refresh)
//! and [saving](Pack::save) a pack notice a file that was truncated or overwritten, and its saved weights are not found any more;
//! look-ups do not check.
//!
//! A forked child shares what its parent packs and has not saved. It may drop its parent's packs, which leaves
//! the parent's file and lock alone, but must not use them: open the pack again after the fork.

mod contents;
mod error;
mod file;
mod inspect;
mod model;
mod open;
mod options;
mod publish;
mod rewrite;
pub(crate) mod statistics;
mod writer;

pub use contents::{Handle, Weights};
pub use error::PackError;
pub use file::detect;
pub use inspect::{Inspection, PackEntry, Verification, inspect, verify};
pub use model::model_of_file;
pub use open::{Pack, Reservation, Saved};
pub use options::{Checks, PackOptions};
pub use rewrite::{RewriteOptions, Rewritten, compact, export, import};
pub use statistics::PackStatistics;
pub use warmstart_core::trailer::{
    Fingerprint, FormatError, ModelId, Name, Packing, WeightKey, model_of_weights,
};
