//! Encodes and verifies envelopes whose payload arrives in pieces, and need not be whole in memory.

use alloc::vec::Vec;
use core::{fmt, hash::Hasher as _};

use super::{CHECKED, Layout, field, head_without_checksum, verify_parts};
use crate::{
    artifact::Provenance,
    bytes::{XXH3_64, Xxh3},
    reason::MissReason,
    seal::Seal,
};

/// Encodes the head of an envelope whose payload arrives in pieces.
///
/// The head is complete only after the payload, because it contains the checksum: in a single pass, write the payload first.
/// The envelope has no seal, because a tag needs a second pass.
///
/// ```
/// use warmstart_core::{artifact::Provenance, envelope::{self, HeadWriter}};
///
/// let mut writer = HeadWriter::new(b"key", &[], 7, Provenance::default())?;
/// writer.update(b"pay");
/// writer.update(b"load");
/// let mut stored = writer.finish()?;
/// stored.extend_from_slice(b"payload");
/// assert_eq!(envelope::decode(stored, b"key", None)?.payload(), b"payload");
/// # Ok::<(), warmstart_core::reason::MissReason>(())
/// ```
#[derive(Clone, Debug)]
pub struct HeadWriter {
    head: Vec<u8>,
    pieces: Pieces,
}

/// Verifies an envelope whose payload arrives in pieces.
///
/// ```
/// use warmstart_core::{artifact::Artifact, envelope::{self, Verifier}, reason::MissReason};
///
/// let artifact = Artifact::new(b"payload".to_vec());
/// let stored = envelope::encode(b"key", &artifact, None)?;
/// let [head, _] = stored.parts();
/// let (mut verifier, layout) = Verifier::new(head, 7)?;
/// assert_eq!(&head[layout.key()], b"key");
/// verifier.update(b"pay");
/// verifier.update(b"lord");
/// assert_eq!(verifier.finish(), Err(MissReason::ChecksumMismatch));
/// # Ok::<(), MissReason>(())
/// ```
#[derive(Clone, Debug)]
pub struct Verifier {
    expected: u64,
    pieces: Pieces,
}

#[derive(Clone)]
struct Pieces {
    hasher: Xxh3,
    /// The number of payload bytes that are still missing; `None` if there were too many.
    left: Option<u64>,
}

/// Computes the checksum of a head alone, the low half of its XXH3-64, for stores that keep head and payload apart and return
/// the head first.
#[must_use]
pub fn head_checksum(head: &[u8]) -> u32 {
    (XXH3_64(head) & 0xffff_ffff) as u32
}

impl HeadWriter {
    /// Creates a writer for `key`, with encoded `metadata` and a payload of `payload_len` bytes.
    ///
    /// # Errors
    /// [`MissReason::TooLong`] if header, key and metadata together are longer than
    /// [`MAX_HEAD_LEN`](crate::head::MAX_HEAD_LEN).
    pub fn new(
        key: &[u8],
        metadata: &[u8],
        payload_len: u64,
        provenance: Provenance,
    ) -> Result<Self, MissReason> {
        let head = head_without_checksum(key, metadata, payload_len, provenance, false)?;
        let pieces = Pieces::new(&head, payload_len);
        Ok(Self { head, pieces })
    }

    /// Adds the next piece of the payload.
    pub fn update(&mut self, piece: &[u8]) {
        self.pieces.update(piece);
    }

    /// Returns the head: everything before the payload.
    ///
    /// # Errors
    /// [`MissReason::Truncated`] if the pieces are shorter than `payload_len`, [`MissReason::Malformed`] if they are longer.
    pub fn finish(mut self) -> Result<Vec<u8>, MissReason> {
        let sum = self.pieces.finish()?;
        self.head[8..CHECKED].copy_from_slice(&sum.to_le_bytes());
        Ok(self.head)
    }
}

impl Verifier {
    /// Creates a verifier from the head, which is everything before the payload, and the length of the payload in bytes. The
    /// returned layout gives the ranges of key and metadata in the head; it is verified once [`finish`](Self::finish) returns
    /// `Ok`.
    ///
    /// # Errors
    /// The reason why these bytes cannot be the head of such an envelope.
    pub fn new(head: &[u8], payload_len: u64) -> Result<(Self, Layout), MissReason> {
        let total = (head.len() as u64).checked_add(payload_len).ok_or(MissReason::Malformed)?;
        let layout = Layout::parse(head, total)?.matching(None)?;
        if layout.payload().start != head.len() {
            return Err(MissReason::Malformed);
        }
        Ok((Self::begin(head, total)?, layout))
    }

    /// Creates a verifier from the first bytes of an envelope that is `total` bytes long: its header, and as much more as was read. Unlike
    /// [`new`](Self::new), it accepts sealed envelopes and those of a newer version, so that [`verify`](Self::verify) can tell them from
    /// damaged ones; [`finish`](Self::finish) then checks nothing but the checksum.
    ///
    /// # Errors
    /// The reason why these bytes do not begin such an envelope.
    pub fn begin(first: &[u8], total: u64) -> Result<Self, MissReason> {
        match Layout::parse(first, total) {
            Ok(_) | Err(MissReason::NewerVersion) => {}
            Err(reason) => return Err(reason),
        }
        let left = total.checked_sub(first.len() as u64).ok_or(MissReason::Malformed)?;
        let expected = u64::from_le_bytes(field(first, 8)?);
        Ok(Self { expected, pieces: Pieces::new(first, left) })
    }

