//! The bytes of a stored artifact: header, key, metadata, and a payload aligned for use from a mapping.
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
//! All numbers are little-endian. The first 16 bytes mean the same in every version, so that an entry of a newer
//! version (whole, left alone) is told from one whose version was damaged (removed). Derived from the layouts of PNG
//! (a magic that shows a text-mode copy) and of ccache (one checksum over everything).

use alloc::vec::Vec;
use core::ops::Range;

use xxhash_rust::xxh3::Xxh3Default;

use crate::{
    artifact::{Artifact, Provenance},
    bytes::{u16_at, u32_at, u64_at},
    reason::Reason,
    seal::{Seal, TAG_LEN},
    sum::xxh3_64,
};

pub(crate) mod format;
mod pieces;

pub use format::{HEADER_LEN, MAX_HEAD_LEN, PAYLOAD_ALIGN};
pub use pieces::{HeadWriter, Verifier, head_checksum};

use format::{CHECKED, MAGIC, SEALED, VERSION};

/// An artifact as it is to be written: head and payload, apart, so that the payload is not copied to be stored.
#[derive(Clone, Debug)]
pub struct Encoded<'a> {
    head: Vec<u8>,
    payload: &'a [u8],
}

/// The lengths that a header gives, checked against each other and against the length of the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    is_sealed: bool,
    key: Range<usize>,
    metadata: Range<usize>,
    payload: Range<usize>,
    provenance: Provenance,
}

/// Encodes `artifact` under the full `key`, without a seal.
///
/// # Errors
/// [`Reason::TooLong`] if key and metadata are longer than [`MAX_HEAD_LEN`], with the header.
pub fn encode<'a>(key: &[u8], artifact: &'a Artifact) -> Result<Encoded<'a>, Reason> {
    encode_with(key, artifact, None)
}

/// Encodes `artifact` under the full `key`, and seals it if there is a seal.
///
/// # Errors
/// As [`encode`].
pub fn encode_with<'a>(
    key: &[u8],
    artifact: &'a Artifact,
    seal: Option<&Seal>,
) -> Result<Encoded<'a>, Reason> {
    let (metadata, payload) = (artifact.encoded_metadata(), artifact.payload());
    let mut head =
        head_without_checksum(key, metadata, payload.len() as u64, artifact.provenance(), seal.is_some())?;
    let key_start = key_offset(seal.is_some());
    if let Some(seal) = seal {
        let tag = seal.tag([&head[CHECKED..HEADER_LEN], &head[key_start..], payload]);
        head[HEADER_LEN..key_start].copy_from_slice(&tag);
    }

    let mut hasher = Xxh3Default::new();
    hasher.update(&head[CHECKED..]);
    hasher.update(payload);
    head[8..CHECKED].copy_from_slice(&hasher.digest().to_le_bytes());
    Ok(Encoded { head, payload })
}

