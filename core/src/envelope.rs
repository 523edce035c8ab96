//! The encoding of a stored artifact: header, key, metadata, and a payload aligned for use from a mapping.
//!
//! ```text
//!   0  magic            89 57 53 41 0D 0A 1A 0A  ("\x89WSA\r\n\x1A\n")
//!   8  checksum         u64  XXH3-64 of every byte from 16 to the end
//!  16  version          u16  1
//!  18  flags            u16  bit 0: sealed
//!  20  key length       u32
//!  24  metadata length  u32
//!  28  reserved         u32  0
//!  32  payload length   u64
//!  40  created          u64  milliseconds since 1970 UTC
//!  48  build time       u64  nanoseconds
//!  56  reserved         u64  0
//!  64  tag              32 bytes, if sealed: keyed BLAKE2b-256 of everything else but the checksum
//!      key | metadata | zeros to a multiple of 128 | payload
//! ```
//!
//! All numbers are little-endian. The first 16 bytes mean the same in every version, so that an entry of a newer version
//! (intact, left alone) is distinguished from one whose version is damaged (removed). The layout is derived from those of PNG
//! (a magic that reveals a text-mode copy) and of ccache (one checksum over everything).

use alloc::vec::Vec;
use core::{hash::Hasher as _, ops::Range};

use crate::{
    artifact::{Artifact, Provenance},
    bytes::{XXH3_64, Xxh3},
    reason::MissReason,
    seal::{MAGIC, Seal, TAG_LEN},
};

mod pieces;

pub use pieces::{HeadWriter, Verifier, head_checksum};

/// The length of the fixed header in bytes.
pub const HEADER_LEN: usize = 64;

/// The alignment of the payload within an envelope, in bytes: two cache lines, and what XNNPACK asks for.
pub const PAYLOAD_ALIGN: usize = 128;

const VERSION: u16 = 1;

/// The flag of an envelope with a tag after its header.
const SEALED: u16 = 1;

/// The offset of the first byte that the checksum covers.
const CHECKED: usize = 16;

/// The maximum length of a head (header, key and metadata), in bytes. Reading this much is always enough to know everything
/// about an entry except its payload.
pub const MAX_HEAD_LEN: usize = 16 << 20;

/// An encoded artifact. Head and payload are separate, so that the payload is not copied to be stored.
#[derive(Clone, Debug)]
pub struct Encoded<'a> {
    head: Vec<u8>,
    payload: &'a [u8],
}

/// The ranges of an envelope's parts, as its header gives them, checked against each other and against the total length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    is_sealed: bool,
    key: Range<usize>,
    metadata: Range<usize>,
    payload: Range<usize>,
    provenance: Provenance,
}

/// Encodes `artifact` under the full `key`, and seals it if `seal` is given.
///
/// # Errors
/// [`MissReason::TooLong`] if header, key and metadata together are longer than [`MAX_HEAD_LEN`].
pub fn encode<'a>(
    key: &[u8],
    artifact: &'a Artifact,
    seal: Option<&Seal>,
) -> Result<Encoded<'a>, MissReason> {
    let (metadata, payload) = (artifact.encoded_metadata(), artifact.payload());
    let mut head =
        head_without_checksum(key, metadata, payload.len() as u64, artifact.provenance(), seal.is_some())?;
    let key_start = key_offset(seal.is_some());
    if let Some(seal) = seal {
        let tag = seal.tag([&head[CHECKED..HEADER_LEN], &head[key_start..], payload]);
        head[HEADER_LEN..key_start].copy_from_slice(&tag);
    }

    let mut hasher = Xxh3::new();
    hasher.write(&head[CHECKED..]);
    hasher.write(payload);
    head[8..CHECKED].copy_from_slice(&hasher.finish().to_le_bytes());
    Ok(Encoded { head, payload })
}

