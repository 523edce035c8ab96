//! The 20 bytes that a file of packed weights ends with, in every version.
//!
//! ```text
//!   0  index start   u64  where the index begins; it ends where the footer begins
//!   8  entry count   u32
//!  12  magic         u32  0x58505743
//!  16  version       u32
//! ```

use super::{Refusal, VERSION};
use crate::bytes::{u32_at, u64_at};

/// The length of the footer in bytes.
pub const FOOTER_LEN: usize = 20;

/// A number, so that its bytes are in the order of the writer: 43 57 50 58 on disk.
const MAGIC: u32 = 0x5850_5743;

/// The end of a file of packed weights: which version it is of, and where its index is.
///
/// ```
/// use warmstart_core::trailer::footer::{FOOTER_LEN, Footer};
///
/// let footer = Footer { index_start: 4096, entry_count: 0, version: 2 };
/// let file_len = 4096 + FOOTER_LEN as u64;
/// assert_eq!(Footer::decode(&footer.encode(), file_len), Ok(footer));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// Where the index begins, in bytes from the start of the file.
    pub index_start: u64,
    /// How many entries it has.
    pub entry_count: u32,
    /// 2 or 3.
    pub version: u32,
}

impl Footer {
    /// The bytes of the footer.
    #[must_use]
    pub fn encode(&self) -> [u8; FOOTER_LEN] {
        let mut bytes = [0; FOOTER_LEN];
        bytes[..8].copy_from_slice(&self.index_start.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.entry_count.to_le_bytes());
        bytes[12..16].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[16..].copy_from_slice(&self.version.to_le_bytes());
        bytes
    }

    /// Reads the footer of a file of `file_len` bytes, of which at least the last [`FOOTER_LEN`] are given, and none
    /// behind them.
    ///
    /// # Errors
    /// Why it is no footer of version 2 or 3: [`Refusal::Short`], [`Refusal::Foreign`], [`Refusal::BigEndian`],
    /// [`Refusal::Version1`], [`Refusal::UnknownVersion`], or [`Refusal::Footer`] if the index cannot be where it says.
    pub fn decode(tail: &[u8], file_len: u64) -> Result<Self, Refusal> {
        let len = file_len.min(tail.len() as u64);
        let short = Refusal::Short { len, needed: FOOTER_LEN as u64 };
        let last = tail.last_chunk::<FOOTER_LEN>().ok_or(short)?;
        let last_start = file_len.checked_sub(FOOTER_LEN as u64).ok_or(short)?;
        let number = |at| u32_at(last, at).ok_or(short);
        let (magic, version) = (number(12)?, number(16)?);
        match magic {
            MAGIC => {}
            magic if magic.swap_bytes() == MAGIC => return Err(Refusal::BigEndian),
            _ => return Err(Refusal::Foreign),
        }
        check_version(version)?;
        let footer = Self { index_start: u64_at(last, 0).ok_or(short)?, entry_count: number(8)?, version };
        if footer.index_start > last_start {
            return Err(Refusal::Footer);
        }
        Ok(footer)
    }
}

fn check_version(version: u32) -> Result<(), Refusal> {
    match version {
        2..=VERSION => Ok(()),
        1 => Err(Refusal::Version1),
        version if matches!(version.swap_bytes(), 1..=VERSION) => Err(Refusal::BigEndian),
        version => Err(Refusal::UnknownVersion(version)),
    }
}
