//! Seals: tags on entries that only a holder of the secret can create and check.

use core::fmt;

use blake2::{
    Blake2bMac,
    digest::{Mac, consts::U32},
};

/// The first 8 bytes of an envelope, sealed or not.
pub(crate) const MAGIC: [u8; 8] = *b"\x89WSA\r\n\x1a\n";

/// The length of the tag that seals an envelope, in bytes.
pub const TAG_LEN: usize = 32;

/// The BLAKE2b personalisation of tags, which separates them from all other uses of the same secret.
const PERSONAL: &[u8; 16] = b"warmstart seal 1";

/// The personalisation of a store's own records, so that none of them passes for an entry.
const PERSONAL_OF_NOTES: &[u8; 16] = b"warmstart note 1";

/// The personalisation of public ids, which reveal nothing about the secret.
const PERSONAL_OF_ID: &[u8; 16] = b"warmstart sealid";

/// A secret that seals entries with a tag: keyed BLAKE2b-256 over all their bytes.
///
/// Only a holder of the secret can seal entries or check seals. The secret is 32 random bytes, for example from `/dev/urandom`.
/// Never use a password: it can be guessed.
///
/// ```
/// use warmstart_core::{artifact::Artifact, envelope, reason::MissReason, seal::Seal};
///
/// let (ours, theirs) = (Seal::new(&[1; 32]), Seal::new(&[2; 32]));
/// let stored = envelope::encode(b"key", &Artifact::new(vec![7]), Some(&ours))?.to_vec();
/// assert_eq!(envelope::decode(stored.clone(), b"key", Some(&theirs)).unwrap_err(), MissReason::Forged);
/// assert_eq!(envelope::decode(stored, b"key", Some(&ours))?.payload(), [7]);
/// # Ok::<(), MissReason>(())
/// ```
#[derive(Clone)]
pub struct Seal {
    /// The hash state after the secret and the magic, with which all sealed data begin. The block that contains the secret is
    /// thus hashed only once.
    begun: Blake2bMac<U32>,
    /// The same for a store's own records.
    begun_notes: Blake2bMac<U32>,
    id: [u8; Self::ID_LEN],
}

impl Seal {
    /// The length of a public id in bytes.
    pub const ID_LEN: usize = 16;

    /// Creates a seal from this secret.
    #[must_use]
    pub fn new(secret: &[u8; 32]) -> Self {
        let begin = |personal: &[u8; 16]| {
            let keyed = Blake2bMac::new_with_salt_and_personal(Some(secret), &[], personal);
            let keyed =
                keyed.expect("a key of 32 bytes and a personalisation of 16 are within BLAKE2b's limits");
            keyed.chain_update(MAGIC)
        };
        let mut id = [0; Self::ID_LEN];
        id.copy_from_slice(&begin(PERSONAL_OF_ID).finalize().into_bytes()[..Self::ID_LEN]);
        Self { begun: begin(PERSONAL), begun_notes: begin(PERSONAL_OF_NOTES), id }
    }

    /// Returns the public id of the secret: equal for equal secrets, and safe to show. It tells apart, in the names of objects,
    /// what was sealed with which secret.
    ///
    /// ```
    /// use warmstart_core::seal::Seal;
    ///
    /// assert_eq!(Seal::new(&[1; 32]).id(), Seal::new(&[1; 32]).id());
    /// assert_ne!(Seal::new(&[1; 32]).id(), Seal::new(&[2; 32]).id());
    /// ```
    #[must_use]
    pub const fn id(&self) -> &[u8; Self::ID_LEN] {
        &self.id
    }

    /// Returns the seal of the same secret for a store's own records.
    pub(crate) fn of_notes(&self) -> Self {
        Self { begun: self.begun_notes.clone(), begun_notes: self.begun.clone(), id: self.id }
    }

    /// Computes the tag of the magic followed by these parts.
    pub(crate) fn tag(&self, parts: [&[u8]; 3]) -> [u8; TAG_LEN] {
        self.over(parts).finalize().into_bytes().into()
    }

    /// Returns whether `tag` is the tag of the magic followed by these parts. Takes the same time whichever byte is wrong.
    pub(crate) fn holds(&self, parts: [&[u8]; 3], tag: &[u8]) -> bool {
        self.over(parts).verify_slice(tag).is_ok()
    }

