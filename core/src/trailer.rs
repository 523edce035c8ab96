//! The format of files of packed weights, "XPWC": which weights a file holds, where, and how they were packed.
//!
//! A runtime such as XNNPACK packs every weight of a model into the layout of a micro-kernel. A file keeps the packed bytes
//! and, after them, a trailer that describes them: an index and a footer of 20 bytes. Version 2 is ExecuTorch's and is
//! supported for exchange. Version 3 is warmstart's own: it distinguishes models and packings, verifies its index and its
//! payloads by checksums, and is searched in place.
//!
//! This module has the parts of a file that are of fixed length, such as [`Header`], [`Slot`] and [`Footer`], and the values in
//! them, such as [`Entry`]. Its modules have the rest:
//!
//! | module | holds |
//! |---|---|
//! | [`index`] | the index of version 3: encoded, verified, and searched in place |
//! | [`pick`] | the choice of the active index of a file |
//! | [`version2`] | ExecuTorch's trailer, decoded and encoded |
//!
//! ```text
//! version 3    header page (4096 bytes) | payloads and index blocks, each at a multiple of 128
//! index block  header | models | buckets | slots | records | footer
//! version 2    payloads | entries | footer
//! ```
//!
//! A commit of version 3 appends payloads and an index of all entries, then writes the commit slot that does not belong to the
//! active index. Committed bytes are never written again, so a process may die at any moment: the other slot still refers to an
//! intact index. All numbers are little-endian.

pub mod index;
pub mod pick;
pub mod version2;

mod digest;
mod error;
mod format;
#[cfg(test)]
mod tests;

pub use digest::{Checksum, ModelDigest, model_of_weights};
pub use error::FormatError;
pub use format::{
    Commits, Entry, FOOTER_LEN, Fingerprint, Footer, Header, ModelId, Name, Packing, Place, SLOT_LEN, Slot,
    WeightKey, checksum,
};

/// The alignment of payloads and index blocks of version 3, in bytes: two cache lines. XNNPACK asks for at least 64.
pub const ALIGNMENT: u64 = 128;

/// The alignment of payloads in ExecuTorch's files, in bytes.
const PAGE: u64 = 4096;

/// The length of the first page of version 3 in bytes.
pub const HEADER_LEN: usize = 4096;

/// The version of warmstart's own format.
pub const VERSION: u32 = 3;

/// Returns the number of bytes between ascending spans, from `start` to `end`. Each gap reaches from the end of a span, rounded
/// up, to the start of the next.
fn dead_between(spans: impl Iterator<Item = (u64, u64)>, start: u64, end: u64, alignment: u64) -> u64 {
    let (mut from, mut dead) = (start, 0u64);
    for (begins, ends) in spans.chain([(end, end)]) {
        // Saturates, because the numbers may be arbitrary if the bytes changed since they were checked.
        dead = dead.saturating_add(begins.saturating_sub(from));
        from = ends.checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
    }
    dead
}