/// Encodes everything before the payload, with zeros for checksum and tag.
fn head_without_checksum(
    key: &[u8],
    metadata: &[u8],
    payload_len: u64,
    provenance: Provenance,
    is_sealed: bool,
) -> Result<Vec<u8>, MissReason> {
    let key_len = u32::try_from(key.len()).map_err(|_| MissReason::TooLong)?;
    let metadata_len = u32::try_from(metadata.len()).map_err(|_| MissReason::TooLong)?;
    let key_start = key_offset(is_sealed);
    let head_len = payload_offset(key_start, key.len(), metadata.len()).ok_or(MissReason::TooLong)?;
    if head_len > MAX_HEAD_LEN {
        return Err(MissReason::TooLong);
    }
    let flags = if is_sealed { SEALED } else { 0 };

    let mut head = Vec::with_capacity(head_len);
    head.extend_from_slice(&MAGIC);
    head.extend_from_slice(&[0; 8]);
    head.extend_from_slice(&VERSION.to_le_bytes());
    head.extend_from_slice(&flags.to_le_bytes());
    head.extend_from_slice(&key_len.to_le_bytes());
    head.extend_from_slice(&metadata_len.to_le_bytes());
    head.extend_from_slice(&0u32.to_le_bytes());
    head.extend_from_slice(&payload_len.to_le_bytes());
    head.extend_from_slice(&provenance.created_unix_ms.to_le_bytes());
    head.extend_from_slice(&provenance.build_nanos.to_le_bytes());
    head.extend_from_slice(&0u64.to_le_bytes());
    head.resize(key_start, 0);
    head.extend_from_slice(key);
    head.extend_from_slice(metadata);
    head.resize(head_len, 0);
    Ok(head)
}

/// Decodes a whole envelope and verifies it: every byte by the checksum, the full key by comparison. If `seal` is given, the
/// envelope must bear it, and the seal verifies every byte too.
///
/// The artifact keeps `stored` as its buffer; nothing is copied.
///
/// # Errors
/// The reason why the bytes are not the artifact of `key`. [`MissReason::NewerVersion`] means that they are intact, but of a
/// newer version: leave them alone. [`MissReason::Sealed`] means that they are intact, but sealed with a secret that was not
/// given; [`MissReason::Unsealed`] and [`MissReason::Forged`] mean that they are intact, but do not bear the seal.
pub fn decode(stored: Vec<u8>, key: &[u8], seal: Option<&Seal>) -> Result<Artifact, MissReason> {
    verify(&stored, seal)?.into_artifact(stored, key)
}

/// Verifies that `stored` is one whole envelope, of any key, and returns the ranges of its parts. If `seal` is given, the
/// envelope must bear it.
///
/// # Errors
/// As [`decode`], but never [`MissReason::KeyMismatch`].
pub fn verify(stored: &[u8], seal: Option<&Seal>) -> Result<Layout, MissReason> {
    verify_parts([stored, &[]], seal, || Ok(XXH3_64(&stored[CHECKED..])))
}

/// Verifies an envelope of `key` whose payload was read separately from its head, as [`decode`] does. The head is
/// everything before the payload.
///
/// ```
/// use warmstart_core::{artifact::Artifact, envelope, reason::MissReason};
///
/// let artifact = Artifact::new(b"payload".to_vec());
/// let [head, _] = envelope::encode(b"key", &artifact, None)?.parts().map(<[u8]>::to_vec);
/// assert_eq!(envelope::verify_split(&head, b"payload", b"key", None), Ok(()));
/// assert_eq!(envelope::verify_split(&head, b"paylord", b"key", None), Err(MissReason::ChecksumMismatch));
/// # Ok::<(), MissReason>(())
/// ```
///
/// # Errors
/// As [`decode`]; [`MissReason::Malformed`] if the payload does not begin where the head ends.
pub fn verify_split(head: &[u8], payload: &[u8], key: &[u8], seal: Option<&Seal>) -> Result<(), MissReason> {
    let layout = verify_parts([head, payload], seal, || {
        let mut hasher = Xxh3::new();
        hasher.write(&head[CHECKED..]);
        hasher.write(payload);
        Ok(hasher.finish())
    })?;
    if layout.payload.start != head.len() {
        return Err(MissReason::Malformed);
    }
    if head.get(layout.key) == Some(key) { Ok(()) } else { Err(MissReason::KeyMismatch) }
}