    fn over(&self, parts: [&[u8]; 3]) -> Blake2bMac<U32> {
        parts.into_iter().fold(self.begun.clone(), Mac::chain_update)
    }
}

/// Does not show the secret.
impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal(..)")
    }
}

#[cfg(test)]
mod tests {
    use alloc::{format, vec::Vec};

    use super::*;
    use crate::{
        artifact::{Artifact, Metadata, Provenance},
        envelope::{self, HEADER_LEN, Layout, PAYLOAD_ALIGN},
        reason::MissReason,
    };

    /// Miri takes a tenth of a second for a tag.
    const STEP: usize = if cfg!(miri) { 13 } else { 1 };

    fn seal() -> Seal {
        Seal::new(&core::array::from_fn(|n| n as u8))
    }

    fn artifact(payload: &[u8]) -> Artifact {
        Artifact::new(payload.to_vec())
            .with_metadata(&Metadata::new().with_attribute("name", b"value"))
            .with_provenance(Provenance { created_unix_ms: 12, build_nanos: 34 })
    }

    fn sealed(key: &[u8], payload: &[u8]) -> Vec<u8> {
        envelope::encode(key, &artifact(payload), Some(&seal())).unwrap().to_vec()
    }

    fn decode(stored: &[u8], seal: Option<&Seal>) -> Result<Artifact, MissReason> {
        envelope::decode(stored.to_vec(), b"key", seal)
    }

    /// Recomputes the checksum, as an attacker without the secret would, so that only the seal detects the change.
    fn with_right_checksum(mut stored: Vec<u8>) -> Vec<u8> {
        let sum = crate::bytes::XXH3_64(&stored[16..]);
        stored[8..16].copy_from_slice(&sum.to_le_bytes());
        stored
    }

    /// The expected bytes were computed with other implementations: Python's `hashlib.blake2b(key=, person=, digest_size=32)`
    /// and `xxhash`.
    #[test]
    fn a_sealed_envelope_is_these_bytes() {
        let artifact = Artifact::new(b"payload".to_vec())
            .with_provenance(Provenance { created_unix_ms: 12, build_nanos: 34 });
        let stored = envelope::encode(b"key", &artifact, Some(&seal())).unwrap().to_vec();
        let hex: alloc::string::String = stored.iter().map(|byte| format!("{byte:02x}")).collect();
        let zeros = |n: usize| "00".repeat(n);
        let header = [
            "895753410d0a1a0a4ef4c643614569ac01000100030000000000000000000000",
            "07000000000000000c0000000000000022000000000000000000000000000000",
        ];
        let tag = "b8ee15db3f6d9cb1450b957add011bbdf189a003d83f310bc86a1497653e4c62";
        let rest = ["6b6579", &zeros(29), "7061796c6f6164"];
        assert_eq!(hex, header.concat() + tag + &rest.concat());
    }

    #[test]
    fn sealed_entry_decodes_and_is_aligned() {
        for (key, payload) in [(&b""[..], &b""[..]), (b"k", b"p"), (&[7; 1000], &[9; 5000])] {
            let stored = sealed(key, payload);
            let layout = envelope::verify(&stored, Some(&seal())).unwrap();
            assert_eq!(layout.payload().start % PAYLOAD_ALIGN, 0);
            assert_eq!(&stored[layout.key()], key);
            let found = envelope::decode(stored, key, Some(&seal())).unwrap();
            assert_eq!(found.payload(), payload);
            assert_eq!(found.metadata().unwrap().attribute("name"), Some(&b"value"[..]));
            assert_eq!(found.provenance(), Provenance { created_unix_ms: 12, build_nanos: 34 });
        }
    }

    #[test]
    fn flipped_bit_is_damage_with_and_without_the_secret() {
        let (stored, ours) = (sealed(b"key", b"payload"), seal());
        for at in (0..stored.len()).step_by(STEP) {
            for bit in 0..8 {
                let mut damaged = stored.clone();
                damaged[at] ^= 1 << bit;
                for seal in [Some(&ours), None] {
                    let reason = decode(&damaged, seal).expect_err("a flipped bit was handed out");
                    assert!(reason.is_damage(), "byte {at}, bit {bit}: {reason:?}");
                }
            }
        }
    }