/// All that is before the payload; checksum and tag are zeros.
fn head_without_checksum(
    key: &[u8],
    metadata: &[u8],
    payload_len: u64,
    provenance: Provenance,
    is_sealed: bool,
) -> Result<Vec<u8>, Reason> {
    let key_len = u32::try_from(key.len()).map_err(|_| Reason::TooLong)?;
    let metadata_len = u32::try_from(metadata.len()).map_err(|_| Reason::TooLong)?;
    let key_start = key_offset(is_sealed);
    let head_len = payload_offset(key_start, key.len(), metadata.len()).ok_or(Reason::TooLong)?;
    if head_len > MAX_HEAD_LEN {
        return Err(Reason::TooLong);
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

/// Decodes an envelope that was read whole, and proves the hit: every byte by the checksum, the full key by comparison.
///
/// The artifact keeps `stored` as its buffer; nothing is copied.
///
/// # Errors
/// The reason why the bytes are not the artifact of `key`. [`Reason::NewerVersion`] means that they are whole and a
/// newer version's: leave them alone. [`Reason::Sealed`] means that they are whole, and that only who has the secret
/// can say more.
pub fn decode(stored: Vec<u8>, key: &[u8]) -> Result<Artifact, Reason> {
    decode_with(stored, key, None)
}

/// As [`decode`]. If there is a seal, the envelope must have it, and every byte is proved by it too.
///
/// # Errors
/// As [`decode`]; besides [`Reason::Unsealed`] and [`Reason::Forged`], for what is whole.
pub fn decode_with(stored: Vec<u8>, key: &[u8], seal: Option<&Seal>) -> Result<Artifact, Reason> {
    let layout = verify_with(&stored, seal)?;
    if stored.get(layout.key.clone()) != Some(key) {
        return Err(Reason::KeyMismatch);
    }
    Ok(Artifact::inside(stored, layout.payload, layout.metadata, layout.provenance))
}

/// Proves that `stored` is one whole envelope, of whatever key, and says where its parts are.
///
/// # Errors
/// As [`decode`], but never [`Reason::KeyMismatch`].
pub fn verify(stored: &[u8]) -> Result<Layout, Reason> {
    verify_with(stored, None)
}

/// As [`verify`]. If there is a seal, the envelope must have it.
///
/// # Errors
/// As [`decode_with`], but never [`Reason::KeyMismatch`].
pub fn verify_with(stored: &[u8], seal: Option<&Seal>) -> Result<Layout, Reason> {
    verify_parts([stored, &[]], seal)
}

/// Verifies an envelope of `key` whose payload was read apart from its head, as [`decode_with`] does. The head is all that is
/// before the payload.
///
/// ```
/// use warmstart_core::{artifact::Artifact, envelope, reason::Reason};
///
/// let artifact = Artifact::new(b"payload".to_vec());
/// let [head, _] = envelope::encode(b"key", &artifact)?.parts().map(<[u8]>::to_vec);
/// assert_eq!(envelope::verify_split(&head, b"payload", b"key", None), Ok(()));
/// assert_eq!(envelope::verify_split(&head, b"paylord", b"key", None), Err(Reason::ChecksumMismatch));
/// # Ok::<(), Reason>(())
/// ```
///
/// # Errors
/// As [`decode_with`]; [`Reason::Malformed`] if the payload does not begin where the head ends.
pub fn verify_split(head: &[u8], payload: &[u8], key: &[u8], seal: Option<&Seal>) -> Result<(), Reason> {
    let layout = verify_parts([head, payload], seal)?;
    if layout.payload.start != head.len() {
        return Err(Reason::Malformed);
    }
    if head.get(layout.key) == Some(key) { Ok(()) } else { Err(Reason::KeyMismatch) }
}

/// Verifies an envelope whose head is in the first of two parts.
fn verify_parts([first, second]: [&[u8]; 2], seal: Option<&Seal>) -> Result<Layout, Reason> {
    let layout = Layout::parse(first, first.len() as u64 + second.len() as u64);
    if !matches!(layout, Ok(_) | Err(Reason::NewerVersion)) {
        return layout;
    }
    let expected = u64_at(first, 8).ok_or(Reason::Truncated)?;
    let checked = first.get(CHECKED..).ok_or(Reason::Truncated)?;
    let sum = if second.is_empty() {
        xxh3_64(checked)
    } else {
        let mut hasher = Xxh3Default::new();
        hasher.update(checked);
        hasher.update(second);
        hasher.digest()
    };
    // First, also where a seal would find it: so damage is told from forgery, whether or not one has the secret.
    if sum != expected {
        return Err(Reason::ChecksumMismatch);
    }
    let layout = layout?.matching(seal)?;
    let Some(seal) = seal else { return Ok(layout) };
    let part = |range: Range<usize>| first.get(range).ok_or(Reason::Truncated);
    let header = part(CHECKED..HEADER_LEN)?;
    let (tag, rest) = (part(HEADER_LEN..layout.key.start)?, part(layout.key.start..first.len())?);
    if seal.holds([header, rest, second], tag) { Ok(layout) } else { Err(Reason::Forged) }
}

impl Encoded<'_> {
    /// The parts to be written one after the other.
    #[must_use]
    pub fn parts(&self) -> [&[u8]; 2] {
        [&self.head, self.payload]
    }

    /// The length of the whole in bytes: what an entry counts against a cap.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "an envelope is never empty")]
    pub const fn len(&self) -> u64 {
        self.head.len() as u64 + self.payload.len() as u64
    }

    /// The whole in one piece, for stores that cannot write it in parts.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.parts().concat()
    }
}