/// Verifies an envelope whose head is in the first of two parts. `sum` returns the checksum of everything from [`CHECKED`] on. It is only
/// called if the first part is at least that long.
fn verify_parts(
    [first, second]: [&[u8]; 2],
    seal: Option<&Seal>,
    sum: impl FnOnce() -> Result<u64, MissReason>,
) -> Result<Layout, MissReason> {
    let layout = Layout::parse(first, first.len() as u64 + second.len() as u64);
    if !matches!(layout, Ok(_) | Err(MissReason::NewerVersion)) {
        return layout;
    }
    let expected = u64::from_le_bytes(field(first, 8)?);
    // The checksum comes first, even where a seal would detect the change: damage is then reported as damage, with or without
    // the secret.
    if sum()? != expected {
        return Err(MissReason::ChecksumMismatch);
    }
    let layout = layout?.matching(seal)?;
    let Some(seal) = seal else { return Ok(layout) };
    let part = |range: Range<usize>| first.get(range).ok_or(MissReason::Truncated);
    let header = part(CHECKED..HEADER_LEN)?;
    let (tag, rest) = (part(HEADER_LEN..layout.key.start)?, part(layout.key.start..first.len())?);
    if seal.holds([header, rest, second], tag) { Ok(layout) } else { Err(MissReason::Forged) }
}

impl Encoded<'_> {
    /// Returns head and payload, to be written one after the other.
    #[must_use]
    pub fn parts(&self) -> [&[u8]; 2] {
        [&self.head, self.payload]
    }

    /// Returns the length of the envelope in bytes, which is the size that counts against a cap.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "an envelope is never empty")]
    pub const fn len(&self) -> u64 {
        self.head.len() as u64 + self.payload.len() as u64
    }

    /// Copies the envelope into one buffer, for stores that cannot write it in parts.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.parts().concat()
    }
}

impl Layout {
    /// Parses the header of an envelope that is `total` bytes long, from at least its first [`HEADER_LEN`] bytes. Checks only
    /// the header and the length.
    ///
    /// # Errors
    /// The reason why the header is invalid. [`MissReason::NewerVersion`] is provisional until [`verify`] has checked the
    /// checksum.
    pub fn parse(header: &[u8], total: u64) -> Result<Self, MissReason> {
        if header.len() < MAGIC.len() && MAGIC.starts_with(header) {
            return Err(MissReason::Truncated);
        }
        if !header.starts_with(&MAGIC) {
            return Err(MissReason::Foreign);
        }
        let version = u16::from_le_bytes(field(header, 16)?);
        if version > VERSION {
            return Err(MissReason::NewerVersion);
        }
        let short = |at| field(header, at).map(u32::from_le_bytes);
        let long = |at| field(header, at).map(u64::from_le_bytes);
        let (key_len, metadata_len, payload_len) = (short(20)?, short(24)?, long(32)?);
        let provenance = Provenance { created_unix_ms: long(40)?, build_nanos: long(48)? };
        let flags = u16::from_le_bytes(field(header, 18)?);
        if version == 0 || flags & !SEALED != 0 || short(28)? != 0 || long(56)? != 0 {
            return Err(MissReason::Malformed);
        }

        let malformed = |_| MissReason::Malformed;
        let key_len = usize::try_from(key_len).map_err(malformed)?;
        let metadata_len = usize::try_from(metadata_len).map_err(malformed)?;
        let is_sealed = flags & SEALED != 0;
        let key_start = key_offset(is_sealed);
        let payload_start = payload_offset(key_start, key_len, metadata_len).ok_or(MissReason::Malformed)?;
        let end = (payload_start as u64).checked_add(payload_len).ok_or(MissReason::Malformed)?;
        if end > total {
            return Err(MissReason::Truncated);
        }
        if end < total {
            return Err(MissReason::Malformed);
        }
        let end = usize::try_from(end).map_err(malformed)?;
        // The sums below cannot overflow: `payload_offset` added the same numbers, and more, with checked arithmetic.
        let metadata_start = key_start + key_len;
        Ok(Self {
            is_sealed,
            key: key_start..metadata_start,
            metadata: metadata_start..metadata_start + metadata_len,
            payload: payload_start..end,
            provenance,
        })
    }

    /// Returns the length of the payload in bytes, as the header gives it. Verifies nothing.
    ///
    /// # Errors
    /// [`MissReason::Truncated`] if the header is incomplete.
    pub fn payload_len(header: &[u8]) -> Result<u64, MissReason> {
        field(header.get(..HEADER_LEN).ok_or(MissReason::Truncated)?, 32).map(u64::from_le_bytes)
    }

