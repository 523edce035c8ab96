//! Envelopes whose payload passes by in pieces, and is never whole in memory.

use alloc::vec::Vec;
use core::fmt;

use xxhash_rust::xxh3::Xxh3Default;

use super::{Layout, format::CHECKED, head_without_checksum};
use crate::{artifact::Provenance, bytes::u64_at, reason::Reason, sum::xxh3_64};

/// Makes the head of an envelope while its payload passes by.
///
/// The head is finished last, for it holds the checksum: whoever has only one pass writes the payload first. There is no
/// seal, because a tag needs a pass of its own.
///
/// ```
/// use warmstart_core::{artifact::Provenance, envelope::{self, HeadWriter}};
///
/// let mut writer = HeadWriter::new(b"key", &[], 7, Provenance::default())?;
/// writer.update(b"pay");
/// writer.update(b"load");
/// let mut stored = writer.finish()?;
/// stored.extend_from_slice(b"payload");
/// assert_eq!(envelope::decode(stored, b"key")?.payload(), b"payload");
/// # Ok::<(), warmstart_core::reason::Reason>(())
/// ```
#[derive(Clone)]
pub struct HeadWriter {
    head: Vec<u8>,
    pieces: Pieces,
}

/// Proves an envelope while its payload passes by.
///
/// ```
/// use warmstart_core::{artifact::Artifact, envelope::{self, Verifier}, reason::Reason};
///
/// let artifact = Artifact::new(b"payload".to_vec());
/// let stored = envelope::encode(b"key", &artifact)?;
/// let [head, _] = stored.parts();
/// let (mut verifier, layout) = Verifier::new(head, 7)?;
/// assert_eq!(&head[layout.key()], b"key");
/// verifier.update(b"pay");
/// verifier.update(b"lord");
/// assert_eq!(verifier.finish(), Err(Reason::ChecksumMismatch));
/// # Ok::<(), Reason>(())
/// ```
#[derive(Clone)]
pub struct Verifier {
    expected: u64,
    pieces: Pieces,
}

#[derive(Clone)]
struct Pieces {
    hasher: Xxh3Default,
    /// Bytes of the payload that are still to come; nothing if too many came.
    left: Option<u64>,
}

/// The checksum of a head alone, for those who keep head and payload apart and hand out the head first: the low half
/// of its XXH3-64.
#[must_use]
pub fn head_checksum(head: &[u8]) -> u32 {
    (xxh3_64(head) & 0xffff_ffff) as u32
}

impl HeadWriter {
    /// Of an envelope for `key`, with encoded `metadata` and a payload of `payload_len` bytes.
    ///
    /// # Errors
    /// [`Reason::TooLong`] if key and metadata are longer than [`MAX_HEAD_LEN`](crate::head::MAX_HEAD_LEN), with the header.
    pub fn new(
        key: &[u8],
        metadata: &[u8],
        payload_len: u64,
        provenance: Provenance,
    ) -> Result<Self, Reason> {
        let head = head_without_checksum(key, metadata, payload_len, provenance, false)?;
        let pieces = Pieces::new(&head, payload_len);
        Ok(Self { head, pieces })
    }

    /// The next piece of the payload.
    pub fn update(&mut self, piece: &[u8]) {
        self.pieces.update(piece);
    }

    /// The head: everything before the payload.
    ///
    /// # Errors
    /// [`Reason::Truncated`] if fewer bytes came than were announced, [`Reason::Malformed`] if more did.
    pub fn finish(mut self) -> Result<Vec<u8>, Reason> {
        let sum = self.pieces.finish()?;
        self.head[8..CHECKED].copy_from_slice(&sum.to_le_bytes());
        Ok(self.head)
    }
}

impl Verifier {
    /// Of an envelope with this head, which is everything before the payload, and a payload of `payload_len` bytes.
    /// The layout says where in the head key and metadata are; it is proved when [`finish`](Self::finish) says so.
    ///
    /// # Errors
    /// The reason why it cannot be the head of such an envelope.
    pub fn new(head: &[u8], payload_len: u64) -> Result<(Self, Layout), Reason> {
        let total = (head.len() as u64).checked_add(payload_len).ok_or(Reason::Malformed)?;
        let layout = Layout::parse(head, total)?.matching(None)?;
        if layout.payload().start != head.len() {
            return Err(Reason::Malformed);
        }
        let expected = u64_at(head, 8).ok_or(Reason::Truncated)?;
        Ok((Self { expected, pieces: Pieces::new(head, payload_len) }, layout))
    }