impl Layout {
    /// Reads a header, of which at least [`HEADER_LEN`] bytes are given, of an envelope that is `total` bytes long.
    /// Cheap: says whether the entry is whole by header and length, and reads nothing else.
    ///
    /// # Errors
    /// The reason why it cannot be. [`Reason::NewerVersion`] is a guess here, until [`verify`] has seen the checksum.
    pub fn parse(header: &[u8], total: u64) -> Result<Self, Reason> {
        if header.len() < MAGIC.len() && MAGIC.starts_with(header) {
            return Err(Reason::Truncated);
        }
        if !header.starts_with(&MAGIC) {
            return Err(Reason::Foreign);
        }
        let version = u16_at(header, 16).ok_or(Reason::Truncated)?;
        if version > VERSION {
            return Err(Reason::NewerVersion);
        }
        let field = |at| u32_at(header, at).ok_or(Reason::Truncated);
        let long = |at| u64_at(header, at).ok_or(Reason::Truncated);
        let (key_len, metadata_len, payload_len) = (field(20)?, field(24)?, long(32)?);
        let provenance = Provenance { created_unix_ms: long(40)?, build_nanos: long(48)? };
        let flags = u16_at(header, 18).ok_or(Reason::Truncated)?;
        if version == 0 || flags & !SEALED != 0 || field(28)? != 0 || long(56)? != 0 {
            return Err(Reason::Malformed);
        }

        let malformed = |_| Reason::Malformed;
        let key_len = usize::try_from(key_len).map_err(malformed)?;
        let metadata_len = usize::try_from(metadata_len).map_err(malformed)?;
        let is_sealed = flags & SEALED != 0;
        let key_start = key_offset(is_sealed);
        let payload_start = payload_offset(key_start, key_len, metadata_len).ok_or(Reason::Malformed)?;
        let end = (payload_start as u64).checked_add(payload_len).ok_or(Reason::Malformed)?;
        if end > total {
            return Err(Reason::Truncated);
        }
        if end < total {
            return Err(Reason::Malformed);
        }
        let end = usize::try_from(end).map_err(malformed)?;
        // The sums below cannot overflow: payload_offset has added the same numbers, and more, in checked arithmetic.
        let metadata_start = key_start + key_len;
        Ok(Self {
            is_sealed,
            key: key_start..metadata_start,
            metadata: metadata_start..metadata_start + metadata_len,
            payload: payload_start..end,
            provenance,
        })
    }

    /// How long the header says that the payload is, in bytes. Proves nothing.
    ///
    /// # Errors
    /// [`Reason::Truncated`] if there is no whole header.
    pub fn payload_len(header: &[u8]) -> Result<u64, Reason> {
        u64_at(header.get(..HEADER_LEN).ok_or(Reason::Truncated)?, 32).ok_or(Reason::Truncated)
    }

    /// Whether the header says what a store with this seal, or one without any, asks for. Proves nothing.
    ///
    /// # Errors
    /// [`Reason::Unsealed`] or [`Reason::Sealed`].
    pub fn matching(self, seal: Option<&Seal>) -> Result<Self, Reason> {
        match (seal, self.is_sealed) {
            (Some(_), false) => Err(Reason::Unsealed),
            (None, true) => Err(Reason::Sealed),
            _ => Ok(self),
        }
    }

    /// Whether it bears a seal, which its header says and nothing proves.
    #[must_use]
    pub const fn is_sealed(&self) -> bool {
        self.is_sealed
    }

    /// How long the head is in bytes: all that is before the payload, without the zeros that align it.
    #[must_use]
    pub const fn head_len(&self) -> usize {
        self.metadata.end
    }

    /// Where the full key is.
    #[must_use]
    pub fn key(&self) -> Range<usize> {
        self.key.clone()
    }

    /// Where the encoded metadata is.
    #[must_use]
    pub fn metadata(&self) -> Range<usize> {
        self.metadata.clone()
    }

    /// Where the payload is; it starts at a multiple of [`PAYLOAD_ALIGN`].
    #[must_use]
    pub fn payload(&self) -> Range<usize> {
        self.payload.clone()
    }

    /// When the artifact was made and what that cost.
    #[must_use]
    pub const fn provenance(&self) -> Provenance {
        self.provenance
    }
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
    use crate::metadata::Metadata;
    use alloc::vec;