    /// Makes an artifact of the envelope that [`verify`] or [`Verifier::verify`] returned this layout of. Copies nothing, and checks no
    /// checksum.
    ///
    /// # Errors
    /// [`MissReason::KeyMismatch`] if it is another key's, or not an envelope of this layout.
    pub fn into_artifact(self, stored: Vec<u8>, key: &[u8]) -> Result<Artifact, MissReason> {
        if stored.len() != self.payload.end || stored.get(self.key) != Some(key) {
            return Err(MissReason::KeyMismatch);
        }
        Ok(Artifact::inside(stored, self.payload, self.metadata, self.provenance))
    }

    /// Checks that the envelope is sealed exactly if `seal` is given. Reads only the header, and verifies nothing.
    ///
    /// # Errors
    /// [`MissReason::Unsealed`] or [`MissReason::Sealed`].
    pub fn matching(self, seal: Option<&Seal>) -> Result<Self, MissReason> {
        match (seal, self.is_sealed) {
            (Some(_), false) => Err(MissReason::Unsealed),
            (None, true) => Err(MissReason::Sealed),
            _ => Ok(self),
        }
    }

    /// Returns whether the header says that the envelope is sealed. Verifies nothing.
    #[must_use]
    pub const fn is_sealed(&self) -> bool {
        self.is_sealed
    }

    /// Returns the length of header, tag, key and metadata in bytes, without the zeros that align the payload.
    #[must_use]
    pub const fn head_len(&self) -> usize {
        self.metadata.end
    }

    /// Returns the range of the full key.
    #[must_use]
    pub fn key(&self) -> Range<usize> {
        self.key.clone()
    }

    /// Returns the range of the encoded metadata.
    #[must_use]
    pub fn metadata(&self) -> Range<usize> {
        self.metadata.clone()
    }

    /// Returns the range of the payload, which starts at a multiple of [`PAYLOAD_ALIGN`].
    #[must_use]
    pub fn payload(&self) -> Range<usize> {
        self.payload.clone()
    }

    /// Returns when the artifact was built and how long the build took.
    #[must_use]
    pub const fn provenance(&self) -> Provenance {
        self.provenance
    }
}

/// Reads the `N` bytes of a field of the header.
fn field<const N: usize>(header: &[u8], at: usize) -> Result<[u8; N], MissReason> {
    header.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or(MissReason::Truncated)
}

const fn key_offset(is_sealed: bool) -> usize {
    if is_sealed { HEADER_LEN + TAG_LEN } else { HEADER_LEN }
}

