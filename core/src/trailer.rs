//! The bytes of a file of packed weights, "XPWC": which weights it holds, where, and how they were packed.
//!
//! A runtime such as XNNPACK packs every weight of a model into the layout of a micro-kernel. A file keeps the packed
//! bytes and, behind them, a trailer that says what they are: an index and a footer of 20 bytes. Version 2 is
//! ExecuTorch's and is here for exchange. Version 3 is our own: it tells models and packings apart, proves its index and
//! its payloads by checksums, and is looked up in place.
//!
//! | module | holds |
//! |---|---|
//! | [`header`] | the first page of version 3: which file it is, and the two slots that commits are written to |
//! | [`index`] | the index of version 3, looked up in place |
//! | [`build`] | how an index is made |
//! | [`pick`] | which index of a file counts |
//! | [`version2`] | ExecuTorch's trailer, decoded and encoded |
//! | [`footer`] | the 20 bytes that both versions end with |
//! | [`space`] | how many bytes of a file nobody can reach any more |
//!
//! ```text
//! version 3    header page (4096 bytes) | payloads and index blocks, each at a multiple of 128
//! index block  header | models | buckets | slots | records | footer
//! version 2    payloads | entries | footer
//! ```
//!
//! A commit of version 3 appends payloads and an index of all entries, then writes the commit slot that does not hold the
//! index that counts. What was committed is never written again, so that a process may die at any instant: the slot that
//! was there before still names an index that is whole. All numbers are little-endian.

use core::fmt;

pub mod build;
pub mod footer;
pub mod header;
pub mod index;
pub mod pick;
pub mod space;
pub mod version2;

mod model;
mod record;
mod refusal;
#[cfg(test)]
mod tests;

pub use footer::FOOTER_LEN;
pub use model::ModelDigest;
pub use refusal::Refusal;

/// Payloads and index blocks of version 3 begin at multiples of this, in bytes: two cache lines. XNNPACK asks for 64 at least.
pub const ALIGNMENT: u64 = 128;

/// ExecuTorch puts payloads at multiples of this, in bytes.
const PAGE: u64 = 4096;

/// The length of the first page of version 3 in bytes.
pub const HEADER_LEN: usize = 4096;

/// The version that is ours.
pub const VERSION: u32 = 3;

/// The checksum of a payload: XXH3-64.
///
/// ```
/// assert_eq!(warmstart_core::trailer::checksum(b""), 0x2d06_8005_38d3_94c2);
/// ```
#[must_use]
pub fn checksum(payload: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(payload)
}

/// The [`checksum`] of a payload that is given in parts.
///
/// ```
/// use warmstart_core::trailer::{Checksum, checksum};
///
/// let mut sum = Checksum::new();
/// sum.update(b"packed ");
/// sum.update(b"weights");
/// assert_eq!(sum.finish(), checksum(b"packed weights"));
/// ```
#[derive(Clone, Default)]
pub struct Checksum(xxhash_rust::xxh3::Xxh3);

impl Checksum {
    /// Of no bytes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next bytes.
    pub fn update(&mut self, part: &[u8]) {
        self.0.update(part);
    }

    /// The checksum of all that was added.
    #[must_use]
    pub fn finish(&self) -> u64 {
        self.0.digest()
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Checksum").field(&self.finish()).finish()
    }
}

/// A packed weight that a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Which weight. Version 2 does not say where the name of the weight ends and that of the bias begins: there, it is
    /// all in the first.
    pub name: Name<'a>,
    /// Of which model: of all zeros in version 2, which does not say.
    pub model: ModelId,
    /// Packed how.
    pub packing: Packing,
    /// Where the payload begins, in bytes from the start of the file.
    pub offset: u64,
    /// Bytes of the payload.
    pub size: u64,
    /// XXH3-64 of the payload; version 2 has none.
    pub checksum: Option<u64>,
    /// The commit that added it; 0 in version 2.
    pub generation: u64,
    /// Whether version 3 has it from a file of version 2: then nothing proves its packing, its model is the one given at import or
    /// of all zeros, and only [`look_up_imported`](index::Index::look_up_imported) finds it. Always so in version 2.
    pub is_imported: bool,
}

impl<'a> Entry<'a> {
    /// What finds the entry.
    #[must_use]
    pub const fn wanted(&self) -> Wanted<'a> {
        Wanted { name: self.name, model: self.model, packing: self.packing }
    }

    /// Where the payload ends; [`u64::MAX`] if no number says.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.size)
    }
}

/// What a packed weight is called: the name of the weight and, if it was packed with a bias, that of the bias.
///
/// The two are kept apart, so that `"ab"` with `"c"` is another weight than `"a"` with `"bc"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name<'a> {
    /// The weight's name.
    pub weight: &'a str,
    /// The bias's name, if it has one.
    pub bias: Option<&'a str>,
}

impl<'a> Name<'a> {
    /// The name of a weight without a bias.
    #[must_use]
    pub const fn new(weight: &'a str) -> Self {
        Self { weight, bias: None }
    }

    /// The same weight with a bias.
    #[must_use]
    pub const fn with_bias(self, bias: &'a str) -> Self {
        Self { bias: Some(bias), ..self }
    }
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.weight)?;
        self.bias.map_or(Ok(()), |bias| write!(f, " + {bias}"))
    }
}

/// Which model a weight belongs to: a digest that changes when the weights do.
///
/// Names alone do not tell: a model that was trained on keeps the names of its weights.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ModelId([u8; 32]);

impl ModelId {
    /// The length in bytes.
    pub const LEN: usize = 32;

    /// A model of this digest.
    #[must_use]
    pub const fn from_bytes(digest: [u8; Self::LEN]) -> Self {
        Self(digest)
    }

    /// The digest.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ModelId({self})")
    }
}

/// How a weight was packed, as far as the runtime tells. A packing that differs in any part cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Packing {
    /// XNNPACK's seed: the shape of the weight and of the micro-kernel.
    pub seed: u32,
    /// The packing algorithm, where the runtime names it.
    pub fingerprint: Option<Fingerprint>,
}

impl Packing {
    /// A packing of which nothing but the seed is known.
    #[must_use]
    pub const fn of_seed(seed: u32) -> Self {
        Self { seed, fingerprint: None }
    }
}

/// XNNPACK's fingerprint of a packing algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint {
    /// Which configuration: operator, types, flags.
    pub id: u32,
    /// The hash of what the algorithm makes of known weights, where the runtime was asked for it.
    pub value: Option<u32>,
}

/// What a look-up asks for. All of it must be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wanted<'a> {
    /// Which weight.
    pub name: Name<'a>,
    /// Of which model.
    pub model: ModelId,
    /// Packed how.
    pub packing: Packing,
}