    /// Adds the next piece of the payload.
    pub fn update(&mut self, piece: &[u8]) {
        self.pieces.update(piece);
    }

    /// Verifies a whole envelope as [`envelope::verify`](super::verify) does, without reading it again for the checksum: `stored` must
    /// be all pieces in their order.
    ///
    /// # Errors
    /// As [`envelope::verify`](super::verify); as [`finish`](Self::finish) if pieces are missing.
    pub fn verify(self, stored: &[u8], seal: Option<&Seal>) -> Result<Layout, MissReason> {
        verify_parts([stored, &[]], seal, || self.pieces.finish())
    }

    /// Checks that head and payload are unchanged since they were stored.
    ///
    /// # Errors
    /// [`MissReason::Truncated`] if bytes are missing, [`MissReason::Malformed`] if there were too many, or
    /// [`MissReason::ChecksumMismatch`].
    pub fn finish(self) -> Result<(), MissReason> {
        if self.pieces.finish()? == self.expected { Ok(()) } else { Err(MissReason::ChecksumMismatch) }
    }
}

impl Pieces {
    fn new(head: &[u8], payload_len: u64) -> Self {
        let mut hasher = Xxh3::new();
        hasher.write(&head[CHECKED..]);
        Self { hasher, left: Some(payload_len) }
    }

    fn update(&mut self, piece: &[u8]) {
        self.left = self.left.and_then(|left| left.checked_sub(piece.len() as u64));
        if self.left.is_some() {
            self.hasher.write(piece);
        }
    }

    fn finish(&self) -> Result<u64, MissReason> {
        match self.left {
            Some(0) => Ok(self.hasher.finish()),
            Some(_) => Err(MissReason::Truncated),
            None => Err(MissReason::Malformed),
        }
    }
}

impl fmt::Debug for Pieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pieces").field("left", &self.left).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        artifact::{Artifact, Metadata},
        envelope,
    };

    const PAYLOAD: &[u8] = b"the payload, in pieces";

    fn artifact() -> Artifact {
        Artifact::new(PAYLOAD.to_vec())
            .with_metadata(&Metadata::new().with_attribute("name", b"value"))
            .with_provenance(Provenance { created_unix_ms: 12, build_nanos: 34 })
    }

    #[test]
    fn pieces_of_every_length_make_the_head_of_the_whole() {
        let artifact = artifact();
        let whole = envelope::encode(b"key", &artifact, None).unwrap();
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
    fn whole_envelope_in_pieces_is_verified_as_by_one_read() {
        let (artifact, seal) = (artifact(), Seal::new(&[7; 32]));
        for sealed_with in [None, Some(&seal)] {
            let whole = envelope::encode(b"key", &artifact, sealed_with).unwrap().to_vec();
            for damaged in (0..=whole.len()).step_by(3) {
                let mut stored = whole.clone();
                if let Some(byte) = stored.get_mut(damaged) {
                    *byte ^= 1;
                }
                for given in [None, Some(&seal)] {
                    let in_pieces =
                        Verifier::begin(&stored[..64], stored.len() as u64).and_then(|mut verifier| {
                            stored[64..].chunks(31).for_each(|piece| verifier.update(piece));
                            verifier.verify(&stored, given)
                        });
                    assert_eq!(in_pieces, envelope::verify(&stored, given), "byte {damaged}");
                }
            }
            let mut short = Verifier::begin(&whole[..64], whole.len() as u64).unwrap();
            short.update(&whole[64..whole.len() - 1]);
            assert_eq!(short.verify(&whole, sealed_with), Err(MissReason::Truncated));
        }
    }

    #[test]
    fn no_flipped_bit_passes() {
        let artifact = artifact();
        let whole = envelope::encode(b"key", &artifact, None).unwrap().to_vec();
        let start = whole.len() - PAYLOAD.len();
        for bit in 0..8 * whole.len() {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let (head, payload) = damaged.split_at(start);
            let verified = Verifier::new(head, payload.len() as u64).and_then(|(mut verifier, _)| {
                verifier.update(payload);
                verifier.finish()
            });
            assert!(verified.is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_payload_of_another_length_is_refused() {
        let writer = HeadWriter::new(b"key", &[], 3, Provenance::default()).unwrap();
        for (payload, reason) in [(&b"ab"[..], MissReason::Truncated), (b"abcd", MissReason::Malformed)] {
            let mut writer = writer.clone();
            writer.update(payload);
            assert_eq!(writer.finish(), Err(reason));
        }
        let mut short = writer;
        short.update(b"abc");
        let head = short.finish().unwrap();
        assert_eq!(Verifier::new(&head, 2).unwrap_err(), MissReason::Truncated);
        assert_eq!(Verifier::new(&head, 4).unwrap_err(), MissReason::Malformed);
        assert_eq!(Verifier::new(&head[..100], 31).unwrap_err(), MissReason::Malformed);
    }
}