fn payload_offset(key_start: usize, key_len: usize, metadata_len: usize) -> Option<usize> {
    key_start.checked_add(key_len)?.checked_add(metadata_len)?.checked_next_multiple_of(PAYLOAD_ALIGN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::Metadata;
    use alloc::vec;

    fn artifact(payload: &[u8]) -> Artifact {
        Artifact::new(payload.to_vec())
            .with_metadata(&Metadata::new().with_attribute("name", b"value"))
            .with_provenance(Provenance { created_unix_ms: 12, build_nanos: 34 })
    }

    #[test]
    fn encoded_artifact_decodes_and_is_aligned() {
        for (key, payload) in [(&b""[..], &b""[..]), (b"k", b"p"), (&[7; 1000], &[9; 5000])] {
            let stored = encode(key, &artifact(payload), None).unwrap().to_vec();
            assert_eq!(verify(&stored, None).unwrap().payload().start % PAYLOAD_ALIGN, 0);
            let found = decode(stored, key, None).unwrap();
            assert_eq!(found.payload(), payload);
            assert_eq!(found.metadata().unwrap().attribute("name"), Some(&b"value"[..]));
            assert_eq!(found.provenance(), Provenance { created_unix_ms: 12, build_nanos: 34 });
        }
    }

    #[test]
    fn every_flipped_bit_is_refused_as_damage() {
        let stored = encode(b"key", &artifact(b"payload"), None).unwrap().to_vec();
        for at in 0..stored.len() {
            for bit in 0..8 {
                let mut damaged = stored.clone();
                damaged[at] ^= 1 << bit;
                let reason = decode(damaged, b"key", None).expect_err("a flipped bit was handed out");
                assert!(reason.is_damage(), "byte {at}, bit {bit}: {reason:?}");
            }
        }
    }

    #[test]
    fn split_envelope_with_a_flipped_bit_is_refused() {
        let seal = Seal::new(&[7; 32]);
        for seal in [None, Some(&seal)] {
            let artifact = artifact(b"payload");
            let whole = encode(b"key", &artifact, seal).unwrap().to_vec();
            let start = whole.len() - b"payload".len();
            let verify = |stored: &[u8], at| verify_split(&stored[..at], &stored[at..], b"key", seal);
            assert_eq!(verify(&whole, start), Ok(()));
            assert_eq!(
                (verify(&whole, start - 1), verify(&whole, start + 1)),
                (Err(MissReason::Malformed), Err(MissReason::Malformed))
            );
            for bit in 0..8 * whole.len() {
                let mut damaged = whole.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(verify(&damaged, start).is_err(), "bit {bit}");
            }
            assert_eq!(verify_split(&whole[..start], b"payload", b"kez", seal), Err(MissReason::KeyMismatch));
        }
    }

    #[test]
    fn every_truncation_and_every_extension_is_refused_as_damage() {
        let stored = encode(b"key", &artifact(b"payload"), None).unwrap().to_vec();
        for end in 0..stored.len() {
            assert_eq!(
                decode(stored[..end].to_vec(), b"key", None).unwrap_err(),
                MissReason::Truncated,
                "{end}"
            );
        }
        let mut longer = stored;
        longer.push(0);
        assert_eq!(decode(longer, b"key", None).unwrap_err(), MissReason::Malformed);
    }

    #[test]
    fn entry_of_another_key_is_never_returned() {
        let stored = encode(b"key", &artifact(b"payload"), None).unwrap().to_vec();
        assert_eq!(decode(stored, b"kez", None).unwrap_err(), MissReason::KeyMismatch);
    }

    #[test]
    fn newer_version_differs_from_damaged_version() {
        let mut newer = encode(b"key", &artifact(b"payload"), None).unwrap().to_vec();
        newer[16] = 2;
        assert_eq!(verify(&newer, None), Err(MissReason::ChecksumMismatch), "the version was damaged");
        let sum = XXH3_64(&newer[CHECKED..]);
        newer[8..16].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(verify(&newer, None), Err(MissReason::NewerVersion));
    }

    #[test]
    fn lengths_at_the_edges_are_refused() {
        let stored = encode(b"key", &artifact(b"payload"), None).unwrap().to_vec();
        for (at, len) in [(20, 4), (24, 4), (32, 8)] {
            let mut lying = stored.clone();
            lying[at..at + len].fill(0xff);
            assert!(decode(lying, b"key", None).unwrap_err().is_damage());
        }
    }

    #[test]
    fn reserved_fields_that_are_set_are_refused() {
        for (at, bit) in (18..20).chain(28..32).chain(56..64).flat_map(|at| [(at, 1), (at, 7)]) {
            let mut other = encode(b"key", &artifact(b"payload"), None).unwrap().to_vec();
            other[at] ^= 1 << bit;
            let sum = XXH3_64(&other[CHECKED..]);
            other[8..16].copy_from_slice(&sum.to_le_bytes());
            assert_eq!(verify(&other, None), Err(MissReason::Malformed), "byte {at}, bit {bit}");
        }
    }

    #[test]
    fn head_of_the_greatest_length_is_the_last_one_written() {
        let head = |key_len: usize| {
            let key = vec![7; key_len];
            head_without_checksum(&key, b"", 0, Provenance::default(), false).map(|head| head.len())
        };
        assert_eq!(head(MAX_HEAD_LEN - HEADER_LEN), Ok(MAX_HEAD_LEN));
        assert_eq!(head(MAX_HEAD_LEN - HEADER_LEN + 1), Err(MissReason::TooLong));
    }

    #[test]
    fn foreign_bytes_are_named_so() {
        assert_eq!(verify(b"\x7fELF and more", None), Err(MissReason::Foreign));
        assert_eq!(verify(b"", None), Err(MissReason::Truncated));
        assert_eq!(verify(&vec![0; 4096], None), Err(MissReason::Foreign));
    }
}