    /// The next piece of the payload.
    pub fn update(&mut self, piece: &[u8]) {
        self.pieces.update(piece);
    }

    /// Whether all of it was as it was stored.
    ///
    /// # Errors
    /// [`Reason::Truncated`], [`Reason::Malformed`] if too many bytes came, or [`Reason::ChecksumMismatch`].
    pub fn finish(self) -> Result<(), Reason> {
        if self.pieces.finish()? == self.expected { Ok(()) } else { Err(Reason::ChecksumMismatch) }
    }
}

impl Pieces {
    fn new(head: &[u8], payload_len: u64) -> Self {
        let mut hasher = Xxh3Default::new();
        hasher.update(&head[CHECKED..]);
        Self { hasher, left: Some(payload_len) }
    }

    fn update(&mut self, piece: &[u8]) {
        self.left = self.left.and_then(|left| left.checked_sub(piece.len() as u64));
        if self.left.is_some() {
            self.hasher.update(piece);
        }
    }

    fn finish(&self) -> Result<u64, Reason> {
        match self.left {
            Some(0) => Ok(self.hasher.digest()),
            Some(_) => Err(Reason::Truncated),
            None => Err(Reason::Malformed),
        }
    }
}

impl fmt::Debug for HeadWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeadWriter").field("left", &self.pieces.left).finish_non_exhaustive()
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("left", &self.pieces.left).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{artifact::Artifact, envelope, metadata::Metadata};

    const PAYLOAD: &[u8] = b"the payload, in pieces";

    fn artifact() -> Artifact {
        Artifact::new(PAYLOAD.to_vec())
            .with_metadata(&Metadata::new().with_attribute("name", b"value"))
            .with_provenance(Provenance { created_unix_ms: 12, build_nanos: 34 })
    }

    #[test]
    fn pieces_of_every_length_make_the_head_of_the_whole() {
        let artifact = artifact();
        let whole = envelope::encode(b"key", &artifact).unwrap();
        for length in 1..=PAYLOAD.len() {
            let (metadata, provenance) = (artifact.encoded_metadata(), artifact.provenance());
            let mut writer = HeadWriter::new(b"key", metadata, PAYLOAD.len() as u64, provenance).unwrap();
            let (mut verifier, layout) = Verifier::new(whole.parts()[0], PAYLOAD.len() as u64).unwrap();
            for piece in PAYLOAD.chunks(length) {
                writer.update(piece);
                verifier.update(piece);
            }
            assert_eq!(writer.finish().unwrap(), whole.parts()[0]);
            assert_eq!(verifier.finish(), Ok(()));
            assert_eq!(&whole.parts()[0][layout.key()], b"key");
        }
    }

    #[test]
    fn no_flipped_bit_passes() {
        let artifact = artifact();
        let whole = envelope::encode(b"key", &artifact).unwrap().to_vec();
        let start = whole.len() - PAYLOAD.len();
        for bit in 0..8 * whole.len() {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let (head, payload) = damaged.split_at(start);
            let proved = Verifier::new(head, payload.len() as u64).and_then(|(mut verifier, _)| {
                verifier.update(payload);
                verifier.finish()
            });
            assert!(proved.is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_payload_of_another_length_is_refused() {
        let writer = HeadWriter::new(b"key", &[], 3, Provenance::default()).unwrap();
        for (payload, reason) in [(&b"ab"[..], Reason::Truncated), (b"abcd", Reason::Malformed)] {
            let mut writer = writer.clone();
            writer.update(payload);
            assert_eq!(writer.finish(), Err(reason));
        }
        let mut short = writer;
        short.update(b"abc");
        let head = short.finish().unwrap();
        assert_eq!(Verifier::new(&head, 2).unwrap_err(), Reason::Truncated);
        assert_eq!(Verifier::new(&head, 4).unwrap_err(), Reason::Malformed);
        assert_eq!(Verifier::new(&head[..100], 31).unwrap_err(), Reason::Malformed);
    }
}
