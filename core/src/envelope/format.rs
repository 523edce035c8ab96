//! Constants of the format of an entry.

/// The length of the fixed header in bytes.
pub const HEADER_LEN: usize = 64;

/// The payload's offset in an envelope is a multiple of this, in bytes: two cache lines, and what XNNPACK asks for.
pub const PAYLOAD_ALIGN: usize = 128;

pub(crate) const MAGIC: [u8; 8] = *b"\x89WSA\r\n\x1a\n";
pub(super) const VERSION: u16 = 1;

/// The flag of an envelope with a tag behind its header.
pub(super) const SEALED: u16 = 1;

/// Where the bytes that the checksum covers begin.
pub(super) const CHECKED: usize = 16;

/// A head, which is header, key and metadata, is at most so long, in bytes. So that is as much as needs to be read to
/// know what an entry says.
pub const MAX_HEAD_LEN: usize = 16 << 20;