    #[test]
    fn every_flipped_bit_whose_checksum_was_made_right_is_refused() {
        let (stored, ours) = (sealed(b"key", b"payload"), seal());
        for at in (0..8).chain(16..stored.len()).step_by(STEP) {
            for bit in 0..8 {
                let mut forged = stored.clone();
                forged[at] ^= 1 << bit;
                let reason = decode(&with_right_checksum(forged), Some(&ours));
                let reason = reason.expect_err("a forged entry was handed out");
                // The rest of the header is found to be wrong before the seal is checked.
                if (40..56).contains(&at) || at >= HEADER_LEN {
                    assert_eq!(reason, MissReason::Forged, "byte {at}, bit {bit}");
                }
            }
        }
    }

    #[test]
    fn every_truncation_and_every_extension_is_refused_as_damage() {
        let (stored, ours) = (sealed(b"key", b"payload"), seal());
        for end in 0..stored.len() {
            assert_eq!(decode(&stored[..end], Some(&ours)).unwrap_err(), MissReason::Truncated, "{end}");
        }
        let longer = [&stored[..], &[0]].concat();
        assert_eq!(decode(&longer, Some(&seal())).unwrap_err(), MissReason::Malformed);
    }

    #[test]
    fn an_entry_of_another_secret_is_forged() {
        let other = Seal::new(&[9; 32]);
        assert_eq!(decode(&sealed(b"key", b"payload"), Some(&other)).unwrap_err(), MissReason::Forged);
    }

    #[test]
    fn missing_seal_and_missing_secret_have_reasons_of_their_own() {
        let plain = envelope::encode(b"key", &artifact(b"payload"), None).unwrap().to_vec();
        assert_eq!(decode(&plain, Some(&seal())).unwrap_err(), MissReason::Unsealed);
        assert_eq!(decode(&sealed(b"key", b"payload"), None).unwrap_err(), MissReason::Sealed);
    }

    #[test]
    fn sealed_entry_of_another_key_is_a_key_mismatch() {
        assert_eq!(decode(&sealed(b"kez", b"payload"), Some(&seal())).unwrap_err(), MissReason::KeyMismatch);
    }

    /// Two users with different secrets must not remove each other's entries.
    #[test]
    fn entry_that_cannot_be_proved_is_no_damage() {
        for reason in [MissReason::Forged, MissReason::Unsealed, MissReason::Sealed] {
            assert!(!reason.is_damage(), "{reason:?}");
        }
    }

    #[test]
    fn a_flag_that_is_not_known_is_refused() {
        for flags in [2u16, 3, 0x8001] {
            let mut stored = sealed(b"key", b"payload");
            stored[18..20].copy_from_slice(&flags.to_le_bytes());
            let stored = with_right_checksum(stored);
            assert_eq!(decode(&stored, Some(&seal())).unwrap_err(), MissReason::Malformed);
        }
    }

    #[test]
    fn a_header_tells_whether_there_is_a_seal() {
        let stored = sealed(b"key", b"payload");
        let layout = Layout::parse(&stored[..HEADER_LEN], stored.len() as u64).unwrap();
        assert!(layout.clone().matching(Some(&Seal::new(&[9; 32]))).is_ok(), "it is by the header alone");
        assert_eq!(layout.matching(None), Err(MissReason::Sealed));
        let stored = envelope::encode(b"key", &artifact(b"payload"), None).unwrap().to_vec();
        let layout = Layout::parse(&stored[..HEADER_LEN], stored.len() as u64).unwrap();
        assert!(layout.clone().matching(None).is_ok());
        assert_eq!(layout.matching(Some(&seal())), Err(MissReason::Unsealed));
    }

    #[test]
    fn a_tag_is_compared_whole() {
        let parts: [&[u8]; 3] = [b"a", b"b", b"c"];
        let ours = seal();
        let tag = ours.tag(parts);
        assert!(ours.holds(parts, &tag));
        for at in 0..TAG_LEN {
            let mut other = tag;
            other[at] ^= 0x80;
            assert!(!ours.holds(parts, &other), "{at}");
        }
        assert!(!seal().holds(parts, &tag[..TAG_LEN - 1]));
        assert!(!seal().holds(parts, &[]));
    }

    #[test]
    fn the_secret_is_not_shown() {
        assert_eq!(format!("{:?}", Seal::new(&[77; 32])), "Seal(..)");
    }
}