    fn artifact(payload: &[u8]) -> Artifact {
        Artifact::new(payload.to_vec())
            .with_metadata(&Metadata::new().with_attribute("name", b"value"))
            .with_provenance(Provenance { created_unix_ms: 12, build_nanos: 34 })
    }

    #[test]
    fn what_is_encoded_is_decoded_and_aligned() {
        for (key, payload) in [(&b""[..], &b""[..]), (b"k", b"p"), (&[7; 1000], &[9; 5000])] {
            let stored = encode(key, &artifact(payload)).unwrap().to_vec();
            assert_eq!(verify(&stored).unwrap().payload().start % PAYLOAD_ALIGN, 0);
            let found = decode(stored, key).unwrap();
            assert_eq!(found.payload(), payload);
            assert_eq!(found.metadata().unwrap().attribute("name"), Some(&b"value"[..]));
            assert_eq!(found.provenance(), Provenance { created_unix_ms: 12, build_nanos: 34 });
        }
    }

    #[test]
    fn every_flipped_bit_is_refused_as_damage() {
        let stored = encode(b"key", &artifact(b"payload")).unwrap().to_vec();
        for at in 0..stored.len() {
            for bit in 0..8 {
                let mut damaged = stored.clone();
                damaged[at] ^= 1 << bit;
                let reason = decode(damaged, b"key").expect_err("a flipped bit was handed out");
                assert!(reason.is_damage(), "byte {at}, bit {bit}: {reason:?}");
            }
        }
    }

    #[test]
    fn split_envelope_with_a_flipped_bit_is_refused() {
        let seal = Seal::new(&[7; 32]);
        for seal in [None, Some(&seal)] {
            let artifact = artifact(b"payload");
            let whole = encode_with(b"key", &artifact, seal).unwrap().to_vec();
            let start = whole.len() - b"payload".len();
            let prove = |stored: &[u8], at| verify_split(&stored[..at], &stored[at..], b"key", seal);
            assert_eq!(prove(&whole, start), Ok(()));
            assert_eq!(
                (prove(&whole, start - 1), prove(&whole, start + 1)),
                (Err(Reason::Malformed), Err(Reason::Malformed))
            );
            for bit in 0..8 * whole.len() {
                let mut damaged = whole.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(prove(&damaged, start).is_err(), "bit {bit}");
            }
            assert_eq!(verify_split(&whole[..start], b"payload", b"kez", seal), Err(Reason::KeyMismatch));
        }
    }

    #[test]
    fn every_truncation_and_every_extension_is_refused_as_damage() {
        let stored = encode(b"key", &artifact(b"payload")).unwrap().to_vec();
        for end in 0..stored.len() {
            assert_eq!(decode(stored[..end].to_vec(), b"key").unwrap_err(), Reason::Truncated, "{end}");
        }
        let mut longer = stored;
        longer.push(0);
        assert_eq!(decode(longer, b"key").unwrap_err(), Reason::Malformed);
    }

    #[test]
    fn another_keys_entry_is_never_handed_out() {
        let stored = encode(b"key", &artifact(b"payload")).unwrap().to_vec();
        assert_eq!(decode(stored, b"kez").unwrap_err(), Reason::KeyMismatch);
    }

    #[test]
    fn a_newer_version_is_told_from_a_damaged_one() {
        let mut newer = encode(b"key", &artifact(b"payload")).unwrap().to_vec();
        newer[16] = 2;
        assert_eq!(verify(&newer), Err(Reason::ChecksumMismatch), "the version was damaged");
        let sum = xxh3_64(&newer[CHECKED..]);
        newer[8..16].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(verify(&newer), Err(Reason::NewerVersion));
    }

    #[test]
    fn lengths_at_the_edges_are_refused() {
        let stored = encode(b"key", &artifact(b"payload")).unwrap().to_vec();
        for (at, len) in [(20, 4), (24, 4), (32, 8)] {
            let mut lying = stored.clone();
            lying[at..at + len].fill(0xff);
            assert!(decode(lying, b"key").unwrap_err().is_damage());
        }
    }

    #[test]
    fn foreign_bytes_are_named_so() {
        assert_eq!(verify(b"\x7fELF and more"), Err(Reason::Foreign));
        assert_eq!(verify(b""), Err(Reason::Truncated));
        assert_eq!(verify(&vec![0; 4096]), Err(Reason::Foreign));
    }
}
